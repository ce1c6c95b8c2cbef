// Block-scaled products on Hopper: the routes and the tile table. Data and pure functions, compiled by any C++
// compiler. Which row takes a problem: select.h.
#pragma once

#include <cstdint>

#include "cuda/sm90/heuristics/fp8.h"
#include "cuda/sm90/heuristics/small_m.h"
#include "cuda/sm90/layout/encoding.h"

namespace tileon::sm90 {

// What the operands become before they are multiplied (prepare.h).
enum class Route : int8_t {
  kBFloat16,  // elements times scales: every format
  kInt8,    // mxfp4 whose rows fit; what does not fit is bfloat16, as the data decide on the device (layout/encoding.h)
  kFloat8,  // the same with fast_accum: what does not fit int8 is e5m2, or bfloat16 if it does not fit that
  kSmallM,  // nothing: the kernel itself decodes them (small_m/)
};

struct BlockScaledRow {
  const char* name;
  Route route;
  // Of kRows, whose tile, order and cost it has; of kInt8 of kInt8Rows, of kFloat8 of kFp8Configs, of kSmallM of
  // kSmallMTiles.
  int tile;
};

constexpr bool same_name(const char* x, const char* y) {
  for (; *x != 0 && *x == *y; ++x) ++y;
  return *x == *y;
}

constexpr int dense_row(const char* name) {
  for (int row = 0; row < kDenseConfigCount; ++row)
    if (same_name(kRows[row].name, name)) return row;
  return -1;
}

constexpr int float8_row(const char* name) {
  for (int row = 0; row < kFp8ConfigCount; ++row)
    if (same_name(kFp8Configs[row].row.name, name)) return row;
  return -1;
}

// Dense rows in everything but the operands and the costs: a stage of bytes has twice as many k as one of 16 bits,
// which per_k counts in pairs. Set after products on an H200, like kFp8Configs (fp8.h): no script fits these.
// What preparing takes is not in them, for it is the same for every row.
// clang-format off
constexpr Row kInt8Rows[] = {
    // name                                         family               tile m, n, k (pairs)  consumers, stages, takes registers   splits, ctas_per_sm   start, per_tile, per_k, per_k_mn, bytes_per_ns
    {"sm90_block_scaled_int8_pingpong_128x192x128", {Family::kPingpong,    128, 192,  64, 2, 16, true},  1,  1,  7737.9f,   211.2f,  7.66f,  7.66f, 3300.0f},
    {"sm90_block_scaled_int8_pingpong_128x176x128", {Family::kPingpong,    128, 176,  64, 2, 16, true},  1,  1,  8061.3f,   361.7f,  6.79f,  6.79f, 3300.0f},
    {"sm90_block_scaled_int8_128x128x128",          {Family::kCooperative, 128, 128,  64, 2, 16},        1,  1,  3927.0f,    38.4f,  5.66f,  5.66f, 3300.0f},
    {"sm90_block_scaled_int8_64x128x256",           {Family::kCooperative,  64, 128, 128, 1, 16},        1,  1,  3729.1f,   327.8f,  3.15f,  3.15f, 2635.0f},
    {"sm90_block_scaled_int8_64x64x256",            {Family::kCooperative,  64,  64, 128, 1, 16},        1,  1,  3740.9f,   149.9f,  2.10f,  2.10f, 2774.0f},
};
// clang-format on

constexpr BlockScaledRow kBlockScaledConfigs[] = {
    {kInt8Rows[0].name, Route::kInt8, 0},
    {kInt8Rows[1].name, Route::kInt8, 1},
    {kInt8Rows[2].name, Route::kInt8, 2},
    {kInt8Rows[3].name, Route::kInt8, 3},
    {kInt8Rows[4].name, Route::kInt8, 4},
    {"sm90_block_scaled_bfloat16_128x256x64", Route::kBFloat16, dense_row("sm90_gemm_128x256x64")},
    {"sm90_block_scaled_bfloat16_pingpong_128x192x64", Route::kBFloat16, dense_row("sm90_pingpong_128x192x64")},
    {"sm90_block_scaled_bfloat16_pingpong_128x176x64", Route::kBFloat16, dense_row("sm90_pingpong_128x176x64")},
    {"sm90_block_scaled_bfloat16_pingpong_128x128x64", Route::kBFloat16, dense_row("sm90_pingpong_128x128x64")},
    {"sm90_block_scaled_bfloat16_64x128x128", Route::kBFloat16, dense_row("sm90_gemm_64x128x128")},
    {"sm90_block_scaled_bfloat16_64x64x128", Route::kBFloat16, dense_row("sm90_gemm_64x64x128")},
    {"sm90_block_scaled_float8_128x192x128", Route::kFloat8, float8_row("sm90_fp8_128x192x128")},
    {"sm90_block_scaled_float8_128x128x128", Route::kFloat8, float8_row("sm90_fp8_128x128x128")},
    {"sm90_block_scaled_float8_64x128x128", Route::kFloat8, float8_row("sm90_fp8_64x128x128")},
    {"sm90_block_scaled_few_rows_8x128x256", Route::kSmallM, 0},
    {"sm90_block_scaled_few_rows_16x128x256", Route::kSmallM, 1},
    {"sm90_block_scaled_few_rows_32x128x256", Route::kSmallM, 2},
    {"sm90_block_scaled_few_rows_64x128x256", Route::kSmallM, 3},
};
constexpr int kBlockScaledConfigCount = sizeof(kBlockScaledConfigs) / sizeof(kBlockScaledConfigs[0]);

// Whether operands may be narrow: mxfp4 alone.
constexpr bool is_by_encoding(Route route) { return route == Route::kInt8 || route == Route::kFloat8; }

// Tile, order and cost of a row whose operands are prepared in `encoding`.
constexpr Row dense_row_of(const BlockScaledRow& row, Encoding encoding) {
  if (row.route == Route::kInt8) return kInt8Rows[row.tile];
  Row dense = row.route == Route::kFloat8 ? kFp8Configs[row.tile].row : kRows[row.tile];
  // e5m2's sums leave the tensor core while the other consumer's are multiplied; those of the other encodings stay in
  // there, and with as many registers go by ping-pong.
  if (encoding != Encoding::kFloat8 && dense.tile.takes_registers) dense.tile.family = Family::kPingpong;
  return dense;
}

// Below, the int32 sums of int8 products, each at most 96 x 96, cannot overflow.
constexpr int64_t kInt8MaxK = (int64_t{1} << 31) / (96 * 96) / 128 * 128;

// The product of the prepared operands: rows of 16 bits, or pairs of bytes in their place. The kernels take its types
// from the row: here it only says that an output of 16 bits is theirs to store.
inline Problem prepared_problem(const Problem& problem, Encoding encoding, const void* a, const void* b) {
  Problem prepared;
  prepared.m = problem.m;
  prepared.n = problem.n;
  prepared.k = encoding == Encoding::kBFloat16 ? problem.k : problem.k / 2;
  prepared.out_dtype = problem.out_dtype;
  const DType dtype = info(problem.out_dtype).bytes == 2 ? problem.out_dtype : DType::kBFloat16;
  prepared.a = {{a, prepared.k, 1, 0}, dtype, {}};
  prepared.b = {{b, prepared.k, 1, 0}, dtype, {}};
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

// Why the rows of a route cannot run the problem on this GPU; null where all of them can.
inline const char* why_not(Route route, const Problem& problem, const Gpu& gpu) {
  if (route == Route::kSmallM) return why_not_small_m(problem, gpu);
  if (is_by_encoding(route) && !problem.is_mxfp4()) return "int8 and e5m2 hold mxfp4 alone";
  if (is_by_encoding(route) && problem.k > kInt8MaxK) return "k is too long for sums in int32";
  if (problem.k > kPrepareMaxK) return "k is too long";
  if (prepare_ctas(problem, segments_of(problem)) >= int64_t{1} << 31) return "its operands are too large";
  return why_not(prepared_problem(problem, Encoding::kBFloat16, nullptr, nullptr), gpu);
}

// Why the problem's b cannot be prepared alone, to be kept.
inline const char* why_not_prepare(const Problem& problem, const Gpu& gpu) {
  if (gpu.capability != 90) return "it needs a GPU of compute capability 9.0";
  if (problem.k > kPrepareMaxK) return "k is too long";
  if (prepare_ctas(problem, segments_of(problem)) >= int64_t{1} << 31) return "it is too large";
  return nullptr;
}

// Fewer rows of either operand are faster without being prepared.
constexpr int64_t kPreparePaysFromRows = 65;

// So many rows of a are faster as few rows. Where b is prepared already they are fewer, unless that has four times the
// codes' bytes, which then take longer to read.
constexpr int64_t max_small_m(const Problem& problem) {
  const PreparedWeight& weight = problem.prepared_b;
  const bool is_wide = weight.form == PreparedForm::kBFloat16 && problem.b.dtype == DType::kFloat4E2M1;
  const bool is_read = weight.data != nullptr && problem.n >= kPreparePaysFromRows;
  return !is_read || is_wide ? kSmallMMost : kPreparePaysFromRows - 1;
}

// In shorter sums few products make up for what another loses (docs/block_scaled_on_hopper.md).
constexpr int64_t kFloat8LeastK = 1024;

constexpr bool may_be_float8(const Problem& problem) { return problem.fast_accum && problem.k >= kFloat8LeastK; }

// Products (m * n * k) from which int8 saves more than looking at the scales costs.
constexpr double kInt8PaysFrom = 1472.0 * 1472.0 * 1472.0;

// Memory that a product needs: both operands, a byte a row, the words of the inspection or the preparation, and a
// summary of these. Where each begins but a, and all of it.
constexpr int kSummaryWords = 8;  // one of each warp that consumes, at most
struct Scratch {
  int64_t b, exponents_a, exponents_b, words, summary, bytes;
};

inline Scratch scratch_of(const Problem& problem, Route route) {
  const int64_t words = is_by_encoding(route) ? classify_ctas(problem) : prepare_ctas(problem, segments_of(problem));
  const auto aligned = [](int64_t bytes) { return (bytes + 255) / 256 * 256; };
  Scratch scratch{};
  scratch.b = aligned(problem.m * problem.k * kElementBytes);
  const PreparedWeight& weight = problem.prepared_b;  // int8 is decoded anew where it is not what the data allow
  const bool has_b = weight.data != nullptr && weight.form == PreparedForm::kBFloat16;
  scratch.exponents_a = scratch.b + (has_b ? 0 : aligned(problem.n * problem.k * kElementBytes));
  scratch.exponents_b = scratch.exponents_a + aligned(problem.m);
  scratch.words = scratch.exponents_b + aligned(problem.n);
  scratch.summary = scratch.words + aligned(words * 4);
  scratch.bytes = scratch.summary + aligned(kSummaryWords * 4);
  return scratch;
}

}  // namespace tileon::sm90
