// An operand's elements on their way from global memory to the registers of a warp that multiplies them: any strides,
// any alignment.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/common/kernel_choice.h"

namespace tileon::sm80 {

// The column of a warp's tile that b's fragment `fragment` of eight columns has at `index`. The columns of mma.sync's
// fragments may be any columns: these leave each lane with four adjacent ones of the output, where mma.sync's own order
// leaves it with a pair of every eight.
constexpr int column_of_fragment(int fragment, int index) {
  return fragment / 2 * 16 + index / 2 * 4 + fragment % 2 * 2 + index % 2;
}

// Of every eight rows of a warp's tile (fragments of eight columns, of b) a lane has one, number lane / 4, and of each
// step of k a quarter, number lane % 4: kPerLane neighbours, where mma.sync's own order has a lane's two words half a
// step apart. A sum may take its k in any order that both operands have.
//
// A lane's neighbours come one by one, each in a register of its own; or all by one load, packed into the first
// registers, where they are adjacent and aligned. Nothing is unpacked here: that would wait for the loads. What lies
// beyond the end of k becomes zero. Rows beyond the operand's last one are the last one again: nobody stores their
// sums.
template <typename Stored, Side kSide, int kEights, int kPerLane, int kSteps>
class DirectReader {
  static constexpr int kQuarterBytes = kPerLane * int(sizeof(Stored));
  static constexpr bool kHasQuarters = kPerLane > 1;

 public:
  // Of a register: a float16 or bfloat16 number, a code of fp8, a float32 number, a word of packed ones; or a double.
  using Held = std::conditional_t<sizeof(Stored) == 8, double, uint32_t>;
  using Block = Held[kSteps][kEights][kPerLane];
  static constexpr int step_k = 4 * kPerLane;
  static constexpr int block_k = kSteps * step_k;

  // From `k_begin` on, a multiple of step_k, which `k_end` may precede: then there is nothing to read.
  __device__ __forceinline__ DirectReader(const Matrix& operand, int64_t batch, int64_t mn_begin, int64_t mn_size,
                                          int64_t k_begin, int64_t k_end)
      : stride_k_(operand.stride_k) {
    const int lane = threadIdx.x % 32;
    const int64_t lane_k = k_begin + lane % 4 * kPerLane;
    left_ = k_end - lane_k;
    const auto* matrix = static_cast<const Stored*>(operand.data) + batch * operand.stride_batch;
    if constexpr (kHasQuarters) {
      const auto places = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(matrix)) |
                          static_cast<uint32_t>(operand.stride_mn * int(sizeof(Stored)));
      by_quarters_ = stride_k_ == 1 && places % kQuarterBytes == 0 && k_end % kPerLane == 0;
    }
#pragma unroll
    for (int i = 0; i < kEights; ++i) {
      const int64_t mn = mn_begin + (kSide == Side::kA ? i * 8 + lane / 4 : column_of_fragment(i, lane / 4));
      rows_[i] = matrix + (mn < mn_size ? mn : mn_size - 1) * operand.stride_mn + lane_k * stride_k_;
    }
  }

  __device__ __forceinline__ bool by_quarters() const { return kHasQuarters && by_quarters_; }

  // Loads the first `steps` steps of the next block, of which the lane's elements may lie beyond the end.
  __device__ __forceinline__ void fetch(Block& block, int steps) {
    if (by_quarters()) {
      fetch_quarters(block, steps);
    } else {
      fetch_elements(block, steps);
    }
    left_ -= block_k;
#pragma unroll
    for (int i = 0; i < kEights; ++i) rows_[i] += block_k * stride_k_;
  }

 private:
  __device__ __forceinline__ void fetch_elements(Block& block, int steps) const {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      if (step >= steps) break;
#pragma unroll
      for (int e = 0; e < kPerLane; ++e) {
        const bool inside = step * step_k + e < left_;
        const int64_t at = (step * step_k + e) * stride_k_;
#pragma unroll
        for (int i = 0; i < kEights; ++i) {
          block[step][i][e] = 0;
          if (inside) block[step][i][e] = *reinterpret_cast<const Loaded*>(rows_[i] + at);
        }
      }
    }
  }

  __device__ __forceinline__ void fetch_quarters(Block& block, int steps) const {
    if constexpr (kHasQuarters) {
      struct alignas(kQuarterBytes) Quarter {
        uint32_t words[kQuarterBytes / 4];
      };
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        if (step >= steps) break;
        const bool inside = step * step_k < left_;
#pragma unroll
        for (int i = 0; i < kEights; ++i) {
          Quarter quarter{};
          if (inside) quarter = *reinterpret_cast<const Quarter*>(rows_[i] + step * step_k);
#pragma unroll
          for (int word = 0; word < kQuarterBytes / 4; ++word) block[step][i][word] = quarter.words[word];
        }
      }
    }
  }

  using Loaded = std::conditional_t<
      sizeof(Stored) == 8, double,
      std::conditional_t<sizeof(Stored) == 4, uint32_t, std::conditional_t<sizeof(Stored) == 2, uint16_t, uint8_t>>>;

  const Stored* rows_[kEights];  // the lane's first element of the next block
  int64_t stride_k_;
  int64_t left_;  // k from there to the end
  bool by_quarters_ = false;
};

}  // namespace tileon::sm80
