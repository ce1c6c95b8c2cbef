// Block-scaled products whose operands are prepared: their tiles, and the sizes of the preparation. Pure functions,
// compiled by any C++ compiler.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/common/kernel_choice.h"
#include "cuda/sm90/heuristics/config.h"
#include "cuda/sm90/heuristics/small_m.h"
#include "cuda/sm90/layout/encoding.h"

namespace tileon::sm90 {

// Whether operands may be narrow: mxfp4 alone.
constexpr bool is_by_encoding(Operands operands) { return operands == Operands::kInt8 || operands == Operands::kE5M2; }

// Codes that are multiplied as they are.
constexpr bool has_float32_scales(Operands operands) {
  return operands == Operands::kFp8Rows || operands == Operands::kFp8RowsPromoted || operands == Operands::kInt8Rows ||
         operands == Operands::kFp8Blocks;
}

// Whether CTAs may share a config's tiles (shared_tiles.h).
constexpr bool shares_tiles(const KernelConfig& config) {
  const bool has_swapped_codes = has_float32_scales(config.operands) && config.tile.swapped();
  return config.streams || has_swapped_codes || is_decoded_weight(config.operands) || is_folded_weight(config.operands);
}

// The tile of a config whose operands are prepared in `encoding`.
constexpr TileConfig tile_of(const KernelConfig& config, Encoding encoding) {
  TileConfig tile = config.tile;
  tile.element_bytes = encoding == Encoding::kBFloat16 ? 2 : 1;
  tile.block_k = config.tile.block_k * config.tile.element_bytes / tile.element_bytes;  // a stage has as many bytes
  // Sums of e5m2 leave the tensor core while the other consumer multiplies. Those of the other encodings stay in the
  // tensor core, and with as many registers their kernels go by ping-pong.
  if (encoding != Encoding::kE5M2 && tile.takes_registers) tile.family = Family::kPingpong;
  return tile;
}

// Which of the kernels of such codes the dtypes and the scales ask for.
inline Operands scaled_codes_of(const Problem& problem) {
  if (problem.a.dtype == DType::kInt8) return Operands::kInt8Rows;
  if (!is_constant_along_k(problem.a, problem.k) || !is_constant_along_k(problem.b, problem.k))
    return Operands::kFp8Blocks;
  return problem.fast_accum ? Operands::kFp8Rows : Operands::kFp8RowsPromoted;
}

// Sums in int32 of so many products of int8 cannot overflow.
constexpr int64_t kInt8RowsMaxK = ((int64_t{1} << 31) - 1) / (128 * 128);

// Below, the int32 sums of int8 products, each at most 96 x 96, cannot overflow.
constexpr int64_t kInt8MaxK = (int64_t{1} << 31) / (96 * 96) / 128 * 128;

// The product of the prepared operands, rows of k elements; the dtype says nothing where these are of 8 bits. An a
// without scales stays where it is.
inline Problem prepared_problem(const Problem& problem, const void* a, const void* b) {
  Problem prepared;
  prepared.m = problem.m;
  prepared.n = problem.n;
  prepared.k = problem.k;
  prepared.out_dtype = problem.out_dtype;
  const Matrix rows_of_a{a, prepared.k, 1, 0};
  prepared.a = {problem.is_weight_only() ? problem.a : rows_of_a, DType::kBFloat16, {}};
  prepared.b = {{b, prepared.k, 1, 0}, DType::kBFloat16, {}};
  prepared.out = problem.out;
  prepared.epilogue = problem.epilogue;
  return prepared;
}

// Twice as many elements are counted in 32 bits.
constexpr int64_t kPrepareMaxK = int64_t{1} << 30;

// A row is cut into segments, and a warp prepares one, some elements at a time. CTAs go through the segments of a group
// of rows, then through the groups, those of a first.
constexpr int kRowsPerCta = 8;
constexpr int kSegmentElements = 1024;
constexpr int64_t row_groups(int64_t rows) { return (rows + kRowsPerCta - 1) / kRowsPerCta; }
template <typename AnyProblem>
constexpr int64_t prepare_ctas(const AnyProblem& problem, int segments) {
  return (row_groups(problem.m) + row_groups(problem.n)) * segments;
}

inline int segments_of(const Problem& problem) {
  if (problem.k <= kSegmentElements) return 1;
  return static_cast<int>((problem.k + kSegmentElements - 1) / kSegmentElements);
}

// CTAs that prepare mxfp4 have more to do before they begin: for so many rows as few segments as keep an H200 busy.
inline int mxfp4_segments_of(const Problem& problem, int64_t rows) {
  constexpr int64_t kBusy = 1024;
  const int64_t groups = row_groups(rows), most = segments_of(problem);
  const int64_t wanted = groups > 0 ? (kBusy + groups - 1) / groups : 1;
  return static_cast<int>(wanted < most ? wanted : most);
}

// A CTA inspects the rows of a block of packed scales.
template <typename AnyProblem>
constexpr int64_t classify_ctas(const AnyProblem& problem) {
  return scale_row_blocks(problem.m) + scale_row_blocks(problem.n);
}

// Memory that a product needs: both prepared operands, a byte for each of their rows, the words of the kernels that
// classify or prepare, and a summary of these words. Where each part begins, behind a's rows, and the bytes of all.
constexpr int kSummaryWords = 8;  // one of each warp that consumes, at most
struct Scratch {
  int64_t b, exponents_a, exponents_b, words, summary, bytes;
};

inline Scratch scratch_of(const Problem& problem, Operands operands) {
  const int64_t words = is_by_encoding(operands) ? classify_ctas(problem) : prepare_ctas(problem, segments_of(problem));
  const auto aligned = [](int64_t bytes) { return (bytes + 255) / 256 * 256; };
  Scratch scratch{};
  scratch.b = problem.is_weight_only() ? 0 : aligned(problem.m * problem.k * kElementBytes);
  const PreparedWeight& weight = problem.prepared_b;  // int8 is decoded anew where it is not what the data allow
  const bool has_b = weight.data != nullptr && weight.form == PreparedForm::kBFloat16;
  scratch.exponents_a = scratch.b + (has_b ? 0 : aligned(problem.n * problem.k * kElementBytes));
  scratch.exponents_b = scratch.exponents_a + aligned(problem.m);
  scratch.words = scratch.exponents_b + aligned(problem.n);
  scratch.summary = scratch.words + aligned(words * 4);
  scratch.bytes = scratch.summary + aligned(kSummaryWords * 4);
  return scratch;
}

// ---- a weight with scales of blocks that is decoded in the main loop ----

// An `a` that has scales, too, is prepared as bfloat16. Words say where that lost something of e4m3, and where decoding
// did: one of each CTA that prepares, so many at most, since every CTA of a kernel that is to multiply anew looks at
// all of them; and one of each warp that decodes.
constexpr int64_t kMaxPrepareWords = 1024;

inline bool has_codes_of_e4m3(const Problem& problem) {
  return problem.a.dtype == DType::kFloat8E4M3 || problem.b.dtype == DType::kFloat8E4M3;
}

// Whether the weight may have elements that the warps which decode it cannot hold: e4m3 as bfloat16, and e2m1 under
// scales of e8m0 as float16.
inline bool may_lose_decoding(const Problem& problem) {
  return problem.b.dtype == DType::kFloat8E4M3 || is_float16_by_mxfp4(problem);
}

// Segments of a's rows.
inline int segments_of_a(const Problem& problem) {
  const int most = segments_of(problem);
  if (!has_codes_of_e4m3(problem)) return most;
  return static_cast<int>(std::clamp<int64_t>(kMaxPrepareWords / row_groups(problem.m), 1, most));
}

// The product as its kernel reads it, where a's rows are prepared.
inline Problem with_rows_of_a(const Problem& problem, const void* rows) {
  Problem read = problem;
  if (!problem.is_weight_only()) read.a = {{rows, problem.k, 1, 0}, DType::kBFloat16, {}};
  return read;
}

// Where each part of the memory begins, behind a's rows: the words, and what CTAs hand over. And the words that
// preparing leaves.
struct DecodedScratch {
  int64_t words, sums, bytes;
  int prepare_words;

  DecodedScratch(const Problem& problem, int64_t warps, int64_t sums_bytes) {
    const auto aligned = [](int64_t size) { return (size + 255) / 256 * 256; };
    const bool prepares = problem.is_block_scaled(), has_words = problem.b.scale.type == ScaleType::kE8M0;
    prepare_words = prepares && has_words ? static_cast<int>(row_groups(problem.m)) * segments_of_a(problem) : 0;
    words = prepares ? aligned(problem.m * problem.k * kElementBytes) : 0;
    const int64_t decode_words = may_lose_decoding(problem) ? warps : 0;
    sums = words + (has_words ? aligned((prepare_words + decode_words) * 4) : 0);
    bytes = sums + sums_bytes;
  }
};

// ---- folds, the weight's in the main loop ----

// Tiles begin at multiples of 64 rows of it, and may reach past its end.
constexpr int kFoldedBlockK = 128, kFoldedMaxTileN = 192;

// After so many stages, a power of two, sums of folds leave the tensor core: every 128 k, as those of fp8. Those of
// mxfp4 by mxfp4 were 5 % faster with four, but one product far above the others may cost four times as much then
// (docs/block_scaled_on_hopper.md).
constexpr int kStagesOfFoldedSums = 1;

// Where each part of the memory begins, behind a's codes: the float32 scales of the rows of both, the factors of the
// weight's blocks, and what CTAs hand over.
struct FoldedScratch {
  int64_t pitch_a, factors_stride;
  int64_t scales_a, scales_b, factors, sums, bytes;

  FoldedScratch(const Problem& problem, int64_t sums_bytes) {
    const auto aligned = [](int64_t size) { return (size + 255) / 256 * 256; };
    const int64_t words = (problem.k + kFoldedBlockK - 1) / kFoldedBlockK;  // of a row
    pitch_a = (problem.k + 15) / 16 * 16;
    factors_stride = (problem.n + 63) / 64 * 64 + kFoldedMaxTileN - 64;
    scales_a = aligned(problem.m * pitch_a);
    scales_b = scales_a + aligned(problem.m * 4);
    factors = scales_b + aligned(problem.n * 4);
    sums = factors + aligned(factors_stride * words * 4);
    bytes = sums + sums_bytes;
  }
};

}  // namespace tileon::sm90
