// The main loop of products of folds (core/fold.h) whose weight is not folded before: the consumers fold its codes,
// e4m3 or e2m1, on their way to wgmma's first operand, which are registers, while the tensor core multiplies the stage
// before; `a`, folded, is the second operand. The tensor core cuts sums of fp8, so those of each stage leave it and are
// added in float32 (docs/fp8_error.md).
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "core/fold.h"
#include "cuda/common/fold.cuh"
#include "cuda/common/pipeline.cuh"
#include "cuda/common/swizzle.h"
#include "cuda/ptx/convert.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/ptx/wgmma.cuh"
#include "cuda/sm90/layout/operand_tile.h"
#include "cuda/sm90/mainloop/kernel.cuh"
#include "cuda/sm90/mainloop/mma.cuh"

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
    const uint32_t byte = factors >> 8 * step & 0xff;
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
class FoldedWeightMainLoop {
  using TileA = typename Kernel::TileA;
  using Scale = typename Kernel::AccumulatorScale;
  using OfCodes = FoldedCodes<Scale::code>;
  static constexpr int kSteps = TileA::steps;
  using Fragments = FoldedFragments[kSteps];
  static_assert(Kernel::swapped && Kernel::row_blocks == 1 && !Kernel::ping_pong && kSteps == 4);

 public:
  // As PlainMainLoop's.
  template <typename DuringLastProduct>
  static __device__ __forceinline__ void multiply(const Pipeline& pipeline, PipelineState& at, int blocks,
                                                  int first_row, const Scale& scale, typename Kernel::Sums& sums,
                                                  const DuringLastProduct& during_last_product) {
    const bool elected = threadIdx.x % 128 == 0;
    const Places places(first_row);
#pragma unroll
    for (float& sum : sums[0]) sum = 0.0f;
    Fragments fragments;
    pipeline.wait_until_full(at);
    fold(pipeline.data(at.stage), places, fragments);
#pragma unroll 1
    for (int block = 0; block < blocks; ++block) {
      const int stage = at.stage;
      at.advance(pipeline.stages());
      typename Kernel::Sums stage_sums;
      issue(pipeline.data(stage), fragments, stage_sums);
      Fragments folded;
      if (block + 1 < blocks) {
        pipeline.wait_until_full(at);
        fold(pipeline.data(at.stage), places, folded);
      }
      ptx::wgmma_wait<0>();
      if (elected) pipeline.release(stage);
      add<Kernel>(stage_sums, sums);
#pragma unroll
      for (int step = 0; step < kSteps; ++step)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          ptx::pin(fragments[step][i]);  // until here: ptxas would fold into them, behind a branch, what is multiplied
          fragments[step][i] = folded[step][i];
        }
    }
    during_last_product();
  }

 private:
  // Where in a stage ldmatrix reads this lane's row of its matrix, and where the factors of this thread's first row
  // lie.
  struct Places {
    uint32_t codes, factors;

    __device__ __forceinline__ explicit Places(int first_row) {
      const int lane = static_cast<int>(threadIdx.x) % 32;
      const int row = first_row + static_cast<int>(threadIdx.x) % 128 / 32 * 16;
      codes = Kernel::rows_offset + OfCodes::place_of(row + lane % 16, lane / 16);
      factors = Kernel::scale_words_offset + (row + lane / 4) * 4;
    }
  };

  static __device__ __forceinline__ void fold(uint32_t stage, const Places& places, Fragments& fragments) {
    const uint32_t factors[2] = {ptx::load_shared_4(stage + places.factors),
                                 ptx::load_shared_4(stage + places.factors + 8 * 4)};
    const uint32_t codes_begin = stage + places.codes;
    uint32_t codes[kSteps / OfCodes::kStepsOfMatrices][4];
#pragma unroll
    for (int i = 0; i < kSteps / OfCodes::kStepsOfMatrices; ++i)
      ptx::ldmatrix_x4(codes[i], codes_begin ^ OfCodes::exchanged(i * OfCodes::kStepsOfMatrices));
    const bool are_quick = OfCodes::are_quick(factors[0]) && OfCodes::are_quick(factors[1]);
    if (__all_sync(0xffffffffu, are_quick)) {
      for_each_row([&](int step, int i) {
        OfCodes::fold(codes[step / OfCodes::kStepsOfMatrices], factors[i], step, i, fragments[step]);
      });
    } else {
      for_each_row([&](int step, int i) {
        OfCodes::fold_any(codes[step / OfCodes::kStepsOfMatrices], factors[i], step, i, fragments[step]);
      });
    }
  }

  // Calls use(step, i) for both rows in every step.
  template <typename Use>
  static __device__ __forceinline__ void for_each_row(const Use& use) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
#pragma unroll
      for (int i = 0; i < 2; ++i) use(step, i);
  }

  static __device__ __forceinline__ void issue(uint32_t stage, const Fragments& fragments,
                                               typename Kernel::Sums& sums) {
    const uint64_t a = TileA::descriptor(stage + Kernel::columns_offset);
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
      ptx::wgmma_m64k32_e4m3<Kernel::columns>(sums[0], fragments[step], a + TileA::offset(0, step) / 16, step > 0);
    ptx::wgmma_commit();
  }
};

}  // namespace tileon::sm90
