// The portable kernels' tile table and the choice of a row: data and a pure function, compiled by any C++ compiler.
#pragma once

#include <cstdint>

#include "core/problem.h"
#include "cuda/common/cheapest.h"
#include "cuda/common/tile_order.h"
#include "cuda/runtime/gpu.h"
#include "cuda/sm80/loaders/operand_access.h"

namespace tileon::sm80 {

enum class Family : int8_t {
  kMma,        // tensor cores (mma.sync) fed by 16-byte cp.async
  kMmaGather,  // the same, every element fetched through its strides: any alignment, any stride
  kSimt,       // FFMA: IEEE float32, any alignment, any stride
  kDmma,       // tensor cores in float64, any alignment, any stride
  kSkinny,     // FFMA for a few rows of a, which read b at the memory's rate: both lie along k, 16-byte loads
};

// Everything that shapes a kernel. A row of the table is used as a template argument as it stands.
struct TileConfig {
  Family family;
  int tile_m;
  int tile_n;
  int block_k;  // elements of k in one stage
  int warps_m;  // the tile is split evenly over warps_m x warps_n warps; of kSkinny, k and the columns are
  int warps_n;
  int stages;       // k-blocks in shared memory; stages - 1 are in flight
  int group_m;      // rows of tiles in a group (tile_order.h)
  int ctas_per_sm;  // CTAs that one SM shall hold: bounds the registers

  constexpr int threads() const { return warps_m * warps_n * 32; }
  constexpr int warp_m() const { return tile_m / warps_m; }
  constexpr int warp_n() const { return tile_n / warps_n; }
};

// What a row multiplies. Float32 operands are kTf32 or kFloat32, as `allow_tf32` says; of fp8 each pairing is one.
enum class Kind : int8_t { kFloat16, kBFloat16, kTf32, kFloat32, kFloat64, kE4M3, kE4M3E5M2, kE5M2E4M3, kE5M2 };
constexpr int kKindCount = 9;

inline Kind kind_of(const Problem& problem) {
  switch (problem.a.dtype) {
    case DType::kFloat16:
      return Kind::kFloat16;
    case DType::kBFloat16:
      return Kind::kBFloat16;
    case DType::kFloat32:
      return problem.allow_tf32 ? Kind::kTf32 : Kind::kFloat32;
    case DType::kFloat64:
      return Kind::kFloat64;
    case DType::kFloat8E4M3:
      return problem.b.dtype == DType::kFloat8E4M3 ? Kind::kE4M3 : Kind::kE4M3E5M2;
    case DType::kFloat8E5M2:
      return problem.b.dtype == DType::kFloat8E4M3 ? Kind::kE5M2E4M3 : Kind::kE5M2;
    case DType::kFloat4E2M1:
      break;  // only with scales: block_scaled.h
  }
  return Kind::kFloat64;
}

constexpr int bit(Kind kind) { return 1 << static_cast<int>(kind); }

// Time of one CTA that has an SM to itself: ns_per_k * k + ns_fixed. `share` is the part of the SM that it then uses: c
// CTAs together take max(1, c * share) times as long.
struct Cost {
  float ns_per_k;
  float ns_fixed;
  float share;
};

struct Row {
  const char* name;
  int kinds;  // bits of Kind
  TileConfig tile;
  // Fitted on an H200 to benchmarks/results/h200/sweep.csv by benchmarks/fit/fit_portable.py, which also says what the
  // choice loses. Those of the _fp8 rows are estimates still: of the 16-bit rows with their tiles, a fifth slower,
  // since an H200's mma.sync of fp8 is two of float16 and the conversions.
  Cost cost;
};

constexpr int k8 = bit(Kind::kE4M3) | bit(Kind::kE4M3E5M2) | bit(Kind::kE5M2E4M3) | bit(Kind::kE5M2);
constexpr int k16 = bit(Kind::kFloat16) | bit(Kind::kBFloat16);
constexpr int kTf32 = bit(Kind::kTf32);
constexpr int k32 = bit(Kind::kFloat32);
constexpr int k64 = bit(Kind::kFloat64);
constexpr int kGathered = k8 | k16 | kTf32;

// clang-format off
constexpr Row kRows[] = {
    // name                        kinds        family               tile m, n  k   warps  stages, group, ctas_per_sm   ns_per_k, ns_fixed, share
    {"sm80_mma_256x128x64",        k16,         {Family::kMma,       256, 128, 64,  4, 2,  3, 8, 1},   16.90f, 12200.0f, 1.00f},
    {"sm80_mma_128x128x32",        k16,         {Family::kMma,       128, 128, 32,  2, 2,  3, 8, 2},   15.90f, 10100.0f, 0.56f},
    {"sm80_mma_64x128x64",         k16,         {Family::kMma,        64, 128, 64,  2, 2,  3, 8, 2},    8.64f,  5970.0f, 0.53f},
    {"sm80_mma_64x64x64",          k16,         {Family::kMma,        64,  64, 64,  2, 2,  3, 8, 3},    7.83f,  4410.0f, 0.35f},
    {"sm80_mma_16x128x64",         k16,         {Family::kMma,        16, 128, 64,  1, 4,  4, 8, 3},    5.73f,  3210.0f, 0.43f},
    {"sm80_mma_256x128x16_tf32",   kTf32,       {Family::kMma,       256, 128, 16,  4, 2,  4, 8, 1},   48.70f, 11900.0f, 1.00f},
    {"sm80_mma_64x128x32_tf32",    kTf32,       {Family::kMma,        64, 128, 32,  2, 2,  3, 8, 2},   19.30f,  6070.0f, 0.80f},
    {"sm80_mma_64x64x32_tf32",     kTf32,       {Family::kMma,        64,  64, 32,  2, 2,  3, 8, 3},   15.30f,  3770.0f, 0.61f},
    {"sm80_mma_128x128x64_fp8",    k8,          {Family::kMma,       128, 128, 64,  4, 2,  4, 8, 1},   10.70f, 10100.0f, 1.00f},
    {"sm80_mma_64x64x128_fp8",     k8,          {Family::kMma,        64,  64, 128, 2, 2,  3, 8, 2},    9.40f,  4410.0f, 0.42f},
    {"sm80_mma_gather_64x64x32",   kGathered,   {Family::kMmaGather,  64,  64, 32,  2, 2,  3, 8, 2},   36.60f,  4160.0f, 0.58f},
    {"sm80_simt_128x256x16",       k32,         {Family::kSimt,      128, 256, 16,  2, 4,  3, 8, 1},  168.00f, 12300.0f, 1.00f},
    {"sm80_simt_128x128x8",        k32,         {Family::kSimt,      128, 128,  8,  2, 2,  4, 8, 2},  107.00f, 10800.0f, 0.83f},
    {"sm80_simt_128x64x16",        k32,         {Family::kSimt,      128,  64, 16,  2, 2,  3, 8, 3},   55.90f,  7140.0f, 0.76f},
    {"sm80_simt_64x64x16",         k32,         {Family::kSimt,       64,  64, 16,  2, 2,  3, 8, 4},   33.90f,  3930.0f, 0.77f},
    {"sm80_few_rows_1x16x256",     k32,         {Family::kSkinny,      1,  16, 256, 2, 4,  1, 8, 2},     1.17f, 1109.0f, 0.30f},
    {"sm80_few_rows_2x16x256",     k32,         {Family::kSkinny,      2,  16, 256, 2, 4,  1, 8, 2},     1.39f, 1927.0f, 0.30f},
    {"sm80_few_rows_4x16x256",     k32,         {Family::kSkinny,      4,  16, 256, 2, 4,  1, 8, 1},     0.97f, 1317.0f, 1.00f},
    {"sm80_few_rows_8x16x256",     k32,         {Family::kSkinny,      8,  16, 256, 2, 4,  1, 8, 1},     1.84f, 2738.0f, 1.00f},
    {"sm80_dmma_128x128x16",       k64,         {Family::kDmma,      128, 128, 16,  2, 4,  3, 8, 1},   80.50f,  8000.0f, 1.00f},
    {"sm80_dmma_64x128x16",        k64,         {Family::kDmma,       64, 128, 16,  2, 2,  3, 8, 2},   51.00f,  5000.0f, 0.81f},
    {"sm80_dmma_64x64x16",         k64,         {Family::kDmma,       64,  64, 16,  2, 2,  3, 8, 3},   29.40f,  3200.0f, 0.77f},
};
// clang-format on
constexpr int kDenseConfigCount = sizeof(kRows) / sizeof(kRows[0]);

// The first row of a family.
constexpr Row row_of(Family family) {
  int row = 0;
  while (kRows[row].tile.family != family) ++row;
  return kRows[row];
}

// Bytes behind each row of a panel (operand_panel.cuh). SIMT: a row starts four banks after the one above, so that
// element-wise writes, eight rows at a time, meet every bank once. DMMA: eight banks, for reads of four rows at a time.
constexpr int panel_padding(Family family) { return family == Family::kSimt ? 16 : family == Family::kDmma ? 32 : 0; }

// The slabs through which a warp stores (store.cuh): rows, and what pads them, so that an accumulator fragment's writes
// are spread over the banks.
constexpr int slab_rows(Family family) { return family == Family::kSimt ? 8 : 16; }
constexpr int slab_padding(Family family) { return family == Family::kSimt ? 16 : 8; }

// Dynamic shared memory of a row's kernel: the pipeline of k-blocks, or the slabs where those need more.
constexpr int shared_bytes(const TileConfig& tile, int element_bytes) {
  const int accumulator_bytes = element_bytes == 8 ? 8 : 4;
  const int k_row = (tile.tile_m + tile.tile_n) * element_bytes + 2 * panel_padding(tile.family);
  const int pipeline = tile.stages * tile.block_k * k_row;
  const int slab = slab_rows(tile.family) * (tile.warp_n() + slab_padding(tile.family)) * accumulator_bytes;
  const int slabs = tile.warps_m * tile.warps_n * slab;
  return pipeline > slabs ? pipeline : slabs;
}

// The bytes of an element in shared memory: the gather kernels have no fp8 instructions, and make float16 of fp8.
constexpr int tile_element_bytes(Family family, int operand_bytes) {
  return family == Family::kMmaGather && operand_bytes == 1 ? 2 : operand_bytes;
}

// Whether the tensor-core rows load operand `operand` ([mn, k], `mn` long) in 16-byte chunks. Of fp8 that must be along
// k: no ldmatrix transposes single bytes.
inline bool reads_vectors(const Matrix& operand, const Problem& problem, int64_t mn) {
  const OperandAccess access = operand_access(operand, problem.batch, mn, problem.k, info(problem.a.dtype).bytes);
  return access.vectors && (access.major == Major::kK || !is_float8(problem.a.dtype));
}

// Why not both operands can be loaded in 16-byte chunks along k.
inline const char* why_not_along_k(const Problem& problem) {
  const auto along_k = [&](const Matrix& operand, int64_t mn) {
    const OperandAccess access = operand_access(operand, problem.batch, mn, problem.k, info(problem.a.dtype).bytes);
    return access.vectors && access.major == Major::kK;
  };
  if (!along_k(problem.a, problem.m)) return "it cannot read the strides or the alignment of `a`";
  if (!along_k(problem.b, problem.n)) return "it cannot read the strides or the alignment of `b`";
  return nullptr;
}

constexpr int kFloat8Capability = 89;  // mma.sync takes fp8 from there on

// Why row `row` cannot run the problem on this GPU; null where it can.
inline const char* why_not(const Row& row, const Problem& problem, const Gpu& gpu) {
  const int bytes = info(problem.a.dtype).bytes;
  if (!(row.kinds & bit(kind_of(problem)))) return "it does not take operands of this dtype";
  if (shared_bytes(row.tile, tile_element_bytes(row.tile.family, bytes)) > gpu.shared_bytes_per_block)
    return "this GPU has too little shared memory for it";
  if (row.tile.family == Family::kSkinny) return why_not_along_k(problem);
  if (row.tile.family != Family::kMma) return nullptr;  // the others read anything
  if (is_float8(problem.a.dtype) && gpu.image < kFloat8Capability)
    return "fp8 needs code for compute capability 8.9 or newer";
  if (!reads_vectors(problem.a, problem, problem.m)) return "it cannot read the strides or the alignment of `a`";
  if (!reads_vectors(problem.b, problem, problem.n)) return "it cannot read the strides or the alignment of `b`";
  return nullptr;
}

// Whether fp8 operands are multiplied faster as float16, but for the conversion: where the rows with fp8 instructions
// cannot run.
inline bool widens_float8(const Problem& problem, const Gpu& gpu) {
  if (!is_float8(problem.a.dtype)) return false;
  return gpu.image < kFloat8Capability || !reads_vectors(problem.a, problem, problem.m) ||
         !reads_vectors(problem.b, problem, problem.n);
}

inline bool supports(const Row& row, const Problem& problem, const Gpu& gpu) {
  return why_not(row, problem, gpu) == nullptr;
}

inline TileOrder tile_order(const TileConfig& tile, int64_t m, int64_t n) {
  return {static_cast<int>((m + tile.tile_m - 1) / tile.tile_m), static_cast<int>((n + tile.tile_n - 1) / tile.tile_n),
          tile.group_m};
}

// Nanoseconds that the model expects on an H200's SMs: full waves of ctas_per_sm CTAs, then one of what is left, which
// takes as long as its fullest SM.
template <typename Problem>
double expected_ns(const TileConfig& tile, const Cost& cost, const Problem& problem, const Gpu& gpu) {
  const int64_t tiles = tile_order(tile, problem.m, problem.n).count() * problem.batch;
  const int64_t slots = static_cast<int64_t>(gpu.sm_count) * tile.ctas_per_sm;
  const double alone = static_cast<double>(cost.ns_per_k) * static_cast<double>(problem.k) + cost.ns_fixed;
  const auto together = [&](int64_t ctas) {
    const double used = static_cast<double>(ctas) * cost.share;
    return ctas == 0 ? 0.0 : alone * (used > 1 ? used : 1);
  };
  const int64_t left = tiles % slots;
  return static_cast<double>(tiles / slots) * together(tile.ctas_per_sm) +
         together((left + gpu.sm_count - 1) / gpu.sm_count);
}

inline double expected_ns(const Row& row, const Problem& problem, const Gpu& gpu) {
  return expected_ns(row.tile, row.cost, problem, gpu);
}

// Where the operands must be gathered, an aligned copy of them pays for large products and for a long k, of which a few
// CTAs walk all. On an H200 a copy saves GPU time from about 160^3 products (batch * m * n * k) on, but costs the host
// two more launches, which an eager caller waits for up to about 512^3: between the two
// (benchmarks/results/h200/awkward.csv). Likewise two copies take some 8 us of the GPU, and 15 of the host.
constexpr double kCopyPaysFrom = 320.0 * 320.0 * 320.0;
constexpr double kCopyPaysFromNs = 24000.0;

inline bool copies_pay(const Problem& problem, const Gpu& gpu) {
  constexpr Row gather = row_of(Family::kMmaGather);
  return problem.products() >= kCopyPaysFrom || expected_ns(gather, problem, gpu) >= kCopyPaysFromNs;
}

// -1 where no row supports the problem (one always does).
inline int choose(const Problem& problem, const Gpu& gpu) {
  return cheapest(
      kRows, [&](const Row& row) { return supports(row, problem, gpu); },
      [&](const Row& row) { return expected_ns(row, problem, gpu); });
}

}  // namespace tileon::sm80
