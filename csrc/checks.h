// Tensors -> problem: every rule of the ops' arguments with its message, for the CPU and the GPU alike. The Python fake
// implementation (tileon_ops/_fake.py) states the same rules in the same order and words.
//
// All of this is on the path of every eager call: what a check needs is read once from torch, and text is built only
// once an error is certain.
#pragma once

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/c/shim.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>

#include "overlap.h"
#include "problem.h"

namespace tileon {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

// The only way to refuse: torch hands a std::runtime_error to Python as RuntimeError with this very text.
template <typename... Parts>
[[noreturn, gnu::noinline, gnu::cold]] void fail(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  throw std::runtime_error(text.str());
}

// Calls of torch's C interface do not fail on the tensors that reach an op, short of a bug.
inline void check_shim(AOTITorchError error) {
  if (error != 0) fail("tileon: torch refused to describe a tensor");
}

// ---- dtypes ----

constexpr ScalarType scalar_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return ScalarType::Half;
    case DType::kBFloat16:
      return ScalarType::BFloat16;
    case DType::kFloat32:
      return ScalarType::Float;
    case DType::kFloat64:
      return ScalarType::Double;
  }
  return ScalarType::Undefined;
}

// Empty where no kernel knows the dtype.
constexpr std::optional<DType> dtype_of(ScalarType type) {
  for (const DTypeInfo& row : kDTypes)
    if (scalar_type(row.dtype) == type) return row.dtype;
  return std::nullopt;
}

// torch's Python name, for messages.
inline const char* dtype_name(ScalarType type) {
  if (const std::optional<DType> known = dtype_of(type)) return info(*known).name;
  struct Name {
    ScalarType type;
    const char* name;
  };
  static constexpr Name kNames[] = {
      {ScalarType::Byte, "uint8"},
      {ScalarType::Char, "int8"},
      {ScalarType::Short, "int16"},
      {ScalarType::Int, "int32"},
      {ScalarType::Long, "int64"},
      {ScalarType::ComplexHalf, "complex32"},
      {ScalarType::ComplexFloat, "complex64"},
      {ScalarType::ComplexDouble, "complex128"},
      {ScalarType::Bool, "bool"},
      {ScalarType::Float8_e5m2, "float8_e5m2"},
      {ScalarType::Float8_e4m3fn, "float8_e4m3fn"},
      {ScalarType::Float8_e5m2fnuz, "float8_e5m2fnuz"},
      {ScalarType::Float8_e4m3fnuz, "float8_e4m3fnuz"},
      {ScalarType::Float8_e8m0fnu, "float8_e8m0fnu"},
      {ScalarType::Float4_e2m1fn_x2, "float4_e2m1fn_x2"},
      {ScalarType::UInt16, "uint16"},
      {ScalarType::UInt32, "uint32"},
      {ScalarType::UInt64, "uint64"},
  };
  for (const Name& row : kNames)
    if (row.type == type) return row.name;
  return torch::headeronly::toString(type);
}

// What a product of operands of one dtype may be written as; the first is the default.
struct OfferedOutputs {
  DType operands;
  int count;
  DType outputs[3];
};

constexpr OfferedOutputs kOfferedOutputs[] = {
    {DType::kFloat16, 3, {DType::kFloat16, DType::kFloat32, DType::kBFloat16}},
    {DType::kBFloat16, 3, {DType::kBFloat16, DType::kFloat32, DType::kFloat16}},
    {DType::kFloat32, 3, {DType::kFloat32, DType::kFloat16, DType::kBFloat16}},
    {DType::kFloat64, 1, {DType::kFloat64}},
};

constexpr const OfferedOutputs& offered_outputs(DType dtype) { return kOfferedOutputs[static_cast<int>(dtype)]; }

static_assert(offered_outputs(DType::kFloat16).operands == DType::kFloat16 &&
                  offered_outputs(DType::kBFloat16).operands == DType::kBFloat16 &&
                  offered_outputs(DType::kFloat32).operands == DType::kFloat32 &&
                  offered_outputs(DType::kFloat64).operands == DType::kFloat64,
              "rows stand in the order of the enum");

// ---- what a check reads of a tensor ----

struct TensorView {
  int64_t dims = 0;
  const int64_t* sizes = nullptr;  // torch's own arrays: they live as long as the tensor keeps its shape
  const int64_t* strides = nullptr;
  const void* data = nullptr;
  int32_t dtype = 0;  // the number that ScalarType gives it
  int32_t device_type = 0;
  int32_t device_index = 0;

  explicit TensorView(const Tensor& tensor) {
    const AtenTensorHandle handle = tensor.get();
    int64_t* torch_sizes = nullptr;
    int64_t* torch_strides = nullptr;
    check_shim(aoti_torch_get_dim(handle, &dims));
    check_shim(aoti_torch_get_sizes(handle, &torch_sizes));
    check_shim(aoti_torch_get_strides(handle, &torch_strides));
    check_shim(torch_get_const_data_ptr(handle, &data));
    check_shim(aoti_torch_get_dtype(handle, &dtype));
    check_shim(aoti_torch_get_device_type(handle, &device_type));
    check_shim(aoti_torch_get_device_index(handle, &device_index));
    sizes = torch_sizes;
    strides = torch_strides;
  }

  ScalarType type() const { return static_cast<ScalarType>(dtype); }
  bool same_device(const TensorView& other) const {
    return device_type == other.device_type && device_index == other.device_index;
  }
  ByteRange bytes(int64_t element_bytes) const { return byte_range(data, sizes, strides, dims, element_bytes); }
};

// As Python prints a tuple: "(2, 3)", "(3,)", "()".
struct TupleText {
  const int64_t* values;
  int64_t count;
};

inline std::ostream& operator<<(std::ostream& text, const TupleText& tuple) {
  text << "(";
  for (int64_t i = 0; i < tuple.count; ++i) text << (i == 0 ? "" : ", ") << tuple.values[i];
  return text << (tuple.count == 1 ? ",)" : ")");
}

struct DeviceText {
  const TensorView& view;
};

inline std::ostream& operator<<(std::ostream& text, const DeviceText& device) {
  const int32_t type = device.view.device_type;
  if (type == aoti_torch_device_type_cpu()) return text << "cpu";
  if (type == aoti_torch_device_type_meta()) return text << "meta";
  if (type == aoti_torch_device_type_cuda()) return text << "cuda:" << device.view.device_index;
  return text << "device " << type << ":" << device.view.device_index;
}

// ---- matmul ----

struct MatmulArguments {
  const Tensor& a;
  const Tensor& b;
  const std::optional<Tensor>& bias;
  const std::string& activation;
  double slope;
  std::optional<ScalarType> out_dtype;
  bool allow_tf32;
  bool fast_accum;  // for fp8 operands only, which are not offered yet
};

inline Activation check_activation(const std::string& name) {
  for (const ActivationInfo& row : kActivations)
    if (name == row.name) return row.activation;
  std::string offered;
  for (const ActivationInfo& row : kActivations) offered += (offered.empty() ? "" : ", ") + std::string(row.name);
  fail("matmul: `activation` must be one of ", offered, ", got \"", name, "\"");
}

inline DType check_operand_dtypes(const TensorView& a, const TensorView& b) {
  const std::optional<DType> dtype = dtype_of(a.type());
  if (dtype && a.dtype == b.dtype) return *dtype;
  std::string offered;
  for (const DTypeInfo& row : kDTypes)
    offered += (offered.empty() ? "" : ", ") + std::string(row.name) + " x " + std::string(row.name);
  fail("matmul: operands `a` x `b` of dtypes ", dtype_name(a.type()), " x ", dtype_name(b.type()),
       " are not offered; offered are ", offered);
}

inline DType check_out_dtype(DType dtype, std::optional<ScalarType> wanted) {
  const OfferedOutputs& offered = offered_outputs(dtype);
  if (!wanted) return offered.outputs[0];
  for (int i = 0; i < offered.count; ++i)
    if (scalar_type(offered.outputs[i]) == *wanted) return offered.outputs[i];
  std::string names;
  for (int i = 0; i < offered.count; ++i)
    names += (names.empty() ? "" : ", ") + std::string(info(offered.outputs[i]).name);
  fail("matmul: `out_dtype` ", dtype_name(*wanted), " is not offered for operands of ", info(dtype).name,
       "; offered are ", names);
}

inline void check_bias(const TensorView& bias, const TensorView& a, int64_t n, DType out_dtype) {
  if (bias.dims != 1) fail("matmul: `bias` must be 1-D (n,), got ", bias.dims, "-D");
  if (!bias.same_device(a))
    fail("matmul: `bias` must be on the device of `a`, ", DeviceText{a}, ", got ", DeviceText{bias});
  if (bias.type() != scalar_type(out_dtype) && bias.type() != ScalarType::Float)
    fail("matmul: `bias` must be ", info(out_dtype).name, out_dtype == DType::kFloat32 ? "" : " or float32",
         " (the output's dtype or float32), got ", dtype_name(bias.type()));
  if (bias.sizes[0] != n) fail("matmul: `bias` must have n = ", n, " elements, got ", bias.sizes[0]);
}

// Every rule of the arguments but those of `out`. Fills the problem but for its output.
inline GemmProblem check_matmul(const MatmulArguments& arguments) {
  const TensorView a(arguments.a);
  const TensorView b(arguments.b);
  if (a.dims != 2 && a.dims != 3) fail("matmul: `a` must be 2-D (m, k) or 3-D (batch, m, k), got ", a.dims, "-D");
  if (b.dims != 2 && b.dims != 3) fail("matmul: `b` must be 2-D (k, n) or 3-D (batch, k, n), got ", b.dims, "-D");
  if (!a.same_device(b)) fail("matmul: `b` must be on the device of `a`, ", DeviceText{a}, ", got ", DeviceText{b});

  GemmProblem problem;
  problem.dtype = check_operand_dtypes(a, b);
  const int64_t a_first = a.dims - 2;  // of the matrix's own two dimensions
  const int64_t b_first = b.dims - 2;
  problem.m = a.sizes[a_first];
  problem.k = a.sizes[a_first + 1];
  problem.n = b.sizes[b_first + 1];
  if (b.sizes[b_first] != problem.k)
    fail("matmul: `b` must have as many rows as `a` has columns, k = ", problem.k, ", got ", b.sizes[b_first]);
  const int64_t a_batch = a.dims == 3 ? a.sizes[0] : 1;
  const int64_t b_batch = b.dims == 3 ? b.sizes[0] : 1;
  if (a_batch != b_batch && a_batch != 1 && b_batch != 1)
    fail("matmul: the batches of `a` and `b` must be equal, or one of them 1, got ", a_batch, " and ", b_batch);
  problem.batch = a_batch == 1 ? b_batch : a_batch;

  problem.out_dtype = check_out_dtype(problem.dtype, arguments.out_dtype);
  problem.allow_tf32 = arguments.allow_tf32;
  problem.epilogue.activation = check_activation(arguments.activation);
  problem.epilogue.slope = arguments.slope;
  if (arguments.bias) {
    const TensorView bias(*arguments.bias);
    check_bias(bias, a, problem.n, problem.out_dtype);
    problem.epilogue.bias = bias.data;
    problem.epilogue.bias_stride = bias.strides[0];
    problem.epilogue.bias_dtype = *dtype_of(bias.type());
  }

  problem.a = {a.data, a.strides[a_first], a.strides[a_first + 1], a_batch > 1 ? a.strides[0] : 0};
  problem.b = {b.data, b.strides[b_first + 1], b.strides[b_first], b_batch > 1 ? b.strides[0] : 0};
  return problem;
}

// The result's shape: 2-D where both operands are.
struct OutputShape {
  int64_t dims;
  int64_t sizes[3];

  OutputShape(const GemmProblem& problem, const MatmulArguments& arguments) {
    int64_t a_dims = 0, b_dims = 0;
    check_shim(aoti_torch_get_dim(arguments.a.get(), &a_dims));
    check_shim(aoti_torch_get_dim(arguments.b.get(), &b_dims));
    const bool batched = a_dims == 3 || b_dims == 3;
    dims = batched ? 3 : 2;
    sizes[0] = problem.batch;
    sizes[dims - 2] = problem.m;
    sizes[dims - 1] = problem.n;
  }
};

// The rules of `out`; `problem` comes from check_matmul.
inline void check_out(const GemmProblem& problem, const MatmulArguments& arguments, const Tensor& out_tensor) {
  const TensorView out(out_tensor);
  const TensorView a(arguments.a);
  const TensorView b(arguments.b);
  if (!out.same_device(a))
    fail("matmul: `out` must be on the device of `a`, ", DeviceText{a}, ", got ", DeviceText{out});
  if (out.type() != scalar_type(problem.out_dtype))
    fail("matmul: `out` must have the output's dtype ", info(problem.out_dtype).name, ", got ", dtype_name(out.type()));
  const OutputShape shape(problem, arguments);
  bool same_shape = out.dims == shape.dims;
  for (int64_t i = 0; same_shape && i < shape.dims; ++i) same_shape = out.sizes[i] == shape.sizes[i];
  if (!same_shape)
    fail("matmul: `out` must have the shape ", TupleText{shape.sizes, shape.dims}, ", got ",
         TupleText{out.sizes, out.dims});
  if (overlaps_itself(out.sizes, out.strides, out.dims))
    fail("matmul: `out` must not overlap itself, got strides ", TupleText{out.strides, out.dims}, " for the shape ",
         TupleText{out.sizes, out.dims});

  const ByteRange written = out.bytes(info(problem.out_dtype).bytes);
  const int element_bytes = info(problem.dtype).bytes;
  const char* shared = nullptr;
  if (overlap(written, a.bytes(element_bytes)))
    shared = "a";
  else if (overlap(written, b.bytes(element_bytes)))
    shared = "b";
  else if (arguments.bias &&
           overlap(written, TensorView(*arguments.bias).bytes(info(problem.epilogue.bias_dtype).bytes)))
    shared = "bias";
  if (shared != nullptr) fail("matmul: `out` must not overlap `", shared, "` in memory");
}

// A fresh contiguous (m, n) or (batch, m, n) on a's device.
inline Tensor new_output(const GemmProblem& problem, const MatmulArguments& arguments) {
  const OutputShape shape(problem, arguments);
  int64_t strides[3];
  int64_t stride = 1;
  for (int64_t i = shape.dims - 1; i >= 0; --i) {
    strides[i] = stride;
    stride *= shape.sizes[i] > 1 ? shape.sizes[i] : 1;  // torch's strides of contiguous tensors without elements
  }
  int32_t device_type = 0, device_index = 0;
  check_shim(aoti_torch_get_device_type(arguments.a.get(), &device_type));
  check_shim(aoti_torch_get_device_index(arguments.a.get(), &device_index));
  AtenTensorHandle handle = nullptr;
  if (aoti_torch_empty_strided(shape.dims, shape.sizes, strides, static_cast<int32_t>(scalar_type(problem.out_dtype)),
                               device_type, device_index, &handle) != 0)
    fail("matmul: torch could not allocate the output of shape ", TupleText{shape.sizes, shape.dims}, " and dtype ",
         info(problem.out_dtype).name);
  return Tensor(handle);
}

inline void bind_output(GemmProblem& problem, const Tensor& out) {
  int64_t dims = 0;
  int64_t* strides = nullptr;
  check_shim(aoti_torch_get_dim(out.get(), &dims));
  check_shim(aoti_torch_get_strides(out.get(), &strides));
  check_shim(torch_get_mutable_data_ptr(out.get(), &problem.out.data));
  problem.out.stride_m = strides[dims - 2];
  problem.out.stride_n = strides[dims - 1];
  problem.out.stride_batch = dims == 3 ? strides[0] : 0;
}

}  // namespace tileon
