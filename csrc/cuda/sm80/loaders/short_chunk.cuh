// The short operand of a narrow product (common/narrow.h) on its way to shared memory: a chunk of k at a time, as
// accumulators, in the order in which the threads read it.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/common/convert.cuh"
#include "cuda/common/kernel_choice.h"
#include "cuda/common/narrow.h"
#include "cuda/sm80/loaders/operand_tile.cuh"

namespace tileon::sm80 {

// Elements of the short operand that a thread loads before it stores the first.
constexpr int kShortAtOnce = 16;

// Two neighbouring columns' elements, which lie at `from` and `from` + `apart`; 0 where they are not there.
template <typename Element, typename Accumulator>
struct ColumnPair {
  Element first{}, second{};

  __device__ __forceinline__ void widen_to(Accumulator (&values)[2], bool e4m3) const {
    if constexpr (std::is_same_v<Element, AnyFloat8>) {
      const uint32_t pair = float16_pair(first, second, e4m3);
      const float2 both = widen(*reinterpret_cast<const __half2*>(&pair));
      values[0] = both.x, values[1] = both.y;
    } else {
      values[0] = widen(first), values[1] = widen(second);
    }
  }
};

// kColumns columns of the short operand, of which `columns` are there.
template <typename Element, typename Accumulator, int kColumns, bool kAlongK>
class ShortChunk {
 public:
  static constexpr int kMost = narrow_chunk(sizeof(Accumulator), kColumns);  // elements of k in a chunk

  __device__ __forceinline__ ShortChunk(const Matrix& operand, int64_t batch, int64_t column_begin, int columns,
                                        int pitch, bool e4m3)
      : data_(static_cast<const Element*>(operand.data) + batch * operand.stride_batch +
              column_begin * operand.stride_mn),
        stride_column_(operand.stride_mn),
        stride_k_(operand.stride_k),
        columns_(columns),
        pitch_(pitch),
        e4m3_(e4m3) {}

  // Brings the `count` elements of k from `begin` on to `chunk`, those from `end` on as zeros. All threads take part.
  __device__ __forceinline__ void fill(Accumulator* chunk, const NarrowOrder& order, int64_t begin, int count,
                                       int64_t end) const {
    constexpr int at_once = kShortAtOnce / kColumns;
    const int threads = static_cast<int>(blockDim.x);
#pragma unroll 1
    for (int first = static_cast<int>(threadIdx.x); first < count; first += threads * at_once) {
      ColumnPair<Element, Accumulator> pairs[at_once][kColumns / 2];
#pragma unroll
      for (int i = 0; i < at_once; ++i) load(pairs[i], begin + first + i * threads, end);
#pragma unroll
      for (int i = 0; i < at_once; ++i)
        if (first + i * threads < count) store(chunk, order, first + i * threads, pairs[i]);
    }
  }

 private:
  using Pairs = ColumnPair<Element, Accumulator>[kColumns / 2];

  __device__ __forceinline__ void load(Pairs& pairs, int64_t k, int64_t end) const {
    if (k >= end) return;
    const Element* from = data_ + k * stride_k_;
#pragma unroll
    for (int i = 0; i < kColumns / 2; ++i) {
      if (2 * i < columns_) pairs[i].first = from[2 * i * stride_column_];
      if (2 * i + 1 < columns_) pairs[i].second = from[(2 * i + 1) * stride_column_];
    }
  }

  // Along k, [kColumns][pitch]; else [pitch][kColumns].
  __device__ __forceinline__ void store(Accumulator* chunk, const NarrowOrder& order, int k, const Pairs& pairs) const {
    Accumulator* to = kAlongK ? chunk + order.place(k) : chunk + k * kColumns;
#pragma unroll
    for (int i = 0; i < kColumns / 2; ++i) {
      Accumulator values[2];
      pairs[i].widen_to(values, e4m3_);
      to[(2 * i) * (kAlongK ? pitch_ : 1)] = values[0];
      to[(2 * i + 1) * (kAlongK ? pitch_ : 1)] = values[1];
    }
  }

  const Element* data_;
  int64_t stride_column_, stride_k_;
  int columns_;
  int pitch_;  // elements of k that a chunk has room for
  bool e4m3_;
};

}  // namespace tileon::sm80
