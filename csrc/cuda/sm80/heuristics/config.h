// The portable kernels' configs: two tables of data, and what follows from a config alone. Any C++ compiler takes it.
#pragma once

#include <cstdint>

#include "core/problem.h"
#include "cuda/common/narrow.h"

namespace tileon::sm80 {

enum class Family : int8_t {
  kMma,         // tensor cores (mma.sync) fed by 16-byte cp.async; of block-scaled products, by codes that are decoded
  kMmaGather,   // tensor cores, fed word by word or element by element: any alignment, any stride
  kMmaWidened,  // tensor cores in float16, fed by 8-byte cp.async of fp8, which becomes float16 in shared memory
  kSimt,        // FFMA: IEEE float32, any alignment, any stride
  kDmma,        // tensor cores in float64, any alignment, any stride
  kSkinny,      // FFMA for a few rows of a, at the rate of reading b: both operands along k, 16-byte loads
  kDecoded,     // tensor cores in TF32, to which any operand of a product with scales is decoded
  kDirect,      // small products of every dtype, from global memory to registers and back: any alignment, any stride
  kNarrow,  // FFMA for few rows of a, few columns of b or a small product, of every dtype: any alignment, any stride
};

// Everything that shapes a kernel: a template argument of the kernel, as it stands in the table. Of kNarrow that is
// tile_m, elements of the output's short side, whichever that is; the other sizes are decided with the problem
// (common/narrow.h), and those here are one of the ways in which a CTA reads 16 KB of the long operand at once.
struct TileConfig {
  Family family;
  int tile_m;
  int tile_n;
  int block_k;  // elements of k in one stage
  int warps_m;  // the tile is split evenly over warps_m x warps_n warps; of kSkinny and kDirect k, over warps_m
  int warps_n;
  int stages;       // k-blocks in shared memory (kDirect: in registers); stages - 1 in flight, of kMmaWidened all
  int group_m;      // rows of tiles in a group (tile_order.h)
  int ctas_per_sm;  // CTAs that one SM shall hold: bounds the registers

  constexpr int threads() const { return warps_m * warps_n * 32; }
  constexpr int warp_m() const { return tile_m / warps_m; }
  constexpr int warp_n() const { return tile_n / warps_n; }
};

// What a config multiplies: a pair of dtypes, float32 operands being kTf32 where `allow_tf32` is set, or a pair of
// block-scaled formats.
// clang-format off
enum class Kind : int8_t {
  kFloat16, kBFloat16, kTf32, kFloat32, kFloat64,
  kE4M3, kE4M3E5M2, kE5M2E4M3, kE5M2,
  kMxfp8, kMxfp4, kMxE4M3E2M1, kMxE2M1E4M3, kNvfp4,  // with block scales
};
// clang-format on

struct KindInfo {
  Kind kind;
  const char* name;  // as the ops report it: two dtypes with a * between them are those of a and b
  DType a, b;        // of the elements
  ScaleType scale = ScaleType::kE8M0;
};
constexpr KindInfo kKinds[] = {
    {Kind::kFloat16, "float16", DType::kFloat16, DType::kFloat16},
    {Kind::kBFloat16, "bfloat16", DType::kBFloat16, DType::kBFloat16},
    {Kind::kTf32, "tf32", DType::kFloat32, DType::kFloat32},
    {Kind::kFloat32, "float32", DType::kFloat32, DType::kFloat32},
    {Kind::kFloat64, "float64", DType::kFloat64, DType::kFloat64},
    {Kind::kE4M3, "float8_e4m3fn", DType::kFloat8E4M3, DType::kFloat8E4M3},
    {Kind::kE4M3E5M2, "float8_e4m3fn*float8_e5m2", DType::kFloat8E4M3, DType::kFloat8E5M2},
    {Kind::kE5M2E4M3, "float8_e5m2*float8_e4m3fn", DType::kFloat8E5M2, DType::kFloat8E4M3},
    {Kind::kE5M2, "float8_e5m2", DType::kFloat8E5M2, DType::kFloat8E5M2},
    {Kind::kMxfp8, "mxfp8", DType::kFloat8E4M3, DType::kFloat8E4M3},
    {Kind::kMxfp4, "mxfp4", DType::kFloat4E2M1, DType::kFloat4E2M1},
    {Kind::kMxE4M3E2M1, "mixed", DType::kFloat8E4M3, DType::kFloat4E2M1},
    {Kind::kMxE2M1E4M3, "mixed", DType::kFloat4E2M1, DType::kFloat8E4M3},
    {Kind::kNvfp4, "nvfp4", DType::kFloat4E2M1, DType::kFloat4E2M1, ScaleType::kE4M3},
};
constexpr int kKindCount = sizeof(kKinds) / sizeof(KindInfo);
constexpr int kFormatPairs = kKindCount - static_cast<int>(Kind::kMxfp8);  // kinds with block scales

constexpr const KindInfo& info(Kind kind) { return kKinds[static_cast<int>(kind)]; }
static_assert(in_order_of(&KindInfo::kind, kKinds));

constexpr bool is_scaled(Kind kind) { return kind >= Kind::kMxfp8; }
constexpr int bit(Kind kind) { return 1 << static_cast<int>(kind); }

struct KernelConfig {
  const char* name;
  int kinds;  // bits of Kind
  TileConfig tile;
  // Nanoseconds of one CTA that has an SM to itself: ns_per_k * k + ns_fixed. A dense config has one ns_per_k for all
  // of its kinds, a block-scaled one has one for each pair of formats, in the order of Kind.
  float ns_per_k[kFormatPairs];
  float ns_fixed;
  // Of the SM that the CTA then uses: c CTAs together take max(1, c * share) times as long for their k, and
  // max(1, c * fixed_share) times for the rest, most of which is waiting; c * fixed_share times where waves follow.
  float share;
  float fixed_share;
  bool measured = true;      // the config has run on hardware; one that has not is chosen where no other can run
  float by_elements = 1;     // factor of ns_per_k where an operand is read element by element
  float ns_per_element = 0;  // of the output, up to kMostStoredElements; where k is sliced, add_slices_ns has it
  float bytes_per_ns = 0;    // of operands along k, by all CTAs together; 0: not known, and seldom the bound
};

// What a larger output's stores take is hidden behind other CTAs' products: fitted with the costs.
constexpr double kMostStoredElements = 360e3;

constexpr int k8 = bit(Kind::kE4M3) | bit(Kind::kE4M3E5M2) | bit(Kind::kE5M2E4M3) | bit(Kind::kE5M2);
constexpr int k16 = bit(Kind::kFloat16) | bit(Kind::kBFloat16);
constexpr int kTf32 = bit(Kind::kTf32);
constexpr int k32 = bit(Kind::kFloat32);
constexpr int k64 = bit(Kind::kFloat64);
constexpr int kGathered = k8 | k16 | kTf32;
constexpr int kDense = kGathered | k32 | k64;
constexpr int kScaled = bit(Kind::kNvfp4) * 2 - bit(Kind::kMxfp8);

// Fitted to 18,101 random products of an H200 (benchmarks/results/h200/portable_random.csv.xz has every tenth), kMma of
// 16 bits to the squares and layers of h200/sweep.csv.xz too; benchmarks/fit/fit_portable.py says what the choice
// loses. bytes_per_ns is what the largest of 10,000 products of an H100 that no TMA reads came to, and of fp8 and TF32
// of some hundred. Those of kNarrow are of a step instead of a k: common/narrow.h has the model, and more numbers.
// clang-format off
constexpr KernelConfig kDenseConfigs[] = {
    // name                        kinds        family               tile m, n  k   warps  stages, group, ctas_per_sm   ns_per_k, ns_fixed, share, fixed_share, measured, by_elements, ns_per_element, bytes_per_ns
    {"sm80_mma_256x128x64",        k16,         {Family::kMma,       256, 128, 64,  4, 2,  3, 8, 1}, {18.45f},  6561.8f, 1.00f, 1.00f, true, 1.00f, 0.00413f},
    {"sm80_mma_128x128x32",        k16,         {Family::kMma,       128, 128, 32,  2, 2,  3, 8, 2}, {15.85f},  5641.9f, 0.66f, 0.46f, true, 1.00f, 0.00431f},
    {"sm80_mma_64x128x64",         k16,         {Family::kMma,        64, 128, 64,  2, 2,  3, 8, 2},  {7.10f},  4573.3f, 0.91f, 0.33f, true, 1.00f, 0.00243f},
    {"sm80_mma_64x64x64",          k16,         {Family::kMma,        64,  64, 64,  2, 2,  3, 8, 3},  {7.35f},  3364.9f, 0.49f, 0.23f, true, 1.00f, 0.00261f},
    {"sm80_mma_16x128x64",         k16,         {Family::kMma,        16, 128, 64,  1, 4,  4, 8, 3},  {4.79f},  2755.5f, 0.87f, 0.22f, true, 1.00f, 0.00258f},
    {"sm80_mma_256x128x16_tf32",   kTf32,       {Family::kMma,       256, 128, 16,  4, 2,  4, 8, 1},  {50.79f}, 6482.0f, 1.00f, 1.00f, true, 1.00f, 0.00355f},
    {"sm80_mma_64x128x32_tf32",    kTf32,       {Family::kMma,        64, 128, 32,  2, 2,  3, 8, 2},  {19.26f}, 4893.5f, 0.93f, 0.41f, true, 1.00f, 0.00226f},
    {"sm80_mma_64x64x32_tf32",     kTf32,       {Family::kMma,        64,  64, 32,  2, 2,  3, 8, 3},  {14.47f}, 3739.0f, 0.76f, 0.24f, true, 1.00f, 0.00252f},
    {"sm80_mma_128x128x64_fp8",    k8,          {Family::kMma,       128, 128, 64,  4, 2,  4, 8, 1},  {11.52f},  4054.1f, 1.00f, 1.00f, true, 1.00f, 0.00314f},
    {"sm80_mma_64x64x128_fp8",     k8,          {Family::kMma,        64,  64, 128, 2, 2,  3, 8, 2},   {6.72f},  2781.5f, 0.42f, 0.41f, true, 1.00f, 0.00389f},
    {"sm80_mma_gather_64x64x64",   k16,         {Family::kMmaGather,  64,  64, 64,  4, 2,  3, 8, 2},  {10.45f}, 5138.5f, 0.93f, 0.25f, true, 1.34f, 0.00183f, 1200.0f},
    {"sm80_mma_gather_64x64x64_fp8", k8,        {Family::kMmaGather,  64,  64, 64,  4, 2,  3, 8, 2},  {18.49f}, 5033.0f, 0.87f, 0.29f, true, 1.00f, 0.00192f, 420.0f},
    {"sm80_mma_widened_64x64x64_fp8", k8,       {Family::kMmaWidened, 64,  64, 64,  4, 2,  4, 8, 3},   {8.33f}, 2533.5f, 0.88f, 0.36f, true, 1.00f, 0.00286f, 820.0f},
    {"sm80_mma_gather_64x64x32_tf32", kTf32,    {Family::kMmaGather,  64,  64, 32,  4, 2,  3, 8, 2},  {19.09f}, 4927.9f, 0.95f, 0.22f, true, 1.00f, 0.00238f, 1550.0f},
    {"sm80_direct_16x64x64",       k16,         {Family::kDirect,     16,  64, 64,  1, 4,  1, 8, 4},  {16.69f}, 1904.7f, 0.27f, 0.20f, true, 1.34f, 0.00483f, 780.0f},
    {"sm80_direct_16x64x64_fp8",   k8,          {Family::kDirect,     16,  64, 64,  1, 4,  1, 8, 4},  {19.36f}, 2141.6f, 0.25f, 0.22f, true, 1.40f, 0.00498f, 450.0f},
    {"sm80_direct_16x64x64_tf32",  kTf32,       {Family::kDirect,     16,  64, 64,  1, 4,  1, 8, 4},  {24.61f}, 2286.1f, 0.38f, 0.16f, true, 1.00f, 0.00458f, 800.0f},
    {"sm80_direct_16x64x32_float32", k32,       {Family::kDirect,     16,  64, 32,  1, 4,  1, 8, 4},  {52.82f}, 1593.8f, 0.33f, 0.23f, true, 1.00f, 0.00429f},
    {"sm80_direct_16x64x32_float64", k64,       {Family::kDirect,     16,  64, 32,  1, 4,  1, 8, 4},  {40.87f}, 1368.8f, 0.25f, 0.37f, true, 1.00f, 0.00626f},
    {"sm80_direct_split8_16x16x32", k16,        {Family::kDirect,     16,  16, 32,  8, 1,  2, 8, 2},   {2.88f}, 2368.6f, 0.72f, 0.55f, true, 1.18f, 0.00409f, 1150.0f},
    {"sm80_direct_split8_16x16x32_fp8", k8,     {Family::kDirect,     16,  16, 32,  8, 1,  2, 8, 2},   {3.35f}, 2376.8f, 0.59f, 0.56f, true, 1.26f, 0.00633f, 850.0f},
    {"sm80_direct_split8_16x16x32_tf32", kTf32, {Family::kDirect,     16,  16, 32,  8, 1,  2, 8, 2},   {4.31f}, 2505.9f, 0.74f, 0.55f, true, 1.00f, 0.00508f},
    {"sm80_direct_split8_16x16x16_float32", k32, {Family::kDirect,    16,  16, 16,  8, 1,  2, 8, 2},   {8.79f}, 2297.3f, 0.72f, 0.57f, true, 1.00f, 0.00124f},
    {"sm80_direct_split8_16x16x16_float64", k64, {Family::kDirect,    16,  16, 16,  8, 1,  2, 8, 2},   {6.16f}, 1975.4f, 0.82f, 0.57f, true, 1.00f, 0.00522f},
    {"sm80_direct_split16_16x16x32_fp8", k8,    {Family::kDirect,     16,  16, 32, 16, 1,  2, 8, 1},   {2.05f}, 2795.2f, 1.00f, 1.00f, true, 1.31f, 0.01686f, 850.0f},
    {"sm80_direct_split16_16x16x32_tf32", kTf32, {Family::kDirect,    16,  16, 32, 16, 1,  2, 8, 1},   {3.05f}, 2787.6f, 1.00f, 1.00f, true, 1.00f, 0.01988f},
    {"sm80_direct_split16_16x16x16_float64", k64, {Family::kDirect,   16,  16, 16, 16, 1,  2, 8, 1},   {4.56f}, 2336.6f, 1.00f, 1.00f, true, 1.00f, 0.01772f},
    {"sm80_simt_128x256x16",       k32,         {Family::kSimt,      128, 256, 16,  2, 4,  3, 8, 1}, {181.40f}, 7847.2f, 0.96f, 0.20f, true, 1.08f, 0.01036f},
    {"sm80_simt_128x128x8",        k32,         {Family::kSimt,      128, 128,  8,  2, 2,  4, 8, 2}, {107.26f}, 7591.4f, 0.86f, 0.45f, true, 1.12f, 0.00333f},
    {"sm80_simt_128x64x16",        k32,         {Family::kSimt,      128,  64, 16,  2, 2,  3, 8, 3},  {56.35f}, 5608.6f, 0.84f, 0.32f, true, 1.10f, 0.00357f},
    {"sm80_simt_64x64x16",         k32,         {Family::kSimt,       64,  64, 16,  2, 2,  3, 8, 4},  {34.44f}, 3782.1f, 0.82f, 0.22f, true, 1.11f, 0.00282f},
    {"sm80_simt_128x32x16",        k32,         {Family::kSimt,      128,  32, 16,  4, 1,  3, 8, 4},  {36.68f}, 3838.2f, 0.82f, 0.23f, true, 1.15f, 0.00264f},
    {"sm80_simt_32x128x16",        k32,         {Family::kSimt,       32, 128, 16,  1, 4,  3, 8, 4},  {36.92f}, 3747.7f, 0.81f, 0.23f, true, 1.15f, 0.00310f},
    {"sm80_few_rows_1x16x256",     k32,         {Family::kSkinny,      1,  16, 256, 2, 4,  1, 8, 2},   {1.37f}, 1926.6f, 0.30f, 0.42f},
    {"sm80_few_rows_2x16x256",     k32,         {Family::kSkinny,      2,  16, 256, 2, 4,  1, 8, 2},   {1.43f}, 2309.7f, 0.30f, 0.35f},
    {"sm80_few_rows_4x16x256",     k32,         {Family::kSkinny,      4,  16, 256, 2, 4,  1, 8, 1},   {1.65f}, 2269.9f, 1.00f, 1.00f},
    {"sm80_few_rows_8x16x256",     k32,         {Family::kSkinny,      8,  16, 256, 2, 4,  1, 8, 1},   {2.10f}, 2836.0f, 1.00f, 1.00f},
    {"sm80_dmma_128x128x16",       k64,         {Family::kDmma,      128, 128, 16,  2, 4,  3, 8, 1},  {66.54f}, 5809.3f, 1.00f, 0.21f, true, 1.19f, 0.00656f},
    {"sm80_dmma_64x128x16",        k64,         {Family::kDmma,       64, 128, 16,  2, 2,  3, 8, 2},  {41.15f}, 3883.7f, 0.88f, 0.66f, true, 1.37f, 0.00342f},
    {"sm80_dmma_64x64x16",         k64,         {Family::kDmma,       64,  64, 16,  2, 2,  3, 8, 3},  {25.66f}, 3078.3f, 0.77f, 0.43f, true, 1.53f, 0.00453f},
    {"sm80_dmma_64x64x32",         k64,         {Family::kDmma,       64,  64, 32,  4, 2,  3, 8, 2},  {24.10f}, 2802.7f, 0.84f, 0.61f, true, 1.77f, 0.00323f},
    {"sm80_dmma_32x64x32",         k64,         {Family::kDmma,       32,  64, 32,  2, 2,  3, 8, 2},  {16.28f}, 2793.6f, 0.82f, 0.36f, true, 1.71f, 0.00375f},
    {"sm80_dmma_32x32x32",         k64,         {Family::kDmma,       32,  32, 32,  2, 2,  3, 8, 4}, {10.78f}, 2402.0f, 0.77f, 0.18f, true, 1.79f, 0.00393f},
    {"sm80_narrow_2x64x256",       kDense,      {Family::kNarrow,      2,  64, 256, 1, 8,  1, 8, 2}, {830.00f},   800.0f, 0.50f, 0.50f, kNarrowMeasured},
    {"sm80_narrow_8x64x256",       kDense,      {Family::kNarrow,      8,  64, 256, 1, 8,  1, 8, 2}, {830.00f},   800.0f, 0.50f, 0.50f, kNarrowMeasured},
};

// Every config takes every pair of formats. Where the operands' formats differ, the tile's long side is best where the
// shorter elements are: a thread then has a whole block of e2m1 and half a block of e4m3 (ChunkOf). The costs were
// fitted to 4,477 random products of an H200 (benchmarks/results/h200/block_scaled_random.csv.xz); those of e2m1 times
// e4m3 are by symmetry.
constexpr KernelConfig kBlockScaledConfigs[] = {
    // name                             kinds    family         tile m, n  k   warps  stages, group, ctas_per_sm   ns_per_k: mxfp8, mxfp4, e4m3 e2m1, e2m1 e4m3, nvfp4   ns_fixed, share, fixed_share, measured, by_elements, ns_per_element
    {"sm80_block_scaled_256x128x32",    kScaled, {Family::kMma, 256, 128, 32,  4, 2,  3, 8, 1},   {33.2f, 19.1f, 31.2f, 26.0f, 33.2f}, 7240.0f, 1.00f, 1.00f, true, 1.00f, 0.003f},
    {"sm80_block_scaled_128x256x32",    kScaled, {Family::kMma, 128, 256, 32,  2, 4,  3, 8, 1},   {29.8f, 18.4f, 26.0f, 31.2f, 31.4f}, 7350.0f, 1.00f, 1.00f, true, 1.00f, 0.004f},
    {"sm80_block_scaled_64x128x32",     kScaled, {Family::kMma,  64, 128, 32,  2, 2,  3, 8, 2},   {21.3f,  9.9f, 15.3f, 21.3f, 19.5f}, 4810.0f, 0.70f, 0.55f, true, 1.00f, 0.001f},
    {"sm80_block_scaled_16x128x32",     kScaled, {Family::kMma,  16, 128, 32,  1, 4,  3, 8, 2},   {20.7f, 11.6f, 17.4f, 20.7f, 18.0f}, 3220.0f, 0.57f, 0.50f},
};

// Every config takes every product with scales. Their costs are not known: the first serves few rows of a, the second
// all others.
constexpr KernelConfig kDecodedConfigs[] = {
    // name                     kinds  family             tile m, n  k   warps  stages, group, ctas_per_sm
    {"sm80_decoded_16x128x32",  0,     {Family::kDecoded,  16, 128, 32,  1, 4,  3, 8, 2},   {}, 0, 0, 0, false},
    {"sm80_decoded_64x64x32",   0,     {Family::kDecoded,  64,  64, 32,  2, 2,  3, 8, 2},   {}, 0, 0, 0, false},
};
constexpr int kDecodedConfigCount = sizeof(kDecodedConfigs) / sizeof(kDecodedConfigs[0]);
// clang-format on
constexpr int kDenseConfigCount = sizeof(kDenseConfigs) / sizeof(KernelConfig);
constexpr int kBlockScaledConfigCount = sizeof(kBlockScaledConfigs) / sizeof(KernelConfig);

// The table of a kind's configs.
template <Kind kKind>
constexpr const KernelConfig* kConfigsOf = is_scaled(kKind) ? kBlockScaledConfigs : kDenseConfigs;
template <Kind kKind>
constexpr int kConfigCountOf = is_scaled(kKind) ? kBlockScaledConfigCount : kDenseConfigCount;

// Bytes behind each row of a panel (operand_panel.cuh). SIMT: a row starts four banks after the one above, so that
// element-wise writes, eight rows at a time, meet every bank once. DMMA: eight banks, for reads of four rows at a time,
// along m or n or along k.
constexpr int panel_padding(Family family) { return family == Family::kSimt ? 16 : family == Family::kDmma ? 32 : 0; }

// The slabs through which a warp stores (epilogue_store.cuh): rows, and what pads them, so that an accumulator
// fragment's writes are spread over the banks.
constexpr int slab_rows(Family family) { return family == Family::kSimt ? 8 : 16; }
constexpr int slab_padding(Family family) { return family == Family::kSimt ? 16 : 8; }

// Of kDirect: from row to row of a tile's sums in shared memory, in sums.
constexpr int direct_pitch(const TileConfig& tile) { return tile.tile_n + 4; }

constexpr int kWidenedTiles = 2;  // of float16, of kMmaWidened: one is filled while the other is multiplied

// Dynamic shared memory of a config's kernel: the pipeline of k-blocks, or the slabs where those need more; of kDirect
// the sums of the warps that share k; of kMmaWidened tiles, and codes in flight.
constexpr int shared_bytes(const TileConfig& tile, int element_bytes) {
  const int accumulator_bytes = element_bytes == 8 ? 8 : 4;
  if (tile.family == Family::kDirect)
    return tile.warps_m == 1 ? 0 : tile.warps_m * tile.tile_m * direct_pitch(tile) * accumulator_bytes;
  if (tile.family == Family::kMmaWidened)
    return (tile.tile_m + tile.tile_n) * tile.block_k * (kWidenedTiles * element_bytes + tile.stages);
  const int elements = (tile.tile_m + tile.tile_n) * tile.block_k;                               // of a stage
  const int rows = tile.family == Family::kDmma ? tile.tile_m + tile.tile_n : 2 * tile.block_k;  // at most, each padded
  const int pipeline = tile.stages * (elements * element_bytes + rows * panel_padding(tile.family));
  const int slab = slab_rows(tile.family) * (tile.warp_n() + slab_padding(tile.family)) * accumulator_bytes;
  const int slabs = tile.warps_m * tile.warps_n * slab;
  return pipeline > slabs ? pipeline : slabs;
}

// Whether a family's kernels fetch elements one by one, with any strides.
constexpr bool gathers(Family family) { return family == Family::kMmaGather || family == Family::kDirect; }

// Whether they are for operands that others read from aligned copies alone. Of fp8 they make float16.
constexpr bool reads_as_they_lie(Family family) { return gathers(family) || family == Family::kMmaWidened; }

// Bytes of an element in shared memory.
constexpr int tile_element_bytes(Family family, int operand_bytes) {
  return reads_as_they_lie(family) && operand_bytes == 1 ? 2 : operand_bytes;
}

constexpr int kDecodedBytes = 2;       // of an element with a block scale, as it is multiplied: bfloat16
constexpr int kFloat8Capability = 89;  // mma.sync takes fp8 from there on

}  // namespace tileon::sm80
