// The entry points of a layer in training, written once over a Device as those of products.h are: _linear, and both
// products of a backward pass in one call. Calls are most of what a small layer takes.
#pragma once

#include <torch/csrc/stable/library.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "entry/products.h"

namespace tileon {

// ---- views, which torch makes without its dispatcher ----

inline OwnedTensor viewed_as(AtenTensorHandle tensor, const Shape& shape, const int64_t* strides) {
  AtenTensorHandle view = nullptr;
  check_shim(aoti_torch__reinterpret_tensor(tensor, shape.dims, shape.sizes, strides, 0, &view));
  return OwnedTensor(view);
}

inline OwnedTensor transposed(AtenTensorHandle matrix) {
  int64_t *sizes = nullptr, *strides = nullptr;
  check_shim(aoti_torch_get_sizes(matrix, &sizes));
  check_shim(aoti_torch_get_strides(matrix, &strides));
  const int64_t turned[] = {strides[1], strides[0]};
  return viewed_as(matrix, {2, {sizes[1], sizes[0]}}, turned);
}

inline Tensor transposed(const Tensor& matrix) { return Tensor(transposed(matrix.get()).release()); }

// The rows of a contiguous tensor.
inline Tensor rows_of(const Tensor& tensor) {
  const TensorView view(tensor);
  const int64_t columns = view.sizes[view.dims - 1];
  int64_t rows = 1;
  for (int64_t i = 0; i + 1 < view.dims; ++i) rows *= view.sizes[i];
  const int64_t strides[] = {std::max<int64_t>(columns, 1), 1};
  return Tensor(viewed_as(tensor.get(), {2, {rows, columns}}, strides).release());
}

// Whether a matrix has adjacent rows, and no adjacent columns.
inline bool lies_across(const Tensor& matrix) {
  const TensorView view(matrix);
  return view.strides[0] == 1 && view.strides[1] != 1;
}

// ---- rules ----

inline void check_dims(const char* op, const char* name, const Tensor& tensor, int64_t least, int64_t most) {
  check_given(op, name, tensor);
  const int64_t dims = TensorView(tensor).dims;
  if (dims < least || dims > most)
    fail(op, ": `", name, "` must be ", least, "-D", least == most ? "" : " or more", ", got ", dims, "-D");
}

inline void check_contiguous(const char* op, const char* name, const Tensor& tensor) {
  check_dims(op, name, tensor, 2, kMaxDims);
  if (!tensor.is_contiguous()) fail(op, ": `", name, "` must be contiguous");
}

template <typename Device>
struct LayerEntries {
  // ---- one product of a backward pass: x @ y, laid out as the operand is whose gradient it is ----

  class Gradient {
   public:
    Gradient(const Tensor& operand, const Tensor& x, const Tensor& y, bool allow_tf32)
        : is_turned_(lies_across(operand)),
          x_(is_turned_ ? transposed(y) : x),
          y_(is_turned_ ? transposed(x) : y),
          arguments_(matmul_arguments(x_, y_, kNoTensor, kNoActivation, 0, std::nullopt, allow_tf32, false)),
          problem_(check_matmul(arguments_)) {}
    Gradient(const Gradient&) = delete;
    Gradient& operator=(const Gradient&) = delete;

    OwnedTensor run() {
      OwnedTensor result(ProductEntries<Device>::fresh(problem_, arguments_, -1).handle);
      return is_turned_ ? transposed(result.get()) : std::move(result);
    }

   private:
    static inline const std::string kNoActivation = "none";
    bool is_turned_;
    Tensor x_, y_;
    ProductArguments arguments_;
    Problem problem_;
  };

  struct Gradients {
    OwnedTensor of_a, of_b;

    Gradients(const Tensor& grad, const Tensor& a, const Tensor& b, bool allow_tf32) {
      Gradient first(a, grad, transposed(b), allow_tf32), second(b, transposed(a), grad, allow_tf32);
      of_a = first.run();
      of_b = second.run();
    }
  };

  // ---- the ops ----

  static std::tuple<FreshResult, FreshResult> matmul_backward(const Tensor& grad, const Tensor& a, const Tensor& b,
                                                              bool allow_tf32) {
    constexpr const char* kOp = "_matmul_backward";
    check_dims(kOp, "grad", grad, 2, 2);
    check_dims(kOp, "a", a, 2, 2);
    check_dims(kOp, "b", b, 2, 2);
    Gradients of(grad, a, b, allow_tf32);
    return {FreshResult(std::move(of.of_a)), FreshResult(std::move(of.of_b))};
  }

  static FreshResult linear(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias,
                            const std::string& activation, double slope, bool allow_tf32) {
    constexpr const char* kOp = "_linear";
    check_contiguous(kOp, "x", x);
    check_dims(kOp, "weight", weight, 2, 2);
    const Tensor a = rows_of(x), b = transposed(weight);
    const auto call = matmul_arguments(a, b, bias, activation, slope, std::nullopt, allow_tf32, false);
    Problem problem = check_matmul(call);
    Device::require(call.op);
    Shape shape = shape_of(x);
    shape.sizes[shape.dims - 1] = problem.n;
    OwnedTensor out = allocate_owned(call.op, x, shape, scalar_type(problem.out_dtype));
    problem.out = output_of_new(out, problem);
    const int64_t strides[] = {problem.out.stride_m, 1};
    const OwnedTensor matrix = viewed_as(out.get(), output_shape(problem), strides);
    Device::run(problem, call, matrix.get(), nullptr, -1);
    return FreshResult(std::move(out));
  }

  static std::tuple<FreshResult, FreshResult> linear_backward(const Tensor& grad, const Tensor& x, const Tensor& weight,
                                                              bool allow_tf32) {
    constexpr const char* kOp = "_linear_backward";
    check_contiguous(kOp, "grad", grad);
    check_contiguous(kOp, "x", x);
    check_dims(kOp, "weight", weight, 2, 2);
    Gradients of(rows_of(grad), rows_of(x), transposed(weight), allow_tf32);
    return {FreshResult(viewed_as(of.of_a.get(), shape_of(x), TensorView(x).strides)),
            FreshResult(transposed(of.of_b.get()))};
  }

  static void add_to(RegisteredKernels::Library& m) {
    m.impl("_matmul_backward", TORCH_BOX(&LayerEntries::matmul_backward));
    m.impl("_linear", TORCH_BOX(&LayerEntries::linear));
    m.impl("_linear_backward", TORCH_BOX(&LayerEntries::linear_backward));
  }
};

}  // namespace tileon
