// exp, sigmoid and the normal distribution of the activations. A GPU computes those of float by its special function
// unit, in few instructions without a branch: beside the sums of a tile there are registers for little else, and an
// activation that is computed two sums at a time takes longer than the product.
#pragma once

#include <cmath>
#include <type_traits>

#include "core/host_device.h"

namespace tileon {

#ifdef __CUDA_ARCH__
// The instructions, in cuda/ptx/convert.cuh, which a kernel that calls the functions below includes.
namespace ptx {
__device__ __forceinline__ float exp2(float x);
__device__ __forceinline__ float reciprocal(float x);
}  // namespace ptx
#endif

constexpr float kLog2E = 1.44269504088896340736f;

// What the formulas below are made of, in two ways. By the standard library: on the CPU, and of double on a GPU.
template <typename T>
struct StandardFunctions {
  static constexpr bool are_instructions = false;
  static TILEON_HOST_DEVICE T exp(T x) {
    using std::exp;
    return exp(x);
  }
  static TILEON_HOST_DEVICE T reciprocal(T x) { return T(1) / x; }
};

// Of float, on a GPU, by one instruction each: 2^x and 1 / x within two units in the last place, and 0 for what is
// below 2^-126. The host has no such instructions, and computes what they come near to. (A template, so that only those
// who call them need the instructions.)
template <typename Float>
struct SpecialFunctionUnit {
  static constexpr bool are_instructions = true;
#ifdef __CUDA_ARCH__
  static TILEON_HOST_DEVICE Float exp2(Float x) { return ptx::exp2(x); }
  static TILEON_HOST_DEVICE Float reciprocal(Float x) { return ptx::reciprocal(x); }
#else
  static TILEON_HOST_DEVICE Float exp2(Float x) { return std::exp2(x); }
  static TILEON_HOST_DEVICE Float reciprocal(Float x) { return 1.0f / x; }
#endif
  static TILEON_HOST_DEVICE Float exp(Float x) { return exp2(kLog2E * x); }
};

#ifdef __CUDA_ARCH__
template <typename T>
using FunctionsOf = std::conditional_t<sizeof(T) == sizeof(float), SpecialFunctionUnit<T>, StandardFunctions<T>>;
#else
template <typename T>
using FunctionsOf = StandardFunctions<T>;
#endif

// 1 / (1 + exp(-x)); 0 and 1 at the infinities.
template <typename T, typename Functions = FunctionsOf<T>>
TILEON_HOST_DEVICE T sigmoid(T x) {
  return Functions::reciprocal(T(1) + Functions::exp(-x));
}

// The normal distribution's cumulative function, 1 / 2 (1 + erf(x / sqrt(2))). By instructions, left of 0, it is
// t 2^(q(t) - x^2 log2(e) / 2), with t = 1 / (1 + 0.29 |x|) and a polynomial q, the form of erfcc in Press et al.,
// Numerical Recipes (1988); right of 0 it is what is left of 1. The coefficients are those of the least error, weighed
// by the 0.35th power of the function: it is off by 2e-7 at most, from 0 down to -5 by 2e-6 of itself, to -8 by 2e-5.
template <typename T, typename Functions = FunctionsOf<T>>
TILEON_HOST_DEVICE T normal_distribution(T x) {
  if constexpr (!Functions::are_instructions) {
    using std::erf;
    return T(0.5) * (T(1) + erf(x * T(0.70710678118654752440)));
  } else {
    constexpr float kSlope = 0.29f;
    constexpr float kCoefficients[] = {-0.342760533f, 1.842551231f, -3.780006170f, 3.506599665f,
                                       -1.678795218f, 1.225264192f, 1.330132961f,  -3.102986097f};
    const float t = Functions::reciprocal(1.0f + kSlope * std::fabs(x));
    float q = kCoefficients[0];
#ifdef __CUDACC__
#pragma unroll
#endif
    for (int i = 1; i < 8; ++i) q = q * t + kCoefficients[i];
    const float left = t * Functions::exp2(-0.5f * kLog2E * x * x + q);
    return x < 0 ? left : 1.0f - left;
  }
}

}  // namespace tileon
