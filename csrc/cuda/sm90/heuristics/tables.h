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
// benchmarks/results/h200, and writes them here.
// clang-format off
constexpr KernelConfig kDenseConfigs[] = {
    // name                             operands           family                 tile m, n, k   consumers, stages, takes registers  splits, ctas_per_sm  start, per_tile, per_k, memory_bytes, per_k_mn, unaligned_tile, memory_bytes_a_cta, l2_bytes_a_tile
    {"sm90_gemm_128x256x64",             Operands::k16Bits, {Family::kCooperative,   128, 256,  64,  2, 16},  1,  1, { 6087.0f,   815.9f,   7.634f,  6118.0f,   7.383f,    4597.0f,    29850.0f, 246000.0f}},
    {"sm90_gemm_128x240x64",             Operands::k16Bits, {Family::kCooperative,   128, 240,  64,  2, 16},  1,  1, { 5912.0f,   886.7f,   7.183f,  5806.0f,   7.053f,    4271.0f,    23400.0f, 190800.0f}},
    {"sm90_gemm_128x224x64",             Operands::k16Bits, {Family::kCooperative,   128, 224,  64,  2, 16},  1,  1, { 6059.0f,   738.1f,    6.68f,  5756.0f,   6.596f,    3979.0f,    12940.0f, 229700.0f}},
    {"sm90_gemm_128x208x64",             Operands::k16Bits, {Family::kCooperative,   128, 208,  64,  2, 16},  1,  1, { 6015.0f,   710.3f,   6.235f,  5654.0f,   6.286f,    4196.0f,     9308.0f, 232600.0f}},
    {"sm90_gemm_128x176x64",             Operands::k16Bits, {Family::kCooperative,   128, 176,  64,  2, 16},  1,  1, { 6071.0f,   537.9f,   5.262f,  6038.0f,   5.312f,    3245.0f,     4638.0f, 128900.0f}},
    {"sm90_gemm_128x160x64",             Operands::k16Bits, {Family::kCooperative,   128, 160,  64,  2, 16},  1,  1, { 6021.0f,   485.0f,    4.75f,  5917.0f,   4.928f,    2336.0f,     1364.0f, 131800.0f}},
    {"sm90_gemm_128x144x64",             Operands::k16Bits, {Family::kCooperative,   128, 144,  64,  2, 16},  1,  1, { 5823.0f,   591.7f,   4.205f,  6243.0f,    4.84f,    3005.0f,      421.7f, 109500.0f}},
    {"sm90_gemm_128x128x64",             Operands::k16Bits, {Family::kCooperative,   128, 128,  64,  2, 16},  1,  1, { 6141.0f,   215.9f,   3.728f,  6389.0f,   3.618f,    1755.0f,      405.8f, 105600.0f}},
    {"sm90_gemm_128x104x64",             Operands::k16Bits, {Family::kCooperative,   128, 104,  64,  2, 16},  1,  1, { 5715.0f,   573.4f,   3.078f,  6155.0f,   3.808f,    2165.0f,      323.9f,  85460.0f}},
    {"sm90_gemm_128x96x64",              Operands::k16Bits, {Family::kCooperative,   128,  96,  64,  2, 16},  1,  1, { 5750.0f,   359.0f,   2.748f,  6501.0f,   3.119f,    1600.0f,      285.9f,  65780.0f}},
    {"sm90_gemm_64x176x64",              Operands::k16Bits, {Family::kCooperative,    64, 176,  64,  1, 16},  1,  1, { 5768.0f,   392.6f,   2.547f,  5778.0f,   3.354f,    3478.0f,      345.6f,  71460.0f}},
    {"sm90_gemm_64x128x128",             Operands::k16Bits, {Family::kCooperative,    64, 128, 128,  1, 16},  1,  1, { 5802.0f,   359.2f,   1.906f,  6645.0f,   1.937f,    2139.0f,      197.7f,  59560.0f}},
    {"sm90_gemm_64x104x128",             Operands::k16Bits, {Family::kCooperative,    64, 104, 128,  1, 16},  1,  1, { 5743.0f,   268.1f,   1.998f,  6813.0f,   2.827f,    2288.0f,      171.8f,  82130.0f}},
    {"sm90_gemm_64x96x128",              Operands::k16Bits, {Family::kCooperative,    64,  96, 128,  1, 16},  1,  1, { 5734.0f,   274.0f,   1.573f,  6441.0f,   2.192f,    1633.0f,      215.3f,  56180.0f}},
    {"sm90_gemm_64x64x128",              Operands::k16Bits, {Family::kCooperative,    64,  64, 128,  1, 16},  1,  1, { 5529.0f,   197.2f,   1.253f,  6902.0f,   1.227f,    1230.0f,      190.5f,  46880.0f}},
    {"sm90_gemm_64x32x128",              Operands::k16Bits, {Family::kCooperative,    64,  32, 128,  1, 16},  1,  1, { 5546.0f,   166.3f,   0.875f,  7383.0f,   1.381f,     818.1f,      156.8f,  44230.0f}},
    {"sm90_pingpong_128x128x64",         Operands::k16Bits, {Family::kPingpong,      128, 128,  64,  2, 16},  1,  1, { 6263.0f,   140.7f,   3.625f,  6151.0f,   3.552f,    5393.0f,      387.2f,  79170.0f}},
    {"sm90_pingpong_128x160x64",         Operands::k16Bits, {Family::kPingpong,      128, 160,  64,  2, 16, true},  1,  1, { 6351.0f,   297.2f,   4.447f,  6084.0f,   4.884f,    5256.0f,      421.3f, 156100.0f}},
    {"sm90_pingpong_128x176x64",         Operands::k16Bits, {Family::kPingpong,      128, 176,  64,  2, 16, true},  1,  1, { 6508.0f,   216.9f,   4.993f,  5842.0f,   5.379f,    5873.0f,     1111.0f, 142500.0f}},
    {"sm90_pingpong_128x192x64",         Operands::k16Bits, {Family::kPingpong,      128, 192,  64,  2, 16, true},  1,  1, { 6559.0f,   158.8f,   5.726f,  6339.0f,   5.489f,    5673.0f,      416.5f, 320900.0f}},
    {"sm90_swapped_208x128x64",          Operands::k16Bits, {Family::kSwapAb,        208, 128,  64,  2, 16},  1,  1, { 5590.0f,  1646.0f,   6.123f,  6385.0f,   6.715f,    4462.0f,    12190.0f, 156700.0f}},
    {"sm90_swapped_176x128x64",          Operands::k16Bits, {Family::kSwapAb,        176, 128,  64,  2, 16},  1,  1, { 5942.0f,  1097.0f,   5.054f,  5969.0f,   5.512f,    2194.0f,     5419.0f, 119800.0f}},
    {"sm90_swapped_160x128x64",          Operands::k16Bits, {Family::kSwapAb,        160, 128,  64,  2, 16},  1,  1, { 5909.0f,   986.9f,   4.658f,  5661.0f,   5.021f,    2176.0f,     2584.0f,  94890.0f}},
    {"sm90_swapped_144x128x64",          Operands::k16Bits, {Family::kSwapAb,        144, 128,  64,  2, 16},  1,  1, { 5837.0f,   924.4f,   4.141f,  5307.0f,   4.845f,    2735.0f,     1072.0f, 111400.0f}},
    {"sm90_swapped_104x128x64",          Operands::k16Bits, {Family::kSwapAb,        104, 128,  64,  2, 16},  1,  1, { 6015.0f,   510.0f,   2.902f,  5648.0f,   3.473f,    1510.0f,      441.2f,  65950.0f}},
    {"sm90_swapped_96x128x64",           Operands::k16Bits, {Family::kSwapAb,         96, 128,  64,  2, 16},  1,  1, { 6003.0f,   502.5f,   2.552f,  6107.0f,   2.887f,    1432.0f,      372.4f,  59540.0f}},
    {"sm90_swapped_96x64x128",           Operands::k16Bits, {Family::kSwapAb,         96,  64, 128,  1, 16},  1,  1, { 5730.0f,   387.3f,   1.589f,  6608.0f,   1.948f,    1687.0f,      194.4f,  54810.0f}},
    {"sm90_swapped_104x64x128",          Operands::k16Bits, {Family::kSwapAb,        104,  64, 128,  1, 16},  1,  1, { 5743.0f,   339.4f,   2.111f,  6994.0f,   2.657f,    1896.0f,      166.8f,  64490.0f}},
    {"sm90_cluster2x1_128x256x64",       Operands::k16Bits, loaded_together({Family::kCooperative, 128, 256, 64, 2, 16}, 2, 1),  1,  1, { 6087.0f,   815.9f,   7.634f,  6118.0f,   7.383f,    4597.0f,    29850.0f, 246000.0f}},
    {"sm90_cluster2x2_128x128x64",       Operands::k16Bits, loaded_together({Family::kCooperative, 128, 128, 64, 2, 16}, 2, 2),  1,  1, { 6141.0f,   215.9f,   3.728f,  6389.0f,   3.618f,    1755.0f,      405.8f, 105600.0f}},
    {"sm90_cluster2x1_swapped_256x128x64", Operands::k16Bits, loaded_together({Family::kSwapAb,    256, 128, 64, 2, 16}, 2, 1),  1,  1, { 6087.0f,  1646.0f,   7.634f,  6118.0f,   7.983f,    4597.0f,    29850.0f, 246000.0f}},
    {"sm90_split2_64x64x128",            Operands::k16Bits, {Family::kClusterSplitK,  64,  64, 128,  1, 16},  2,  1, { 7441.0f,  1247.0f,  0.8454f,  4924.0f,  0.8531f,   0.01002f,  3331000.0f,  34260.0f}},
    {"sm90_split4_64x64x128",            Operands::k16Bits, {Family::kClusterSplitK,  64,  64, 128,  1, 16},  4,  1, { 6254.0f,  1364.0f,  0.5237f,  5117.0f,  0.5565f,   0.01712f,  2904000.0f,  35430.0f}},
    {"sm90_split8_64x64x128",            Operands::k16Bits, {Family::kClusterSplitK,  64,  64, 128,  1, 16},  8,  1, { 6360.0f,  1119.0f,  0.3262f,  4912.0f,  0.3456f,   0.02926f,  2539000.0f,  34970.0f}},
    {"sm90_split2_128x128x64",           Operands::k16Bits, {Family::kClusterSplitK, 128, 128,  64,  2, 16},  2,  1, { 4661.0f,  6477.0f,   1.989f,  5108.0f,   2.042f,    0.0191f, 19530000.0f,  67430.0f}},
    {"sm90_split4_128x128x64",           Operands::k16Bits, {Family::kClusterSplitK, 128, 128,  64,  2, 16},  4,  1, { 4821.0f,  4620.0f,  0.9581f,  4892.0f,  0.9617f,   0.03265f, 17050000.0f,  41200.0f}},
    {"sm90_split8_128x128x64",           Operands::k16Bits, {Family::kClusterSplitK, 128, 128,  64,  2, 16},  8,  1, { 6362.0f,  3495.0f,  0.5892f,  5004.0f,  0.6142f,   0.05577f, 14880000.0f,  77580.0f}},
    {"sm90_few_rows_8x64x128",           Operands::k16Bits, {Family::kSwapAbSplitK,    8,  64, 128,  1,  5},  1,  2, { 6156.0f,   128.0f,  0.9278f,  7450.0f,  0.9547f,     10.25f,      102.9f,  40220.0f}},
    {"sm90_few_rows_16x64x128",          Operands::k16Bits, {Family::kSwapAbSplitK,   16,  64, 128,  1,  5},  1,  2, { 6522.0f,   123.3f,   1.059f,  7074.0f,  0.9715f,     78.89f,      118.6f,  42890.0f}},
    {"sm90_few_rows_32x64x128",          Operands::k16Bits, {Family::kSwapAbSplitK,   32,  64, 128,  1,  4},  1,  2, { 7015.0f,   197.4f,   1.263f,  9652.0f,   1.298f,     159.6f,      77.42f,  45840.0f}},
    {"sm90_few_rows_64x64x128",          Operands::k16Bits, {Family::kSwapAbSplitK,   64,  64, 128,  1,  3},  1,  2, { 7750.0f,   369.6f,   1.791f, 32890.0f,   1.728f,     394.5f,      45.15f,  43150.0f}},
    {"sm90_few_rows_8x128x64",           Operands::k16Bits, {Family::kSwapAbSplitK,    8, 128,  64,  2,  5},  1,  2, { 6252.0f,   163.5f,   1.797f,  7778.0f,   1.597f,     41.51f,      107.6f,  42840.0f}},
    {"sm90_few_rows_16x128x64",          Operands::k16Bits, {Family::kSwapAbSplitK,   16, 128,  64,  2,  5},  1,  2, { 6490.0f,   198.4f,   1.799f,  7413.0f,   1.835f,     66.85f,      115.1f,  47180.0f}},
    {"sm90_few_rows_32x128x64",          Operands::k16Bits, {Family::kSwapAbSplitK,   32, 128,  64,  2,  5},  1,  2, { 6863.0f,   298.2f,    1.89f,  7464.0f,   1.788f,     196.0f,      113.9f,  47500.0f}},
    {"sm90_few_rows_64x128x64",          Operands::k16Bits, {Family::kSwapAbSplitK,   64, 128,  64,  2,  4},  1,  2, { 7774.0f,   727.3f,   2.678f, 10650.0f,   2.491f,     584.0f,      77.85f,  50970.0f}},
    {"sm90_few_rows_split2_8x64x128",    Operands::k16Bits, {Family::kSwapAbSplitK,    8,  64, 128,  1,  5},  2,  2, { 6928.0f,   165.2f,  0.6807f,  6498.0f,  0.6812f,   0.04019f,      135.8f,  36930.0f}},
    {"sm90_few_rows_split2_16x64x128",   Operands::k16Bits, {Family::kSwapAbSplitK,   16,  64, 128,  1,  5},  2,  2, { 6905.0f,   265.3f,  0.6823f,  6524.0f,  0.6803f,    0.1026f,      134.7f,  38290.0f}},
    {"sm90_few_rows_split2_32x64x128",   Operands::k16Bits, {Family::kSwapAbSplitK,   32,  64, 128,  1,  4},  2,  2, { 7298.0f,   452.8f,   0.878f,  9352.0f,  0.8511f,     0.298f,      84.96f,  36530.0f}},
    {"sm90_few_rows_split2_64x64x128",   Operands::k16Bits, {Family::kSwapAbSplitK,   64,  64, 128,  1,  3},  2,  2, { 7877.0f,   839.1f,   1.193f, 40360.0f,   1.158f,     1.037f,       46.3f,  42190.0f}},
    {"sm90_few_rows_split4_8x64x128",    Operands::k16Bits, {Family::kSwapAbSplitK,    8,  64, 128,  1,  5},  4,  2, { 6529.0f,   328.2f,  0.3799f,  8889.0f,   0.401f, 0.0000945f,      84.74f,  29780.0f}},
    {"sm90_few_rows_split4_16x64x128",   Operands::k16Bits, {Family::kSwapAbSplitK,   16,  64, 128,  1,  5},  4,  2, { 6464.0f,   522.1f,  0.3538f,  9350.0f,  0.3662f,  0.000241f,      77.65f,  30600.0f}},
    {"sm90_few_rows_split4_32x64x128",   Operands::k16Bits, {Family::kSwapAbSplitK,   32,  64, 128,  1,  4},  4,  2, { 6412.0f,   750.8f,  0.4856f, 25590.0f,  0.5071f, 0.0007004f,      51.83f,  33400.0f}},
    {"sm90_few_rows_split4_64x64x128",   Operands::k16Bits, {Family::kSwapAbSplitK,   64,  64, 128,  1,  3},  4,  2, { 7017.0f,   784.3f,   0.682f, 89110.0f,  0.6865f,  0.002447f,      47.54f,  50680.0f}},
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

// Of 16 bits and a weight of so many bits, which is decoded in the main loop.
constexpr KernelConfig decoded_weight(const char* name, int bits, int tile_m, int block_k, const CostNumbers& cost) {
  TileConfig tile{Family::kSwapAb, tile_m, 128, block_k, 2, 16, tile_m >= 240};
  tile.code_bits = bits;
  return {name, bits == 4 ? Operands::kFp4Weight : Operands::kWeightCodes, tile, 1, 1, cost};
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
    decoded_weight("sm90_weight_fp4_256x128x64", 4, 256, 64, {2329.6f, 4411.5f, 10.827f, 763.9f}),
    decoded_weight("sm90_weight_fp4_192x128x64", 4, 192, 64, {4012.3f, 2550.8f, 9.506f, 845.1f}),
    decoded_weight("sm90_weight_fp4_128x128x64", 4, 128, 64, {5317.5f, 1360.5f, 8.033f, 948.0f}),
    decoded_weight("sm90_weight_fp4_64x128x64", 4, 64, 64, {5918.7f, 824.4f, 6.849f, 1025.5f}),
    decoded_weight("sm90_weight_codes_256x128x64", 8, 256, 64, {3772.8f, 4469.1f, 10.363f, 1812.9f}),
    decoded_weight("sm90_weight_codes_240x128x64", 8, 240, 64, {2926.1f, 4541.3f, 9.973f, 1812.9f}),
    decoded_weight("sm90_weight_codes_224x128x64", 8, 224, 64, {2500.4f, 1586.8f, 10.064f, 1812.9f}),
    decoded_weight("sm90_weight_codes_208x128x64", 8, 208, 64, {3625.0f, 2115.6f, 9.486f, 1812.9f}),
    decoded_weight("sm90_weight_codes_192x128x64", 8, 192, 64, {2509.9f, 3165.8f, 8.644f, 1812.9f}),
    decoded_weight("sm90_weight_codes_176x128x64", 8, 176, 64, {5179.8f, 1809.0f, 8.324f, 1812.9f}),
    decoded_weight("sm90_weight_codes_160x128x64", 8, 160, 64, {4714.7f, 1632.9f, 7.833f, 1812.9f}),
    decoded_weight("sm90_weight_codes_128x128x128", 8, 128, 128, {4337.8f, 1886.7f, 6.762f, 1812.9f}),
    decoded_weight("sm90_weight_codes_96x128x128", 8, 96, 128, {2500.0f, 3336.6f, 6.046f, 1812.9f}),
    decoded_weight("sm90_weight_codes_64x128x128", 8, 64, 128, {5938.0f, 1273.4f, 4.670f, 1812.9f}),
};
// clang-format on
constexpr int kBlockScaledConfigCount = sizeof(kBlockScaledConfigs) / sizeof(kBlockScaledConfigs[0]);

}  // namespace tileon::sm90
