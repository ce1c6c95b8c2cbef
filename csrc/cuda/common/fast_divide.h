// Division by a number that the host knows: a multiplication and a shift, where a division would take a GPU some
// hundred cycles before its first load.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define TILEON_DIVIDE_FUNCTION __host__ __device__ __forceinline__ constexpr
#else
#define TILEON_DIVIDE_FUNCTION inline constexpr
#endif

namespace tileon {

// Exact for dividends from 0 to 2^31 - 1 and divisors from 1 to 2^31 - 1. Granlund and Montgomery, "Division by
// invariant integers using multiplication" (1994), figure 4.1.
class FastDivisor {
 public:
  FastDivisor() = default;

  constexpr explicit FastDivisor(int divisor) : divisor_(divisor) {
    while ((int64_t{1} << shift_) < divisor) ++shift_;
    const uint64_t excess = (uint64_t{1} << shift_) - static_cast<uint64_t>(divisor);
    multiplier_ = static_cast<uint32_t>((excess << 32) / static_cast<uint64_t>(divisor) + 1);
  }

  TILEON_DIVIDE_FUNCTION int divisor() const { return divisor_; }

  TILEON_DIVIDE_FUNCTION int divide(int dividend) const {
    const uint32_t n = static_cast<uint32_t>(dividend);
    const uint32_t high = static_cast<uint32_t>((static_cast<uint64_t>(n) * multiplier_) >> 32);
    return static_cast<int>((high + n) >> shift_);
  }

 private:
  int divisor_ = 1;
  uint32_t multiplier_ = 1;
  int shift_ = 0;
};

static_assert(FastDivisor(1).divide(7) == 7 && FastDivisor(7).divide(48) == 6 && FastDivisor(7).divide(49) == 7);
static_assert(FastDivisor(3).divide(0x7fffffff) == 0x7fffffff / 3 && FastDivisor(0x7fffffff).divide(0x7ffffffe) == 0);

}  // namespace tileon
