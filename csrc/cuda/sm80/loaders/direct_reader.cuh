// An operand's elements on their way from global memory to the registers that mma.sync reads: any strides, any
// alignment.
#pragma once

#include <cstdint>

#include "cuda/common/kernel_choice.h"
#include "cuda/ptx/mma.cuh"
#include "cuda/sm80/loaders/gather_reader.cuh"

namespace tileon::sm80 {

// Of every eight rows of a warp's part (columns, of b) a lane has one, number lane / 4, and of each step of k a
// quarter, number lane % 4. The elements of a quarter are neighbours, where mma.sync's own order has a lane's two words
// half a step apart: a sum may take its k in any order that both operands have.
//
// What lies beyond the operand's k becomes zero. Rows beyond its last one are the last one again: nobody stores them.
template <typename Stored, int kEights, int kBlockK>
class DirectReader {
  static constexpr int kPerWord = 4 / int(sizeof(ElementInTile<Stored>));
  static constexpr int kPerLane = 2 * kPerWord;  // of a step

 public:
  static constexpr int step_k = 4 * kPerLane;
  static constexpr int steps = kBlockK / step_k;
  static_assert(kBlockK % step_k == 0);

  __device__ __forceinline__ DirectReader(const Matrix& operand, DType dtype, int64_t batch, int64_t mn_begin,
                                          int64_t mn_size)
      : stride_k_(operand.stride_k), e4m3_(dtype == DType::kFloat8E4M3) {
    const int lane = threadIdx.x % 32;
    lane_k_ = lane % 4 * kPerLane;
    const auto* data = static_cast<const Stored*>(operand.data) + batch * operand.stride_batch + lane_k_ * stride_k_;
#pragma unroll
    for (int i = 0; i < kEights; ++i) {
      const int64_t mn = mn_begin + i * 8 + lane / 4;
      rows_[i] = data + (mn < mn_size ? mn : mn_size - 1) * operand.stride_mn;
    }
  }

  // Loads the next kBlockK k, of which `count` lie inside the operand.
  __device__ __forceinline__ void fetch(int count) {
#pragma unroll
    for (int step = 0; step < steps; ++step) {
      if (step * step_k >= count) break;
#pragma unroll
      for (int e = 0; e < kPerLane; ++e) {
        const bool inside = lane_k_ + step * step_k + e < count;
        const int64_t at = (step * step_k + e) * stride_k_;
#pragma unroll
        for (int i = 0; i < kEights; ++i) {
          elements_[step][i][e] = Stored{};
          if (inside) elements_[step][i][e] = rows_[i][at];
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kEights; ++i) rows_[i] += kBlockK * stride_k_;
  }

  // The fragments' words of a step that was fetched: of the first and of the second half of the lane's k.
  __device__ __forceinline__ void words(int step, uint32_t (&words)[kEights][2]) const {
#pragma unroll
    for (int i = 0; i < kEights; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if constexpr (kPerWord == 2) {
          words[i][half] = word_of(elements_[step][i][2 * half], elements_[step][i][2 * half + 1], e4m3_);
        } else {
          words[i][half] = ptx::float_to_tf32(__float_as_uint(elements_[step][i][half]));
        }
      }
  }

 private:
  const Stored* rows_[kEights];  // the lane's first element of the next block of k
  int64_t stride_k_;
  int lane_k_;
  bool e4m3_;  // else e5m2, of fp8
  Stored elements_[steps][kEights][kPerLane];
};

}  // namespace tileon::sm80
