// Warp-wide matrix products.
#pragma once

#include <cstdint>

#include "machine.h"

namespace tileon::ptx {

using simulation::Site;

template <typename Element>
inline constexpr simulation::Type type_of_element =
    std::is_same_v<Element, __half>          ? simulation::Type::kFloat16
    : std::is_same_v<Element, __nv_bfloat16> ? simulation::Type::kBFloat16
    : std::is_same_v<Element, float>         ? simulation::Type::kTf32
    : std::is_same_v<Element, __nv_fp8_e4m3> ? simulation::Type::kE4M3
                                             : simulation::Type::kE5M2;

template <typename ElementA, typename ElementB = ElementA>
inline void mma_m16n8(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, Site where = Site::here()) {
  simulation::mma(type_of_element<ElementA>, type_of_element<ElementB>, d, a, b0, b1, where);
}

// To nearest, ties away from zero: half a unit is added to the magnitude, and what is below cut off.
inline uint32_t float_to_tf32(uint32_t float_bits) {
  const bool is_nan = (float_bits & 0x7fffffffu) > 0x7f800000u;
  return is_nan ? 0x7fffffffu : (float_bits + 0x1000u) & 0xffffe000u;
}

inline void mma_m16n8k4(double (&d)[4], const double (&a)[2], double b, Site where = Site::here()) {
  simulation::mma_float64(d, a, b, where);
}

}  // namespace tileon::ptx
