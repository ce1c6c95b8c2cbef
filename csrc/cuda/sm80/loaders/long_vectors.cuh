// The long operand of a narrow product (common/narrow.h) on its way to registers: vectors of 16 bytes, by the widest
// loads that its alignment allows.
#pragma once

#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>
#include <type_traits>

#include "cuda/common/convert.cuh"
#include "cuda/common/narrow.h"
#include "cuda/ptx/convert.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/sm80/loaders/operand_tile.cuh"

namespace tileon::sm80 {

// Elements as they lie in memory.
template <typename Element, int kCount>
struct alignas(kCount * sizeof(Element)) ElementVector {
  static constexpr int kWords = kCount * int(sizeof(Element)) / 4;
  uint32_t words[kWords];
};

template <int kBytes>
using UnitOfBytes = std::conditional_t<
    kBytes == 16, uint4,
    std::conditional_t<kBytes == 8, uint2,
                       std::conditional_t<kBytes == 4, uint32_t, std::conditional_t<kBytes == 2, uint16_t, uint8_t>>>>;

// The same number, of which the compiler does not know that.
__device__ __forceinline__ int64_t opaque(int64_t value) {
  const uint32_t low = ptx::opaque(static_cast<uint32_t>(value));
  return static_cast<int64_t>(ptx::opaque(static_cast<uint32_t>(value >> 32))) << 32 | low;
}

// Fills a vector with its first `count` units of kBytes, which lie `step` bytes apart, and with zeros.
template <int kBytes, int kWords>
__device__ __forceinline__ void load_units(uint32_t (&words)[kWords], const uint8_t* from, int64_t step, int count) {
  using Unit = UnitOfBytes<kBytes>;
  constexpr int units = kWords * 4 / kBytes;
  Unit held[units] = {};
  if constexpr (units > 1) step = opaque(step);  // the places of the units are not to stay in registers
#pragma unroll
  for (int i = 0; i < units; ++i)
    if (i < count) held[i] = __ldg(reinterpret_cast<const Unit*>(from + i * step));
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    if constexpr (kBytes >= 4) {
      words[i] = reinterpret_cast<const uint32_t*>(held)[i];
    } else if constexpr (kBytes == 2) {
      words[i] = ptx::prmt(held[2 * i], held[2 * i + 1], 0x5410);
    } else {
      const uint32_t low = ptx::prmt(held[4 * i], held[4 * i + 1], 0x0040);
      words[i] = ptx::prmt(low, ptx::prmt(held[4 * i + 2], held[4 * i + 3], 0x0040), 0x5410);
    }
  }
}

// One thread's vectors, step by step: of kStrands rows along k; else of as many k, of adjacent rows.
template <typename Element, int kVector, int kStrands, bool kAlongK>
class LongReader {
 public:
  using Vector = ElementVector<Element, kVector>;

  // Of a CTA whose rows begin at `row_begin`. Plan and steps stay where they are: in the kernel's parameters.
  __device__ __forceinline__ LongReader(const Matrix& operand, const NarrowPlan& plan, const NarrowSteps& steps,
                                        int64_t batch, int64_t row_begin, int64_t rows_left)
      : plan_(plan), steps_(steps) {
    const int64_t along = int64_t{line_thread()} << plan.log_unit;
    const int64_t row = row_begin + (kAlongK ? group() : along), k = kAlongK ? along : group();
    from_ = static_cast<const uint8_t*>(operand.data) +
            (batch * operand.stride_batch + row * operand.stride_mn + k * operand.stride_k) * int(sizeof(Element));
    rows_ = kAlongK ? count_of(rows_left, group(), log_groups(), plan.strands)
                    : count_of(rows_left >> plan.log_unit, line_thread(), plan.log_line, steps.units);
  }

  // Loads the vectors of the next step, in front of which `k_left` of k are left. What lies outside the operand is 0.
  __device__ __forceinline__ void load(Vector (&vectors)[kStrands], int64_t k_left) {
    const int units = kAlongK ? count_of(k_left >> plan_.log_unit, line_thread(), plan_.log_line, steps_.units) : rows_;
    const int strands = kAlongK ? rows_ : count_of(k_left, group(), log_groups(), kStrands);
    if (steps_.unit_bytes == 16) {
      load_by<16>(vectors, units, strands);
    } else if (steps_.unit_bytes == 8) {
      load_by<8>(vectors, units, strands);
    } else if (steps_.unit_bytes == 4) {
      load_by<4>(vectors, units, strands);
    } else if constexpr (sizeof(Element) < 4) {
      load_by<sizeof(Element)>(vectors, units, strands);
    }
    from_ += steps_.step;
  }

 private:
  __device__ __forceinline__ int line_thread() const { return threadIdx.x & ((1u << plan_.log_line) - 1); }
  __device__ __forceinline__ int group() const { return threadIdx.x >> plan_.log_line; }
  __device__ __forceinline__ int log_groups() const { return plan_.log_threads - plan_.log_line; }

  // Of `left`, every (1 << log_apart)-th from `first` on, `most` of them at most.
  static __device__ __forceinline__ int count_of(int64_t left, int first, int log_apart, int most) {
    const int64_t count = (left - first + (1 << log_apart) - 1) >> log_apart;
    return count <= 0 ? 0 : count < most ? static_cast<int>(count) : most;
  }

  template <int kBytes>
  __device__ __forceinline__ void load_by(Vector (&vectors)[kStrands], int units, int strands) const {
    if constexpr (kBytes == 1) {
      load_bytes(vectors, units, strands);
    } else if constexpr (kBytes >= int(sizeof(Element)) && kBytes <= int(sizeof(Vector))) {
#pragma unroll
      for (int i = 0; i < kStrands; ++i)
        load_units<kBytes>(vectors[i].words, from_ + i * steps_.strand, steps_.unit, i < strands ? units : 0);
    }
  }

  // Half of the strands at a time: a register a byte is too many for all of them.
  __device__ __forceinline__ void load_bytes(Vector (&vectors)[kStrands], int units, int strands) const {
    constexpr int half = kStrands / 2;
    const uint8_t* from = from_;
#pragma unroll 1
    for (int first = 0; first < kStrands; first += half) {
#pragma unroll
      for (int i = 0; i < half; ++i) {
        vectors[i] = vectors[half + i];
        load_units<1>(vectors[half + i].words, from, steps_.unit, first + i < strands ? units : 0);
        from += steps_.strand;
      }
    }
  }

  const NarrowPlan& plan_;
  const NarrowSteps& steps_;
  const uint8_t* from_;
  int rows_;  // what is there of the rows: strands; across k, units
};

// Four codes of fp8 as float32.
__device__ __forceinline__ void widen_codes(uint32_t codes, bool e4m3, float (&values)[4]) {
  uint32_t pairs[2];
  float16_pairs(codes, e4m3, pairs);
  const float2 first_two = widen(*reinterpret_cast<const __half2*>(&pairs[0]));
  const float2 last_two = widen(*reinterpret_cast<const __half2*>(&pairs[1]));
  values[0] = first_two.x, values[1] = first_two.y, values[2] = last_two.x, values[3] = last_two.y;
}

// Group `group` of a vector's elements, 16 bytes of accumulators, as those. `e4m3` is read of fp8 alone.
template <typename Element, int kVector, typename Accumulator, int kGroup>
__device__ __forceinline__ void widen_group(const ElementVector<Element, kVector>& vector, int group, bool e4m3,
                                            Accumulator (&values)[kGroup]) {
  static_assert(kGroup * sizeof(Accumulator) == 16);
  if constexpr (sizeof(Element) >= 4) {
#pragma unroll
    for (int i = 0; i < kGroup; ++i) values[i] = reinterpret_cast<const Accumulator*>(vector.words)[group * kGroup + i];
  } else if constexpr (std::is_same_v<Element, AnyFloat8>) {
    widen_codes(vector.words[group], e4m3, values);
  } else {
    using Pair = std::conditional_t<std::is_same_v<Element, __half>, __half2, __nv_bfloat162>;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float2 pair = widen(*reinterpret_cast<const Pair*>(&vector.words[group * 2 + i]));
      values[2 * i] = pair.x, values[2 * i + 1] = pair.y;
    }
  }
}

}  // namespace tileon::sm80
