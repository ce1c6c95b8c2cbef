// A weight's scales on their way from L2 to the main loop that decodes it.
#pragma once

#include <cstdint>

namespace tileon::sm90 {

// The scales of two rows of the weight, a byte each, for four blocks of k or fewer; the first is the lowest byte.
struct ScaleWords {
  uint32_t of_row[2];
};

// Four scales of a row are one word in memory: of two stages one or two. They are asked for in the second of the two
// stages before: from L2 they take less than a stage's time. Not where the words before them are taken: there the loads
// would fill other registers, for which the loop would wait before it goes round.
template <typename Scale>
class ScaleQueue {
  static constexpr int kWords = Scale::kColumns / 2;  // of a row, for two stages
  static_assert(kWords == 1 || kWords == 2);

 public:
  // Of `blocks` stages from the one on that `scale` was read for.
  __device__ __forceinline__ ScaleQueue(const Scale& scale, int blocks)
      : scale_(scale), block_(scale.first_block()), last_((block_ + blocks - 1) * Scale::kColumns / 4) {
    ask(block_ / 2);
    take(block_ / 2);
    if (block_ % 2 != 0) ask(block_ / 2 + 1);
  }

  // The scales of this stage, and what else lies in their words.
  __device__ __forceinline__ ScaleWords current() const {
    const bool is_second = block_ % 2 != 0;
    if constexpr (kWords == 2) return is_second ? words_[1] : words_[0];
    const int shift = is_second ? 16 : 0;
    return {words_[0].of_row[0] >> shift & 0xffff, words_[0].of_row[1] >> shift & 0xffff};
  }

  __device__ __forceinline__ void advance() {
    ++block_;
    const int pair = block_ / 2;
    if (block_ % 2 == 0) {
      take(pair);
#pragma unroll
      for (int i = 0; i < kWords; ++i) scale_.prefetch(pair * kWords + Scale::kWordsAhead + i);
    } else {
      ask(pair + 1);
    }
  }

 private:
  // Of a pair of stages.
  __device__ __forceinline__ void ask(int pair) {
#pragma unroll
    for (int i = 0; i < kWords; ++i) next_[i] = scale_.words(min(pair * kWords + i, last_));
  }
  __device__ __forceinline__ void take(int pair) {
#pragma unroll
    for (int i = 0; i < kWords; ++i) words_[i] = scale_.within_k(next_[i], pair * kWords + i);
  }

  const Scale& scale_;
  int block_;  // of k
  int last_;   // word
  ScaleWords words_[kWords], next_[kWords];
};

}  // namespace tileon::sm90
