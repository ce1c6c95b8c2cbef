// What bfloat16 lost of e4m3 (common/decode.cuh): NaNs, and bits of blocks under scales below 2^-124. A NaN marks its
// row; what such a block lacks is added to its row's sums in float32. These numbers are as good as zero, or an error,
// so this code is short instead of fast, and only rows that have them take longer.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "core/small_floats.h"
#include "cuda/common/kernel_choice.h"
#include "cuda/sm90/layout/kernel_params.h"
#include "cuda/sm90/small_m/elements.cuh"
#include "cuda/sm90/small_m/pipeline.cuh"

namespace tileon::sm90 {

// A block of k of a row: elements that share a scale. Only of rows that TMA can read, whose bytes are neighbours.
template <DType kElement>
class ScaledBlock {
  static constexpr int kBits = SmallMFormat::bits(kElement);
  static constexpr int kBytes = vec_of(ScaleType::kE8M0) * kBits / 8;

 public:
  __device__ __forceinline__ ScaledBlock(const ScaledKernelOperand& operand, int64_t row, int64_t block)
      : codes_(static_cast<const unsigned char*>(operand.data) + row * operand.stride_row + block * kBytes),
        scale_(static_cast<const uint8_t*>(operand.scale)[operand.scale_strides.offset(row, block)]) {}

  __device__ __forceinline__ bool has_tiny_scale() const {
    return kElement == DType::kFloat8E4M3 && scale_ < kFirstBFloat16Scale;
  }
  __device__ __forceinline__ bool is_tiny() const { return has_tiny_scale() && has_codes_beyond(scale_); }
  __device__ __forceinline__ bool has_nan() const {
    return kElement == DType::kFloat8E4M3 && (scale_ == kE8M0NaN || has_codes_beyond(kFirstBFloat16Scale));
  }

  // Elements 4 i to 4 i + 3 times the scale, as float32 holds them.
  __device__ __forceinline__ void load_four(int i, float (&exact)[4]) const {
    const uint32_t codes =
        kBits == 4 ? reinterpret_cast<const uint16_t*>(codes_)[i] : reinterpret_cast<const uint32_t*>(codes_)[i];
    const float scale = e8m0_value(scale_);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const uint32_t code = codes >> j * kBits & ((1 << kBits) - 1);
      exact[j] = (kElement == DType::kFloat4E2M1 ? e2m1_value(code) : e4m3_value(code)) * scale;
    }
  }

  // What was multiplied in an element's place.
  __device__ __forceinline__ float rounded(float exact) const {
    if (!has_tiny_scale()) return exact;
    return scale_ == 0 ? 0.0f : __bfloat162float(__float2bfloat16_rn(exact));
  }

 private:
  __device__ __forceinline__ bool has_codes_beyond(uint32_t scale) const {
    bool any = false;
#pragma unroll
    for (int i = 0; i < kBytes; i += 16) {
      const uint4 four = *reinterpret_cast<const uint4*>(codes_ + i);
      const uint32_t words[] = {four.x, four.y, four.z, four.w};
      any |= is_beyond_bfloat16(words, scale);
    }
    return any;
  }

  const unsigned char* codes_;
  uint32_t scale_;
};

// Of a row without scales, which loses nothing.
template <>
class ScaledBlock<DType::kBFloat16> {
 public:
  __device__ __forceinline__ ScaledBlock(const ScaledKernelOperand& operand, int64_t row, int64_t block)
      : pairs_(reinterpret_cast<const uint2*>(static_cast<const __nv_bfloat16*>(operand.data) +
                                              row * operand.stride_row + block * vec_of(ScaleType::kE8M0))) {}

  __device__ __forceinline__ bool is_tiny() const { return false; }
  __device__ __forceinline__ bool has_nan() const { return false; }

  __device__ __forceinline__ void load_four(int i, float (&exact)[4]) const {
    const uint32_t words[2] = {pairs_[i].x, pairs_[i].y};
#pragma unroll
    for (int j = 0; j < 4; ++j) exact[j] = float_of(j % 2 == 0 ? words[j / 2] << 16 : words[j / 2] & 0xffff0000);
  }

  __device__ __forceinline__ float rounded(float exact) const { return exact; }

 private:
  const uint2* pairs_;  // two of them
};

template <typename Kernel>
class LostBlocks {
  static constexpr int kVec = Kernel::format.vec();
  static constexpr int kPart = Kernel::tile_m * kSmallMPitch;  // of the staging

 public:
  // `blocks` stages of the pipeline from `first_block` on are the CTA's part of k.
  __device__ __forceinline__ LostBlocks(const SmallMParams& params, const Losses& losses, float* staging, int m_begin,
                                        int n_begin, int first_block, int blocks)
      : problem_(params.problem), losses_(losses), staging_(staging), m_begin_(m_begin), n_begin_(n_begin) {
    constexpr int per_stage = Kernel::format.scale_blocks() * kScaleBlockCols;
    begin_ = first_block * per_stage;
    end_ = min((first_block + blocks) * per_stage, static_cast<int>(problem_.k / kVec));
    rows_a_ = static_cast<int>(min(int64_t{Kernel::tile_m}, problem_.m - m_begin));
    rows_b_ = static_cast<int>(min(int64_t{kSmallMTileN}, problem_.n - n_begin));
  }

  // By all of the CTA's threads. Each sum is one thread's, and the same every time.
  __device__ __forceinline__ void add() const {
    find(0, rows_a_, [&](int i, int block) { return block_a(i, block); });
    find(Losses::kRowsOfB, rows_b_, [&](int j, int block) { return block_b(j, block); });
    __syncthreads();
    for_each_tiny<kSmallMTileN>(
        0, rows_a_, [&](int i, int block) { return block_a(i, block); },
        [&](int i, int j, int block) {
          if (j < rows_b_) add_lost(i, j, block, LostOfA());
        });
    __syncthreads();
    for_each_tiny<Kernel::tile_m>(
        Losses::kRowsOfB, rows_b_, [&](int j, int block) { return block_b(j, block); },
        [&](int j, int i, int block) {
          if (i < rows_a_) add_lost(i, j, block, LostOfB());
        });
  }

 private:
  // Finds out what the suspects among an operand's rows lost; `losses_` numbers those rows from `first` on.
  template <typename BlockOf>
  __device__ __forceinline__ void find(int first, int rows, const BlockOf& block_of) const {
#pragma unroll 1
    for (int row = threadIdx.x / 32; row < rows; row += Kernel::threads / 32) {
      if (!losses_.is_suspect(first + row)) continue;
      bool nan = false, tiny = false;
#pragma unroll 2
      for (int block = begin_ + static_cast<int>(threadIdx.x % 32); block < end_; block += 32) {
        const auto scaled = block_of(row, block);
        nan |= scaled.has_nan();
        tiny |= scaled.is_tiny();
      }
      if (nan) losses_.note_nan(first + row);
      if (tiny) losses_.note_tiny(first + row);
    }
  }

  // Calls `visit(row, other, block)` for an operand's blocks under tiny scales and each row `other` of the other
  // operand, of which there are `kOthers` at most: a warp has 32 of those.
  template <int kOthers, typename BlockOf, typename Visit>
  __device__ __forceinline__ void for_each_tiny(int first, int rows, const BlockOf& block_of,
                                                const Visit& visit) const {
    constexpr int per_row = kOthers > 32 ? kOthers / 32 : 1, rows_at_once = Kernel::threads / 32 / per_row;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (warp >= rows_at_once * per_row) return;
#pragma unroll 1
    for (int row = warp / per_row; row < rows; row += rows_at_once) {
      if (!losses_.has_tiny(first + row) || losses_.has_nan(first + row)) continue;
#pragma unroll 1
      for (int begin = begin_; begin < end_; begin += 32) {
        const int block = begin + lane;
        uint32_t tiny = __ballot_sync(0xffffffffu, block < end_ && block_of(row, block).is_tiny());
#pragma unroll 1
        for (; tiny != 0; tiny &= tiny - 1)
          visit(row, warp % per_row * 32 + lane, begin + __ffs(static_cast<int>(tiny)) - 1);
      }
    }
  }

  // What a product lacks: (a - rounded a) b + rounded a (b - rounded b), the first where a's block is tiny, the second
  // where b's is.
  struct LostOfA {
    template <typename A, typename B>
    __device__ __forceinline__ float operator()(const A& block_a, const B&, float a, float b, float sum) const {
      return fmaf(a - block_a.rounded(a), b, sum);
    }
  };
  struct LostOfB {
    template <typename A, typename B>
    __device__ __forceinline__ float operator()(const A& block_a, const B& block_b, float a, float b, float sum) const {
      return fmaf(block_a.rounded(a), b - block_b.rounded(b), sum);
    }
  };
  struct All {
    template <typename A, typename B>
    __device__ __forceinline__ float operator()(const A&, const B&, float a, float b, float sum) const {
      return fmaf(a, b, sum);
    }
  };

  // 0 times infinity is not what the block would have given: such a sum is made anew.
  template <typename Lost>
  __device__ __forceinline__ void add_lost(int i, int j, int block, const Lost& lost) const {
    if (losses_.has_nan(i) || losses_.has_nan(Losses::kRowsOfB + j)) return;
    float* sum = staging_ + i * kSmallMPitch + j;
    bool is_finite = true;
#pragma unroll
    for (int part = 0; part < Kernel::parts; ++part) is_finite &= isfinite(sum[part * kPart]);
    if (is_finite) {
      *sum = add_block(i, j, block, *sum, lost);
      return;
    }
    float all = 0.0f;
#pragma unroll 1
    for (int other = begin_; other < end_; ++other) all = add_block(i, j, other, all, All());
#pragma unroll
    for (int part = 0; part < Kernel::parts; ++part) sum[part * kPart] = part == 0 ? all : 0.0f;
  }

  template <typename Add>
  __device__ __forceinline__ float add_block(int i, int j, int block, float sum, const Add& add) const {
    const auto a = block_a(i, block);
    const auto b = block_b(j, block);
#pragma unroll 2
    for (int four = 0; four < kVec / 4; ++four) {
      float exact_a[4], exact_b[4];
      a.load_four(four, exact_a);
      b.load_four(four, exact_b);
#pragma unroll
      for (int k = 0; k < 4; ++k) sum = add(a, b, exact_a[k], exact_b[k], sum);
    }
    return sum;
  }

  __device__ __forceinline__ ScaledBlock<Kernel::a> block_a(int i, int block) const {
    return {problem_.a, m_begin_ + i, block};
  }
  __device__ __forceinline__ ScaledBlock<Kernel::b> block_b(int j, int block) const {
    return {problem_.b, n_begin_ + j, block};
  }

  const ScaledKernelProblem& problem_;
  const Losses& losses_;
  float* staging_;
  int m_begin_, n_begin_;
  int begin_, end_;  // the CTA's blocks of k
  int rows_a_, rows_b_;
};

// A function of its own, so that ptxas allots the registers of the loops that count without it.
template <typename Kernel>
__device__ __noinline__ void add_lost_blocks(const SmallMParams& params, Losses losses, float* staging, int m_begin,
                                             int n_begin, int first_block, int blocks) {
  LostBlocks<Kernel>(params, losses, staging, m_begin, n_begin, first_block, blocks).add();
}

// ---- mxfp4 by way of e5m2: whether scales of b that are no factors (elements.cuh) stand over codes with which they
// are not ----

// Zeros may have any small scale: their product is zero. A large one, or NaN, is left to bfloat16 in any case.
__device__ __forceinline__ bool is_beyond_factor(const uint4& codes, uint32_t scale) {
  return scale > kLastFactor || (scale < kFirstFactor && ((codes.x | codes.y | codes.z | codes.w) & 0x77777777) != 0);
}

// Looks at the suspects among b's rows in the CTA's part of k, which is `blocks` stages of the pipeline from
// `first_block` on, and notes what is certain. By all of the CTA's threads, a warp a row. A function of its own, so
// that ptxas allots the registers of the loops that count without it.
template <typename Kernel>
__device__ __noinline__ void find_extreme_factors(const SmallMParams& params, Losses losses, int n_begin,
                                                  int first_block, int blocks) {
  constexpr int per_stage = Kernel::format.scale_blocks() * kScaleBlockCols;
  const ScaledKernelOperand& b = params.problem.b;
  const auto* scales = static_cast<const uint8_t*>(b.scale);
  const int begin = first_block * per_stage;
  const int end = min(begin + blocks * per_stage, static_cast<int>(params.problem.k / Kernel::format.vec()));
  const int rows = static_cast<int>(min(int64_t{kSmallMTileN}, params.problem.n - n_begin));
  bool any = false;
#pragma unroll 1
  for (int row = threadIdx.x / 32; row < rows; row += Kernel::threads / 32) {
    if (!losses.is_suspect(Losses::kRowsOfB + row)) continue;
    const auto* codes = static_cast<const unsigned char*>(b.data) + (n_begin + row) * b.stride_row;
#pragma unroll 4
    for (int block = begin + static_cast<int>(threadIdx.x % 32); block < end; block += 32)
      any |= is_beyond_factor(reinterpret_cast<const uint4*>(codes)[block],
                              scales[b.scale_strides.offset(n_begin + row, block)]);
  }
  if (any) losses.note(Losses::kCertain);
}

}  // namespace tileon::sm90
