#include "cpu/quantize_rows.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/block_quantize.h"
#include "core/small_floats.h"
#include "cpu/multiversion.h"
#include "cpu/number_rows.h"

namespace tileon {
namespace {

// ---- numbers to codes: first a word each, then bytes. In one loop gcc would make bytes of parts of a code, each for
// itself ----

template <DType kElement>
uint32_t code_in_low_byte(float number) {
  if constexpr (kElement == DType::kFloat8E4M3) return e4m3_in_low_byte(number);
  if constexpr (kElement == DType::kFloat4E2M1) return e2m1_in_low_byte(number);
  if constexpr (kElement == DType::kInt8) return int8_in_low_byte(number);
}

template <DType kElement>
void encode_words(const float* numbers, float factor, int count, uint32_t* words) {
#pragma GCC unroll 1  // or gcc writes the 16 of a block out, one by one, before it thinks of vectors
  for (int i = 0; i < count; ++i) words[i] = code_in_low_byte<kElement>(numbers[i] * factor);
}

void narrow(const uint32_t* words, int count, uint8_t* codes) {
  for (int i = 0; i < count; ++i) codes[i] = static_cast<uint8_t>(words[i]);
}

// Two codes of four bits in a byte.
void narrow_pairs(const uint32_t* words, int count, uint8_t* codes) {
  uint16_t pairs[kNumbersAtOnce / 2];
  uint8_t single[kNumbersAtOnce];
  narrow(words, count, single);
  memcpy(pairs, single, count);  // the first of two codes in the low half, on a little-endian processor
  for (int i = 0; i < count / 2; ++i) codes[i] = static_cast<uint8_t>(pairs[i] | pairs[i] >> 4);
}

// ---- formats with packed scales ----

struct GlobalScale {
  float value, inverse;
};

GlobalScale global_scale_of(const QuantizeProblem& problem, int64_t row) {
  const float value = problem.global_scale == nullptr ? 1.0f : problem.global_scale[row * problem.global_scale_stride];
  return {value, 1.0f / value};
}

template <Format kFormat>
BlockScale block_scale(float amax, ScaleRounding rounding, const GlobalScale& global) {
  if constexpr (kFormat == Format::kNvfp4)
    return nvfp4_scale(amax, global.value, global.inverse);
  else
    return e8m0_scale<info(kFormat).dtype>(amax, rounding);
}

// The blocks of a chunk, step by step for all of them: each step is a loop of the same operations.
template <Format kFormat>
struct Blocks {
  static constexpr FormatInfo kInfo = info(kFormat);
  static constexpr int kVec = kInfo.vec;
  static constexpr int kMost = kNumbersAtOnce / kVec;
  static constexpr uint8_t kNaNScale = kInfo.scale == ScaleType::kE4M3 ? kE4M3NaN : kE8M0NaN;

  int count;
  uint32_t amax[kMost];  // as bits
  float factors[kMost];
  uint8_t scales[kMost];

  // Whether all are finite.
  bool find_amax(const float* numbers) {
    uint32_t largest = 0;
    for (int b = 0; b < count; ++b) {
      amax[b] = amax_bits_of(numbers + b * kVec, kVec);
      largest = std::max(largest, amax[b]);
    }
    return is_finite_amax(largest);
  }

  void find_scales(ScaleRounding rounding, const GlobalScale& global) {
    for (int b = 0; b < count; ++b) {
      const BlockScale scale = block_scale<kFormat>(float_of(amax[b]), rounding, global);
      scales[b] = is_finite_amax(amax[b]) ? scale.byte : kNaNScale;
      factors[b] = scale.factor;
    }
  }

  void encode(const float* numbers, uint8_t* codes) const {
    uint32_t words[kNumbersAtOnce];
    for (int b = 0; b < count; ++b) encode_words<kInfo.dtype>(numbers + b * kVec, factors[b], kVec, words + b * kVec);
    if constexpr (elements_per_byte(kInfo.dtype) == 2)
      narrow_pairs(words, count * kVec, codes);
    else
      narrow(words, count * kVec, codes);
  }

  // Into a row of packed scales, from a column that begins a block.
  void store_scales(uint8_t* to) const {
    static_assert(kMost % kScaleBlockCols == 0);
    for (int b = 0; b < count; b += kScaleBlockCols, to += kScaleBlockBytes)
      memcpy(to, scales + b, std::min(count - b, kScaleBlockCols));
  }

  void zero_where_not_finite(uint8_t* codes) const {
    constexpr int kBytes = kVec / elements_per_byte(kInfo.dtype);
    for (int b = 0; b < count; ++b)
      if (!is_finite_amax(amax[b])) std::fill_n(codes + b * kBytes, kBytes, uint8_t{0});
  }
};

template <Format kFormat>
void quantize_row(const QuantizeProblem& problem, int64_t row, const GlobalScale& global) {
  constexpr FormatInfo kInfo = info(kFormat);
  const ScaleStrides strides = packed_scales(problem.cols());
  uint8_t* scales = static_cast<uint8_t*>(problem.scale) + strides.of_row(row);
  float buffer[kNumbersAtOnce];
  Blocks<kFormat> blocks;
  for (int64_t k = 0; k < problem.k; k += kNumbersAtOnce) {
    blocks.count = static_cast<int>(std::min<int64_t>(problem.k - k, kNumbersAtOnce)) / kInfo.vec;
    const float* numbers = load_numbers(problem, row, k, blocks.count * kInfo.vec, buffer);
    uint8_t* codes = problem.data + (row * problem.k + k) / elements_per_byte(kInfo.dtype);
    const bool all_finite = blocks.find_amax(numbers);
    blocks.find_scales(problem.rounding, global);
    const bool row_ends = k + kNumbersAtOnce >= problem.k;
    prefetch_numbers(problem, row + row_ends, row_ends ? 0 : k + kNumbersAtOnce, kNumbersAtOnce);
    blocks.encode(numbers, codes);
    if (!all_finite) blocks.zero_where_not_finite(codes);
    blocks.store_scales(scales + strides.of_col(k / kInfo.vec));
  }
}

// A row's own, as nvfp4_global_scale of the Python package finds it. Brings the row into a cache.
float own_global_scale(const QuantizeProblem& problem, int64_t row) {
  float buffer[kNumbersAtOnce];
  float amax = 0;
  for (int64_t k = 0; k < problem.k; k += kNumbersAtOnce) {
    const int count = static_cast<int>(std::min<int64_t>(problem.k - k, kNumbersAtOnce));
    amax = std::max(amax, finite_amax_of(load_numbers(problem, row, k, count, buffer), count));
  }
  return nvfp4_global_scale(amax);
}

// ---- formats with float32 scales ----

// Numbers [begin, end) of rows.
struct Region {
  int64_t first_row, last_row, begin, end;
};

// Calls `use` with each chunk of a region: its row, its first k, how many numbers, and where they are.
template <typename Use>
void for_chunks(const QuantizeProblem& problem, const Region& region, const Use& use) {
  float buffer[kNumbersAtOnce];
  for (int64_t row = region.first_row; row < region.last_row; ++row)
    for (int64_t k = region.begin; k < region.end; k += kNumbersAtOnce) {
      const int count = static_cast<int>(std::min<int64_t>(region.end - k, kNumbersAtOnce));
      use(row, k, count, load_numbers(problem, row, k, count, buffer));
    }
}

uint32_t amax_bits_of_region(const QuantizeProblem& problem, const Region& region) {
  uint32_t amax = 0;
  for_chunks(problem, region, [&](int64_t, int64_t, int count, const float* numbers) {
    amax = std::max(amax, amax_bits_of(numbers, count));
  });
  return amax;
}

void zero_codes(const QuantizeProblem& problem, const Region& region) {
  for (int64_t row = region.first_row; row < region.last_row; ++row)
    std::fill_n(problem.data + row * problem.k + region.begin, region.end - region.begin, uint8_t{0});
}

template <DType kElement>
void encode_region(const QuantizeProblem& problem, const Region& region, const Float32Scale& scale) {
  if (scale.inverse == 0.0f) return zero_codes(problem, region);
  for_chunks(problem, region, [&](int64_t row, int64_t k, int count, const float* numbers) {
    uint32_t words[kNumbersAtOnce];
    prefetch_numbers(problem, row + 1, k, count);
    encode_words<kElement>(numbers, scale.inverse, count, words);
    narrow(words, count, problem.data + row * problem.k + k);
  });
}

// Neighbouring blocks of one row or of 128: so many that each row of them is long enough for the processor's own
// prefetch.
template <DType kElement, int kVec>
struct Tiles {
  static constexpr int kMost = 4096 / kVec;
  static_assert(kNumbersAtOnce % kVec == 0);

  Region region;  // of all of them
  uint32_t amax[kMost] = {};
  Float32Scale scales[kMost] = {};

  // Calls `use` with each tile's part of a chunk that begins at k: the tile, where its part begins in the chunk, and
  // how many numbers that are.
  template <typename Use>
  void for_parts(int64_t k, int count, const Use& use) const {
    int tile = static_cast<int>(k - region.begin) / kVec;
    for (int i = 0; i < count; i += kVec, ++tile) use(tile, i, std::min(kVec, count - i));
  }

  void find_scales(const QuantizeProblem& problem) {
    for_chunks(problem, region, [&](int64_t, int64_t k, int count, const float* numbers) {
      for_parts(k, count, [&](int tile, int i, int width) {
        amax[tile] = std::max(amax[tile], amax_bits_of(numbers + i, width));
      });
    });
    for (int tile = 0; tile < kMost; ++tile) scales[tile] = float32_scale<kElement>(amax[tile]);
  }

  void encode(const QuantizeProblem& problem) const {
    for_chunks(problem, region, [&](int64_t row, int64_t k, int count, const float* numbers) {
      uint32_t words[kNumbersAtOnce];
      for_parts(k, count, [&](int tile, int i, int width) {
        encode_words<kElement>(numbers + i, scales[tile].inverse, width, words + i);
      });
      narrow(words, count, problem.data + row * problem.k + k);
    });
    for_parts(region.begin, static_cast<int>(region.end - region.begin), [&](int tile, int i, int width) {
      const int64_t begin = region.begin + i;
      if (scales[tile].inverse == 0.0f) zero_codes(problem, {region.first_row, region.last_row, begin, begin + width});
    });
  }
};

Region block_region(const QuantizeProblem& problem, int64_t row_block, int64_t col, int64_t cols) {
  const FormatInfo& format = info(problem.format);
  const int64_t k = format.vec == 0 ? problem.k : format.vec;
  return {row_block * format.rows, std::min((row_block + 1) * format.rows, problem.rows), col * k,
          std::min((col + cols) * k, problem.k)};
}

template <DType kElement>
void quantize_row_blocks(const QuantizeProblem& problem, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const Region region = block_region(problem, row, 0, 1);
    const Float32Scale scale = float32_scale<kElement>(amax_bits_of_region(problem, region));
    static_cast<float*>(problem.scale)[row] = scale.scale;
    encode_region<kElement>(problem, region, scale);
  }
}

void quantize_tiles(const QuantizeProblem& problem, int64_t begin, int64_t end) {
  using Tiles128 = Tiles<DType::kFloat8E4M3, 128>;
  const int64_t cols = problem.cols();
  for (int64_t block = begin, count = 0; block < end; block += count) {
    const int64_t col = block % cols;
    count = std::min({int64_t{Tiles128::kMost}, end - block, cols - col});
    Tiles128 tiles{block_region(problem, block / cols, col, count)};
    tiles.find_scales(problem);
    for (int i = 0; i < count; ++i) static_cast<float*>(problem.scale)[block + i] = tiles.scales[i].scale;
    tiles.encode(problem);
  }
}

}  // namespace

TILEON_MULTIVERSION void quantize_rows(const QuantizeProblem& problem, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const GlobalScale global = global_scale_of(problem, row);
    if (problem.format == Format::kMxfp8)
      quantize_row<Format::kMxfp8>(problem, row, global);
    else if (problem.format == Format::kMxfp4)
      quantize_row<Format::kMxfp4>(problem, row, global);
    else
      quantize_row<Format::kNvfp4>(problem, row, global);
  }
}

TILEON_MULTIVERSION void quantize_nvfp4_rows(const Nvfp4RowsProblem& problem, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const float own = own_global_scale(problem.quantize, row);
    quantize_row<Format::kNvfp4>(problem.quantize, row, {own, 1.0f / own});
    problem.store_row_scale(row, own);
  }
}

TILEON_MULTIVERSION void quantize_blocks(const QuantizeProblem& problem, int64_t begin, int64_t end) {
  if (info(problem.format).vec == 128)
    quantize_tiles(problem, begin, end);
  else if (info(problem.format).dtype == DType::kInt8)
    quantize_row_blocks<DType::kInt8>(problem, begin, end);
  else
    quantize_row_blocks<DType::kFloat8E4M3>(problem, begin, end);
}

TILEON_MULTIVERSION uint32_t amax_bits_of_rows(const QuantizeProblem& problem, int64_t begin, int64_t end) {
  return amax_bits_of_region(problem, {begin, end, 0, problem.k});
}

TILEON_MULTIVERSION void encode_rows(const QuantizeProblem& problem, const Float32Scale& scale, int64_t begin,
                                     int64_t end) {
  const Region region{begin, end, 0, problem.k};
  if (info(problem.format).dtype == DType::kInt8)
    encode_region<DType::kInt8>(problem, region, scale);
  else
    encode_region<DType::kFloat8E4M3>(problem, region, scale);
}

}  // namespace tileon
