// The configs of the Hopper kernels, a table for each kind of product: data. A config may be added by hand, with the
// numbers of a similar one.
#pragma once

#include <string_view>

#include "cuda/sm90/heuristics/config.h"

namespace tileon::sm90 {

// A tile of which `m` x `n` CTAs, a cluster, load their operands together.
constexpr TileConfig loaded_together(TileConfig tile, int m, int n) {
  tile.cluster_m = m;
  tile.cluster_n = n;
  return tile;
}

// Products of 16 bits, whose numbers are an H200's. benchmarks/fit/fit_hopper.py fits them to the sweeps of
// benchmarks/results, and writes them here. Clusters have the memory_bytes, unaligned_tile and memory_bytes_a_cta of
// their tile without a cluster, and per_k_mn as much more than per_k; their start, per_tile and per_k are not less.
// clang-format off
constexpr KernelConfig kDenseConfigs[] = {
    // name                             operands           family                 tile m, n, k   consumers, stages, takes registers  splits, ctas_per_sm  start, per_tile, per_k, memory_bytes, per_k_mn, unaligned_tile, memory_bytes_a_cta, l2_bytes_a_tile
    {"sm90_gemm_128x256x64",             Operands::k16Bits, {Family::kCooperative,   128, 256,  64,  2, 16},  1,  1, { 6105.0f,   826.7f,   8.526f,  5817.0f,   8.384f,   25740.0f,      733.5f, 725100.0f}},
    {"sm90_gemm_128x240x64",             Operands::k16Bits, {Family::kCooperative,   128, 240,  64,  2, 16},  1,  1, { 5951.0f,   887.5f,   7.928f,  5213.0f,   7.629f,   16700.0f,     2675.0f, 171300.0f}},
    {"sm90_gemm_128x224x64",             Operands::k16Bits, {Family::kCooperative,   128, 224,  64,  2, 16},  1,  1, { 5937.0f,   907.6f,   7.423f,  5246.0f,   7.136f,    5036.0f,     1450.0f, 154700.0f}},
    {"sm90_gemm_128x208x64",             Operands::k16Bits, {Family::kCooperative,   128, 208,  64,  2, 16},  1,  1, { 5903.0f,   888.3f,   6.912f,  5170.0f,   6.825f,    4576.0f,     1385.0f, 190500.0f}},
    {"sm90_gemm_128x176x64",             Operands::k16Bits, {Family::kCooperative,   128, 176,  64,  2, 16},  1,  1, { 5962.0f,   653.4f,   5.786f,  5298.0f,   5.662f,    3366.0f,      980.1f,  99040.0f}},
    {"sm90_gemm_128x160x64",             Operands::k16Bits, {Family::kCooperative,   128, 160,  64,  2, 16},  1,  1, { 5875.0f,   611.2f,   5.295f,  5460.0f,   5.215f,    2960.0f,      556.0f,  80900.0f}},
    {"sm90_gemm_128x144x64",             Operands::k16Bits, {Family::kCooperative,   128, 144,  64,  2, 16},  1,  1, { 5837.0f,   602.0f,   4.679f,  5581.0f,   5.026f,    3213.0f,      377.7f,  70660.0f}},
    {"sm90_gemm_128x128x64",             Operands::k16Bits, {Family::kCooperative,   128, 128,  64,  2, 16},  1,  1, { 5798.0f,   430.4f,   4.267f,  6731.0f,   4.137f,    2311.0f,      206.3f,  63320.0f}},
    {"sm90_gemm_128x104x64",             Operands::k16Bits, {Family::kCooperative,   128, 104,  64,  2, 16},  1,  1, { 5702.0f,   561.2f,   3.484f,  5787.0f,   3.225f,    2276.0f,      256.6f,  45780.0f}},
    {"sm90_gemm_128x96x64",              Operands::k16Bits, {Family::kCooperative,   128,  96,  64,  2, 16},  1,  1, { 5594.0f,   385.7f,   3.239f,  5915.0f,   3.514f,    1956.0f,      282.0f,  45390.0f}},
    {"sm90_gemm_64x176x64",              Operands::k16Bits, {Family::kCooperative,    64, 176,  64,  1, 16},  1,  1, { 5708.0f,   302.6f,   3.027f,  5387.0f,   3.385f,    3646.0f,      313.6f,  48100.0f}},
    {"sm90_gemm_64x128x128",             Operands::k16Bits, {Family::kCooperative,    64, 128, 128,  1, 16},  1,  1, { 5777.0f,   420.3f,   2.387f,  6002.0f,   2.245f,    2204.0f,      221.5f,  56920.0f}},
    {"sm90_gemm_64x104x128",             Operands::k16Bits, {Family::kCooperative,    64, 104, 128,  1, 16},  1,  1, { 5644.0f,   290.1f,   2.251f,  6413.0f,   2.202f,    2352.0f,      155.7f,  45600.0f}},
    {"sm90_gemm_64x96x128",              Operands::k16Bits, {Family::kCooperative,    64,  96, 128,  1, 16},  1,  1, { 5637.0f,   278.1f,   1.903f,  5973.0f,   2.291f,    1802.0f,      210.3f,  44370.0f}},
    {"sm90_gemm_64x64x128",              Operands::k16Bits, {Family::kCooperative,    64,  64, 128,  1, 16},  1,  1, { 5410.0f,   90.33f,   1.691f,  7741.0f,   1.633f,    1469.0f,      133.5f,  44480.0f}},
    {"sm90_gemm_64x32x128",              Operands::k16Bits, {Family::kCooperative,    64,  32, 128,  1, 16},  1,  1, { 5292.0f,   199.9f,    1.16f,  5451.0f,    1.54f,     943.5f,      405.2f,  34270.0f}},
    {"sm90_pingpong_128x128x64",         Operands::k16Bits, {Family::kPingpong,      128, 128,  64,  2, 16},  1,  1, { 6048.0f,   238.5f,   4.214f,  5751.0f,   4.148f,   15010.0f,      346.9f,  55370.0f}},
    {"sm90_pingpong_128x160x64",         Operands::k16Bits, {Family::kPingpong,      128, 160,  64,  2, 16, true},  1,  1, { 6246.0f,   333.7f,   5.105f,  5573.0f,   5.234f,    5147.0f,      367.3f,  83510.0f}},
    {"sm90_pingpong_128x176x64",         Operands::k16Bits, {Family::kPingpong,      128, 176,  64,  2, 16, true},  1,  1, { 6368.0f,   309.8f,   5.591f,  5314.0f,   5.621f,    5948.0f,      685.6f,  83010.0f}},
    {"sm90_pingpong_128x192x64",         Operands::k16Bits, {Family::kPingpong,      128, 192,  64,  2, 16, true},  1,  1, { 6255.0f,   491.4f,    6.27f,  6126.0f,   6.111f,    5695.0f,      258.7f, 198200.0f}},
    {"sm90_swapped_208x128x64",          Operands::k16Bits, {Family::kSwapAb,        208, 128,  64,  2, 16},  1,  1, { 6040.0f,  1308.0f,   6.806f,  5645.0f,   7.353f,    4765.0f,     2110.0f, 324300.0f}},
    {"sm90_swapped_176x128x64",          Operands::k16Bits, {Family::kSwapAb,        176, 128,  64,  2, 16},  1,  1, { 6099.0f,   930.9f,    5.75f,  5592.0f,   5.827f,    2864.0f,     1595.0f,  75820.0f}},
    {"sm90_swapped_160x128x64",          Operands::k16Bits, {Family::kSwapAb,        160, 128,  64,  2, 16},  1,  1, { 6056.0f,   839.0f,   5.244f,  5464.0f,   5.591f,    2623.0f,      934.4f,  74850.0f}},
    {"sm90_swapped_144x128x64",          Operands::k16Bits, {Family::kSwapAb,        144, 128,  64,  2, 16},  1,  1, { 5980.0f,   768.0f,   4.709f,  5476.0f,   5.308f,    2894.0f,      456.4f,  67580.0f}},
    {"sm90_swapped_104x128x64",          Operands::k16Bits, {Family::kSwapAb,        104, 128,  64,  2, 16},  1,  1, { 5939.0f,   506.1f,   3.417f,  5676.0f,   3.472f,    1691.0f,      279.4f,  50450.0f}},
    {"sm90_swapped_96x128x64",           Operands::k16Bits, {Family::kSwapAb,         96, 128,  64,  2, 16},  1,  1, { 5935.0f,   454.3f,   3.096f,  5579.0f,   3.333f,    1520.0f,      344.0f,  46260.0f}},
    {"sm90_swapped_96x64x128",           Operands::k16Bits, {Family::kSwapAb,         96,  64, 128,  1, 16},  1,  1, { 5714.0f,   284.0f,   1.943f,  6144.0f,   2.325f,    1745.0f,      181.7f,  45560.0f}},
    {"sm90_cluster2x1_128x256x64",       Operands::k16Bits, loaded_together({Family::kCooperative, 128, 256, 64, 2, 16}, 2, 1),  1,  1, { 6466.0f,   826.8f,   8.526f,  5817.0f,   8.384f,   25740.0f,      733.5f, 363100.0f}},
    {"sm90_cluster2x2_128x128x64",       Operands::k16Bits, loaded_together({Family::kCooperative, 128, 128, 64, 2, 16}, 2, 2),  1,  1, { 6421.0f,   430.4f,   4.267f,  6731.0f,   4.137f,    2311.0f,      206.3f, 139000.0f}},
    {"sm90_cluster2x1_swapped_256x128x64", Operands::k16Bits, loaded_together({Family::kSwapAb,    256, 128, 64, 2, 16}, 2, 1),  1,  1, { 6105.0f,  1765.0f,   8.687f,  5817.0f,   8.543f,   25740.0f,      733.5f, 112200.0f}},
    {"sm90_cluster2x2_128x160x64",       Operands::k16Bits, loaded_together({Family::kCooperative, 128, 160, 64, 2, 16}, 2, 2),  1,  1, { 5875.0f,   611.2f,   5.295f,  5460.0f,   5.215f,    2960.0f,      556.0f,  80900.0f}},
    {"sm90_cluster4x2_64x64x64",         Operands::k16Bits, loaded_together({Family::kCooperative,  64,  64, 64, 1, 16}, 4, 2),  1,  1, { 5410.0f,   90.33f,   1.691f,  7741.0f,   1.633f,    1469.0f,      133.5f,  44480.0f}},
    {"sm90_cluster2x4_64x128x64",        Operands::k16Bits, loaded_together({Family::kCooperative,  64, 128, 64, 1, 16}, 2, 4),  1,  1, { 5777.0f,   420.3f,   2.387f,  6002.0f,   2.245f,    2204.0f,      221.5f,  56920.0f}},
    {"sm90_cluster4x2_128x64x64",        Operands::k16Bits, loaded_together({Family::kCooperative, 128,  64, 64, 2, 16}, 4, 2),  1,  1, { 5777.0f,   420.3f,   2.387f,  6002.0f,   2.245f,    2204.0f,      221.5f,  56920.0f}},
    {"sm90_cluster2x1_128x192x64",       Operands::k16Bits, loaded_together({Family::kCooperative, 128, 192, 64, 2, 16}, 2, 1),  1,  1, { 6255.0f,   491.4f,    6.27f,  6126.0f,   6.111f,    5695.0f,      258.7f, 198200.0f}},
    {"sm90_cluster4x2_64x96x64",         Operands::k16Bits, loaded_together({Family::kCooperative,  64,  96, 64, 1, 16}, 4, 2),  1,  1, { 5637.0f,   278.1f,   1.903f,  5973.0f,   2.291f,    1802.0f,      210.3f,  44370.0f}},
    {"sm90_cluster1x4_128x128x64",       Operands::k16Bits, loaded_together({Family::kCooperative, 128, 128, 64, 2, 16}, 1, 4),  1,  1, { 5798.0f,   430.4f,   4.267f,  6731.0f,   4.137f,    2311.0f,      206.3f,  63320.0f}},
    {"sm90_split2_64x64x128",            Operands::k16Bits, {Family::kClusterSplitK,  64,  64, 128,  1, 16},  2,  1, { 8172.0f,   492.4f,   1.005f,  4575.0f,   1.033f,  0.003571f, 15470000.0f,  39020.0f}},
    {"sm90_split4_64x64x128",            Operands::k16Bits, {Family::kClusterSplitK,  64,  64, 128,  1, 16},  4,  1, { 7034.0f,   639.0f,   0.536f,  4328.0f,  0.5511f,  0.005591f, 11520000.0f,  35740.0f}},
    {"sm90_split8_64x64x128",            Operands::k16Bits, {Family::kClusterSplitK,  64,  64, 128,  1, 16},  8,  1, { 6568.0f,   901.6f,  0.3418f,  4116.0f,   0.377f,  0.008751f,  8576000.0f,  53090.0f}},
    {"sm90_split2_128x128x64",           Operands::k16Bits, {Family::kClusterSplitK, 128, 128,  64,  2, 16},  2,  1, { 8769.0f,  3712.0f,    2.29f,  4732.0f,   2.273f,  0.006791f, 33680000.0f,  75800.0f}},
    {"sm90_split4_128x128x64",           Operands::k16Bits, {Family::kClusterSplitK, 128, 128,  64,  2, 16},  4,  1, { 8042.0f,  1855.0f,    1.11f,  4392.0f,    1.11f,   0.01063f, 25080000.0f,  53180.0f}},
    {"sm90_split8_128x128x64",           Operands::k16Bits, {Family::kClusterSplitK, 128, 128,  64,  2, 16},  8,  1, { 7553.0f,  2575.0f,   0.772f,  4611.0f,   0.721f,   0.01664f, 18680000.0f,  90480.0f}},
    {"sm90_few_rows_8x64x128",           Operands::k16Bits, {Family::kSwapAbSplitK,    8,  64, 128,  1,  5},  1,  2, { 5999.0f,   16.46f,   1.166f,  7041.0f,   1.213f,     37.04f,       99.6f,  39500.0f}},
    {"sm90_few_rows_64x64x128",          Operands::k16Bits, {Family::kSwapAbSplitK,   64,  64, 128,  1,  3},  1,  2, { 7642.0f,   364.7f,   2.096f, 16630.0f,   2.025f,     404.1f,       48.4f,  34490.0f}},
    {"sm90_few_rows_8x128x64",           Operands::k16Bits, {Family::kSwapAbSplitK,    8, 128,  64,  2,  5},  1,  2, { 6163.0f,   82.24f,   2.217f,  6048.0f,   2.279f,     285.4f,      154.2f,  55750.0f}},
    {"sm90_few_rows_16x128x64",          Operands::k16Bits, {Family::kSwapAbSplitK,   16, 128,  64,  2,  5},  1,  2, { 6359.0f,   187.2f,   2.233f,  6413.0f,   2.278f,     153.5f,      128.0f,  43050.0f}},
    {"sm90_few_rows_32x128x64",          Operands::k16Bits, {Family::kSwapAbSplitK,   32, 128,  64,  2,  5},  1,  2, { 6656.0f,   381.2f,   2.261f,  6436.0f,   2.141f,     233.9f,      126.3f,  38260.0f}},
    {"sm90_few_rows_split2_8x64x128",    Operands::k16Bits, {Family::kSwapAbSplitK,    8,  64, 128,  1,  5},  2,  2, { 6872.0f,   24.99f,  0.7289f,  5948.0f,  0.7645f,   0.08017f,      123.6f,  42540.0f}},
    {"sm90_few_rows_split4_8x64x128",    Operands::k16Bits, {Family::kSwapAbSplitK,    8,  64, 128,  1,  5},  4,  2, { 6591.0f,   40.63f,  0.3974f,  6890.0f,  0.4051f, 0.0001005f,      96.55f,  41030.0f}},
    {"sm90_few_rows_split4_16x64x128",   Operands::k16Bits, {Family::kSwapAbSplitK,   16,  64, 128,  1,  5},  4,  2, { 6677.0f,   99.79f,  0.3982f,  6762.0f,  0.4458f,  0.000142f,      98.07f,  41990.0f}},
    {"sm90_few_rows_split4_32x64x128",   Operands::k16Bits, {Family::kSwapAbSplitK,   32,  64, 128,  1,  4},  4,  2, { 6840.0f,   222.7f,  0.5369f,  8033.0f,  0.5621f, 0.0002612f,      82.76f,  40870.0f}},
    {"sm90_few_rows_split4_64x64x128",   Operands::k16Bits, {Family::kSwapAbSplitK,   64,  64, 128,  1,  3},  4,  2, { 7424.0f,   235.9f,  0.7927f, 10990.0f,  0.7895f, 0.0006954f,       67.9f,  62020.0f}},
};
// clang-format on
constexpr int kDenseConfigCount = sizeof(kDenseConfigs) / sizeof(kDenseConfigs[0]);

// fp8. Dense configs in everything but the operands: pairs of fp8 take an element's place, so that a stage has twice
// the k in the same bytes and the same time. The costs were set after squares of 1536 to 8192 on an H200, and no script
// fits them. memory_bytes, and the start and per_tile of most promoted configs, are the dense configs' of the same
// tiles at that time.
// clang-format off
constexpr KernelConfig kFp8Configs[] = {
    // name                                 operands                family         tile m, n, k   consumers, stages, takes registers, element bytes  splits, ctas_per_sm   start, per_tile, per_k, memory_bytes
    {"sm90_fp8_192x128x128",                  Operands::kFp8Promoted, {Family::kCooperative, 192, 128, 128, 3, 16, false, 1}, 1, 1, 4500.0f,   600.0f,    4.5f,  3761.4f},
    {"sm90_fp8_128x192x128",                  Operands::kFp8Promoted, {Family::kCooperative, 128, 192, 128, 2, 16, true,  1}, 1, 1, 3800.0f,   600.0f,   4.55f,  3761.4f},
    {"sm90_fp8_128x176x128",                  Operands::kFp8Promoted, {Family::kCooperative, 128, 176, 128, 2, 16, true,  1}, 1, 1, 4469.3f,   645.6f,  4.165f,  3761.4f},
    {"sm90_fp8_128x160x128",                  Operands::kFp8Promoted, {Family::kCooperative, 128, 160, 128, 2, 16, true,  1}, 1, 1, 4438.6f,   691.2f,  3.825f,  3761.4f},
    {"sm90_fp8_128x128x128",                  Operands::kFp8Promoted, {Family::kCooperative, 128, 128, 128, 2, 16, false, 1}, 1, 1, 4377.2f,   782.4f,   3.15f,  3761.4f},
    {"sm90_fp8_128x96x128",                   Operands::kFp8Promoted, {Family::kCooperative, 128,  96, 128, 2, 16, false, 1}, 1, 1, 5002.5f,   289.4f,   2.65f,  1981.8f},
    {"sm90_fp8_64x128x128",                   Operands::kFp8Promoted, {Family::kCooperative,  64, 128, 128, 1, 16, false, 1}, 1, 1, 5697.8f,     0.0f,    2.5f,  2680.4f},
    {"sm90_fp8_64x64x128",                    Operands::kFp8Promoted, {Family::kCooperative,  64,  64, 128, 1, 16, false, 1}, 1, 1, 4925.4f,   286.4f,    1.6f,  2835.2f},
    {"sm90_fp8_fast_128x256x128",             Operands::kFp8,         {Family::kCooperative, 128, 256, 128, 2, 16, false, 1}, 1, 1, 4878.1f,   390.8f,  5.445f,  3318.3f},
    {"sm90_fp8_fast_128x224x128",             Operands::kFp8,         {Family::kCooperative, 128, 224, 128, 2, 16, false, 1}, 1, 1, 3040.6f,  2325.6f,  4.705f,  4327.3f},
    {"sm90_fp8_fast_128x208x128",             Operands::kFp8,         {Family::kCooperative, 128, 208, 128, 2, 16, false, 1}, 1, 1, 3541.1f,  1134.5f,  4.555f,  4300.0f},
    {"sm90_fp8_fast_192x128x128",             Operands::kFp8,         {Family::kCooperative, 192, 128, 128, 3, 16, false, 1}, 1, 1, 3919.0f,   611.2f,    4.3f,  3761.4f},
    {"sm90_fp8_fast_pingpong_128x192x128",    Operands::kFp8,         {Family::kPingpong,    128, 192, 128, 2, 16, true,  1}, 1, 1, 4303.2f,   185.5f,   4.17f,  4474.2f},
    {"sm90_fp8_fast_pingpong_128x176x128",    Operands::kFp8,         {Family::kPingpong,    128, 176, 128, 2, 16, true,  1}, 1, 1, 5640.5f,   165.5f,  3.645f,  2159.8f},
    {"sm90_fp8_fast_pingpong_128x160x128",    Operands::kFp8,         {Family::kPingpong,    128, 160, 128, 2, 16, true,  1}, 1, 1, 4900.6f,     5.9f,   3.42f,  2875.7f},
    {"sm90_fp8_fast_pingpong_128x128x128",    Operands::kFp8,         {Family::kPingpong,    128, 128, 128, 2, 16, false, 1}, 1, 1, 4400.0f,     0.0f,  2.925f,  3761.4f},
    {"sm90_fp8_fast_64x128x256",              Operands::kFp8,         {Family::kCooperative,  64, 128, 256, 1, 16, false, 1}, 1, 1, 4690.0f,    77.6f,  1.665f,  2680.4f},
    {"sm90_fp8_fast_64x64x256",               Operands::kFp8,         {Family::kCooperative,  64,  64, 256, 1, 16, false, 1}, 1, 1, 4508.7f,   140.4f,  0.985f,  2835.2f},
};
// clang-format on
constexpr int kFp8ConfigCount = sizeof(kFp8Configs) / sizeof(kFp8Configs[0]);

// The number of a config by its name; -1 where the table has none of it.
template <int kCount>
constexpr int config_named(const KernelConfig (&configs)[kCount], std::string_view name) {
  for (int config = 0; config < kCount; ++config)
    if (configs[config].name == name) return config;
  return -1;
}

// Block-scaled configs that are dense or fp8 ones in everything but the operands.
constexpr KernelConfig like_dense(const char* name, const char* dense_name) {
  const int like = config_named(kDenseConfigs, dense_name);
  return {name, Operands::kBFloat16, kDenseConfigs[like].tile, 1, 1, {}, like};
}
constexpr KernelConfig like_fp8(const char* name, const char* fp8_name) {
  const KernelConfig& like = kFp8Configs[config_named(kFp8Configs, fp8_name)];
  return {name, Operands::kE5M2, like.tile, 1, 1, like.cost};
}

// Of codes with float32 scales: the tile of an fp8 config, whose sums are multiplied by the scales.
constexpr KernelConfig with_factors(const char* name, const char* fp8_name, const CostNumbers& cost) {
  const KernelConfig& like = kFp8Configs[config_named(kFp8Configs, fp8_name)];
  const bool promoted = like.operands == Operands::kFp8Promoted;
  KernelConfig config{name, promoted ? Operands::kFp8RowsPromoted : Operands::kFp8Rows, like.tile, 1, 1, cost};
  config.tile.has_factors = true;
  return config;
}
constexpr KernelConfig with_block_factors(const char* name, const char* fp8_name, const CostNumbers& cost) {
  const KernelConfig& like = kFp8Configs[config_named(kFp8Configs, fp8_name)];
  return {name, Operands::kFp8Blocks, like.tile, 1, 1, cost};
}

// Of 16 bits and a weight that is decoded in the main loop.
constexpr KernelConfig decoded_weight(const char* name, Operands operands, int tile_m, int block_k,
                                      const CostNumbers& cost, bool measured = true) {
  TileConfig tile{Family::kSwapAb, tile_m, 128, block_k, 2, 16};
  const int many = operands == Operands::kWeightCodes ? 240 : operands == Operands::kFp4Weight ? 208 : 192;
  tile.takes_registers = tile_m >= many;
  tile.code_bits = operands == Operands::kFp4Weight ? 4 : 8;
  return {name, operands, tile, 1, 1, cost, -1, measured};
}

// Block-scaled products. int8's numbers were set after products on an H200, like those of kFp8Configs: no script fits
// them. Those of e4m3 with float32 scales, and of decoded weights, were fitted to 41 and to some 110 products of
// m from 16 to 8192 on an H200. What preparing takes is not in them, for it is the same for every config.
// clang-format off
constexpr KernelConfig kBlockScaledConfigs[] = {
    // name                                          operands         family                 tile m, n, k   consumers, stages, takes registers, element bytes  splits, ctas_per_sm   start, per_tile, per_k, memory_bytes
    {"sm90_block_scaled_int8_pingpong_128x192x128",   Operands::kInt8, {Family::kPingpong,    128, 192, 128, 2, 16, true,  1}, 1, 1, 7737.9f,   211.2f,   3.83f,  3300.0f},
    {"sm90_block_scaled_int8_pingpong_128x176x128",   Operands::kInt8, {Family::kPingpong,    128, 176, 128, 2, 16, true,  1}, 1, 1, 8061.3f,   361.7f,  3.395f,  3300.0f},
    {"sm90_block_scaled_int8_128x128x128",            Operands::kInt8, {Family::kCooperative, 128, 128, 128, 2, 16, false, 1}, 1, 1, 3927.0f,    38.4f,   2.83f,  3300.0f},
    {"sm90_block_scaled_int8_64x128x256",             Operands::kInt8, {Family::kCooperative,  64, 128, 256, 1, 16, false, 1}, 1, 1, 3729.1f,   327.8f,  1.575f,  2635.0f},
    {"sm90_block_scaled_int8_64x64x256",              Operands::kInt8, {Family::kCooperative,  64,  64, 256, 1, 16, false, 1}, 1, 1, 3740.9f,   149.9f,   1.05f,  2774.0f},
    like_dense("sm90_block_scaled_bfloat16_128x256x64", "sm90_gemm_128x256x64"),
    like_dense("sm90_block_scaled_bfloat16_pingpong_128x192x64", "sm90_pingpong_128x192x64"),
    like_dense("sm90_block_scaled_bfloat16_pingpong_128x176x64", "sm90_pingpong_128x176x64"),
    like_dense("sm90_block_scaled_bfloat16_pingpong_128x128x64", "sm90_pingpong_128x128x64"),
    like_dense("sm90_block_scaled_bfloat16_64x128x128", "sm90_gemm_64x128x128"),
    like_dense("sm90_block_scaled_bfloat16_64x64x128", "sm90_gemm_64x64x128"),
    like_fp8("sm90_block_scaled_float8_128x192x128", "sm90_fp8_128x192x128"),
    like_fp8("sm90_block_scaled_float8_128x128x128", "sm90_fp8_128x128x128"),
    like_fp8("sm90_block_scaled_float8_64x128x128", "sm90_fp8_64x128x128"),
    {"sm90_block_scaled_few_rows_8x128x256",  Operands::kCodes, {Family::kSmallM,  8, 128, 256, 4, 8}},
    {"sm90_block_scaled_few_rows_16x128x256", Operands::kCodes, {Family::kSmallM, 16, 128, 256, 4, 8}},
    {"sm90_block_scaled_few_rows_32x128x256", Operands::kCodes, {Family::kSmallM, 32, 128, 256, 4, 8}},
    {"sm90_block_scaled_few_rows_64x128x256", Operands::kCodes, {Family::kSmallM, 64, 128, 256, 2, 8}},
    with_factors("sm90_scaled_fp8_192x128x128", "sm90_fp8_192x128x128", {3921.4f, 1387.3f, 4.152f, 2103.6f}),
    with_factors("sm90_scaled_fp8_128x192x128", "sm90_fp8_128x192x128", {3971.4f, 1594.6f, 4.125f, 2561.0f}),
    with_factors("sm90_scaled_fp8_128x160x128", "sm90_fp8_128x160x128", {4249.6f, 1536.6f, 3.472f, 2162.8f}),
    with_factors("sm90_scaled_fp8_128x128x128", "sm90_fp8_128x128x128", {4839.5f, 1027.1f, 3.021f, 2421.9f}),
    with_factors("sm90_scaled_fp8_64x128x128", "sm90_fp8_64x128x128", {5356.2f, 566.6f, 2.401f, 2791.3f}),
    with_factors("sm90_scaled_fp8_64x64x128", "sm90_fp8_64x64x128", {5536.8f, 381.3f, 1.577f, 2905.0f}),
    with_factors("sm90_scaled_fp8_fast_128x224x128", "sm90_fp8_fast_128x224x128", {3687.4f, 2112.4f, 4.619f, 2496.9f}),
    with_factors("sm90_scaled_fp8_fast_pingpong_128x192x128", "sm90_fp8_fast_pingpong_128x192x128", {6708.5f, 404.2f, 4.09f, 2853.0f}),
    with_factors("sm90_scaled_fp8_fast_pingpong_128x160x128", "sm90_fp8_fast_pingpong_128x160x128", {5937.1f, 572.1f, 3.381f, 2284.0f}),
    with_factors("sm90_scaled_fp8_fast_pingpong_128x128x128", "sm90_fp8_fast_pingpong_128x128x128", {6135.9f, 327.9f, 2.844f, 2468.3f}),
    with_factors("sm90_scaled_fp8_fast_64x128x256", "sm90_fp8_fast_64x128x256", {6791.2f, 446.9f, 1.679f, 3210.1f}),
    with_factors("sm90_scaled_fp8_fast_64x64x256", "sm90_fp8_fast_64x64x256", {4695.6f, 0.0f, 1.265f, 2776.7f}),
    {"sm90_scaled_int8_pingpong_128x192x128", Operands::kInt8Rows, {Family::kPingpong,    128, 192, 128, 2, 16, true,  1, true}, 1, 1, {7737.9f, 211.2f,  3.83f, 3300.0f}},
    {"sm90_scaled_int8_pingpong_128x160x128", Operands::kInt8Rows, {Family::kPingpong,    128, 160, 128, 2, 16, true,  1, true}, 1, 1, {7900.0f, 290.0f,   3.2f, 3300.0f}},
    {"sm90_scaled_int8_128x128x128",          Operands::kInt8Rows, {Family::kCooperative, 128, 128, 128, 2, 16, false, 1, true}, 1, 1, {3927.0f,  38.4f,  2.83f, 3300.0f}},
    {"sm90_scaled_int8_64x128x256",           Operands::kInt8Rows, {Family::kCooperative,  64, 128, 256, 1, 16, false, 1, true}, 1, 1, {3729.1f, 327.8f, 1.575f, 2635.0f}},
    {"sm90_scaled_int8_64x64x256",            Operands::kInt8Rows, {Family::kCooperative,  64,  64, 256, 1, 16, false, 1, true}, 1, 1, {3740.9f, 149.9f,  1.05f, 2774.0f}},
    with_block_factors("sm90_scaled_fp8_blocks_192x128x128", "sm90_fp8_192x128x128", {3599.9f, 1554.0f, 5.098f, 1943.7f}),
    with_block_factors("sm90_scaled_fp8_blocks_128x128x128", "sm90_fp8_128x128x128", {4669.8f, 964.3f, 3.796f, 2359.6f}),
    with_block_factors("sm90_scaled_fp8_blocks_64x128x128", "sm90_fp8_64x128x128", {4985.5f, 648.3f, 2.875f, 2517.6f}),
    decoded_weight("sm90_weight_fp4_256x128x64", Operands::kFp4Weight, 256, 64, {568.7f, 1919.0f, 10.969f, 800.7f}),
    decoded_weight("sm90_weight_fp4_224x128x64", Operands::kFp4Weight, 224, 64, {1084.8f, 2963.1f, 10.191f, 900.0f}),
    decoded_weight("sm90_weight_fp4_192x128x64", Operands::kFp4Weight, 192, 64, {2637.4f, 2021.5f, 9.111f, 880.4f}),
    decoded_weight("sm90_weight_fp4_160x128x64", Operands::kFp4Weight, 160, 64, {4220.9f, 1244.2f, 8.799f, 895.3f}),
    decoded_weight("sm90_weight_fp4_128x128x64", Operands::kFp4Weight, 128, 64, {5053.0f, 862.6f, 8.166f, 970.4f}),
    decoded_weight("sm90_weight_fp4_64x128x64", Operands::kFp4Weight, 64, 64, {7326.7f, 722.6f, 6.641f, 1080.0f}),
    decoded_weight("sm90_weight_codes_256x128x64", Operands::kWeightCodes, 256, 64, {153.9f, 1516.1f, 10.986f, 1812.9f}),
    decoded_weight("sm90_weight_codes_240x128x64", Operands::kWeightCodes, 240, 64, {92.9f, 1812.8f, 10.660f, 1812.9f}),
    decoded_weight("sm90_weight_codes_224x128x64", Operands::kWeightCodes, 224, 64, {175.4f, 2470.2f, 10.147f, 1812.9f}),
    decoded_weight("sm90_weight_codes_208x128x64", Operands::kWeightCodes, 208, 64, {1430.4f, 1515.8f, 10.152f, 1812.9f}),
    decoded_weight("sm90_weight_codes_192x128x64", Operands::kWeightCodes, 192, 64, {2722.1f, 583.1f, 9.444f, 1812.9f}),
    decoded_weight("sm90_weight_codes_176x128x64", Operands::kWeightCodes, 176, 64, {2580.9f, 1222.9f, 8.785f, 1812.9f}),
    decoded_weight("sm90_weight_codes_160x128x64", Operands::kWeightCodes, 160, 64, {3211.7f, 827.3f, 8.669f, 1618.9f}),
    decoded_weight("sm90_weight_codes_128x128x128", Operands::kWeightCodes, 128, 128, {3901.3f, 1130.3f, 6.895f, 1885.4f}),
    decoded_weight("sm90_weight_codes_96x128x128", Operands::kWeightCodes, 96, 128, {4340.9f, 1501.9f, 6.081f, 2038.5f}),
    decoded_weight("sm90_weight_codes_64x128x128", Operands::kWeightCodes, 64, 128, {7022.9f, 637.4f, 4.819f, 2385.5f}),
    decoded_weight("sm90_weight_mxfp8_256x128x64", Operands::kMxfp8Weight, 256, 64, {831.1f, 4454.9f, 12.345f, 1812.9f}),
    decoded_weight("sm90_weight_mxfp8_224x128x64", Operands::kMxfp8Weight, 224, 64, {928.2f, 5350.7f, 11.813f, 1812.9f}),
    decoded_weight("sm90_weight_mxfp8_192x128x64", Operands::kMxfp8Weight, 192, 64, {3194.9f, 4074.3f, 10.944f, 1812.9f}),
    decoded_weight("sm90_weight_mxfp8_160x128x64", Operands::kMxfp8Weight, 160, 64, {4252.8f, 3858.4f, 10.417f, 1812.9f}),
    decoded_weight("sm90_weight_mxfp8_128x128x128", Operands::kMxfp8Weight, 128, 128, {7263.6f, 2638.7f, 9.143f, 1370.4f}),
    decoded_weight("sm90_weight_mxfp8_96x128x128", Operands::kMxfp8Weight, 96, 128, {3577.6f, 6384.9f, 8.504f, 1812.9f}),
    decoded_weight("sm90_weight_mxfp8_64x128x128", Operands::kMxfp8Weight, 64, 128, {10701.6f, 933.6f, 7.631f, 1609.1f}),
};
// clang-format on
constexpr int kBlockScaledConfigCount = sizeof(kBlockScaledConfigs) / sizeof(kBlockScaledConfigs[0]);

}  // namespace tileon::sm90
