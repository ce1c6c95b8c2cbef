// Which encoding the operands of mxfp4 can take (layout/encoding.h): found from their scales, and the codes of blocks
// whose scale does not fit.
#include "core/small_floats.h"
#include "cuda/ptx/shared.cuh"
#include "cuda/sm90/launch/launch.h"
#include "cuda/sm90/layout/encoding.h"
#include "cuda/sm90/operand_prep/prepare.h"

namespace tileon::sm90 {
namespace {

constexpr int kThreads = 1024, kWarps = kThreads / 32;
constexpr int kVec = 32;
constexpr int kQuarters = kScaleBlockRows / kScaleRowsApart;
static_assert(kScaleRowsApart == 32 && kScaleBlockCols == 4);

// Of a lane: the scales of four columns, a word each of its four rows.
struct LaneScales {
  uint32_t words[kQuarters];
};

// 128 rows of an operand, as the blocks of packed scales have them: a lane has four of them, 32 apart.
class RowBlock {
 public:
  __device__ __forceinline__ RowBlock(const ScaledKernelOperand& operand, int64_t first_row, int64_t rows, int k)
      : operand_(operand),
        scales_(static_cast<const uint8_t*>(operand.scale)),
        first_row_(first_row + threadIdx.x % 32),
        rows_(rows),
        cols_(k / kVec) {
    const ScaleStrides& strides = operand.scale_strides;
    const auto address = reinterpret_cast<uintptr_t>(scales_);
    is_packed_ = strides.col == 1 && strides.quarter == 4 && strides.row == 16 &&
                 (address | strides.row_block | strides.col_block) % 16 == 0;
  }

  __device__ __forceinline__ int col_blocks() const { return (cols_ + kScaleBlockCols - 1) / kScaleBlockCols; }
  __device__ __forceinline__ int64_t row(int quarter) const { return first_row_ + quarter * kScaleRowsApart; }

  // Bytes of a word that are scales: those of rows and columns that exist.
  __device__ __forceinline__ uint32_t valid(int quarter, int col_block) const {
    const int cols = cols_ - col_block * kScaleBlockCols;
    if (row(quarter) >= rows_) return 0;
    return cols >= kScaleBlockCols ? 0xffffffff : (1u << 8 * cols) - 1;
  }

  // What is not valid is anything.
  __device__ __forceinline__ LaneScales load(int col_block) const {
    LaneScales scales{};
    const ScaleStrides& strides = operand_.scale_strides;
    const int col = col_block * kScaleBlockCols;
    if (is_packed_) {
      const uint4 block = *reinterpret_cast<const uint4*>(scales_ + strides.offset(first_row_, col));
      return {block.x, block.y, block.z, block.w};
    }
    for (int quarter = 0; quarter < kQuarters; ++quarter)
      for (int i = 0; i < kScaleBlockCols && row(quarter) < rows_ && col + i < cols_; ++i)
        scales.words[quarter] |= static_cast<uint32_t>(scales_[strides.offset(row(quarter), col + i)]) << 8 * i;
    return scales;
  }

  // Whether a block is more than zeros.
  __device__ __forceinline__ bool has_numbers(int quarter, int col) const {
    const auto* codes = static_cast<const uint8_t*>(operand_.data) + row(quarter) * operand_.stride_row;
    const uint4 block = *reinterpret_cast<const uint4*>(codes + col * (kVec / 2));
    return ((block.x | block.y | block.z | block.w) & 0x77777777) != 0;
  }

 private:
  const ScaledKernelOperand& operand_;
  const uint8_t* scales_;
  int64_t first_row_;
  int64_t rows_;
  int cols_;
  bool is_packed_;  // a lane's words lie together
};

__device__ __forceinline__ uint32_t largest_byte(uint32_t word) {
  word = __vmaxu4(word, word >> 16);
  return __vmaxu4(word, word >> 8) & 0xff;
}

// The bytes of `scales` that lie more than `binades` below `largest`, each as 0xff.
__device__ __forceinline__ uint32_t below(uint32_t scales, int largest, int binades) {
  return __vcmpltu4(scales, static_cast<uint32_t>(max(largest - binades, 0)) * 0x01010101);
}

// `found`, and the encodings that four scales of a row do not fit; blocks that cannot add to `found` are not read.
__device__ __forceinline__ uint32_t beyond(const RowBlock& block, int quarter, int col_block, uint32_t scales,
                                           int largest, uint32_t found) {
  const uint32_t valid = block.valid(quarter, col_block);
  if ((__vcmpeq4(scales, kE8M0NaN * 0x01010101u) & valid) != 0) return kBeyondInt8 | kBeyondFloat8;
  const bool has_exponent = largest >= kMinExponent && largest <= kMaxExponent;
  const uint32_t beyond_int8 = valid & (has_exponent ? below(scales, largest, kInt8Binades) : 0xffffffff);
  const uint32_t beyond_float8 = valid & (has_exponent ? below(scales, largest, kFloat8Binades) : 0xffffffff);
  uint32_t asked = (found & kBeyondFloat8) != 0 ? 0 : (found & kBeyondInt8) != 0 ? beyond_float8 : beyond_int8;
  while (asked != 0) {
    const int i = (__ffs(static_cast<int>(asked)) - 1) / 8;
    asked &= ~(0xffu << 8 * i);
    if (!block.has_numbers(quarter, col_block * kScaleBlockCols + i)) continue;
    found |= kBeyondInt8;
    if ((beyond_float8 >> 8 * i & 1) != 0) return found | kBeyondFloat8;
    asked &= beyond_float8;
  }
  return found;
}

// A CTA looks at 128 rows (a's come first), and leaves a word and the rows' exponents.
__global__ void __launch_bounds__(kThreads, 1) classify_scales(const __grid_constant__ ClassifyScalesParams params) {
  ptx::grid_dependency_wait();
  ptx::grid_dependency_launch();
  auto& largest = ptx::static_shared<uint32_t[kScaleBlockRows]>();
  auto& found_by_all = ptx::static_shared<uint32_t>();
  const ScaledKernelProblem& problem = params.problem;
  const auto blocks_a = static_cast<unsigned>(scale_row_blocks(problem.m));
  const bool is_b = blockIdx.x >= blocks_a;
  const int64_t rows = is_b ? problem.n : problem.m;
  const int64_t first_row = static_cast<int64_t>(blockIdx.x - (is_b ? blocks_a : 0)) * kScaleBlockRows;
  const RowBlock block(is_b ? problem.b : problem.a, first_row, rows, static_cast<int>(problem.k));
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  if (threadIdx.x < kScaleBlockRows) largest[threadIdx.x] = 0;
  if (threadIdx.x == 0) found_by_all = 0;
  __syncthreads();

  uint32_t most[kQuarters] = {};
  for (int col_block = warp; col_block < block.col_blocks(); col_block += kWarps) {
    const LaneScales scales = block.load(col_block);
#pragma unroll
    for (int quarter = 0; quarter < kQuarters; ++quarter)
      most[quarter] = __vmaxu4(most[quarter], scales.words[quarter] & block.valid(quarter, col_block));
  }
#pragma unroll
  for (int quarter = 0; quarter < kQuarters; ++quarter)
    atomicMax(&largest[quarter * kScaleRowsApart + lane], largest_byte(most[quarter]));
  __syncthreads();

  uint32_t found = 0;
  for (int col_block = warp; col_block < block.col_blocks(); col_block += kWarps) {
    const LaneScales scales = block.load(col_block);
#pragma unroll
    for (int quarter = 0; quarter < kQuarters; ++quarter)
      found = __reduce_or_sync(0xffffffff, beyond(block, quarter, col_block, scales.words[quarter],
                                                  static_cast<int>(largest[quarter * kScaleRowsApart + lane]), found));
  }
  if (lane == 0 && found != 0) atomicOr(&found_by_all, found);
  if (const int64_t row = first_row + threadIdx.x; threadIdx.x < kScaleBlockRows && row < rows)
    (is_b ? params.exponents_b : params.exponents_a)[row] =
        static_cast<uint8_t>(min(max(static_cast<int>(largest[threadIdx.x]), kMinExponent), kMaxExponent));
  __syncthreads();
  if (threadIdx.x > 0) return;
  if (blockIdx.x == 0 && params.other_word != nullptr) found_by_all |= *params.other_word;
  params.words[blockIdx.x] = found_by_all;
  if (params.all != nullptr && found_by_all != 0) atomicOr(params.all, found_by_all);
}

}  // namespace

void run_classify_scales(const ClassifyScalesParams& params, cudaStream_t stream) {
  const auto ctas = static_cast<unsigned>(classify_ctas(params.problem));
  launch(&classify_scales, dim3(ctas), kThreads, 0, params, stream);
}

}  // namespace tileon::sm90
