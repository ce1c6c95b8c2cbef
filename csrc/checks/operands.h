// What the checks of all ops share: how a tensor is read and made, how an error is worded, the rules of `bias` and
// `out`. Each op's own rules are in products.h, prepared.h and quantize.h beside it; the Python fakes
// (tileon_ops/_rules/fake/) state the same rules in the same order and words.
//
// All of this is on the path of every eager call: what a check needs is read once from torch, and text is built only
// once an error is certain.
#pragma once

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/c/shim.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/MemoryFormat.h>
#include <torch/headeronly/core/ScalarType.h>

#include <array>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>

#include "checks/overlap.h"
#include "core/memory_text.h"
#include "core/problem.h"

// torch has it from 2.13 on; before, the pointer is null, and torch itself writes the failure to stderr.
extern "C" [[gnu::weak]] const char* torch_exception_get_what_without_backtrace();

namespace tileon {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;
using torch::stable::detail::from;  // a value as torch's dispatcher takes it

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

struct TorchType {
  DType dtype;
  ScalarType type;
};

constexpr TorchType kTorchTypes[] = {
    {DType::kFloat16, ScalarType::Half},
    {DType::kBFloat16, ScalarType::BFloat16},
    {DType::kFloat32, ScalarType::Float},
    {DType::kFloat64, ScalarType::Double},
    {DType::kFloat8E4M3, ScalarType::Float8_e4m3fn},
    {DType::kFloat8E5M2, ScalarType::Float8_e5m2},
    {DType::kFloat4E2M1, ScalarType::Float4_e2m1fn_x2},
    {DType::kInt8, ScalarType::Char},
};
static_assert(in_order_of(&TorchType::dtype, kTorchTypes) && std::size(kTorchTypes) == std::size(kDTypes));

constexpr ScalarType scalar_type(DType dtype) { return kTorchTypes[static_cast<int>(dtype)].type; }

// Empty where no kernel knows the dtype.
constexpr std::optional<DType> dtype_of(ScalarType type) {
  for (const TorchType& row : kTorchTypes)
    if (row.type == type) return row.dtype;
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
      {ScalarType::Short, "int16"},
      {ScalarType::Int, "int32"},
      {ScalarType::Long, "int64"},
      {ScalarType::ComplexHalf, "complex32"},
      {ScalarType::ComplexFloat, "complex64"},
      {ScalarType::ComplexDouble, "complex128"},
      {ScalarType::Bool, "bool"},
      {ScalarType::Float8_e5m2fnuz, "float8_e5m2fnuz"},
      {ScalarType::Float8_e4m3fnuz, "float8_e4m3fnuz"},
      {ScalarType::Float8_e8m0fnu, "float8_e8m0fnu"},
      {ScalarType::UInt16, "uint16"},
      {ScalarType::UInt32, "uint32"},
      {ScalarType::UInt64, "uint64"},
  };
  for (const Name& row : kNames)
    if (row.type == type) return row.name;
  return torch::headeronly::toString(type);
}

// ---- what a check reads of a tensor ----

// Python's None reaches an op as a tensor that is not defined: nothing else may be asked of it.
inline void check_given(const char* op, const char* name, const Tensor& tensor) {
  bool defined = false;
  check_shim(aoti_torch_is_defined(tensor.get(), &defined));
  if (!defined) fail(op, ": `", name, "` must be a tensor, got None");
}

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

// ---- rules that ops share; `op` is the op's name, with which every message begins ----

inline void check_device(const char* op, const char* name, const TensorView& tensor, const char* like_name,
                         const TensorView& like) {
  if (tensor.device_type != like.device_type || tensor.device_index != like.device_index)
    fail(op, ": `", name, "` must be on the device of `", like_name, "`, ", DeviceText{like}, ", got ",
         DeviceText{tensor});
}

// The row of this name in a table of what is offered.
template <typename Row, int kCount>
const Row& check_name(const char* op, const char* argument, const Row (&rows)[kCount], const std::string& name) {
  for (const Row& row : rows)
    if (name == row.name) return row;
  std::string offered;
  for (const Row& row : rows) offered += (offered.empty() ? "" : ", ") + std::string(row.name);
  fail(op, ": `", argument, "` must be one of ", offered, ", got \"", name, "\"");
}

// A bias has the output's dtype or float32; float32 alone where the output has 8 bits.
inline void check_bias(const char* op, const TensorView& bias, const TensorView& a, int64_t n, DType out_dtype) {
  if (bias.dims != 1) fail(op, ": `bias` must be 1-D (n,), got ", bias.dims, "-D");
  check_device(op, "bias", bias, "a", a);
  if (is_float8(out_dtype) && bias.type() != ScalarType::Float)
    fail(op, ": `bias` must be float32 where the output is ", info(out_dtype).name, ", got ", dtype_name(bias.type()));
  if (bias.type() != scalar_type(out_dtype) && bias.type() != ScalarType::Float)
    fail(op, ": `bias` must be ", info(out_dtype).name, out_dtype == DType::kFloat32 ? "" : " or float32",
         " (the output's dtype or float32), got ", dtype_name(bias.type()));
  if (bias.sizes[0] != n) fail(op, ": `bias` must have n = ", n, " elements, got ", bias.sizes[0]);
}

inline void bind_bias(Epilogue& epilogue, const TensorView& bias) {
  epilogue.bias = bias.data;
  epilogue.bias_stride = bias.strides[0];
  epilogue.bias_dtype = *dtype_of(bias.type());
}

// ---- memory of torch's: how it is asked for, and what a caller hears where it does not fit. The type of the error is
// Python's to give (tileon_ops/_rules/errors.py): what crosses torch's C interface is text ----

// What torch said of the last call that failed in this thread; "" where this torch does not tell.
inline std::string torchs_words() {
  if (torch_exception_get_what_without_backtrace == nullptr) return "";
  const char* words = torch_exception_get_what_without_backtrace();
  return words == nullptr ? "" : words;
}

// A tensor that nobody else has yet.
struct DeleteTensor {
  void operator()(AtenTensorHandle handle) const { static_cast<void>(aoti_torch_delete_tensor_object(handle)); }
};
using OwnedTensor = std::unique_ptr<AtenTensorOpaque, DeleteTensor>;

// The result of an op, which torch takes over as it is: of a Tensor it would be given a second handle, and the first
// one deleted.
struct FreshResult {
  AtenTensorHandle handle;

  explicit FreshResult(OwnedTensor tensor) : handle(tensor.release()) {}
};

// A fresh contiguous tensor on the device of `like`; null where torch refuses, for want of memory above all.
inline OwnedTensor try_allocate(const Tensor& like, const Shape& shape, ScalarType type) {
  int64_t strides[kMaxDims];
  int64_t stride = 1;
  for (int64_t i = shape.dims - 1; i >= 0; --i) {
    strides[i] = stride;
    stride *= shape.sizes[i] > 1 ? shape.sizes[i] : 1;  // torch's strides of contiguous tensors without elements
  }
  int32_t device_type = 0, device_index = 0;
  AtenTensorHandle handle = nullptr;
  if (aoti_torch_get_device_type(like.get(), &device_type) != 0 ||
      aoti_torch_get_device_index(like.get(), &device_index) != 0 ||
      aoti_torch_empty_strided(shape.dims, shape.sizes, strides, static_cast<int32_t>(type), device_type, device_index,
                               &handle) != 0)
    return nullptr;
  return OwnedTensor(handle);
}

// Ends the call after try_allocate has returned null: in torch's words, or in those that torch begins with.
[[noreturn, gnu::noinline, gnu::cold]] inline void fail_to_allocate(const char* op, const Tensor& like,
                                                                    const Shape& shape, ScalarType type) {
  std::string words = torchs_words();
  if (words.empty()) {
    int32_t device_type = 0;
    aoti_torch_get_device_type(like.get(), &device_type);
    const std::optional<DType> dtype = dtype_of(type);  // empty: a byte, of codes or of scales
    words = memory_text(op, shape, dtype ? info(*dtype).bytes : 1, device_type == aoti_torch_device_type_cuda());
  }
  throw std::runtime_error(words);
}

inline OwnedTensor allocate_owned(const char* op, const Tensor& like, const Shape& shape, ScalarType type) {
  if (OwnedTensor tensor = try_allocate(like, shape, type)) return tensor;
  fail_to_allocate(op, like, shape, type);
}

inline Tensor allocate(const char* op, const Tensor& like, const Shape& shape, ScalarType type) {
  return Tensor(allocate_owned(op, like, shape, type).release());
}

inline void* writable_data(AtenTensorHandle tensor) {
  void* data = nullptr;
  check_shim(torch_get_mutable_data_ptr(tensor, &data));
  return data;
}

// ---- torch's ops that may allocate ----

// torch::stable has them too, but writes torch's trace to stderr where they fail, and throws away what torch said.
template <size_t kArguments>
Tensor call_torch(const char* op, const char* overload, std::array<StableIValue, kArguments> stack) {
  if (torch_call_dispatcher(op, overload, stack.data(), TORCH_ABI_VERSION) == 0)
    return torch::stable::detail::to<Tensor>(stack[0]);
  const std::string words = torchs_words();
  throw std::runtime_error(words.empty() ? std::string(op) + " failed; " + kReasonIsOnStderr : words);
}

// In another dtype, laid out as before; the tensor itself where it has that dtype.
inline Tensor converted(const Tensor& tensor, ScalarType type) {
  const bool non_blocking = false, copy = false;
  return call_torch("aten::to", "dtype",
                    std::array{from(tensor), from(type), from(non_blocking), from(copy),
                               from(std::optional<torch::headeronly::MemoryFormat>())});
}

inline Tensor made_contiguous(const Tensor& tensor) {
  return call_torch("aten::contiguous", "",
                    std::array{from(tensor), from(torch::headeronly::MemoryFormat::Contiguous)});
}

inline Tensor reshaped(const Tensor& tensor, torch::headeronly::IntHeaderOnlyArrayRef sizes) {
  return call_torch("aten::reshape", "", std::array{from(tensor), from(sizes)});
}

// ---- results ----

inline Shape shape_of(const Tensor& tensor) {
  const TensorView view(tensor);
  Shape shape{view.dims, {}};
  for (int64_t i = 0; i < view.dims; ++i) shape.sizes[i] = view.sizes[i];
  return shape;
}

inline bool has_shape(const TensorView& tensor, const Shape& shape) {
  bool same = tensor.dims == shape.dims;
  for (int64_t i = 0; same && i < shape.dims; ++i) same = tensor.sizes[i] == shape.sizes[i];
  return same;
}

// The rules of `out` but for its distance from the inputs; `a` says the device.
inline void check_out_tensor(const char* op, const TensorView& out, const TensorView& a, DType dtype,
                             const Shape& shape) {
  check_device(op, "out", out, "a", a);
  if (out.type() != scalar_type(dtype))
    fail(op, ": `out` must have the output's dtype ", info(dtype).name, ", got ", dtype_name(out.type()));
  if (!has_shape(out, shape))
    fail(op, ": `out` must have the shape ", TupleText{shape.sizes, shape.dims}, ", got ",
         TupleText{out.sizes, out.dims});
  if (overlaps_itself(out.sizes, out.strides, out.dims))
    fail(op, ": `out` must not overlap itself, got strides ", TupleText{out.strides, out.dims}, " for the shape ",
         TupleText{out.sizes, out.dims});
}

// The bytes that `out` is written to. Asking for memory to write gives a lazy clone its own, which it shares until
// then.
inline ByteRange written_bytes(const Tensor& out_tensor, TensorView out, DType dtype) {
  out.data = writable_data(out_tensor.get());
  return out.bytes(info(dtype).bytes);
}

inline void check_apart(const char* op, const ByteRange& written, const char* name, const ByteRange& read) {
  if (overlap(written, read)) fail(op, ": `out` must not overlap `", name, "` in memory");
}

// Where the result, of 2 or 3 dimensions, goes.
inline Output output_of(const Tensor& out) {
  int64_t dims = 0;
  int64_t* strides = nullptr;
  Output output;
  check_shim(aoti_torch_get_dim(out.get(), &dims));
  check_shim(aoti_torch_get_strides(out.get(), &strides));
  output.data = writable_data(out.get());
  output.stride_m = strides[dims - 2];
  output.stride_n = strides[dims - 1];
  output.stride_batch = dims == 3 ? strides[0] : 0;
  return output;
}

}  // namespace tileon
