// The types and sizes of one kernel, from a row of the table, the operands' dtype and majors.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/sm90/heuristics/dense.h"
#include "cuda/sm90/layout/kernel_params.h"
#include "cuda/sm90/layout/operand_tile.h"
#include "cuda/sm90/mainloop/shared_memory.cuh"

namespace tileon::sm90 {

// Sums that are stored as they are. A store takes what it needs, some columns of a block of 64 rows at a time, of
// `kCount` sums each thread.
template <int kBlocks, int kCount>
struct PlainResults {
  const float (&sums)[kBlocks][kCount];

  template <int kBlock, int kBegin, int kColumns>
  __device__ __forceinline__ const float* columns() const {
    return &sums[kBlock][kBegin / 2];
  }
};

// What becomes of sums before the epilogue: of dense products nothing. epilogue/accumulator_scale.cuh has others.
// `Out_` is the 16-bit output that TMA stores.
template <typename Out_>
struct Unscaled {
  using Out = Out_;
  using Params = KernelParams;
  static constexpr bool leaves_summary = false;           // of words of the kernel before
  static constexpr bool is_in_need_of_registers = false;  // beside the sums, until they are stored

  __device__ __forceinline__ void read(const Params&, int, int) {}
  template <typename Shared>
  __device__ __forceinline__ void lay_out(const Shared&, int) const {}
  template <typename Shared, int kBlocks, int kCount>
  __device__ __forceinline__ PlainResults<kBlocks, kCount> results(const Params&, const Shared&, int,
                                                                   const float (&sums)[kBlocks][kCount]) const {
    return {sums};
  }
};

template <typename Element>
inline constexpr bool is_promoted = false;
template <typename A, typename B>
inline constexpr bool is_promoted<Float8Pair<A, B, true>> = true;

template <typename Element>
inline constexpr bool holds_float8 = false;
template <typename A, typename B, bool kPromoted>
inline constexpr bool holds_float8<Float8Pair<A, B, kPromoted>> = true;

template <TileConfig kConfig, typename Element_, Major kMajorA, Major kMajorB,
          typename AccumulatorScale_ = Unscaled<Element_>>
struct KernelTypes {
  static_assert(!kConfig.takes_registers || kConfig.consumers == 2, "what kernels/persistent.cuh moves is for two");
  static_assert(kConfig.family != Family::kPingpong || (kConfig.consumers == 2 && !is_promoted<Element_>),
                "two take turns, and a turn's products stay in the tensor core");
  using Element = Element_;
  using AccumulatorScale = AccumulatorScale_;
  using Out = typename AccumulatorScale::Out;
  using Params = typename AccumulatorScale::Params;
  static constexpr TileConfig config = kConfig;
  static constexpr int elements_per_unit = holds_float8<Element> ? 2 : 1;  // for TMA (params.cpp)
  using TileA = OperandTile<kConfig.tile_m, kConfig.block_k, kMajorA>;
  using TileB = OperandTile<kConfig.tile_n, kConfig.block_k, kMajorB>;
  static constexpr int stage_bytes = TileA::bytes + TileB::bytes;
  static_assert(stage_bytes == sm90::stage_bytes(kConfig, kMajorA, kMajorB) && stage_bytes <= 0xffff);

  // wgmma's operands: rows come from a, columns from b, or the other way round.
  static constexpr bool swapped = kConfig.swapped();
  using RowsTile = std::conditional_t<swapped, TileB, TileA>;
  using ColumnsTile = std::conditional_t<swapped, TileA, TileB>;
  static constexpr int rows_offset = swapped ? TileA::bytes : 0;  // in a stage
  static constexpr int columns_offset = swapped ? 0 : TileA::bytes;
  static constexpr int columns = kConfig.mma_columns();
  static constexpr int row_blocks = kConfig.consumer_rows() / 64;  // of one consumer
  static_assert(row_blocks * 64 == kConfig.consumer_rows());
  using Sum = std::conditional_t<std::is_same_v<Element, Int8Pair>, int32_t, float>;
  using Sums = Sum[row_blocks][columns / 2];

  // A chunk's bias takes registers beside the sums, which both of these fill.
  static constexpr bool reads_bias_early =
      kConfig.family != Family::kPingpong && !AccumulatorScale::is_in_need_of_registers;

  static constexpr bool dense_16_bit = std::is_same_v<AccumulatorScale, Unscaled<Element>>;
  // Of operands that gradients flow through.
  static constexpr bool is_bf16x6 = std::is_same_v<Element, Bf16x3>;
  static constexpr bool keeps_pre_activation = dense_16_bit || is_bf16x6;
  static constexpr bool has_activated_store = dense_16_bit && sm90::has_activated_store(kConfig);
  static constexpr bool has_direct_store = is_bf16x6;
  // Two at once hide half of a curved activation's latency, where there are registers for them beside the sums.
  static constexpr bool has_spare_registers = kConfig.takes_registers || row_blocks * columns / 2 < 128;
  static constexpr int slab_columns_of_lane = keeps_pre_activation && has_spare_registers ? 2 : 1;

  static constexpr int producer_warp = kConfig.consumers * 4;
  static constexpr int consumers_of_a_stage = kConfig.family == Family::kPingpong ? 1 : kConfig.consumers;
  using Shared = SharedMemory<kConfig>;
};

}  // namespace tileon::sm90
