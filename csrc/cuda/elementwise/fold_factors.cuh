// What a row's fold multiplies its blocks by (core/fold.h), for kernels that fold while they multiply: the scales are
// read, and mostly codes of sixteen blocks, which decide the row's power. Bound by latencies, not by bytes.
//
// A row has eight lanes, which have every eighth word: the scales of four blocks. The four rows of a warp are
// neighbours in what it stores. Words are read eight at a time; all other loops stay loops: instructions come cold, and
// more of them take longer than the scales.
#pragma once

#include <cstdint>

#include "cuda/elementwise/fold_codes.cuh"

namespace tileon {

struct FoldedFactors {
  ScaledKernelOperand operand;
  int64_t rows, blocks, words, stride;
  uint32_t* factors;
  float* scales;
  bool reads_words;  // four scales at once
};

constexpr int kRowLanes = 8, kRowsOfWarp = 32 / kRowLanes;

// Four bytes of core/fold.h at once, where scales lie within a row's usual ones: a byte is a scale's distance from some
// scale below, shifted.
template <int kBits>
class QuickFactors {
  static constexpr int kShift = kBits == 8 ? 2 : 3;
  static constexpr int kZero = kBits == 8 ? 127 - 15 : 127 - 5;  // the scale whose byte is 0, beside a power of 0
  static constexpr int kLeast = kBits == 8 ? 1 : 0, kMost = kBits == 8 ? 30 : 11;

 public:
  // `largest` is the row's largest scale, NaN where it has that.
  __device__ __forceinline__ QuickFactors(int power, int largest) {
    const int zero = kZero + power, least = zero + kLeast;
    any_ = least >= 0 && least <= 128 && largest <= zero + kMost;
    zero_ = static_cast<uint32_t>(zero) * 0x01010101;
    least_ = static_cast<uint32_t>(least) * 0x01010101;
  }

  // Whether all four scales are that large: a byte's top bit is left where it, or the rest less the least, has one.
  __device__ __forceinline__ bool take(uint32_t scales) const {
    return any_ && (((scales | 0x80808080) - least_ | scales) & 0x80808080) == 0x80808080;
  }
  __device__ __forceinline__ uint32_t of(uint32_t scales) const { return (scales - zero_) << kShift; }

 private:
  bool any_;
  uint32_t zero_, least_;
};

template <int kBits>
class FactorsOfRow {
 public:
  // Of rows behind the last one the factors are 0.
  __device__ __forceinline__ FactorsOfRow(const FoldedFactors& of, int64_t row)
      : of_(of), row_(row), blocks_(static_cast<int>(row < of.rows ? of.blocks : 0)) {
    const ScaleStrides& strides = of.operand.scale_strides;
    scale_ = static_cast<const uint8_t*>(of.operand.scale) + strides.of_row(row) + part() * strides.col_block;
  }

  // The row's power. Where its largest scale has a block with a code in the top binade no element is larger: two such
  // blocks of each lane are looked at, then all. Where they have one in the binade below, those of smaller scales, at
  // most 1.75 of it, change nothing. Else all codes are looked at.
  __device__ __forceinline__ int power() {
    int first = 0, last = 0;
    for_each_word([&](int word, uint32_t scales) {
      const int found = largest_of_word(word, scales);
      first = found > largest_ ? word : first;
      last = found >= largest_ ? word : last;
      largest_ = max(largest_, found);
    });
    const int of_lane = largest_;
    largest_ = largest_of_row(of_lane);
    constexpr float kTopBinade = BlockCodes<kBits>::kTopBinade;
    float code = 0;
    if (of_lane == largest_ && largest_ >= 0) {
      const auto codes = codes_of_word(first), others = codes_of_word(last);  // both are read before one is looked at
      code = fmaxf(codes.largest(), others.largest());
    }
    if (largest_of_row(code >= kTopBinade) == 0) {
      for_each_block([&](int block, uint32_t scale) {
        if (static_cast<int>(scale) == largest_) code = fmaxf(code, largest_code(block));
      });
    }
    const bool is_known = largest_of_row(code >= kTopBinade / 2) != 0;
    int magnitude = fold_magnitude(code, static_cast<uint32_t>(largest_));
    if (!is_known) {
      for_each_block(
          [&](int block, uint32_t scale) { magnitude = max(magnitude, fold_magnitude(largest_code(block), scale)); });
    }
    return fold_power(largest_of_row(magnitude));
  }

  __device__ __forceinline__ void store(int power) const {
    if (row_ >= of_.stride) return;
    if (part() == 0 && row_ < of_.rows) of_.scales[row_] = fold_scale(power);
    const QuickFactors<kBits> quick(power, has_nan_ ? static_cast<int>(kE8M0NaN) : largest_);
    for_each_word([&](int word, uint32_t scales) {
      const bool is_quick = quick.take(scales) && word * 4 + 4 <= blocks_;
      of_.factors[word * of_.stride + row_] = is_quick ? quick.of(scales) : any_factors(word, scales, power);
    });
  }

 private:
  static __device__ __forceinline__ int part() { return static_cast<int>(threadIdx.x) % 32 / kRowsOfWarp; }

  // All lanes of the warp take part.
  static __device__ __forceinline__ int largest_of_row(int value) {
#pragma unroll
    for (int lanes = 16; lanes >= kRowsOfWarp; lanes /= 2)
      value = max(value, __shfl_xor_sync(0xffffffff, value, lanes));
    return value;
  }

  // The scales of a word of the lane's, 0 behind the row's last one.
  __device__ __forceinline__ uint32_t load(int word) const {
    return of_.reads_words ? load_whole(word) : load_bytes(word);
  }
  __device__ __forceinline__ uint32_t load_whole(int word) const {
    return word * 4 < blocks_ ? *reinterpret_cast<const uint32_t*>(scales_of(word)) : 0;
  }
  __device__ __forceinline__ uint32_t load_bytes(int word) const {
    const int64_t step = of_.operand.scale_strides.col;
    const uint8_t* scales = scales_of(word);
    uint32_t bytes = 0;
#pragma unroll 1
    for (int at = 0; at < min(blocks_ - word * 4, 4); ++at) bytes |= static_cast<uint32_t>(scales[at * step]) << 8 * at;
    return bytes;
  }
  __device__ __forceinline__ const uint8_t* scales_of(int word) const {
    return scale_ + (word - part()) * of_.operand.scale_strides.col_block;
  }

  // Calls use(word, scales) for the lane's words; those of the last one may reach behind the row. Eight are on
  // their way at once: one after the other each would wait for memory.
  template <typename Use>
  __device__ __forceinline__ void for_each_word(const Use& use) const {
    constexpr int kAtOnce = 8;
#pragma unroll 1
    for (int first = part(); first < of_.words; first += kAtOnce * kRowLanes) {
      uint32_t scales[kAtOnce];
      if (of_.reads_words) {
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) scales[i] = load_whole(first + i * kRowLanes);
      } else {
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) scales[i] = load_bytes(first + i * kRowLanes);
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)
        if (const int word = first + i * kRowLanes; word < of_.words) use(word, scales[i]);
    }
  }
  template <typename Use>
  __device__ __forceinline__ void for_each_block(const Use& use) const {
#pragma unroll 1
    for (int word = part(); word * 4 < blocks_; word += kRowLanes) {
      const uint32_t scales = load(word);
#pragma unroll 1
      for (int at = 0; at < min(blocks_ - word * 4, 4); ++at) use(word * 4 + at, scales >> 8 * at & 0xff);
    }
  }

  // Of a packed row's last word the scales behind the row may be anything.
  __device__ __forceinline__ int largest_of_word(int word, uint32_t scales) {
    int largest = -1;
#pragma unroll
    for (int at = 0; at < 4; ++at) {
      const int scale = static_cast<int>(scales >> 8 * at & 0xff);
      const bool is_inside = word * 4 + at < blocks_, is_nan = scale == static_cast<int>(kE8M0NaN);
      has_nan_ |= is_inside && is_nan;
      largest = is_inside && !is_nan ? max(largest, scale) : largest;
    }
    return largest;
  }

  __device__ __forceinline__ float largest_code(int block) const {
    return load_codes<kBits>(of_.operand, row_, block).largest();
  }
  // Of the word's first block with the row's largest scale.
  __device__ __forceinline__ BlockCodes<kBits> codes_of_word(int word) const {
    const uint32_t scales = load(word);
    int at = 3;
#pragma unroll
    for (int i = 2; i >= 0; --i) at = static_cast<int>(scales >> 8 * i & 0xff) == largest_ ? i : at;
    return load_codes<kBits>(of_.operand, row_, word * 4 + at);
  }

  // Any bytes, 0 behind the row.
  __device__ __noinline__ uint32_t any_factors(int word, uint32_t scales, int power) const {
    uint32_t factors = 0;
#pragma unroll 1
    for (int at = 0; at < min(blocks_ - word * 4, 4); ++at) {
      const uint32_t scale = scales >> 8 * at & 0xff;
      const uint32_t byte = kBits == 8 ? e4m3_fold_byte(scale, power) : e2m1_fold_byte(scale, power);
      factors |= byte << 8 * at;
    }
    return factors;
  }

  const FoldedFactors& of_;
  int64_t row_;
  int blocks_;
  const uint8_t* scale_;  // of the lane's first block
  int largest_ = -1;      // scale of the row, once its power is known
  bool has_nan_ = false;
};

template <int kBits>
__device__ __forceinline__ void store_factors(const FoldedFactors& of, int64_t row) {
  FactorsOfRow<kBits> factors(of, row);
  factors.store(factors.power());
}

}  // namespace tileon
