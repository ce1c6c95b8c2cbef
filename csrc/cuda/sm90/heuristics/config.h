// What a config of a Hopper kernel is, and the sizes that follow from it: pure functions, compiled by any C++ compiler.
// The configs: tables.h. Which one takes a problem: select.h.
#pragma once

#include <cstdint>

#include "core/problem.h"
#include "cuda/common/kernel_choice.h"
#include "cuda/common/tile_order.h"
#include "cuda/sm90/layout/operand_tile.h"

namespace tileon::sm90 {

enum class Family : int8_t {
  kCooperative,    // persistent; the warpgroups share each tile by its rows
  kPingpong,       // persistent; two warpgroups take whole tiles in turn, one stores while the other multiplies
  kClusterSplitK,  // one tile a cluster: its CTAs split k and add their sums through each other's shared memory
  kSwapAbSplitK,   // the same, swapped, so that a few rows of a waste nothing
  kSwapAb,         // as kCooperative, swapped: an mn-major b is then read in whole panels whatever the tile's height
  kSmallM,         // small_m/: of block-scaled products, decoded in the kernel; small_m.h has its sizes
  kDirectWeight,   // small_m/direct.cuh: warps that share k, each for itself; direct_weight.h has its sizes
};

// Everything that shapes a kernel, which has it as a template argument.
struct TileConfig {
  Family family;
  int tile_m;  // of the output
  int tile_n;
  int block_k;     // elements of k in one stage
  int consumers;   // warpgroups that multiply
  int max_stages;  // as many as fit, but no more than these

  // Of two consumers: an even share of the registers does not hold their sums, so they take some of the producer's. In
  // ping-pong those are the sums of a whole tile.
  bool takes_registers = false;

  int element_bytes = kElementBytes;  // of the operands, as multiplied
  bool has_factors = false;           // a float32 for each column, which each consumer keeps beside its bias

  int code_bits = 0;             // of b's codes, which the consumers decode; 0: b comes as it is multiplied
  bool has_scale_words = false;  // a word for each row of b's codes, which comes with them: scales, or a fold's factors

  bool has_stage_scales = false;  // float32 scales of blocks of k, which come with a stage (epilogue/block_scale.cuh)

  // Whether a stage's sums are promoted while the consumer's next stage is multiplied, to other sums.
  bool promotes_behind = false;

  // Of a persistent kernel: the tiles of a cluster's CTAs, side by side. Those of a row share a's tile and those of a
  // column b's, of which each CTA loads a part for all of them (mainloop/shared_loads.cuh).
  int cluster_m = 1;
  int cluster_n = 1;
  constexpr int cluster_ctas() const { return cluster_m * cluster_n; }

  // The tile as wgmma sees it: rows in units of 64, split evenly over the consumers, and columns in units of 8. The
  // rows are a's, or, swapped, the columns of b.
  constexpr bool swapped() const { return family == Family::kSwapAbSplitK || family == Family::kSwapAb; }
  constexpr int mma_rows() const { return swapped() ? tile_n : tile_m; }
  constexpr int mma_columns() const { return swapped() ? tile_m : tile_n; }
  constexpr int consumer_rows() const { return family == Family::kPingpong ? mma_rows() : mma_rows() / consumers; }
  // Three consumers always need more registers than an even share. The producer has a warpgroup then, whose other warps
  // are there only to give theirs away, but for those that write scales.
  constexpr bool reallocates_registers() const { return consumers == 3 || takes_registers; }
  // With the producer, and the warps that write a stage's scales.
  constexpr int threads() const { return consumers * 128 + (reallocates_registers() ? 128 : 32 * (1 + scale_warps())); }
  constexpr int scale_warps() const { return has_stage_scales ? (tile_m + 63) / 64 : 0; }  // 64 rows of a for each
};

constexpr int kGroupM = 8;  // rows of tiles in a group (tile_order.h); 2 to 16 lie within 1 %

// What a kernel multiplies, and where its sums are kept.
enum class Operands : int8_t {
  k16Bits,       // float16 or bfloat16
  kFp8,          // e4m3 or e5m2, each; the sums stay in the tensor core, which cuts them: for fast_accum alone
  kFp8Promoted,  // the same; the sums of each stage, 128 k, are added in float32 outside of the tensor core
  kBf16x3,       // float32, split into three bfloat16 (layout/encoding.h)
  // Of block-scaled products, what the codes become before they are multiplied (operand_prep/):
  kBFloat16,  // elements times scales: every format
  kInt8,      // mxfp4 whose rows fit; what does not fit is bfloat16, as the data decide on the device
  kE5M2,      // the same with fast_accum: what does not fit int8 is e5m2, or bfloat16 if it does not fit that
  kCodes,     // nothing: the kernel itself decodes them (small_m/)
  // Codes with float32 scales, multiplied as they are:
  kFp8Rows,          // e4m3 with a scale a row, of the whole operand among them; for fast_accum alone
  kFp8RowsPromoted,  // the same; the sums of each stage are added in float32
  kInt8Rows,         // int8 with a scale a row
  kFp8Blocks,        // e4m3 with scales of blocks of 128 k, which are applied to the sums of each stage
  kFp4Weight,        // 16 bits, and e2m1 with scales of blocks, decoded while the tensor core multiplies
  kTf32,             // float32 that TMA rounds to tf32: of matmul
  kWeightCodes,      // 16 bits, and e4m3 or int8 with a float32 scale a row, converted while the tensor core multiplies
  kMxfp8Weight,      // bfloat16, and e4m3 with scales of blocks, decoded so too
  kWeightBlocks,     // as kWeightCodes: e4m3 with float32 scales of blocks of 128 k
  kFoldedE4M3,       // the folds of both (core/fold.h): a's, and of e4m3, folded while the tensor core multiplies
  kFoldedE2M1,       // and of e2m1
  kDirectWeight,     // 16 bits, and a weight's codes of 4 or 8 bits, read straight into registers and decoded there
};

// What the models of cost.h know of a config: nanoseconds, and bytes a nanosecond. Those of dense products of 16 bits
// have all of them, the others the first four.
struct CostNumbers {
  float start = 0;               // before the first tile and after the last one
  float per_tile = 0;            // for a tile beside its k: the epilogue
  float per_k = 0;               // for one k of a tile
  float memory_bytes = 0;        // from memory to all SMs
  float per_k_mn = 0;            // per_k where the operand of any width (b; of kSwapAb, a) is mn-major
  float unaligned_tile = 0;      // for a tile more, where the output's rows cannot be stored whole
  float memory_bytes_a_cta = 0;  // from memory to one CTA, which waits for what it has asked for
  float l2_bytes_a_tile = 0;     // from L2 to the CTAs that share a tile: to each of them its part
};

struct KernelConfig {
  const char* name;
  Operands operands;
  TileConfig tile;
  int splits = 1;       // CTAs of a cluster that share a tile's k
  int ctas_per_sm = 1;  // CTAs that an SM holds at a time
  CostNumbers cost{};
  int like = -1;         // the config of kDenseConfigs whose tile it has, and whose cost it takes
  bool measured = true;  // whether it has run on hardware; one that has not is chosen where no other can serve
  bool streams = false;  // of 16 bits: whether CTAs share the last tiles (layout/stream_k.h)
};

// Shared memory, which begins at a multiple of 1024 bytes: the pipeline's barriers, each consumer's bias, then each
// one's factors of columns where it has them, what the warps of a persistent kernel store through, then the pipeline.
constexpr int kSmemLimit = 227 * 1024;  // the largest opt-in size on sm_90
constexpr int kBarrierBytes = 1024;
constexpr int kMaxColumns = 256;  // of a tile
constexpr int kBiasBytes = kMaxColumns * 4;

// A warp of a persistent kernel stores its 16 of wgmma's rows in chunks of 64 of wgmma's columns, and one of the
// columns that are left, through buffers that take turns.
constexpr int kStoreRows = 16;
constexpr int kStoreColumns = 64;
constexpr int kStoreBufferBytes = kStoreRows * kStoreColumns * kElementBytes;
constexpr int store_tail(int columns) { return columns % kStoreColumns; }
constexpr int store_chunks(int columns) { return (columns + kStoreColumns - 1) / kStoreColumns; }
constexpr int warp_chunks(const TileConfig& tile) {
  return tile.consumer_rows() / 64 * store_chunks(tile.mma_columns());
}
constexpr int warp_store_bytes(const TileConfig& tile, int buffers) {
  const int chunks = warp_chunks(tile);
  if (chunks > buffers) return buffers * kStoreBufferBytes;
  const int last = store_tail(tile.mma_columns()) > 0 ? store_tail(tile.mma_columns()) : kStoreColumns;
  const int bytes = (chunks - 1) * kStoreBufferBytes + kStoreRows * last * kElementBytes;
  const int least = kStoreBufferBytes;  // for the outputs that TMA cannot write (epilogue/staged_store.cuh)
  return bytes > least ? (bytes + 1023) / 1024 * 1024 : least;
}

constexpr bool persistent(const TileConfig& tile) {
  return tile.family == Family::kCooperative || tile.family == Family::kPingpong || tile.family == Family::kSwapAb;
}
// Warps of a CTA whose consumers decode a weight.
constexpr int decoding_warps(const TileConfig& tile) { return tile.consumers * 4; }

// A weight that the consumers decode in the main loop.
constexpr bool is_decoded_weight(Operands operands) {
  return operands == Operands::kFp4Weight || operands == Operands::kMxfp8Weight || operands == Operands::kWeightCodes ||
         operands == Operands::kWeightBlocks;
}
// Or fold.
constexpr bool is_folded_weight(Operands operands) {
  return operands == Operands::kFoldedE4M3 || operands == Operands::kFoldedE2M1;
}
// By the tile alone: codes beside elements of 8 bits.
constexpr bool is_fold(const TileConfig& tile) { return tile.code_bits > 0 && tile.element_bytes == 1; }
// Whether kernels of these operands round to the output's dtype, one of 16 bits. Kernels whose operands come as 16 bits
// round to the dtype of `a` alone, as do those of fp4 beside float16; those of TF32 to bfloat16, the others to both.
inline bool rounds_to_16_bits(Operands operands, const Problem& problem) {
  switch (operands) {
    case Operands::kTf32:
      return problem.out_dtype == DType::kBFloat16;
    case Operands::k16Bits:
    case Operands::kBf16x3:
    case Operands::kWeightCodes:
    case Operands::kWeightBlocks:
      return problem.out_dtype == problem.a.dtype;
    case Operands::kFp4Weight:
      if (problem.a.dtype == DType::kFloat16) return problem.out_dtype == DType::kFloat16;
      [[fallthrough]];
    default:
      return info(problem.out_dtype).bytes == 2;
  }
}
// Whether TMA can write the output as kernels of these operands round it.
inline bool writes_by_tma(Operands operands, const Problem& problem) {
  return rounds_to_16_bits(operands, problem) &&
         tma_can_write(problem.out, problem.batch, problem.m, problem.n, kElementBytes);
}
// What the rules of the stores look at, as a kernel's types say it too (mainloop/kernel.cuh).
struct StoredSums {
  bool of_float32;  // operands, whose outputs are float32 mostly
  bool unscaled;    // the sums are the product: no AccumulatorScale
};
constexpr StoredSums stored_sums(Operands operands) {
  const bool of_float32 = operands == Operands::kBf16x3 || operands == Operands::kTf32;
  const bool of_fp8 = operands == Operands::kFp8 || operands == Operands::kFp8Promoted;
  return {of_float32, of_float32 || of_fp8 || operands == Operands::k16Bits};
}

// Sums of a thread, and what they leave for an activation: of two consumers' threads each has 168 registers, an even
// share, or 232 and more where it takes the producer's (kernels/persistent.cuh).
constexpr int sums_of_thread(const TileConfig& tile) { return tile.consumer_rows() / 64 * tile.mma_columns() / 2; }
constexpr int kSumsAlone = 192;    // leave 40 of 232: beside an AccumulatorScale too few for any activation
constexpr int kCrowdedSums = 120;  // leave 48 of 168: for four at a time; beside 128, eight spill (bfloat16, 128 x 256)
constexpr int kAmpleSums = 96;     // leave 72 of 168: the most beside which sixteen are finished at a time, with their
                                   // bias. Set by hand: beside 112, too, ptxas would spill nothing

// Whether the kernel has ActivatedStore (epilogue/tma_store.cuh). Outputs of float32 are staged instead.
constexpr bool has_activated_store(const StoredSums& sums, const TileConfig& tile) {
  return persistent(tile) && !sums.of_float32 && (sums.unscaled || sums_of_thread(tile) < kSumsAlone);
}
// Whether it has registers for four sums at a time alone.
constexpr bool is_crowded(const StoredSums& sums, const TileConfig& tile) {
  return sums_of_thread(tile) >= kCrowdedSums && !(tile.takes_registers && sums.unscaled);
}
// Whether it has copies of chunks of cheap formulas (store_by_copies there). ActivatedStore knows those, too.
constexpr bool has_copied_store(const StoredSums& sums, const TileConfig& tile) {
  return persistent(tile) && !sums.of_float32 && sums.unscaled && !is_crowded(sums, tile);
}
// Whether the kernel can store the output by ActivatedStore, whatever the activation and wherever the rows begin.
inline bool takes_activated_store(Operands operands, const TileConfig& tile, const Problem& problem) {
  return has_activated_store(stored_sums(operands), tile) && rounds_to_16_bits(operands, problem) &&
         problem.out.stride_n == 1;
}
constexpr int staging_begin(const TileConfig& tile) {
  return kBarrierBytes + (persistent(tile) ? tile.consumers * kBiasBytes * (tile.has_factors ? 2 : 1) : 0);
}
constexpr int pipeline_begin(const TileConfig& tile, int store_buffers) {
  const int staging = persistent(tile) ? tile.consumers * 4 * warp_store_bytes(tile, store_buffers) : 0;
  return (staging_begin(tile) + staging + 1023) / 1024 * 1024;
}

constexpr int operand_bytes(int tile_mn, int block_k, Major major, int element_bytes = kElementBytes) {
  return TilePanels(major, tile_mn, block_k, element_bytes).bytes();
}

// In a stage.
constexpr int scale_words_bytes(const TileConfig& tile) { return tile.has_scale_words ? tile.tile_n * 4 : 0; }
constexpr int stage_scales_bytes(const TileConfig& tile) {
  return tile.has_stage_scales ? (tile.tile_m + tile.scale_warps()) * 4 : 0;
}

// `major_a` and `major_b` are the operands' as the problem has them. Swizzled tiles begin at multiples of 1024.
constexpr int stage_bytes(const TileConfig& tile, Major major_a, Major major_b) {
  const int bytes_of_b = tile.code_bits > 0 ? codes_bytes(tile.code_bits, tile.tile_n, tile.block_k)
                                            : operand_bytes(tile.tile_n, tile.block_k, major_b, tile.element_bytes);
  const int bytes = operand_bytes(tile.tile_m, tile.block_k, major_a, tile.element_bytes) + bytes_of_b;
  const int scales = scale_words_bytes(tile) + stage_scales_bytes(tile);
  return scales > 0 ? (bytes + scales + 1023) / 1024 * 1024 : bytes;
}

constexpr int pipeline_stages(const TileConfig& tile, int store_buffers, Major major_a, Major major_b) {
  const int fit = (kSmemLimit - pipeline_begin(tile, store_buffers)) / stage_bytes(tile, major_a, major_b);
  return fit < tile.max_stages ? fit : tile.max_stages;
}

// Two, or a third one where it costs no stage: then a tile of three chunks waits for none of its own.
constexpr int store_buffers(const TileConfig& tile) {
  const auto is_free = [&](Major major) {
    return pipeline_stages(tile, 3, major, major) == pipeline_stages(tile, 2, major, major);
  };
  return warp_chunks(tile) > 2 && is_free(Major::kK) && is_free(Major::kMn) ? 3 : 2;
}
constexpr int warp_store_bytes(const TileConfig& tile) { return warp_store_bytes(tile, store_buffers(tile)); }
constexpr int pipeline_begin(const TileConfig& tile) { return pipeline_begin(tile, store_buffers(tile)); }
constexpr int pipeline_stages(const TileConfig& tile, Major major_a, Major major_b) {
  return pipeline_stages(tile, store_buffers(tile), major_a, major_b);
}

// The staging: a CTA's sums in float32, which take the pipeline's place. The pitch spreads a fragment's writes over the
// banks: rows of the staging are rows of the output, and a thread holds two neighbours along wgmma's columns.
constexpr int staging_pitch(const TileConfig& tile) { return tile.tile_n + (tile.swapped() ? 4 : 8); }
constexpr int staging_bytes(const TileConfig& tile) { return tile.tile_m * staging_pitch(tile) * 4; }

constexpr int shared_bytes(const TileConfig& tile, int store_buffers, Major major_a, Major major_b, int stages) {
  const int pipeline = stages * stage_bytes(tile, major_a, major_b);
  const int staging = persistent(tile) ? 0 : staging_bytes(tile);
  return pipeline_begin(tile, store_buffers) + (pipeline > staging ? pipeline : staging);
}
constexpr int shared_bytes(const TileConfig& tile, Major major_a, Major major_b, int stages) {
  return shared_bytes(tile, store_buffers(tile), major_a, major_b, stages);
}

// Of the tiles of clusters, which are CTAs unless CTAs share an operand.
inline TileOrder tile_order(const TileConfig& tile, int64_t m, int64_t n) {
  return {ceil_divide(m, tile.tile_m * tile.cluster_m), ceil_divide(n, tile.tile_n * tile.cluster_n), kGroupM};
}

// Where the last of `tiles` tiles along m or n begins. With a long k it is moved back over the tile before it, to end
// with the operand, up to less than `unit` or a part of a panel: then it loads hardly anything from beyond the end,
// where TMA is slow (TilePanels::loaded). What both tiles have they compute alike and write twice; with a short k that
// takes longer than it saves. `unit` keeps the output's sectors whole along n, and vectors along m.
constexpr int64_t kOverlapPaysFrom = 1024;  // bytes of k; at 512 it costs some 2 %, at 256 rather more
constexpr int last_begin(int64_t mn, int tile_mn, int tiles, int64_t k_bytes, Major major, int unit) {
  const int aligned = (tiles - 1) * tile_mn;
  if (tiles == 1 || k_bytes < kOverlapPaysFrom) return aligned;
  if (major == Major::kMn && tile_mn % kPanel == 0) unit = kPanel;
  const int moved = ceil_divide(mn - tile_mn, unit) * unit;
  return moved < aligned ? moved : aligned;
}

}  // namespace tileon::sm90
