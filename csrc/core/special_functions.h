// exp, sigmoid and the normal distribution of the activations. Those of float are computed without a branch: on a GPU
// by its special function unit, in few instructions, for beside the sums of a tile there are registers for little else;
// on the CPU by arithmetic that compilers make vectors of, for a call of exp or erf takes as long as 300 products do.
// An activation would take longer than the product otherwise.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
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

// What the formulas below are made of, in three ways. By the standard library: of double.
template <typename T>
struct StandardFunctions {
  static constexpr bool are_branchless = false;
  static TILEON_HOST_DEVICE T exp(T x) {
    using std::exp;
    return exp(x);
  }
  static TILEON_HOST_DEVICE T reciprocal(T x) { return T(1) / x; }
};

// 2^x within a unit in the last place; 0 and infinity far out, NaN of NaN. On the whole number next to x the exponent
// is worked out, on the rest, which is 0.5 at most, a polynomial: of degree 6, whose relative error is 2e-8 at
// most. Two factors, for one alone may be beyond what float holds.
inline float vector_exp2(float x) {
  constexpr float kToInteger = 0x1.8p23f;  // added, it leaves no digits behind the point
  const float low = x < -252.0f ? -252.0f : x, held = low > 254.0f ? 254.0f : low;
  const float raised = held + kToInteger, rest = held - (raised - kToInteger);
  const int32_t whole = std::bit_cast<int32_t>(raised) - std::bit_cast<int32_t>(kToInteger);
  constexpr float kCoefficients[] = {0.0001534581242594868f,
                                     0.0013399930903688073f,
                                     0.009618489071726799f,
                                     0.05550328642129898f,
                                     0.24022646248340607f,
                                     0.6931471824645996f,
                                     1.0f};
  float power = kCoefficients[0];
  for (int i = 1; i < 7; ++i) power = power * rest + kCoefficients[i];
  const int32_t half = whole >> 1;
  const auto power_of_2 = [](int32_t exponent) { return std::bit_cast<float>((exponent + 127) << 23); };
  return power * power_of_2(half) * power_of_2(whole - half);
}

// Of float on the CPU.
template <typename Float>
struct VectorFunctions {
  static constexpr bool are_branchless = true;
  static Float exp2(Float x) { return vector_exp2(x); }
  static Float exp(Float x) { return exp2(kLog2E * x); }
  static Float reciprocal(Float x) { return 1.0f / x; }
};

// Of float, on a GPU, by one instruction each: 2^x and 1 / x within two units in the last place, and 0 for what is
// below 2^-126. The host has no such instructions, and computes what they come near to. (A template, so that only those
// who call them need the instructions.)
template <typename Float>
struct SpecialFunctionUnit {
  static constexpr bool are_branchless = true;
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
using FunctionsOf = std::conditional_t<sizeof(T) == sizeof(float), VectorFunctions<T>, StandardFunctions<T>>;
#endif

// exp of backward passes, which have registers: of float on a GPU by its library, whose error is less.
template <typename T>
TILEON_HOST_DEVICE T exp_of(T x) {
#ifdef __CUDA_ARCH__
  using std::exp;
  return exp(x);
#else
  return FunctionsOf<T>::exp(x);
#endif
}

// 1 / (1 + exp(-x)); 0 and 1 at the infinities.
template <typename T, typename Functions = FunctionsOf<T>>
TILEON_HOST_DEVICE T sigmoid(T x) {
  return Functions::reciprocal(T(1) + Functions::exp(-x));
}

// The normal distribution's cumulative function, 1 / 2 (1 + erf(x / sqrt(2))). Without a branch, left of 0, it is
// t 2^(q(t) - x^2 log2(e) / 2), with t = 1 / (1 + 0.29 |x|) and a polynomial q, the form of erfcc in Press et al.,
// Numerical Recipes (1988); right of 0 it is what is left of 1. The coefficients are those of the least error, weighed
// by the 0.35th power of the function: it is off by 2e-7 at most, from 0 down to -5 by 2e-6 of itself, to -8 by 2e-5.
template <typename T, typename Functions = FunctionsOf<T>>
TILEON_HOST_DEVICE T normal_distribution(T x) {
  if constexpr (!Functions::are_branchless) {
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
    const float left = t * Functions::exp2(-0.5f * kLog2E * x * x + q), right = 1.0f - left;
    return x < 0 ? left : right;
  }
}

}  // namespace tileon
