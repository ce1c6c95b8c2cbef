// Which rows of a CTA's tile lost something on their way to the elements that are multiplied: words in shared memory,
// noted by the threads that decode, read when the sums are stored.
#pragma once

#include <cstdint>

#include "../../../block_scaled/decode.cuh"
#include "../../../ptx/cluster.cuh"
#include "config.h"

namespace tileon::sm90 {

class Losses {
  // The first word holds what was lost anywhere; then comes a bit for each row of a, and of b, that lost a NaN, and the
  // same for what was too small.
  static constexpr int kRowWordsA = kFewRowsTiles[kFewRowsTileCount - 1] / 32;
  static constexpr int kRowWords = kRowWordsA + kFewRowsTileN / 32;

 public:
  static constexpr int kWords = 1 + 2 * kRowWords;
  static constexpr int kRowsOfB = kRowWordsA * 32;  // b's rows are numbered from here on

  __device__ __forceinline__ explicit Losses(uint32_t* words) : words_(words) {}

  // By the CTA's first threads, before a barrier.
  __device__ __forceinline__ void clear() const {
    if (threadIdx.x < kWords) words_[threadIdx.x] = 0;
  }

  // What a thread saw of row `first` and, two bits further, of the row `step` on, and so forth.
  template <int kRows>
  __device__ __forceinline__ void note_rows(uint32_t lost, int first, int step) const {
    if (lost == 0) return;
#pragma unroll 1
    for (int i = 0; i < kRows; ++i) {
      const uint32_t of_row = lost >> 2 * i & (kNaNLost | kTinyLost);
      const int row = first + i * step;
      note(of_row);
      if ((of_row & kNaNLost) != 0) atomicOr(words_ + word_of(kNaNLost, row), 1u << row % 32);
      if ((of_row & kTinyLost) != 0) atomicOr(words_ + word_of(kTinyLost, row), 1u << row % 32);
    }
  }
  __device__ __forceinline__ void note(uint32_t lost) const {
    if (lost != 0) atomicOr(words_, lost);
  }

  // In this CTA's part of k: whether `row` lost anything of this kind.
  __device__ __forceinline__ bool has(uint32_t kind, int row) const {
    return (words_[word_of(kind, row)] >> row % 32 & 1) != 0;
  }

  // In all of k, the parts of all CTAs of the cluster: what was lost, and the NaNs of `row` and of those behind it in
  // its word, a bit each.
  __device__ __forceinline__ uint32_t any(int splits) const { return in_cluster(0, splits); }
  __device__ __forceinline__ uint32_t nan_rows(int row, int splits) const {
    return in_cluster(word_of(kNaNLost, row), splits) >> row % 32;
  }

 private:
  static __device__ __forceinline__ constexpr int word_of(uint32_t kind, int row) {
    return 1 + (kind == kNaNLost ? 0 : kRowWords) + row / 32;
  }

  __device__ __forceinline__ uint32_t in_cluster(int word, int splits) const {
    const auto shared = static_cast<uint32_t>(__cvta_generic_to_shared(words_ + word));
    uint32_t bits = 0;
    for (int split = 0; split < splits; ++split) bits |= ptx::load_cluster_4(ptx::map_to_cta(shared, split));
    return bits;
  }

  uint32_t* words_;
};

}  // namespace tileon::sm90
