// The unit of 128 k of a row of mxfp4 that becomes e5m2, of which four neighbouring lanes have a block of 32 k each:
// the row is e5m2 times a power of two.
#pragma once

#include <cstdint>

#include "core/small_floats.h"
#include "cuda/sm90/layout/encoding.h"

namespace tileon::sm90 {

struct RowUnit {
  int exponent;  // of this lane's block, in the unit: e5m2 holds codes times 2^-13 to 2^13

  // The unit is the scale of the first block, whose neighbours' mostly lie near it. `word` has the row's four scales.
  __device__ __forceinline__ explicit RowUnit(uint32_t word)
      : unit_(static_cast<int>(word & 0xff)), scale_(static_cast<int>(word >> 8 * (threadIdx.x % 4) & 0xff)) {
    exponent = scale_ - unit_;
  }

  // Whether the block fits, whatever its codes are.
  __device__ __forceinline__ bool is_ordinary() const {
    constexpr unsigned kReach = kFloat8Binades / 2;
    return static_cast<unsigned>(exponent) + kReach <= 2 * kReach &&
           static_cast<unsigned>(unit_ - kMinExponent) <= unsigned{kMaxExponent - kMinExponent};
  }

  // By all lanes of a warp: where a row's blocks do not fit by their scales its largest scale that has a number other
  // than 0 decides. Returns whether a number does not fit. A scale that is NaN makes the factor NaN.
  __device__ __forceinline__ bool look_at(const uint32_t (&codes)[4]) {
    constexpr int kReach = kFloat8Binades / 2;
    const bool is_nan = scale_ == static_cast<int>(kE8M0NaN);
    const bool has_numbers = ((codes[0] | codes[1] | codes[2] | codes[3]) & 0x77777777) != 0 && !is_nan;
    int largest = is_nan ? kNaN : has_numbers ? scale_ : 0;
    largest = max(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
    largest = max(largest, __shfl_xor_sync(0xffffffffu, largest, 2));
    unit_ = largest == kNaN ? kNaN : min(max(largest - kReach, kMinExponent), kMaxExponent);
    exponent = min(max(scale_ - unit_, -kReach), kReach);
    return has_numbers && largest != kNaN && exponent != scale_ - unit_;
  }

  __device__ __forceinline__ float factor() const {
    return __uint_as_float(unit_ == kNaN ? 0x7fc00000u : static_cast<uint32_t>(unit_) << 23);
  }

 private:
  static constexpr int kNaN = kE8M0NaN;

  int unit_, scale_;
};

}  // namespace tileon::sm90
