// Bias and activation: the one definition of the formulas, for the CPU and every GPU kernel.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <type_traits>
#include <utility>

#include "core/formats.h"
#include "core/host_device.h"
#include "core/special_functions.h"

namespace tileon {

enum class Activation : int8_t { kNone, kRelu, kLeakyRelu, kGelu, kGeluTanh, kSilu };

struct ActivationInfo {
  Activation activation;
  const char* name;  // as the ops take it
};

constexpr ActivationInfo kActivations[] = {
    {Activation::kNone, "none"}, {Activation::kRelu, "relu"},          {Activation::kLeakyRelu, "leaky_relu"},
    {Activation::kGelu, "gelu"}, {Activation::kGeluTanh, "gelu_tanh"}, {Activation::kSilu, "silu"},
};
static_assert(in_order_of(&ActivationInfo::activation, kActivations));

// Calls use(activation) with the activation as a constant, so that a loop in `use` asks for none.
template <typename Use>
void visit_activation(Activation activation, const Use& use) {
  const auto visit = [&]<size_t... kRows>(std::index_sequence<kRows...>) {
    const auto visit_row = [&](auto row) {
      const bool is_it = activation == row();
      if (is_it) use(row);
      return is_it;
    };
    static_cast<void>((visit_row(std::integral_constant<Activation, kActivations[kRows].activation>()) || ...));
  };
  visit(std::make_index_sequence<std::size(kActivations)>());
}

// What happens to a sum before it is rounded to the output's dtype: add the column's bias, then activate.
struct Epilogue {
  const void* bias = nullptr;  // [n] or null
  int64_t bias_stride = 1;     // in elements; 0 where the bias is an expanded scalar
  DType bias_dtype = DType::kFloat32;
  Activation activation = Activation::kNone;
  double slope = 0.01;  // of leaky_relu
};

TILEON_HOST_DEVICE bool has_epilogue(const Epilogue& epilogue) {
  return epilogue.bias != nullptr || epilogue.activation != Activation::kNone;
}

// Whether an epilogue costs next to nothing beside the product: a bias, or an activation that is a maximum. exp and erf
// take time, and so do the stores that provide for any activation.
inline bool is_cheap(const Epilogue& epilogue) {
  if (epilogue.activation == Activation::kLeakyRelu) {
    const auto slope = static_cast<float>(epilogue.slope);  // as kernels of float32 sums hold it: 0 below 2^-150
    return slope > 0 && slope <= 1;
  }
  return epilogue.activation == Activation::kNone || epilogue.activation == Activation::kRelu;
}

// x >= 0 ? x : slope x; for slope 1 the identity, NaN and infinities included.
template <typename T>
TILEON_HOST_DEVICE T leaky_relu(T x, T slope) {
  return x >= T(0) ? x : slope * x;
}

// Of gelu_tanh: x sigmoid(2 u) is 0.5 x (1 + tanh(u)), which would cancel where u is far below 0.
constexpr double kGeluTanhScale = 0.79788456080286535588;  // sqrt(2 / pi)
constexpr double kGeluTanhCube = 0.044715;

// sigmoid(2 u)
template <typename T>
TILEON_HOST_DEVICE T gelu_tanh_sigmoid(T x) {
  return sigmoid(T(2) * T(kGeluTanhScale) * (x + T(kGeluTanhCube) * x * x * x));
}

// `T` is the accumulator: float, or double for float64 operands. The formulas are torch's, so NaN stays NaN and
// the limits at infinity are torch's too (gelu and silu of -inf are NaN there).
template <typename T>
TILEON_HOST_DEVICE T activate(T x, Activation activation, T slope) {
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return x < T(0) ? T(0) : x;  // this order keeps NaN
    case Activation::kLeakyRelu:
      return leaky_relu(x, slope);
    case Activation::kGelu:
      return x * normal_distribution(x);
    case Activation::kGeluTanh:  // Hendrycks and Gimpel, arXiv 1606.08415
      return x * gelu_tanh_sigmoid(x);
    case Activation::kSilu:
      return x * sigmoid(x);
  }
  return x;
}

template <Activation kActivation, typename T, int kCount>
TILEON_HOST_DEVICE void activate_as(T (&values)[kCount], T slope) {
#ifdef __CUDACC__
#pragma unroll
#endif
  for (int i = 0; i < kCount; ++i) values[i] = activate(values[i], kActivation, slope);
}

// All by one branch, so that their arithmetic overlaps: the curved activations are long chains.
template <typename T, int kCount>
TILEON_HOST_DEVICE void activate_all(T (&values)[kCount], const Epilogue& epilogue) {
  const auto slope = static_cast<T>(epilogue.slope);
  switch (epilogue.activation) {
    case Activation::kNone:
      return;
    case Activation::kRelu:
      return activate_as<Activation::kRelu>(values, slope);
    case Activation::kLeakyRelu:
      return activate_as<Activation::kLeakyRelu>(values, slope);
    case Activation::kGelu:
      return activate_as<Activation::kGelu>(values, slope);
    case Activation::kGeluTanh:
      return activate_as<Activation::kGeluTanh>(values, slope);
    case Activation::kSilu:
      return activate_as<Activation::kSilu>(values, slope);
  }
}

// `grad` times the derivative of `activate` at its argument `x`. For relu, and leaky_relu with slope >= 0, `x` may be
// the output, which is above 0 where the argument is. The formulas are torch's: at 0 the derivative is 0 for relu and
// `slope` for leaky_relu; NaN counts as above 0 for relu, as below for leaky_relu.
template <typename T>
TILEON_HOST_DEVICE T through_activation(T grad, T x, Activation activation, T slope) {
  switch (activation) {
    case Activation::kNone:
      return grad;
    case Activation::kRelu:
      return x <= T(0) ? T(0) : grad;
    case Activation::kLeakyRelu:
      return x > T(0) ? grad : grad * slope;
    case Activation::kGelu: {                                                 // Phi(x) + x Phi'(x)
      const T density = T(0.39894228040143267794) * exp_of(T(-0.5) * x * x);  // 1 / sqrt(2 pi)
      return grad * (normal_distribution(x) + x * density);
    }
    case Activation::kGeluTanh: {  // s + x s', with s = sigmoid(2 u)
      const T s = gelu_tanh_sigmoid(x);
      const T u_derivative = T(kGeluTanhScale) * (T(1) + T(3) * T(kGeluTanhCube) * x * x);
      return grad * (s + x * T(2) * s * (T(1) - s) * u_derivative);
    }
    case Activation::kSilu: {
      const T s = sigmoid(x);
      return grad * (s * (T(1) + x * (T(1) - s)));
    }
  }
  return grad;
}

}  // namespace tileon
