// Which rows of a CTA's tile lost something on their way to the elements that are multiplied: words in shared memory.
// The threads that decode note the rows that they share between them; what was lost is found out afterwards
// (lost_blocks.cuh), so that decoding costs no more for it.
#pragma once

#include <cstdint>

#include "cuda/ptx/sync.cuh"
#include "cuda/sm90/heuristics/small_m.h"

namespace tileon::sm90 {

class Losses {
  // The first word says what there is; then comes a bit for each row of a, and of b, that may have lost something, for
  // each that has a NaN, and for each that has blocks under tiny scales.
  static constexpr int kRowWordsA = kSmallMMaxTileM / 32;
  static constexpr int kRowWords = kRowWordsA + kSmallMTileN / 32;
  static constexpr int kSuspects = 1, kNaNs = kSuspects + kRowWords, kTinies = kNaNs + kRowWords;

 public:
  static constexpr int kWords = kTinies + kRowWords;
  static constexpr int kRowsOfB = kRowWordsA * 32;     // b's rows are numbered from here on
  static constexpr uint32_t kMaybe = 1, kCertain = 2;  // in the first word: something was lost

  __device__ __forceinline__ explicit Losses(uint32_t* words) : words_(words) {}

  // By the CTA's first threads, before a barrier.
  __device__ __forceinline__ void clear() const {
    if (threadIdx.x < kWords) words_[threadIdx.x] = 0;
  }

  __device__ __forceinline__ void note(uint32_t what) const { atomicOr(words_, what); }

  // Notes row `first` and those `step` on.
  template <int kRows>
  __device__ __forceinline__ void suspect(int first, int step) const {
    note(kMaybe);
#pragma unroll 1
    for (int i = 0; i < kRows; ++i) set(kSuspects, first + i * step);
  }
  __device__ __forceinline__ bool is_suspect(int row) const { return (word(kSuspects, row) & 1) != 0; }

  __device__ __forceinline__ void note_nan(int row) const { set(kNaNs, row); }
  __device__ __forceinline__ bool has_nan(int row) const { return (word(kNaNs, row) & 1) != 0; }
  __device__ __forceinline__ void note_tiny(int row) const { set(kTinies, row); }
  __device__ __forceinline__ bool has_tiny(int row) const { return (word(kTinies, row) & 1) != 0; }

  // In all parts of k, which the CTAs of the cluster share: the first word, and the NaNs of `row` and of those behind
  // it in its word, a bit each.
  __device__ __forceinline__ uint32_t any(int splits) const { return in_cluster(words_, splits); }
  __device__ __forceinline__ uint32_t nan_rows(int row, int splits) const {
    return in_cluster(words_ + kNaNs + row / 32, splits) >> row % 32;
  }

 private:
  __device__ __forceinline__ void set(int begin, int row) const { atomicOr(words_ + begin + row / 32, 1u << row % 32); }
  __device__ __forceinline__ uint32_t word(int begin, int row) const { return words_[begin + row / 32] >> row % 32; }

  static __device__ __forceinline__ uint32_t in_cluster(const uint32_t* word, int splits) {
    const auto shared = static_cast<uint32_t>(__cvta_generic_to_shared(word));
    uint32_t bits = 0;
    for (int split = 0; split < splits; ++split) bits |= ptx::load_cluster_4(ptx::map_to_cta(shared, split));
    return bits;
  }

  uint32_t* words_;
};

}  // namespace tileon::sm90
