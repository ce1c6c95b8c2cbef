// Which block of the output each thread computes, and what follows the sums.
#include "cpu/tiles/multiply.h"

#include <torch/csrc/stable/ops.h>

#include <algorithm>
#include <array>
#include <memory>
#include <new>

#include "cpu/tiles/block.h"
#include "cpu/tiles/versions.h"
#include "cpu/tiles/waiting_scales.h"

namespace tileon {
namespace {

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

int64_t rounded_up(int64_t count, int64_t unit) { return (count + unit - 1) / unit * unit; }

// Columns in a block: some blocks for each thread; at least 40 us of work, which is more than waking a thread costs;
// not so few that making the rows of `a` ready counts.
Blocks blocks_of(const Problem& problem, const BlockShape& shape) {
  constexpr double kNsPerProduct = 0.02, kAmxNsPerProduct = 0.0006, kNsPerDecode = 0.1, kNsPerBlock = 40'000;
  constexpr int64_t kMinCols = 64, kBlocksPerThread = 4;
  const double ns_per_product = shape.is_of_registers ? kAmxNsPerProduct : kNsPerProduct;
  const int64_t rows = std::min<int64_t>(problem.m, shape.rows), per_col = (problem.m + shape.rows - 1) / shape.rows;
  const double ns_per_col =
      static_cast<double>(problem.k + 1) * (kNsPerDecode + static_cast<double>(rows) * ns_per_product);
  const auto worth_a_thread = static_cast<int64_t>(std::min(kNsPerBlock / ns_per_col, 1e6));
  const int64_t shared = problem.batch * problem.n * per_col / (kBlocksPerThread * torch::stable::get_num_threads());
  const int64_t least = std::clamp<int64_t>(worth_a_thread, kMinCols, shape.cols);
  const int64_t cols = rounded_up(std::min(std::clamp<int64_t>(shared, least, shape.cols), problem.n), shape.tile_cols);
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

// ---- a thread ----

// What a block takes besides its sums.
struct BlockMemory {
  Aligned<uint8_t> a_tile, b_tile;

  BlockMemory(const BlockShape& shape, int64_t rows, int64_t k, int element_bytes) {
    if (shape.is_of_registers) {
      const int64_t count = std::min(k, pass_length(rows, element_bytes));
      const int64_t scales = rounded_up(count, kFloat32ScaleBlock) / kFloat32ScaleBlock * in_registers(rows);
      a_tile = aligned<uint8_t>(packed_bytes(rows, count, element_bytes) + scales * sizeof(float));
    } else {
      const int64_t chunks = std::clamp<int64_t>((k + kChunk - 1) / kChunk, 1, kTileRows / rows);
      a_tile = aligned<uint8_t>(rows * chunks * tile_row_bytes(element_bytes));
    }
    b_tile = aligned<uint8_t>(shape.tile_cols * tile_row_bytes(element_bytes));
  }
};

class BlockRunner {
 public:
  BlockRunner(const Problem& problem, const TileKernels& kernels, const FinishedSums& finished,
              const FinishedSums* before, const Blocks& blocks)
      : problem_(problem),
        kernels_(kernels),
        finished_(finished),
        before_(before),
        blocks_(blocks),
        is_int8_(is_int8_product(problem)),
        is_float64_(problem.a.dtype == DType::kFloat64),
        keeps_rows_(is_amx() && problem.k <= pass_length(most_rows(), element_bytes())),
        memory_(kernels.shape, most_rows(), problem.k, element_bytes()) {
    const int64_t sums = most_rows() * blocks.cols;
    sums_ = aligned<float>(is_float64_ ? 0 : sums);
    codes_ = aligned<int64_t>(is_int8_ ? sums : 0);
    wide_sums_ = aligned<double>(is_float64_ ? sums : 0);
  }

  void run(int64_t number) {
    const int64_t batch = number / blocks_.per_matrix, i = number % blocks_.per_matrix;
    const Problem problem = matrix_of_batch(problem_, batch);
    const int64_t row = i / blocks_.per_row * kernels_.shape.rows, col = i % blocks_.per_row * blocks_.cols;
    const TileBlock block{row,
                          col,
                          static_cast<int>(std::min<int64_t>(problem.m - row, kernels_.shape.rows)),
                          static_cast<int>(std::min(problem.n - col, blocks_.cols)),
                          static_cast<int>(blocks_.cols),
                          memory_.a_tile.get(),
                          memory_.b_tile.get(),
                          keeps_rows_ && number / blocks_.per_row == rows_number_,
                          &unusual_};
    rows_number_ = number / blocks_.per_row;
    if (is_float64_) {
      kernels_.multiply_float64(problem, block, wide_sums_.get());
      return write(block, batch, wide_sums_.get());
    }
    if (is_int8_) {
      kernels_.multiply_int8(problem, block, codes_.get());
      scale_sums(problem, block, codes_.get(), sums_.get());
    } else {
      kernels_.multiply(problem, block, sums_.get());
      if (is_amx()) take_unusual(problem, block);
      if (has_factors(problem.a) || has_factors(problem.b)) scale_sums(problem, block, sums_.get(), sums_.get());
      if (problem.is_weight_only() && has_factors(problem.b)) take_immoderate_rows(problem, block);
    }
    write(block, batch, sums_.get());
  }

 private:
  bool is_amx() const { return kernels_.shape.is_of_registers; }
  int64_t most_rows() const { return std::min<int64_t>(problem_.m, kernels_.shape.rows); }
  int element_bytes() const {
    if (is_float64_) return sizeof(double);
    return !is_amx() ? sizeof(float) : is_int8_ ? sizeof(int8_t) : sizeof(uint16_t);
  }

  template <typename Sum>
  void write(const TileBlock& block, int64_t batch, const Sum* sums) const {
    const int64_t row = batch * problem_.m + block.row;
    if (before_ != nullptr) write_block(*before_, sums, block.sums_stride, row, block.rows, block.col, block.cols);
    write_block(finished_, sums, block.sums_stride, row, block.rows, block.col, block.cols);
  }

  // What AMX's registers cannot multiply.
  void take_unusual(const Problem& problem, const TileBlock& block) {
    const auto is_taken = [&](int row, int col) { return unusual_.rows[row] != 0 || unusual_.cols[col] != 0; };
    for_each_run(unusual_.cols, block.cols, [&](int col, int cols) {
      take_by_vectors(problem, block, {0, block.rows, col, cols}, is_taken);
    });
    for_each_run(unusual_.rows, block.rows, [&](int row, int rows) {
      take_by_vectors(problem, block, {row, rows, 0, block.cols}, is_taken);
    });
  }

  // Rows of `a` with numbers of unusual sizes: the scales go with the elements of `b`.
  void take_immoderate_rows(const Problem& problem, const TileBlock& block) {
    Problem exact = problem;
    exact.b.scale.may_wait = false;
    std::array<uint8_t, std::max(kTileRows, kAmxRows)> is_immoderate;
    for (int r = 0; r < block.rows; ++r) {
      const bool is_usual = is_amx() && unusual_.rows[r] == 0;  // which is moderate
      is_immoderate[r] = is_usual || is_row_moderate(problem.a, block.row + r, problem.k) ? 0 : 1;
    }
    for_each_run(is_immoderate.data(), block.rows, [&](int row, int rows) {
      take_by_vectors(exact, block, {row, rows, 0, block.cols}, [&](int r, int) { return is_immoderate[r] != 0; });
    });
  }

  // Calls use(begin, count) for the runs of set flags. Flags that are few apart share a run: some rows more are
  // multiplied sooner than another run is begun.
  template <typename Use>
  static void for_each_run(const uint8_t* flags, int count, const Use& use) {
    constexpr int kApart = 8;
    for (int begin = 0; begin < count; ++begin) {
      if (flags[begin] == 0) continue;
      int end = begin + 1;
      for (int i = end; i < count && i < end + kApart; ++i) end = flags[i] != 0 ? i + 1 : end;
      use(begin, end - begin);
      begin = end;
    }
  }

  // Of a block.
  struct Area {
    int row, rows, col, cols;
  };

  // Of the sums of an area, those that is_taken(row, col) names, by the vector code.
  template <typename IsTaken>
  void take_by_vectors(const Problem& problem, const TileBlock& block, const Area& area, const IsTaken& is_taken) {
    if (!exact_) exact_ = std::make_unique<ExactBlock>(problem.k);
    for (int row = area.row; row < area.row + area.rows; row += kTileRows)
      for (int col = area.col; col < area.col + area.cols; col += kMaxBlockCols) {
        const TileBlock part{block.row + row,
                             block.col + col,
                             std::min(area.row + area.rows - row, kTileRows),
                             std::min(area.col + area.cols - col, kMaxBlockCols),
                             kMaxBlockCols,
                             exact_->memory.a_tile.get(),
                             exact_->memory.b_tile.get()};
        vector_kernels().multiply(problem, part, exact_->sums.get());
        for (int r = 0; r < part.rows; ++r)
          for (int c = 0; c < part.cols; ++c)
            if (is_taken(row + r, col + c))
              sums_[(row + r) * block.sums_stride + col + c] = exact_->sums[r * kMaxBlockCols + c];
      }
  }

  // Sums that few products need, by the vector code.
  struct ExactBlock {
    BlockMemory memory;
    Aligned<float> sums;

    explicit ExactBlock(int64_t k)
        : memory(kVectorBlocks, kTileRows, k, sizeof(float)), sums(aligned<float>(kTileRows * kMaxBlockCols)) {}
  };

  const Problem& problem_;
  const TileKernels& kernels_;
  const FinishedSums& finished_;
  const FinishedSums* before_;
  const Blocks& blocks_;
  const bool is_int8_, is_float64_, keeps_rows_;
  const BlockMemory memory_;
  int64_t rows_number_ = -1;  // whose rows the a_tile has: the number of matrix and rows
  UnusualSums unusual_;
  Aligned<float> sums_;
  std::unique_ptr<ExactBlock> exact_;
  Aligned<int64_t> codes_;
  Aligned<double> wide_sums_;
};

}  // namespace

const char* multiply_by_tiles(const Problem& given, const FinishedSums& finished, const FinishedSums* before,
                              bool is_batch_invariant) {
  Problem problem = with_shared_rows(given);
  problem.a.scale.may_wait = given.k > 0 && is_constant_along_k(given.a.scale);  // without k there may be no scale
  problem.b.scale.may_wait = given.k > 0 && is_constant_along_k(given.b.scale);
  const TileKernels& kernels = kernels_of(problem, is_batch_invariant);
  const Blocks blocks = blocks_of(problem, kernels.shape);
  torch::stable::parallel_for(0, blocks.count, blocks_in_a_task(problem, blocks), [&](int64_t begin, int64_t end) {
    BlockRunner runner(problem, kernels, finished, before, blocks);
    for (int64_t i = begin; i < end; ++i) runner.run(i);
  });
  const bool is_row = problem.m == 1 && problem.a.dtype != DType::kFloat64 && !is_int8_product(problem);
  return is_row ? kernels.row_name : kernels.tiles_name;
}

}  // namespace tileon
