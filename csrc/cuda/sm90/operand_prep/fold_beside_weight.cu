// The fold of `a` (core/fold.h) for a weight that the main loop decodes to e5m2 (mainloop/mma_float8_weight.cuh): rows
// of e4m3, in the order of k that the weight has (float8_place). A warp a row.
#include "cuda/common/folded_row.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/sm90/launch/launch.h"
#include "cuda/sm90/layout/encoding.h"
#include "cuda/sm90/operand_prep/prepare.h"

namespace tileon::sm90 {
namespace {

constexpr int kThreads = kFoldRowsPerCta * 32;

// Folded codes of block `block` of a row.
__device__ __forceinline__ void store_folded(uint8_t* row, int64_t block, const uint4 (&codes)[2]) {
  const uint32_t words[] = {codes[0].x, codes[0].y, codes[0].z, codes[0].w,
                            codes[1].x, codes[1].y, codes[1].z, codes[1].w};
  constexpr int kBlocks = kFloat8WeightK / kFoldBlock;
  uint8_t* to = row + block / kBlocks * kFloat8WeightK + float8_place(static_cast<int>(block % kBlocks) * kFoldBlock);
#pragma unroll
  for (int i = 0; i < kFoldBlock / 8; ++i) {
    const uint32_t even = ptx::prmt(words[2 * i], words[2 * i + 1], 0x6420);
    const uint32_t odd = ptx::prmt(words[2 * i], words[2 * i + 1], 0x7531);
    *reinterpret_cast<uint32_t*>(to + float8_place(8 * i)) = even;
    *reinterpret_cast<uint32_t*>(to + float8_place(8 * i + 1)) = odd;
  }
}

template <int kBits>
__global__ void __launch_bounds__(kThreads, 4)
    fold_beside_weight(const __grid_constant__ FoldBesideWeightParams params) {
  ptx::grid_dependency_wait();
  ptx::grid_dependency_launch();
  const ScaledKernelProblem& problem = params.problem;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kFoldRowsPerCta + threadIdx.x / 32;
  bool is_beyond = false;
  if (row < problem.m) {
    uint8_t* to = params.rows + row * problem.k;
    FoldedRow<kBits>(problem.a, problem.k / kFoldBlock, row)
        .fold(
            [&](int power) {
              const int exponent = power + 127;
              is_beyond = exponent < kMinExponent || exponent > kMaxExponent;
              if (threadIdx.x % 32 == 0) params.exponents[row] = static_cast<uint8_t>(is_beyond ? 127 : exponent);
            },
            [&](int64_t block, const uint4(&codes)[2]) { store_folded(to, block, codes); });
  }
  const bool any = __syncthreads_or(is_beyond) != 0;
  if (threadIdx.x == 0) params.words[blockIdx.x] = any ? 1 : 0;
}

}  // namespace

void run_fold_beside_weight(const FoldBesideWeightParams& params, cudaStream_t stream) {
  const auto kernel = params.problem.a.dtype == DType::kFloat4E2M1 ? &fold_beside_weight<4> : &fold_beside_weight<8>;
  launch(kernel, dim3(static_cast<unsigned>(fold_ctas(params.problem.m))), kThreads, 0, params, stream);
}

}  // namespace tileon::sm90
