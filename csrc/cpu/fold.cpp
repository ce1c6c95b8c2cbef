// The powers of two of folded rows: the largest code of each block, under its scale. Bound by reading the codes.
#include "cpu/fold.h"

#include <torch/csrc/stable/ops.h>

#include <algorithm>
#include <cstring>

#include "core/fold.h"
#include "cpu/multiversion.h"

namespace tileon {
namespace {

constexpr int kVec = vec_of(ScaleType::kE8M0);
constexpr int kBlocks = 16;  // whose codes are looked at together

// The largest of e4m3 codes without their signs; NaN counts as 0.
uint32_t largest_e4m3(const uint8_t* codes) {
  uint8_t largest = 0;  // one more than the code: NaN, 0x7f, becomes 0
#pragma GCC unroll 1    // or gcc writes the 32 out, one by one, before it thinks of vectors
  for (int i = 0; i < kVec; ++i) {
    const uint8_t next = ((codes[i] & 0x7f) + 1) & 0x7f;
    largest = next > largest ? next : largest;
  }
  return largest == 0 ? 0 : largest - 1;
}

// The largest of e2m1 codes without their signs, two of them a byte.
uint32_t largest_e2m1(const uint8_t* pairs) {
  uint8_t largest = 0;
#pragma GCC unroll 1
  for (int i = 0; i < kVec / 2; ++i) {
    const uint8_t low = pairs[i] & 7, high = pairs[i] >> 4 & 7, larger = low > high ? low : high;
    largest = larger > largest ? larger : largest;
  }
  return largest;
}

// The largest magnitude of `count` blocks.
template <bool kIsE2M1>
TILEON_MULTIVERSION int largest_magnitude(const uint8_t* codes, const uint8_t* scales, int count) {
  int magnitude = kNoMagnitude;
  for (int i = 0; i < count; ++i) {
    const float largest =
        kIsE2M1 ? e2m1_value(largest_e2m1(codes + i * kVec / 2)) : e4m3_value(largest_e4m3(codes + i * kVec));
    magnitude = std::max(magnitude, fold_magnitude(largest, scales[i]));
  }
  return magnitude;
}

int power_of_row(const Operand& operand, int64_t row, int64_t k) {
  const bool is_e2m1 = operand.dtype == DType::kFloat4E2M1;
  const int block_bytes = kVec / elements_per_byte(operand.dtype);
  const ScaleStrides& strides = operand.scale.strides;
  const uint8_t* codes = static_cast<const uint8_t*>(operand.data) + row * operand.stride_mn;
  const uint8_t* scales = static_cast<const uint8_t*>(operand.scale.data) + strides.of_row(row);
  int magnitude = kNoMagnitude;
  for (int64_t block = 0; block < k / kVec; block += kBlocks, codes += kBlocks * block_bytes * operand.stride_k) {
    const int count = static_cast<int>(std::min<int64_t>(k / kVec - block, kBlocks));
    uint8_t gathered[kBlocks * kVec], their_scales[kBlocks];
    for (int i = 0; i < count; ++i) their_scales[i] = scales[strides.of_col(block + i)];
    if (operand.stride_k != 1)
      for (int i = 0; i < count * block_bytes; ++i) gathered[i] = codes[i * operand.stride_k];
    const uint8_t* adjacent = operand.stride_k == 1 ? codes : gathered;
    magnitude = std::max(magnitude, is_e2m1 ? largest_magnitude<true>(adjacent, their_scales, count)
                                            : largest_magnitude<false>(adjacent, their_scales, count));
  }
  return fold_power(magnitude);
}

}  // namespace

std::unique_ptr<int16_t[]> fold_powers(const Operand& operand, int64_t rows, int64_t k) {
  constexpr int64_t kCodesPerThread = 512 * 1024;  // some 30 us
  std::unique_ptr<int16_t[]> powers(new int16_t[rows]);
  const int64_t rows_per_thread = std::max<int64_t>(1, kCodesPerThread / std::max<int64_t>(1, k));
  torch::stable::parallel_for(0, rows, rows_per_thread, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) powers[row] = static_cast<int16_t>(power_of_row(operand, row, k));
  });
  return powers;
}

}  // namespace tileon
