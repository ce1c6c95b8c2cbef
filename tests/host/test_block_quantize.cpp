// The scales of blocks by their definitions, computed in double: around every power of two and every multiple of one
// that decides a scale, from the smallest subnormal to the largest float.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <limits>
#include <vector>

#include "core/block_quantize.h"

namespace {

using tileon::BlockScale;
using tileon::DType;
using tileon::ScaleRounding;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> magnitudes() {
  std::vector<float> found{0.0f, std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::max()};
  for (int exponent = -149; exponent <= 127; ++exponent)
    for (const float factor : {1.0f, 1.25f, 1.5f, 1.75f, 1.9f}) {
      const float number = std::ldexp(factor, exponent);
      for (const float near : {std::nextafter(number, 0.0f), number, std::nextafter(number, kInfinity)})
        if (std::isfinite(near)) found.push_back(near);
    }
  return found;
}

// The largest scale that OCP MX 1.0 allows an element of this magnitude: 2^(floor(log2(amax)) - emax).
int floor_byte(float amax, int emax) { return amax == 0 ? 0 : std::clamp(std::ilogb(amax) - emax + 127, 0, 254); }

// The smallest scale that is not below amax / largest, which is a float32.
int rceil_byte(float amax, float largest) {
  const float wanted = amax / largest;
  int byte = 0;
  while (byte < 254 && std::ldexp(1.0, byte - 127) < wanted) ++byte;
  return byte;
}

int check_e8m0(const BlockScale& scale, int byte) {
  return (scale.byte != byte) + (scale.factor != std::ldexp(1.0, 127 - byte));
}

template <DType kElement>
int check_e8m0_scales(float largest, int emax) {
  int failures = 0;
  for (const float amax : magnitudes()) {
    failures += check_e8m0(tileon::e8m0_scale<kElement>(amax, ScaleRounding::kFloor), floor_byte(amax, emax));
    failures += check_e8m0(tileon::e8m0_scale<kElement>(amax, ScaleRounding::kRceil), rceil_byte(amax, largest));
  }
  return failures;
}

// The e4m3 code nearest to a number within 2^-6 and 448, by trying all.
int nearest_e4m3(double number) {
  int best = 8;
  for (int code = 8; code <= 0x7e; ++code) {
    const double distance = std::fabs(tileon::e4m3_value(code) - number);
    const double least = std::fabs(tileon::e4m3_value(best) - number);
    if (distance < least || (distance == least && code % 2 == 0)) best = code;
  }
  return best;
}

int check_nvfp4_scales(float global) {
  int failures = 0;
  for (const float amax : magnitudes()) {
    const BlockScale scale = tileon::nvfp4_scale(amax, global, 1.0f / global);
    const float relative = amax / 6.0f / global;
    if (std::isnan(relative)) {
      failures += scale.byte != 0x7f;
      continue;
    }
    const int byte = nearest_e4m3(std::clamp(relative, 0.015625f, 448.0f));
    const float factor = 1.0f / global / tileon::e4m3_value(byte);
    failures += scale.byte != byte || !(scale.factor == (std::isfinite(factor) ? factor : 0.0f));
  }
  return failures;
}

// amax / largest within the two bounds; the inverse finite, the products of the largest magnitude the largest code.
template <DType kElement>
int check_float32_scales(float largest) {
  int failures = 0;
  for (const float amax : magnitudes()) {
    const tileon::Float32Scale scale = tileon::float32_scale<kElement>(tileon::bits_of(amax));
    const float wanted = std::max(amax / largest, std::ldexp(1.0f, -126));
    const bool is_bounded = !std::isfinite(largest * wanted);
    failures += amax == 0 ? scale.scale != 1.0f : !is_bounded && scale.scale != wanted;
    failures += !std::isfinite(largest * scale.scale) || !std::isnormal(scale.inverse);
    failures += scale.inverse != 1.0f / scale.scale;
    if (amax >= largest * std::ldexp(1.0f, -126))
      failures += std::fabs(amax * scale.inverse - largest) > largest * std::ldexp(1.0f, -22);
  }
  for (const float bad : {kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    const tileon::Float32Scale scale = tileon::float32_scale<kElement>(tileon::bits_of(bad));
    failures += !std::isnan(scale.scale) || scale.inverse != 0.0f;
  }
  return failures;
}

int check_finite() {
  int failures = 0;
  for (const float amax : magnitudes()) failures += !tileon::is_finite_amax(tileon::bits_of(amax));
  for (const float amax : {kInfinity, std::numeric_limits<float>::quiet_NaN()})
    failures += tileon::is_finite_amax(tileon::bits_of(amax));
  return failures;
}

}  // namespace

int main() {
  int failures = check_e8m0_scales<DType::kFloat8E4M3>(448.0f, 8) + check_e8m0_scales<DType::kFloat4E2M1>(6.0f, 2);
  failures += check_finite();
  failures += check_float32_scales<DType::kFloat8E4M3>(448.0f) + check_float32_scales<DType::kInt8>(127.0f);
  for (const float global : {1.0f, 0.37f, 1e-30f, 1e30f, -2.0f, kInfinity, std::ldexp(1.0f, -140), 0.0f})
    failures += check_nvfp4_scales(global);
  failures += tileon::nvfp4_scale(1.0f, -std::numeric_limits<float>::quiet_NaN(), 1.0f).byte != 0x7f;
  failures += tileon::nvfp4_scale(0.0f, 1.0f, 1.0f).byte != 0x08;  // 2^-6
  std::printf("block quantize: %d failures\n", failures);
  return failures != 0;
}
