// How a block of numbers gets its scale: the definition, for the CPU and the GPU, all in float32. The GPU finds nvfp4's
// scales in another way (cuda/elementwise/quantize.cu), which must come to the same bits.
#pragma once

#include <cstdint>

#include "core/formats.h"
#include "core/host_device.h"
#include "core/small_floats.h"

namespace tileon {

enum class ScaleRounding : int8_t {
  kFloor,  // OCP Microscaling Formats 1.0, 6.3: floor(log2(amax)) - floor(log2(the largest element)); elements saturate
  kRceil,  // amax / the largest element, rounded up to a power of two: nothing saturates
};

// A scale's byte, and what the block's elements are multiplied by before they are encoded.
struct BlockScale {
  uint8_t byte;
  float factor;
};

// A block that holds NaN or infinity: a scale of NaN; its elements' codes are 0.
constexpr bool is_finite_amax(uint32_t amax_bits) { return amax_bits < 0x7f800000u; }

// `amax` is the largest magnitude of the block, finite.
template <DType kElement>
TILEON_HOST_DEVICE BlockScale e8m0_scale(float amax, ScaleRounding rounding) {
  constexpr int emax = kElement == DType::kFloat8E4M3 ? 8 : 2;  // floor(log2(the largest element))
  int byte;
  if (rounding == ScaleRounding::kFloor) {
    byte = static_cast<int>(bits_of(amax) >> 23) - emax;
  } else {
    const uint32_t bits = bits_of(amax / (kElement == DType::kFloat8E4M3 ? kE4M3Max : kE2M1Max));
    byte = static_cast<int>(bits >> 23) + ((bits & 0x007fffffu) != 0);
    if (bits <= 0x00400000u) byte = 0;  // 2^-127, a subnormal
  }
  if (byte < 0) byte = 0;
  return {static_cast<uint8_t>(byte), power_of_two(127 - byte)};
}

// The scale is relative to `global`, whose inverse is `inverse`; both may be anything that a float may be.
TILEON_HOST_DEVICE BlockScale nvfp4_scale(float amax, float global, float inverse) {
  float relative = amax / kE2M1Max;
  if (global != 1.0f) relative /= global;  // a division less for those who give none
  if (relative < kE4M3MinNormal) relative = kE4M3MinNormal;
  if (relative > kE4M3Max) relative = kE4M3Max;
  const bool is_nan = relative != relative;  // its sign is the processor's own choice
  const auto byte = is_nan ? kE4M3NaN : static_cast<uint8_t>(e4m3_in_low_byte(relative));
  const float factor = 0.125f * (inverse / e4m3_value(byte)) * 8.0f;  // so that an eighth of it is exact
  const bool is_finite = (bits_of(factor) & 0x7fffffffu) < 0x7f800000u;
  return {byte, is_finite ? factor : 0.0f};  // under a `global` of 0 or NaN all codes are zeros
}

// What nvfp4's scales are relative to, so that the largest of them times the largest element is `amax`.
TILEON_HOST_DEVICE float nvfp4_global_scale(float amax) {
  const float scale = amax / (kE4M3Max * kE2M1Max);
  return scale == 0.0f ? 1.0f : scale;
}

// ---- float32 scales ----

constexpr float kMinFloat32Scale = 0x1p-126f;         // the smallest whose inverse is finite and not subnormal
constexpr float kMaxFloat32Scale = 0x1.020406p+121f;  // the largest of which 127 are finite; 448 has room

// A scale, and what the block's elements are multiplied by before they are encoded; where the scale is NaN, 0, and then
// all codes are 0.
struct Float32Scale {
  float scale;
  float inverse;
};

// Of the largest magnitude of a block, as bits: 0, which is a block of zeros, and NaN and infinity included.
template <DType kElement>
TILEON_HOST_DEVICE Float32Scale float32_scale(uint32_t amax_bits) {
  if (!is_finite_amax(amax_bits)) return {float_of(0x7fc00000u), 0.0f};
  if (amax_bits == 0) return {1.0f, 1.0f};
  float scale = float_of(amax_bits) / (kElement == DType::kInt8 ? kInt8Max : kE4M3Max);
  if (scale < kMinFloat32Scale) scale = kMinFloat32Scale;
  if (scale > kMaxFloat32Scale) scale = kMaxFloat32Scale;
  return {scale, 1.0f / scale};
}

}  // namespace tileon
