// A weight's scales as its decoders read them: from a stage, where they lie beside the codes.
#pragma once

#include <cstdint>

#include "cuda/ptx/convert.cuh"
#include "cuda/ptx/shared.cuh"

namespace tileon::sm90 {

// The scales of two rows of the weight, a byte each, for the blocks of a stage; the first is the lowest byte.
struct ScaleWords {
  uint32_t of_row[2];

  // Scale `column` of row `i`, once in each half.
  __device__ __forceinline__ uint32_t pair(int i, int column) const {
    return ptx::prmt(of_row[i], 0, 0x4040 | column << 8 | column);
  }
};

// Reads the scales of a thread's stages in turn. A stage has a packed block: the scales of 128 rows, a word of four a
// row, for this stage, or for it and a neighbour.
template <typename Kernel>
class StageScales {
  static constexpr int kColumns = Kernel::AccumulatorScale::kColumns;
  static_assert(kColumns == 2 || kColumns == 4);

 public:
  __device__ __forceinline__ explicit StageScales(const typename Kernel::AccumulatorScale& scale)
      : left_(scale.columns_from_first_block()), second_(scale.first_block() % 2 * 2) {
#pragma unroll
    for (int i = 0; i < 2; ++i) places_[i] = Kernel::scale_words_offset + scale.place_of_row(i);
  }

  // Of the next stage. Scales behind k, of codes that are 0, may be any.
  __device__ __forceinline__ ScaleWords next(uint32_t stage) {
    ScaleWords words;
#pragma unroll
    for (int i = 0; i < 2; ++i)
      words.of_row[i] =
          kColumns == 4 ? ptx::load_shared_4(stage + places_[i]) : ptx::load_shared_2(stage + places_[i] + second_);
    left_ -= kColumns;
    second_ ^= 2;
    return words;
  }
  // Whether all scales that the warp has of a stage are ordinary, as RowScale says what that is.
  template <typename RowScale>
  static __device__ __forceinline__ bool are_ordinary(const ScaleWords& words) {
    constexpr uint32_t mask = kColumns == 4 ? 0xffffffff : 0xffff;
    const bool own = RowScale::are_ordinary(words.of_row[0], mask) && RowScale::are_ordinary(words.of_row[1], mask);
    return __all_sync(0xffffffffu, own);
  }
  // Words of the stage that was read last, 0 for scales behind k.
  __device__ __forceinline__ ScaleWords within_k(ScaleWords words) const {
    if (left_ < 0)
      for (uint32_t& of_row : words.of_row) of_row &= 0xffffffff >> 8 * (4 - kColumns - left_);
    return words;
  }

 private:
  uint32_t places_[2];  // in a stage, of the rows' words
  int left_;            // scales of a row after the stages read so far; negative: columns of the last one behind k
  uint32_t second_;     // 2 where a stage has the second half of its words
};

}  // namespace tileon::sm90
