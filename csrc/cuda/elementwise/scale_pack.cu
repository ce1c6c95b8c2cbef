// Scales from (rows, cols) to the packed layout and back: four columns of a row a thread.
#include <algorithm>
#include <cstdint>
#include <stdexcept>

#include "cuda/elementwise/elementwise.h"
#include "cuda/runtime/launch.h"

namespace tileon {
namespace {

constexpr int kColBlocksPerCta = 4;  // a thread for each row of each
constexpr int kThreads = kScaleBlockRows * kColBlocksPerCta;

// A CTA has the rows of one row block, padding included where the target has it, and the columns of several blocks.
__global__ void __launch_bounds__(kThreads) move_scales(const __grid_constant__ ScalePackProblem problem) {
  const ScaleStrides to = problem.to_packed ? packed_scales(problem.cols) : flat_scales(problem.cols, 1);
  const int64_t row_blocks = scale_row_blocks(problem.rows), col_blocks = scale_col_blocks(problem.cols);
  const int64_t block = static_cast<int64_t>(blockIdx.x) * kColBlocksPerCta + threadIdx.x % kColBlocksPerCta;
  if (block >= col_blocks) return;
  for (int64_t row_block = blockIdx.y; row_block < row_blocks; row_block += gridDim.y) {
    const int64_t row = row_block * kScaleBlockRows + threadIdx.x / kColBlocksPerCta;
    uint8_t scales[kScaleBlockCols] = {};
#pragma unroll
    for (int c = 0; c < kScaleBlockCols; ++c) {
      const int64_t col = block * kScaleBlockCols + c;
      if (row < problem.rows && col < problem.cols) scales[c] = problem.from[problem.from_strides.offset(row, col)];
    }
#pragma unroll
    for (int c = 0; c < kScaleBlockCols; ++c) {
      const int64_t col = block * kScaleBlockCols + c;
      if (problem.to_packed || (row < problem.rows && col < problem.cols)) problem.to[to.offset(row, col)] = scales[c];
    }
  }
}

}  // namespace

void run_scale_pack(const ScalePackProblem& problem, cudaStream_t stream) {
  if (problem.rows == 0 || problem.cols == 0) return;
  constexpr int64_t kMaxGridX = 0x7fffffff, kMaxGridY = 65535;
  const int64_t along_cols = (scale_col_blocks(problem.cols) + kColBlocksPerCta - 1) / kColBlocksPerCta;
  if (along_cols > kMaxGridX) throw std::runtime_error("tileon: more than 2^35 columns of scales");
  const dim3 grid(static_cast<unsigned>(along_cols),
                  static_cast<unsigned>(std::min(scale_row_blocks(problem.rows), kMaxGridY)));
  launch_kernel("launching a kernel that moves scales", {.grid = grid, .threads = kThreads, .stream = stream},
                &move_scales, problem);
}

}  // namespace tileon
