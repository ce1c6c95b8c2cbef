// From the sums of codes to the product, by float32 scales of blocks of 128 k. A stage of the pipeline has a block,
// whose sums the main loop multiplies by scales while it adds them up (BlockScaledMainLoop in mainloop/mma.cuh): by
// that of a's row, and that of b, which 128 rows share: a tile's.
//
// The scales come with the stage. Warps of their own write them there: loads, and what there is to work out for them,
// would hold a consumer up between its products.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/ptx/shared.cuh"
#include "cuda/sm90/epilogue/accumulator_scale.cuh"
#include "cuda/sm90/epilogue/factor_scale.cuh"
#include "cuda/sm90/heuristics/config.h"
#include "cuda/sm90/layout/kernel_params.h"
#include "cuda/sm90/mainloop/kernel.cuh"

namespace tileon::sm90 {

// ---- a stage's scales as they lie in it: a factor for each of the tile's rows of a, and a word for each warp that
// writes them. The factors are the products of both scales, and the word is 0. Where one of a warp's products is not
// ordinary, its factors are the scales of a alone, and the word is the scale of b, which is not 0 then ----

template <typename Kernel>
struct PlacesOfFactors {
  static constexpr int kWarps = Kernel::config.scale_warps();
  static constexpr int kRowsOfWarp = Kernel::config.tile_m / kWarps;

  __device__ __forceinline__ explicit PlacesOfFactors(uint32_t stage) : begin_(stage + Kernel::stage_scales_offset) {}

  __device__ __forceinline__ uint32_t of_row(int row) const { return begin_ + row * 4; }
  __device__ __forceinline__ uint32_t word_of(int row) const {
    return of_row(Kernel::config.tile_m) + row / kRowsOfWarp * 4;
  }

 private:
  uint32_t begin_;
};

__device__ __forceinline__ uint32_t magnitude_of(float x) { return __float_as_uint(x) & 0x7fffffff; }
// A finite number that is not subnormal.
__device__ __forceinline__ bool is_normal(float x) { return magnitude_of(x) - 0x00800000 < 0x7f000000; }
// A finite number other than 0.
__device__ __forceinline__ bool is_plain(float x) { return magnitude_of(x) - 1 < 0x7f7fffff; }

// Warp `number` of those that write them, each for an even share of the tile's rows of a.
template <typename Kernel>
class StageScalesWriter {
 public:
  using StagePipeline = typename Kernel::StagePipeline;
  __device__ __forceinline__ StageScalesWriter(const FactorParams& params, const StagePipeline& pipeline, int number)
      : params_(params), pipeline_(pipeline), first_row_(number * kRows) {}

  // Those of blocks `begin` to before `end` of k, of the tile at `position`. By the whole warp. A block's scales are on
  // their way while the two blocks before wait for their stages: from L2 they come after more than one stage's time.
  __device__ __forceinline__ void write(const TilePosition& position, int begin, int end) {
    move_to(position);
    Scales even = load(begin), odd = load(min(begin + 1, end - 1));
    const auto write_one = [&](Scales& scales, int block) {
      pipeline_.wait_until_empty(at_);
      store(scales, pipeline_.data(at_.stage));
      ptx::mbarrier_arrive(pipeline_.full(at_.stage));  // by each lane: racecheck counts it for that one alone
      at_.advance(pipeline_.stages());
      if (block + 2 < end) scales = load(block + 2);
    };
#pragma unroll 1
    for (int block = begin; block < end; block += 2) {
      write_one(even, block);
      if (block + 1 < end) write_one(odd, block + 1);
    }
  }

 private:
  static constexpr int kRows = PlacesOfFactors<Kernel>::kRowsOfWarp, kOfLane = (kRows + 31) / 32;
  struct Scales {
    float a[kOfLane], b;
  };

  // Rows behind the last one have its scales: their products are not stored.
  __device__ __forceinline__ void move_to(const TilePosition& position) {
    const int last = static_cast<int>(params_.problem.m) - 1;
    const int row = position.m_begin + first_row_ + static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) rows_[i] = params_.a.of_row(min(row + 32 * i, last));
    column_ = params_.b.of_row(position.n_begin);
  }

  __device__ __forceinline__ Scales load(int block) const {
    Scales scales;
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) scales.a[i] = rows_[i][block * params_.a.step];
    scales.b = column_[block * params_.b.step];
    return scales;
  }

  __device__ __forceinline__ void store(const Scales& scales, uint32_t stage) const {
    const PlacesOfFactors<Kernel> to(stage);
    const int lane = threadIdx.x % 32;
    float products[kOfLane];
    bool are_ordinary = true;
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) {
      products[i] = scales.a[i] * scales.b;
      are_ordinary &= is_normal(products[i]);
    }
    are_ordinary = __all_sync(0xffffffff, are_ordinary);
    if (!are_ordinary) are_ordinary = __all_sync(0xffffffff, are_ordinary_products(scales));
#pragma unroll
    for (int i = 0; i < kOfLane; ++i)
      if (kRows % 32 == 0 || lane + 32 * i < kRows)
        ptx::store_shared(to.of_row(first_row_ + lane + 32 * i), are_ordinary ? products[i] : scales.a[i]);
    if (lane == 0) ptx::store_shared_4(to.word_of(first_row_), are_ordinary ? 0 : __float_as_uint(scales.b));
  }

  // Whether the products are what they are in double, but for rounding: those of zeros, infinities and NaN are, others
  // where they are neither too large nor too small for float32.
  static __device__ __forceinline__ bool are_ordinary_products(const Scales& scales) {
    bool are = true;
#pragma unroll
    for (const float a : scales.a) are &= is_normal(a * scales.b) || !is_plain(a) || !is_plain(scales.b);
    return are;
  }

  const FactorParams& params_;
  const StagePipeline& pipeline_;
  int first_row_;  // of the tile
  PipelineState at_;
  const float* rows_[kOfLane];
  const float* column_;
};

// ---- a consumer ----

// What a thread multiplies a stage's sums by. Of kernels that are not swapped it has two rows of a. Of swapped ones
// they are the columns, of which it has two of every eight.
template <typename Kernel>
class FactorsOfStage {
 public:
  // By whole warps.
  __device__ __forceinline__ void read(uint32_t stage) {
    const PlacesOfFactors<Kernel> scales(stage);
    if constexpr (Kernel::swapped) {
#pragma unroll
      for (int i = 0; i < kRows; i += 2) {
        uint32_t pair[2];
        ptx::load_shared_words(pair, scales.of_row(i * 4 + threadIdx.x % 4 * 2));
        rows_[i] = __uint_as_float(pair[0]);
        rows_[i + 1] = __uint_as_float(pair[1]);
      }
    } else {
      const int row = threadIdx.x / 32 * kStoreRows + threadIdx.x % 32 / 4;
      rows_[0] = __uint_as_float(ptx::load_shared_4(scales.of_row(row)));
      rows_[1] = __uint_as_float(ptx::load_shared_4(scales.of_row(row + 8)));
    }
  }

  // Behind the stage's products: asked for before, it would hold up all but the first of them.
  __device__ __forceinline__ void read_word(uint32_t stage) {
    const int row = Kernel::swapped ? 0 : threadIdx.x / 32 * kStoreRows;
    word_ = ptx::load_shared_4(PlacesOfFactors<Kernel>(stage).word_of(row));
  }

  // The same in all of a warp's lanes, which ptxas sees by the vote: behind a branch that it takes for divergent it
  // keeps what wgmma is asked for out of the uniform registers.
  __device__ __forceinline__ bool are_ordinary() const { return __all_sync(0xffffffff, word_ == 0); }

  // `sum` and the thread's sum `i` of the stage, scaled: where the factors are ordinary; and where they are not,
  // rounded once before it is added.
  __device__ __forceinline__ float add(float sum, float of_stage, int i) const {
    return fmaf(of_stage, rows_[row_of(i)], sum);
  }
  __device__ __forceinline__ float add_exactly(float sum, float of_stage, int i) const {
    return sum + times_exactly(of_stage, rows_[row_of(i)], __uint_as_float(word_));
  }

 private:
  static constexpr int kRows = Kernel::swapped ? Kernel::columns / 4 : 2;
  static constexpr int row_of(int i) { return Kernel::swapped ? i / 4 * 2 + i % 2 : i / 2 % 2; }

  float rows_[kRows];
  uint32_t word_;
};

// What BlockScaledMainLoop does with a stage's sums.
template <typename Kernel>
struct BlockPromotion {
  using Factors = FactorsOfStage<Kernel>;

  template <int kCount>
  static __device__ __forceinline__ void add(const float (&stage_sums)[1][kCount], const Factors& factors,
                                             float (&sums)[1][kCount]) {
    if (factors.are_ordinary()) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) sums[0][i] = factors.add(sums[0][i], stage_sums[0][i], i);
    } else {
#pragma unroll
      for (int i = 0; i < kCount; ++i) sums[0][i] = factors.add_exactly(sums[0][i], stage_sums[0][i], i);
    }
  }
};

// The AccumulatorScale. What a kernel stores comes scaled from the main loop, but for the global scale. Where tiles are
// shared, the kernel is swapped.
template <TileConfig kTile, typename Out_>
class BlockScale {
  static_assert(kTile.tile_n == kFloat32ScaleBlock && kTile.block_k == kFloat32ScaleBlock, "one scale of b a stage");
  static_assert(kTile.consumer_rows() == 64 && kTile.has_stage_scales);

 public:
  using Out = Out_;
  using Params = std::conditional_t<kTile.swapped(), SharedFactorParams, FactorParams>;
  static constexpr bool is_in_need_of_registers = true;

  static __device__ __forceinline__ void summarize(const Params&, int, int) {}
  __device__ __forceinline__ void read(const Params&, int, int) {}
  __device__ __forceinline__ void read(const Params&, int, int, int) {}
  template <typename Shared>
  __device__ __forceinline__ void to_smem(const Shared&, int) const {}

  template <typename Shared, int kCount>
  __device__ __forceinline__ PlainResults<1, kCount> results(const Params& params, const Shared&, int,
                                                             float (&sums)[1][kCount]) const {
    multiply_all(sums, params.global_scale);
    return {sums};
  }
};

}  // namespace tileon::sm90
