// What was multiplied as 0: blocks of e4m3 under scales below 2^-124, of which bfloat16 loses something
// (block_scaled/decode.cuh). Their products are added to the sums, in float32 and in the order of k. Such numbers are
// as good as zero, so a block costs its row, and this is short instead of fast.
#pragma once

#include <cstdint>

#include "../../../../problem.h"
#include "../../../../small_floats.h"
#include "kernel_types.cuh"
#include "losses.cuh"
#include "params.h"

namespace tileon::sm90 {

// A block of k of a row: elements that share a scale. Only of rows that TMA can read, whose bytes are neighbours.
template <ElementType kElement>
class ScaledBlock {
  static constexpr int kBits = FewRowsFormat::bits(kElement);
  static constexpr int kWords = vec_of(ScaleType::kE8M0) * kBits / 32;

 public:
  __device__ __forceinline__ ScaledBlock(const BlockScaledOperand& operand, int64_t row, int64_t block)
      : scale_(static_cast<const uint8_t*>(operand.scale)[operand.scale_strides.offset(row, block)]) {
    const auto* codes = static_cast<const unsigned char*>(operand.data) + row * operand.stride_row;
    const auto* words = reinterpret_cast<const uint4*>(codes) + block * (kWords / 4);
#pragma unroll
    for (int i = 0; i < kWords; i += 4) {
      const uint4 four = words[i / 4];
      codes_[i] = four.x, codes_[i + 1] = four.y, codes_[i + 2] = four.z, codes_[i + 3] = four.w;
    }
  }

  __device__ __forceinline__ bool is_lost() const {
    return kElement == ElementType::kE4M3 && (lost_in_bfloat16(codes_, scale_) & kTinyLost) != 0;
  }

  // Its element i times the scale, as float32 holds it.
  __device__ __forceinline__ float operator[](int i) const {
    const uint32_t code = codes_[i * kBits / 32] >> i * kBits % 32;
    return (kElement == ElementType::kE2M1 ? e2m1_value(code & 0xf) : e4m3_value(code & 0xff)) * e8m0_value(scale_);
  }

 private:
  uint32_t codes_[kWords];
  uint32_t scale_;
};

template <typename Kernel>
class LostBlocks {
  static constexpr int kPart = Kernel::tile_m * kFewRowsPitch;  // of the slab

 public:
  // `blocks` stages of the ring from `first_block` on are the CTA's part of k.
  __device__ __forceinline__ LostBlocks(const FewRowsParams& params, const Losses& losses, float* slab, int m_begin,
                                        int n_begin, int first_block, int blocks)
      : problem_(params.problem), losses_(losses), slab_(slab), m_begin_(m_begin), n_begin_(n_begin) {
    constexpr int per_stage = Kernel::format.scale_blocks() * kScaleBlockCols;
    begin_ = first_block * per_stage;
    end_ = min((first_block + blocks) * per_stage, static_cast<int>(problem_.k / Kernel::format.vec()));
    rows_a_ = static_cast<int>(min(int64_t{Kernel::tile_m}, problem_.m - m_begin));
    rows_b_ = static_cast<int>(min(int64_t{kFewRowsTileN}, problem_.n - n_begin));
  }

  // Adds them to the CTA's slab. By all of its threads: a warp a row of a, then a warp a row of b, so that each sum is
  // one lane's, and the same every time.
  __device__ __forceinline__ void add() const {
    const int lane = threadIdx.x % 32;
    for_each_of_rows(
        0, rows_a_, [&](int i, int block) { return block_a(i, block).is_lost(); },
        [&](int i, int block) {
          for (int j = lane; j < rows_b_; j += 32) add_product(i, j, block);
        });
    __syncthreads();
    for_each_of_rows(
        Losses::kRowsOfB, rows_b_, [&](int j, int block) { return block_b(j, block).is_lost(); },
        [&](int j, int block) {
          for (int i = lane; i < rows_a_; i += 32)
            if (!block_a(i, block).is_lost()) add_product(i, j, block);
        });
  }

 private:
  // Calls `visit(row, block)` for each block that is lost, of the operand whose rows `losses_` numbers from
  // `first_number` on.
  template <typename IsLost, typename Visit>
  __device__ __forceinline__ void for_each_of_rows(int first_number, int rows, const IsLost& is_lost,
                                                   const Visit& visit) const {
#pragma unroll 1
    for (int row = threadIdx.x / 32; row < rows; row += Kernel::threads / 32) {
      if (!losses_.has(kTinyLost, first_number + row)) continue;
#pragma unroll 1
      for (int first = begin_; first < end_; first += 32) {
        const int block = first + threadIdx.x % 32;
        uint32_t lost = __ballot_sync(0xffffffffu, block < end_ && is_lost(row, block));
#pragma unroll 1
        for (; lost != 0; lost &= lost - 1) visit(row, first + __ffs(lost) - 1);
      }
    }
  }

  // 0 times infinity is not what the block would have given: such a sum is made anew.
  __device__ __forceinline__ void add_product(int i, int j, int block) const {
    if (losses_.has(kNaNLost, i) || losses_.has(kNaNLost, Losses::kRowsOfB + j)) return;  // it is NaN in any case
    float* sum = slab_ + i * kFewRowsPitch + j;
    bool is_finite = true;
#pragma unroll
    for (int part = 0; part < Kernel::parts; ++part) is_finite &= isfinite(sum[part * kPart]);
    if (is_finite) {
      *sum = add_products(i, j, block, block + 1, *sum);
    } else {
#pragma unroll
      for (int part = 1; part < Kernel::parts; ++part) sum[part * kPart] = 0.0f;
      *sum = add_products(i, j, begin_, end_, 0.0f);
    }
  }

  __device__ float add_products(int i, int j, int begin, int end, float sum) const {
#pragma unroll 1
    for (int block = begin; block < end; ++block) {
      const auto a = block_a(i, block);
      const auto b = block_b(j, block);
#pragma unroll
      for (int k = 0; k < Kernel::format.vec(); ++k) sum = fmaf(a[k], b[k], sum);
    }
    return sum;
  }

  __device__ __forceinline__ ScaledBlock<Kernel::a> block_a(int i, int block) const {
    return {problem_.a, m_begin_ + i, block};
  }
  __device__ __forceinline__ ScaledBlock<Kernel::b> block_b(int j, int block) const {
    return {problem_.b, n_begin_ + j, block};
  }

  const BlockScaledProblem& problem_;
  const Losses& losses_;
  float* slab_;
  int m_begin_, n_begin_;
  int begin_, end_;  // the CTA's blocks of k
  int rows_a_, rows_b_;
};

}  // namespace tileon::sm90
