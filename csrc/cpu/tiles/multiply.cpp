// Which block of the output each thread computes, by which version of the vector code, and what follows the sums.
#include "cpu/tiles/multiply.h"

#include <torch/csrc/stable/ops.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <new>
#include <type_traits>

#include "checks/operands.h"
#include "core/small_floats.h"
#include "cpu/tiles/block.h"

namespace tileon {
namespace {

// ---- which version of the vector code ----

constexpr const char* kVersions[] = {"baseline", "avx2", "avx512", "avx512_bf16"};

// The widest version that this processor runs: a number of kVersions.
int widest_version() {
#ifdef __x86_64__
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("f16c")) return 0;
  const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return !has_avx512 ? 1 : __builtin_cpu_supports("avx512bf16") ? 3 : 2;
#else
  return 0;
#endif
}

int wanted_version() {
  const char* name = std::getenv("TILEON_CPU_VECTORS");
  if (name == nullptr || *name == '\0') return std::size(kVersions) - 1;
  for (int i = 0; i < static_cast<int>(std::size(kVersions)); ++i)
    if (strcmp(name, kVersions[i]) == 0) return i;
  fail("tileon: TILEON_CPU_VECTORS must be baseline, avx2, avx512 or avx512_bf16, got ", name);
}

const TileKernels& kernels_of(int version) {
#ifdef __x86_64__
  if (version == 3) return kAvx512Bfloat16Kernels;
  if (version == 2) return kAvx512Kernels;
  if (version == 1) return kAvx2Kernels;
#endif
  static_cast<void>(version);
  return kBaselineKernels;
}

// Read once, at the first product.
int version_in_use() {
  static const int version = std::min(widest_version(), wanted_version());
  return version;
}

const TileKernels& tile_kernels() {
  static const TileKernels& kernels = kernels_of(version_in_use());
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

struct Blocks {
  int64_t cols, per_row, per_matrix, count;
};

int64_t in_tiles(int64_t cols) { return (cols + kTileCols - 1) / kTileCols * kTileCols; }

// Columns in a block: some blocks for each thread; at least 40 us of work, which is more than waking a thread costs;
// not so few that making the rows of `a` ready counts.
Blocks blocks_of(const Problem& problem) {
  constexpr double kNsPerProduct = 0.02, kNsPerDecode = 0.1, kNsPerBlock = 40'000;
  constexpr int64_t kMinCols = 8 * kTileCols, kBlocksPerThread = 4;
  const int64_t rows = std::min<int64_t>(problem.m, kTileRows), per_col = (problem.m + kTileRows - 1) / kTileRows;
  const double ns_per_col =
      static_cast<double>(problem.k + 1) * (kNsPerDecode + static_cast<double>(rows) * kNsPerProduct);
  const auto worth_a_thread = static_cast<int64_t>(std::min(kNsPerBlock / ns_per_col, 1e6));
  const int64_t shared = problem.batch * problem.n * per_col / (kBlocksPerThread * torch::stable::get_num_threads());
  const int64_t least = std::clamp<int64_t>(worth_a_thread, kMinCols, kMaxBlockCols);
  const int64_t cols = in_tiles(std::min(std::clamp<int64_t>(shared, least, kMaxBlockCols), problem.n));
  const int64_t per_row = (problem.n + cols - 1) / cols;
  return {cols, per_row, per_col * per_row, problem.batch * per_col * per_row};
}

// Blocks that are worth a thread's wake-up together.
int64_t blocks_in_a_task(const Problem& problem, const Blocks& blocks) {
  constexpr double kProductsPerTask = 2e6;
  const double products = problem.products() / static_cast<double>(blocks.count);
  return 1 + static_cast<int64_t>(kProductsPerTask / (products + 1));
}

// The rows of a whole batch as one matrix's where they share `b` and their distance.
Problem with_shared_rows(const Problem& given) {
  Problem problem = given;
  const bool is_regular = given.m == 1 || given.a.stride_batch == given.m * given.a.stride_mn;
  if (given.batch == 1 || given.b.stride_batch != 0 || !is_regular) return problem;
  if (given.m == 1) problem.a.stride_mn = given.a.stride_batch;
  problem.m *= given.batch;
  problem.batch = 1;
  return problem;
}

const void* moved(const void* data, int64_t bytes) { return static_cast<const char*>(data) + bytes; }

Problem matrix_of_batch(const Problem& problem, int64_t i) {
  Problem matrix = problem;
  matrix.a.data = moved(problem.a.data, i * problem.a.stride_batch * info(problem.a.dtype).bytes);
  matrix.b.data = moved(problem.b.data, i * problem.b.stride_batch * info(problem.b.dtype).bytes);
  return matrix;
}

// ---- factors of the sums ----

// What the sums of a row are multiplied by: its scale where that waits for them, as those of int8 codes all do, or the
// power of two of its fold.
double factor_of_sums(const Operand& operand, int64_t row, bool are_of_codes) {
  if (operand.scale.fold_powers != nullptr) return std::exp2(operand.scale.fold_powers[row]);
  if (!operand.scale.may_wait) return 1;
  const float scale = static_cast<const float*>(operand.scale.data)[operand.scale.strides.of_row(row)];
  return are_of_codes || waits_for_sums(operand.scale, bits_of(scale)) ? scale : 1;
}

// Sums times the factors of both operands, rounded once: in double, which hardly errs.
template <typename Sum>
void scale_sums(const Problem& problem, const TileBlock& block, const Sum* sums, float* to) {
  constexpr bool are_of_codes = std::is_integral_v<Sum>;
  std::array<double, kMaxBlockCols> of_cols;
  for (int c = 0; c < block.cols; ++c) of_cols[c] = factor_of_sums(problem.b, block.col + c, are_of_codes);
  for (int r = 0; r < block.rows; ++r, sums += block.sums_stride, to += block.sums_stride) {
    const double of_row = factor_of_sums(problem.a, block.row + r, are_of_codes);
    for (int c = 0; c < block.cols; ++c) to[c] = static_cast<float>(static_cast<double>(sums[c]) * of_row * of_cols[c]);
  }
}

bool has_factors(const Operand& operand) { return operand.scale.may_wait || operand.scale.fold_powers != nullptr; }

// Whether each number of a row is of a usual size, or 0: scales of a weight may then wait for its sums.
bool is_row_moderate(const Operand& a, int64_t row, int64_t k) {
  constexpr uint32_t kLeast = (127 - 60) << 23, kMost = (127 + 60) << 23;
  const auto* words = static_cast<const uint16_t*>(a.data) + row * a.stride_mn;
  for (int64_t i = 0; i < k; ++i) {
    const uint16_t word = words[i * a.stride_k];
    const uint32_t magnitude =
        bits_of(a.dtype == DType::kFloat16 ? float16_value(word) : float_of(uint32_t{word} << 16)) & 0x7fffffffu;
    if (magnitude != 0 && (magnitude < kLeast || magnitude > kMost)) return false;
  }
  return true;
}

// ---- a thread ----

class BlockRunner {
 public:
  BlockRunner(const Problem& problem, const FinishedSums& finished, const FinishedSums* before, const Blocks& blocks)
      : problem_(problem),
        finished_(finished),
        before_(before),
        blocks_(blocks),
        is_int8_(is_int8_product(problem)),
        is_float64_(problem.a.dtype == DType::kFloat64) {
    const int64_t most_rows = std::min<int64_t>(problem.m, kTileRows), sums = most_rows * blocks.cols;
    const int64_t chunks = std::clamp<int64_t>((problem.k + kChunk - 1) / kChunk, 1, kTileRows / most_rows);
    const int64_t row_bytes = tile_row_bytes(is_float64_ ? sizeof(double) : sizeof(float));
    a_tile_ = aligned<uint8_t>(most_rows * chunks * row_bytes);
    b_tile_ = aligned<uint8_t>(kTileCols * row_bytes);
    sums_ = aligned<float>(is_float64_ ? 0 : sums);
    exact_sums_ = aligned<float>(problem.is_weight_only() && has_factors(problem.b) ? sums : 0);
    codes_ = aligned<int64_t>(is_int8_ ? sums : 0);
    wide_sums_ = aligned<double>(is_float64_ ? sums : 0);
  }

  void run(int64_t number) const {
    const TileKernels& kernels = tile_kernels();
    const int64_t batch = number / blocks_.per_matrix, i = number % blocks_.per_matrix;
    const Problem problem = matrix_of_batch(problem_, batch);
    const int64_t row = i / blocks_.per_row * kTileRows, col = i % blocks_.per_row * blocks_.cols;
    const TileBlock block{row,
                          col,
                          static_cast<int>(std::min<int64_t>(problem.m - row, kTileRows)),
                          static_cast<int>(std::min(problem.n - col, blocks_.cols)),
                          static_cast<int>(blocks_.cols),
                          a_tile_.get(),
                          b_tile_.get()};
    if (is_float64_) {
      kernels.multiply_float64(problem, block, wide_sums_.get());
      return write(block, batch, wide_sums_.get());
    }
    if (is_int8_) {
      kernels.multiply_int8(problem, block, codes_.get());
      scale_sums(problem, block, codes_.get(), sums_.get());
    } else {
      kernels.multiply(problem, block, sums_.get());
      if (has_factors(problem.a) || has_factors(problem.b)) scale_sums(problem, block, sums_.get(), sums_.get());
      if (problem.is_weight_only() && has_factors(problem.b)) take_immoderate_rows(problem, block);
    }
    write(block, batch, sums_.get());
  }

 private:
  template <typename Sum>
  void write(const TileBlock& block, int64_t batch, const Sum* sums) const {
    const int64_t row = batch * problem_.m + block.row;
    if (before_ != nullptr) write_block(*before_, sums, block.sums_stride, row, block.rows, block.col, block.cols);
    write_block(finished_, sums, block.sums_stride, row, block.rows, block.col, block.cols);
  }

  // Rows of `a` with numbers of unusual sizes: the scales go with the elements of `b`.
  void take_immoderate_rows(const Problem& problem, const TileBlock& block) const {
    bool is_multiplied = false;
    for (int r = 0; r < block.rows; ++r) {
      if (is_row_moderate(problem.a, block.row + r, problem.k)) continue;
      if (!is_multiplied) {
        Problem exact = problem;
        exact.b.scale.may_wait = false;
        tile_kernels().multiply(exact, block, exact_sums_.get());
        is_multiplied = true;
      }
      std::copy_n(exact_sums_.get() + r * block.sums_stride, block.cols, sums_.get() + r * block.sums_stride);
    }
  }

  const Problem& problem_;
  const FinishedSums& finished_;
  const FinishedSums* before_;
  const Blocks& blocks_;
  const bool is_int8_, is_float64_;
  Aligned<uint8_t> a_tile_, b_tile_;
  Aligned<float> sums_, exact_sums_;
  Aligned<int64_t> codes_;
  Aligned<double> wide_sums_;
};

}  // namespace

bool multiplies_pairs_of_bfloat16() { return version_in_use() == 3; }

const char* multiply_by_tiles(const Problem& given, const FinishedSums& finished, const FinishedSums* before) {
  Problem problem = with_shared_rows(given);
  problem.a.scale.may_wait = given.k > 0 && is_constant_along_k(given.a.scale);  // without k there may be no scale
  problem.b.scale.may_wait = given.k > 0 && is_constant_along_k(given.b.scale);
  const Blocks blocks = blocks_of(problem);
  torch::stable::parallel_for(0, blocks.count, blocks_in_a_task(problem, blocks), [&](int64_t begin, int64_t end) {
    const BlockRunner runner(problem, finished, before, blocks);
    for (int64_t i = begin; i < end; ++i) runner.run(i);
  });
  const bool is_row = problem.m == 1 && problem.a.dtype != DType::kFloat64 && !is_int8_product(problem);
  return is_row ? tile_kernels().row_name : tile_kernels().tiles_name;
}

}  // namespace tileon
