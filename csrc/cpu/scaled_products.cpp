// Scaled products on CPU tensors: which block each thread computes, and what follows the sums.
#include "cpu/scaled_products.h"

#include <torch/csrc/stable/ops.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "checks/operands.h"
#include "core/fold.h"
#include "cpu/dequantize_row.h"
#include "cpu/scaled_block.h"

namespace tileon {
namespace {

// ---- which version of the vector code ----

constexpr const char* kVersions[] = {"baseline", "avx2", "avx512"};

// The widest version that this processor runs: a number of kVersions.
int widest_version() {
#ifdef __x86_64__
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("f16c")) return 0;
  const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return has_avx512 ? 2 : 1;
#else
  return 0;
#endif
}

int wanted_version() {
  const char* name = std::getenv("TILEON_CPU_VECTORS");
  if (name == nullptr || *name == '\0') return 2;
  for (int i = 0; i < 3; ++i)
    if (strcmp(name, kVersions[i]) == 0) return i;
  fail("tileon: TILEON_CPU_VECTORS must be baseline, avx2 or avx512, got ", name);
}

const ScaledKernels& kernels_of(int version) {
#ifdef __x86_64__
  if (version == 2) return kAvx512Kernels;
  if (version == 1) return kAvx2Kernels;
#endif
  static_cast<void>(version);
  return kBaselineKernels;
}

// Read once, at the first product.
const ScaledKernels& scaled_kernels() {
  static const ScaledKernels& kernels = kernels_of(std::min(widest_version(), wanted_version()));
  return kernels;
}

// ---- memory of a thread ----

struct AlignedDelete {
  void operator()(void* memory) const { ::operator delete(memory, std::align_val_t(kTileAlignment)); }
};

template <typename T>
using Aligned = std::unique_ptr<T[], AlignedDelete>;

template <typename T>
Aligned<T> aligned(int64_t count) {
  return Aligned<T>(static_cast<T*>(::operator new(count * sizeof(T), std::align_val_t(kTileAlignment))));
}

// ---- blocks ----

constexpr int kMaxCols = 32 * kTileCols;  // of a block

struct Blocks {
  int64_t cols, per_row, count;
};

int64_t in_tiles(int64_t cols) { return (cols + kTileCols - 1) / kTileCols * kTileCols; }

// Columns in a block: some blocks for each thread; at least 40 us of work, which is more than waking a thread costs;
// not so few that making the rows of `a` ready counts.
Blocks blocks_of(const Problem& problem) {
  constexpr double kNsPerProduct = 0.03, kNsPerDecode = 0.15, kNsPerBlock = 40'000;
  constexpr int64_t kMinCols = 8 * kTileCols, kBlocksPerThread = 4;
  const int64_t rows = std::min<int64_t>(problem.m, kTileRows), per_col = (problem.m + kTileRows - 1) / kTileRows;
  const double ns_per_col =
      static_cast<double>(problem.k + 1) * (kNsPerDecode + static_cast<double>(rows) * kNsPerProduct);
  const auto worth_a_thread = static_cast<int64_t>(std::min(kNsPerBlock / ns_per_col, 1e6));
  const int64_t shared = problem.n * per_col / (kBlocksPerThread * torch::stable::get_num_threads());
  const int64_t least = std::clamp<int64_t>(worth_a_thread, kMinCols, kMaxCols);
  const int64_t cols = in_tiles(std::min(std::clamp<int64_t>(shared, least, kMaxCols), problem.n));
  const int64_t per_row = (problem.n + cols - 1) / cols;
  return {cols, per_row, per_col * per_row};
}

float row_scale(const Operand& operand, int64_t row) {
  return static_cast<const float*>(operand.scale.data)[operand.scale.strides.of_row(row)];
}

// Sums of int8 codes times both scales, rounded once: the product of an integer below 2^53 and two float32 numbers
// hardly errs in double.
void scale_sums(const Problem& problem, const ScaledBlock& block, const int64_t* codes, float* sums) {
  for (int r = 0; r < block.rows; ++r, codes += block.sums_stride, sums += block.sums_stride) {
    const double of_row = row_scale(problem.a, block.row + r);
    for (int c = 0; c < block.cols; ++c)
      sums[c] = static_cast<float>(static_cast<double>(codes[c]) * of_row * row_scale(problem.b, block.col + c));
  }
}

// Sums of folded rows times both powers of two: in double, which holds each of the three.
void scale_sums(const Problem& problem, const ScaledBlock& block, float* sums) {
  const auto power = [](const Operand& operand, int64_t row) { return std::exp2(operand.scale.fold_powers[row]); };
  std::array<double, kMaxCols> of_cols;
  for (int c = 0; c < block.cols; ++c) of_cols[c] = power(problem.b, block.col + c);
  for (int r = 0; r < block.rows; ++r, sums += block.sums_stride) {
    const double of_row = power(problem.a, block.row + r);
    for (int c = 0; c < block.cols; ++c) sums[c] = static_cast<float>(sums[c] * of_row * of_cols[c]);
  }
}

}  // namespace

void decode_exactly(const Operand& operand, int64_t row, int64_t begin, int count, float* to) {
  float values[kChunk];
  dequantize_row(operand, row, begin, count, 1, values);
  std::fill_n(to, (count + kGroup - 1) / kGroup * kGroup, 0.0f);
  if (operand.scale.fold_powers != nullptr)
    for (int i = 0; i < count; ++i) values[i] = values[i] + kFoldSteps - kFoldSteps;
  for (int i = 0; i < count; ++i) to[tile_index(i)] = values[i];
}

const char* multiply_scaled(const Problem& problem, const FinishedSums& finished) {
  const ScaledKernels& kernels = scaled_kernels();
  const Blocks blocks = blocks_of(problem);
  const bool is_int8 = is_int8_product(problem);
  const int64_t most_rows = std::min<int64_t>(problem.m, kTileRows);
  torch::stable::parallel_for(0, blocks.count, 1, [&](int64_t begin, int64_t end) {
    const auto a_tile = aligned<uint8_t>(kTileRows * kTileRowBytes),
               b_tile = aligned<uint8_t>(kTileCols * kTileRowBytes);
    const auto sums = aligned<float>(most_rows * blocks.cols);
    const auto codes = aligned<int64_t>(is_int8 ? most_rows * blocks.cols : 0);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i / blocks.per_row * kTileRows, col = i % blocks.per_row * blocks.cols;
      const ScaledBlock block{row,
                              col,
                              static_cast<int>(std::min<int64_t>(problem.m - row, kTileRows)),
                              static_cast<int>(std::min(problem.n - col, blocks.cols)),
                              static_cast<int>(blocks.cols),
                              a_tile.get(),
                              b_tile.get()};
      if (is_int8) {
        kernels.multiply_int8(problem, block, codes.get());
        scale_sums(problem, block, codes.get(), sums.get());
      } else {
        kernels.multiply(problem, block, sums.get());
        if (problem.a.scale.fold_powers != nullptr) scale_sums(problem, block, sums.get());
      }
      write_block(finished, sums.get(), block.sums_stride, block.row, block.rows, block.col, block.cols);
    }
  });
  return problem.m == 1 && !is_int8 ? kernels.row_name : kernels.tiles_name;
}

}  // namespace tileon
