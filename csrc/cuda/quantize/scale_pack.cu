// Scales from (rows, cols) to the packed layout and back: four columns of a row a thread.
#include <cstdint>

#include "../error.h"
#include "quantize.h"

namespace tileon {
namespace {

constexpr int kThreads = 256;

// Thread i has four columns of a row, counted as the target lies in memory.
__global__ void __launch_bounds__(kThreads) move_scales(const __grid_constant__ ScalePackProblem problem) {
  const int64_t col_blocks = scale_col_blocks(problem.cols);
  const int64_t count =
      (problem.to_packed ? scale_row_blocks(problem.rows) * kScaleBlockRows : problem.rows) * col_blocks;
  const ScaleStrides to = problem.to_packed ? packed_scales(problem.cols) : flat_scales(problem.cols, 1);
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += static_cast<int64_t>(gridDim.x) * kThreads) {
    int64_t row = i / col_blocks, block = i % col_blocks;
    if (problem.to_packed) {  // [row block][column block][32][4]
      const int64_t within = i % kScaleBlockRows, row_block = i / kScaleBlockRows / col_blocks;
      row = row_block * kScaleBlockRows + within % 4 * kScaleRowsApart + within / 4;
      block = i / kScaleBlockRows % col_blocks;
    }
#pragma unroll
    for (int c = 0; c < kScaleBlockCols; ++c) {
      const int64_t col = block * kScaleBlockCols + c;
      const bool inside = row < problem.rows && col < problem.cols;
      if (inside || problem.to_packed)
        problem.to[to.offset(row, col)] = inside ? problem.from[problem.from_strides.offset(row, col)] : 0;
    }
  }
}

}  // namespace

void run_scale_pack(const ScalePackProblem& problem, cudaStream_t stream) {
  const int64_t rows = problem.to_packed ? scale_row_blocks(problem.rows) * kScaleBlockRows : problem.rows;
  const int64_t count = rows * scale_col_blocks(problem.cols);
  if (count == 0) return;
  constexpr int64_t kMaxBlocks = 1 << 20;  // the threads go on from there
  const int64_t blocks = (count + kThreads - 1) / kThreads;
  move_scales<<<static_cast<unsigned>(blocks < kMaxBlocks ? blocks : kMaxBlocks), kThreads, 0, stream>>>(problem);
  check_cuda(cudaGetLastError(), "launching a kernel that moves scales");
}

}  // namespace tileon
