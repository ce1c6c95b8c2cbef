// The decoder of a weight that is not folded before (core/fold.h): its codes, e4m3 or e2m1, are folded on their way to
// wgmma's first operand (mma_decoded_weight.cuh); `a`, folded, is the second one. The tensor core cuts sums of fp8:
// after some stages they leave it and are added in float32 (docs/fp8_error.md).
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "core/fold.h"
#include "cuda/common/fold.cuh"
#include "cuda/common/swizzle.h"
#include "cuda/ptx/convert.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/ptx/wgmma.cuh"
#include "cuda/sm90/layout/operand_tile.h"
#include "cuda/sm90/mainloop/mma.cuh"
#include "cuda/sm90/mainloop/mma_decoded_weight.cuh"

namespace tileon::sm90 {

// The fragments of a step of 32 k: of this thread's low row four codes of the first sixteen k, of its high row, and of
// both rows four of the other sixteen.
using FoldedFragments = uint32_t[4];

// How the codes of a stage are read, a step's by one ldmatrix or two steps' by one, and folded by their factors.
template <DType kCode>
struct FoldedCodes;

// A row of 128 k is a line of 128 bytes, of which a step has two chunks: a matrix of ldmatrix for eight rows of each.
template <>
struct FoldedCodes<DType::kFloat8E4M3> {
  static constexpr int kStepsOfMatrices = 1;

  // Where this lane's row of its matrix lies, for the first step; those of other steps lie at exchanged chunks.
  static __device__ __forceinline__ uint32_t place_of(int row, int matrix) {
    return row * kLineBytes + (matrix ^ row % 8) * kChunkBytes;
  }
  static constexpr uint32_t exchanged(int step) { return 2 * step * kChunkBytes; }

  static __device__ __forceinline__ bool are_quick(uint32_t factors) { return !has_rare_e4m3_fold_byte(factors); }

  // Of row `i` of two, by byte `step` of its factors; `codes` are those of a row of each matrix.
  static __device__ __forceinline__ void fold(const uint32_t (&codes)[4], uint32_t factors, int step, int i,
                                              FoldedFragments& fragments) {
    const uint32_t bits = ptx::prmt(factors, 0, 0x0404 | step << 12 | step << 4);
    const __half2 factor[] = {*reinterpret_cast<const __half2*>(&bits)};
    multiply(codes, factor, i, fragments);
  }
  static __device__ __forceinline__ void fold_any(const uint32_t (&codes)[4], uint32_t factors, int step, int i,
                                                  FoldedFragments& fragments) {
    const float factor = e4m3_fold_factor(factors >> 8 * step & 0xff);
    const bool is_large = factor > kLargestHalfFactor;
    const __half2 both[] = {__float2half2_rn(is_large ? kLargestHalfFactor : factor),
                            __float2half2_rn(is_large ? factor / kLargestHalfFactor : 1.0f)};
    multiply(codes, both, i, fragments);
  }

 private:
  template <int kFactors>
  static __device__ __forceinline__ void multiply(const uint32_t (&codes)[4], const __half2 (&factors)[kFactors], int i,
                                                  FoldedFragments& fragments) {
#pragma unroll
    for (int j = i; j < 4; j += 2) fragments[j] = ptx::multiply_e4m3(codes[j], factors);
  }
};

// A row of 128 k is half a line, of which a step has one chunk. A lane's word of it has eight neighbours, which are
// both fragments of the step: `a` comes in that order (OperandFoldProblem::is_interleaved).
template <>
struct FoldedCodes<DType::kFloat4E2M1> {
  static constexpr int kStepsOfMatrices = 2;

  static __device__ __forceinline__ uint32_t place_of(int row, int matrix) {
    return row * (kLineBytes / 2) + (matrix ^ row / 2 % 4) * kChunkBytes;
  }
  static constexpr uint32_t exchanged(int step) { return step * kChunkBytes; }

  static __device__ __forceinline__ bool are_quick(uint32_t factors) { return !has_rare_e2m1_fold_byte(factors); }

  // The eight magnitudes times the factor are a table, a byte each; at 2^-5 that of 0.5 is the smallest normal number.
  static __device__ __forceinline__ void fold(const uint32_t (&codes)[4], uint32_t factors, int step, int i,
                                              FoldedFragments& fragments) {
    const uint32_t byte = ptx::prmt(factors, 0, 0x4440 | step);
    look_up(codes[2 * (step % 2) + i], byte * 0x01010100 + 0x14100800, byte * 0x01010101 + 0x24201c18, i, fragments);
  }
  static __device__ __forceinline__ void fold_any(const uint32_t (&codes)[4], uint32_t factors, int step, int i,
                                                  FoldedFragments& fragments) {
    const FoldedMagnitudes table(e2m1_fold_factor(factors >> 8 * step & 0xff));
    look_up(codes[2 * (step % 2) + i], table.low, table.high, i, fragments);
  }

 private:
  // A selector of prmt is four magnitudes; its other copies are a byte's sign.
  static __device__ __forceinline__ void look_up(uint32_t codes, uint32_t low, uint32_t high, int i,
                                                 FoldedFragments& fragments) {
    const uint32_t magnitudes = codes & 0x77777777, shifted = codes << 4;
    const uint32_t first = ptx::prmt(shifted, codes, 0xd9c8), second = ptx::prmt(shifted, codes, 0xfbea);
    fragments[i] = ptx::prmt(low, high, magnitudes) | (first & 0x80808080);
    fragments[i + 2] = ptx::prmt(low, high, magnitudes >> 16) | (second & 0x80808080);
  }
};

template <typename Kernel>
class FoldDecoder {
  using Scale = typename Kernel::AccumulatorScale;
  using OfCodes = FoldedCodes<Scale::code>;
  using Fragments = typename DecodedPart<Kernel>::Fragments;
  static constexpr int kSteps = DecodedPart<Kernel>::steps;
  static constexpr int kMatrices = kSteps / OfCodes::kStepsOfMatrices;
  static_assert(Kernel::TileA::steps == 4 && kMatrices * OfCodes::kStepsOfMatrices == kSteps);

 public:
  static constexpr bool loads_behind_products = true;
  static constexpr bool has_other_sums = true;

  __device__ __forceinline__ FoldDecoder(const Scale& scale, int first_row)
      : last_of_sums_(scale.stages_of_sums() - 1) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int row = first_row + static_cast<int>(threadIdx.x) % 128 / 32 * 16;
    codes_place_ = Kernel::rows_offset + OfCodes::place_of(row + lane % 16, lane / 16);
    factors_place_ = Kernel::scale_words_offset + (row + lane / 4) * 4;
  }

  __device__ __forceinline__ void load(uint32_t stage, int part) {
    const uint32_t codes = stage + (codes_place_ ^ OfCodes::exchanged(part * kSteps));
#pragma unroll
    for (int i = 0; i < kMatrices; ++i)
      ptx::ldmatrix_x4(codes_[i], codes ^ OfCodes::exchanged(i * OfCodes::kStepsOfMatrices));
    if (part > 0) return;
#pragma unroll
    for (int i = 0; i < 2; ++i) factors_[i] = ptx::load_shared_4(stage + factors_place_ + i * 8 * 4);
  }

  __device__ __forceinline__ void decode(int part, Fragments& fragments) {
    if (part == 0) {
      const bool are_quick = OfCodes::are_quick(factors_[0]) && OfCodes::are_quick(factors_[1]);
      is_quick_ = __all_sync(0xffffffffu, are_quick);
    }
    if (is_quick_) {
      for_each_row([&](int step, int i) {
        OfCodes::fold(codes_[step / OfCodes::kStepsOfMatrices], factors_[i], part * kSteps + step, i, fragments[step]);
      });
    } else {
      for_each_row([&](int step, int i) {
        OfCodes::fold_any(codes_[step / OfCodes::kStepsOfMatrices], factors_[i], part * kSteps + step, i,
                          fragments[step]);
      });
    }
  }

  // Sums leave the tensor core.
  __device__ __forceinline__ bool before_products(int block, int part, Fragments&, typename Kernel::Sums& sums) {
    if (part > 0 || block == 0 || (block & last_of_sums_) != 0) return true;
    ptx::wgmma_wait<0>();
    add<Kernel>(sums, promoted_);
    return false;
  }
  __device__ __forceinline__ void finish(typename Kernel::Sums& sums) const { add<Kernel>(promoted_, sums); }

 private:
  // Calls use(step, i) for both rows in every step.
  template <typename Use>
  static __device__ __forceinline__ void for_each_row(const Use& use) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
#pragma unroll
      for (int i = 0; i < 2; ++i) use(step, i);
  }

  // In a stage: where ldmatrix reads this lane's row of its matrix, and the factors of this thread's first row.
  uint32_t codes_place_, factors_place_;
  uint32_t codes_[kMatrices][4];
  uint32_t factors_[2];
  bool is_quick_;     // whether all factors of the warp in this stage are
  int last_of_sums_;  // stages whose sums stay in the tensor core, a power of two, less one
  typename Kernel::Sums promoted_ = {};
};

template <typename Kernel>
class FoldedWeightMainLoop : public DecodedWeightMainLoop<Kernel, FoldDecoder<Kernel>> {};

}  // namespace tileon::sm90
