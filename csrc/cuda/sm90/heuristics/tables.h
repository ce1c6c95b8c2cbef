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
// benchmarks/results, and writes them here. Those of clusters, which no H200 has run, are the numbers of
// sm90_gemm_128x256x64 and sm90_gemm_128x128x64 (per_tile of sm90_swapped_208x128x64) but for start, per_tile, per_k and
// l2_bytes_a_tile, which were fitted to an H100's sweep alone, so that of operands whose lines begin with L2's no
// cluster is expected to be faster.
// clang-format off
constexpr KernelConfig kDenseConfigs[] = {
    // name                             operands           family                 tile m, n, k   consumers, stages, takes registers  splits, ctas_per_sm  start, per_tile, per_k, memory_bytes, per_k_mn, unaligned_tile, memory_bytes_a_cta, l2_bytes_a_tile
    {"sm90_gemm_128x256x64",             Operands::k16Bits, {Family::kCooperative,   128, 256,  64,  2, 16},  1,  1, { 6112.0f,   721.4f,   7.676f,  5675.0f,   7.429f,    4346.0f,    29720.0f, 223500.0f}},
    {"sm90_gemm_128x240x64",             Operands::k16Bits, {Family::kCooperative,   128, 240,  64,  2, 16},  1,  1, { 5964.0f,   811.3f,   7.162f,  5402.0f,    7.17f,    3824.0f,    24890.0f, 177100.0f}},
    {"sm90_gemm_128x224x64",             Operands::k16Bits, {Family::kCooperative,   128, 224,  64,  2, 16},  1,  1, { 6051.0f,   696.4f,   6.714f,  5398.0f,    6.73f,    3453.0f,    13700.0f, 149400.0f}},
    {"sm90_gemm_128x208x64",             Operands::k16Bits, {Family::kCooperative,   128, 208,  64,  2, 16},  1,  1, { 5965.0f,   716.9f,   6.278f,  5315.0f,   6.504f,    3139.0f,    10360.0f, 166700.0f}},
    {"sm90_gemm_128x176x64",             Operands::k16Bits, {Family::kCooperative,   128, 176,  64,  2, 16},  1,  1, { 6042.0f,   525.5f,   5.181f,  5327.0f,   5.463f,    2778.0f,     5613.0f, 110900.0f}},
    {"sm90_gemm_128x160x64",             Operands::k16Bits, {Family::kCooperative,   128, 160,  64,  2, 16},  1,  1, { 5987.0f,   476.9f,   4.774f,  5405.0f,   5.063f,    2078.0f,     1921.0f,  99330.0f}},
    {"sm90_gemm_128x144x64",             Operands::k16Bits, {Family::kCooperative,   128, 144,  64,  2, 16},  1,  1, { 5781.0f,   580.3f,   4.181f,  5715.0f,   4.916f,    2573.0f,      478.8f,  85220.0f}},
    {"sm90_gemm_128x128x64",             Operands::k16Bits, {Family::kCooperative,   128, 128,  64,  2, 16},  1,  1, { 6187.0f,   223.4f,    3.84f,  5834.0f,   3.663f,    1605.0f,      652.1f, 119400.0f}},
    {"sm90_gemm_128x104x64",             Operands::k16Bits, {Family::kCooperative,   128, 104,  64,  2, 16},  1,  1, { 5685.0f,   547.3f,   3.239f,  5591.0f,   3.908f,    1914.0f,      504.6f,  76430.0f}},
    {"sm90_gemm_128x96x64",              Operands::k16Bits, {Family::kCooperative,   128,  96,  64,  2, 16},  1,  1, { 5628.0f,   379.6f,   2.876f,  6028.0f,   3.246f,    1657.0f,      344.1f,  54670.0f}},
    {"sm90_gemm_64x176x64",              Operands::k16Bits, {Family::kCooperative,    64, 176,  64,  1, 16},  1,  1, { 5776.0f,   270.8f,   2.747f,  5328.0f,   3.444f,    3122.0f,      478.9f,  66440.0f}},
    {"sm90_gemm_64x128x128",             Operands::k16Bits, {Family::kCooperative,    64, 128, 128,  1, 16},  1,  1, { 5991.0f,   282.0f,    2.13f,  5998.0f,    2.03f,    1841.0f,      296.7f,  67540.0f}},
    {"sm90_gemm_64x104x128",             Operands::k16Bits, {Family::kCooperative,    64, 104, 128,  1, 16},  1,  1, { 5812.0f,   259.8f,   2.001f,  6115.0f,   2.808f,    1992.0f,      208.9f,  64560.0f}},
    {"sm90_gemm_64x96x128",              Operands::k16Bits, {Family::kCooperative,    64,  96, 128,  1, 16},  1,  1, { 5813.0f,   250.8f,   1.687f,  5851.0f,   2.302f,    1421.0f,      297.5f,  55820.0f}},
    {"sm90_gemm_64x64x128",              Operands::k16Bits, {Family::kCooperative,    64,  64, 128,  1, 16},  1,  1, { 5419.0f,   155.7f,   1.476f,  7429.0f,    1.48f,    1162.0f,      176.2f,  49560.0f}},
    {"sm90_gemm_64x32x128",              Operands::k16Bits, {Family::kCooperative,    64,  32, 128,  1, 16},  1,  1, { 5506.0f,   78.24f,    0.97f,  5738.0f,    1.57f,     817.5f,      392.3f,  37030.0f}},
    {"sm90_pingpong_128x128x64",         Operands::k16Bits, {Family::kPingpong,      128, 128,  64,  2, 16},  1,  1, { 6038.0f,   238.5f,   3.809f,  6331.0f,   3.648f,    5436.0f,      314.6f,  53480.0f}},
    {"sm90_pingpong_128x160x64",         Operands::k16Bits, {Family::kPingpong,      128, 160,  64,  2, 16, true},  1,  1, { 6358.0f,   294.0f,   4.537f,  5569.0f,    5.01f,    4429.0f,      606.2f,  96570.0f}},
    {"sm90_pingpong_128x176x64",         Operands::k16Bits, {Family::kPingpong,      128, 176,  64,  2, 16, true},  1,  1, { 6499.0f,   253.3f,   4.991f,  5384.0f,   5.498f,    4960.0f,     1497.0f, 112200.0f}},
    {"sm90_pingpong_128x192x64",         Operands::k16Bits, {Family::kPingpong,      128, 192,  64,  2, 16, true},  1,  1, { 6361.0f,   372.4f,   5.724f,  6207.0f,   5.443f,    4736.0f,      403.7f, 190600.0f}},
    {"sm90_swapped_208x128x64",          Operands::k16Bits, {Family::kSwapAb,        208, 128,  64,  2, 16},  1,  1, { 5920.0f,  1206.0f,    6.14f,  5647.0f,   6.627f,    3940.0f,    15070.0f,  84260.0f}},
    {"sm90_swapped_176x128x64",          Operands::k16Bits, {Family::kSwapAb,        176, 128,  64,  2, 16},  1,  1, { 5983.0f,   980.7f,   5.131f,  5632.0f,    5.57f,    1967.0f,     6717.0f, 107200.0f}},
    {"sm90_swapped_160x128x64",          Operands::k16Bits, {Family::kSwapAb,        160, 128,  64,  2, 16},  1,  1, { 6000.0f,   834.2f,   4.787f,  5519.0f,    5.09f,    2105.0f,     3246.0f,  82930.0f}},
    {"sm90_swapped_144x128x64",          Operands::k16Bits, {Family::kSwapAb,        144, 128,  64,  2, 16},  1,  1, { 5948.0f,   786.4f,   4.253f,  5429.0f,   4.968f,    2394.0f,     1897.0f,  90810.0f}},
    {"sm90_swapped_104x128x64",          Operands::k16Bits, {Family::kSwapAb,        104, 128,  64,  2, 16},  1,  1, { 6104.0f,   414.5f,   3.086f,  5457.0f,   3.551f,    1323.0f,      592.5f,  59390.0f}},
    {"sm90_swapped_96x128x64",           Operands::k16Bits, {Family::kSwapAb,         96, 128,  64,  2, 16},  1,  1, { 6035.0f,   430.6f,   2.758f,  5459.0f,   3.078f,    1225.0f,      697.7f,  55340.0f}},
    {"sm90_swapped_96x64x128",           Operands::k16Bits, {Family::kSwapAb,         96,  64, 128,  1, 16},  1,  1, { 5807.0f,   314.8f,   1.723f,  6119.0f,   2.142f,    1482.0f,      249.7f,  58870.0f}},
    {"sm90_swapped_104x64x128",          Operands::k16Bits, {Family::kSwapAb,        104,  64, 128,  1, 16},  1,  1, { 5799.0f,   310.7f,   2.197f,  6428.0f,   2.643f,    1626.0f,      200.2f,  60400.0f}},
    {"sm90_cluster2x1_128x256x64",       Operands::k16Bits, loaded_together({Family::kCooperative, 128, 256, 64, 2, 16}, 2, 1),  1,  1, { 7174.0f,   485.9f,   8.387f,  5675.0f,   8.117f,    4346.0f,    29720.0f, 1787000.0f}},
    {"sm90_cluster2x2_128x128x64",       Operands::k16Bits, loaded_together({Family::kCooperative, 128, 128, 64, 2, 16}, 2, 2),  1,  1, { 6928.0f,   116.1f,   4.377f,  5834.0f,   4.175f,    1605.0f,      652.1f, 954900.0f}},
    {"sm90_cluster2x1_swapped_256x128x64", Operands::k16Bits, loaded_together({Family::kSwapAb,    256, 128, 64, 2, 16}, 2, 1),  1,  1, { 6637.0f,  1319.0f,   8.172f,  5675.0f,   7.909f,    4346.0f,    29720.0f, 1787000.0f}},
    {"sm90_split2_64x64x128",            Operands::k16Bits, {Family::kClusterSplitK,  64,  64, 128,  1, 16},  2,  1, { 7347.0f,  1386.0f,  0.9186f,  4916.0f,  0.9319f,  0.008697f,  4639000.0f,  34530.0f}},
    {"sm90_split4_64x64x128",            Operands::k16Bits, {Family::kClusterSplitK,  64,  64, 128,  1, 16},  4,  1, { 6516.0f,  1184.0f,  0.5108f,  4879.0f,  0.5739f,   0.01317f,  3565000.0f,  35380.0f}},
    {"sm90_split8_64x64x128",            Operands::k16Bits, {Family::kClusterSplitK,  64,  64, 128,  1, 16},  8,  1, { 6292.0f,  1146.0f,  0.3395f,  4918.0f,  0.3806f,   0.01994f,  2748000.0f,  38270.0f}},
    {"sm90_split2_128x128x64",           Operands::k16Bits, {Family::kClusterSplitK, 128, 128,  64,  2, 16},  2,  1, { 6039.0f,  5109.0f,   2.182f,  5134.0f,   2.125f,   0.01604f, 22240000.0f,  86250.0f}},
    {"sm90_split4_128x128x64",           Operands::k16Bits, {Family::kClusterSplitK, 128, 128,  64,  2, 16},  4,  1, { 5566.0f,  3880.0f,    1.01f,  4842.0f,   1.014f,   0.02429f, 17110000.0f,  53500.0f}},
    {"sm90_split8_128x128x64",           Operands::k16Bits, {Family::kClusterSplitK, 128, 128,  64,  2, 16},  8,  1, { 6642.0f,  3289.0f,  0.6693f,  5450.0f,  0.7032f,   0.03678f, 13170000.0f, 171000.0f}},
    {"sm90_few_rows_8x64x128",           Operands::k16Bits, {Family::kSwapAbSplitK,    8,  64, 128,  1,  5},  1,  2, { 6084.0f,   44.73f,   1.004f,  6747.0f,   1.108f,     11.67f,      121.0f,  28990.0f}},
    {"sm90_few_rows_16x64x128",          Operands::k16Bits, {Family::kSwapAbSplitK,   16,  64, 128,  1,  5},  1,  2, { 6552.0f,    76.5f,   1.072f,  6386.0f,   1.079f,      60.2f,      142.1f,  41760.0f}},
    {"sm90_few_rows_32x64x128",          Operands::k16Bits, {Family::kSwapAbSplitK,   32,  64, 128,  1,  4},  1,  2, { 7123.0f,   131.2f,   1.348f,  7616.0f,   1.403f,     166.7f,      99.18f,  45960.0f}},
    {"sm90_few_rows_64x64x128",          Operands::k16Bits, {Family::kSwapAbSplitK,   64,  64, 128,  1,  3},  1,  2, { 7850.0f,   263.7f,   1.995f, 13480.0f,   1.815f,     351.0f,      57.51f,  40100.0f}},
    {"sm90_few_rows_8x128x64",           Operands::k16Bits, {Family::kSwapAbSplitK,    8, 128,  64,  2,  5},  1,  2, { 6443.0f,   58.99f,   2.015f,  6454.0f,   1.879f,     165.4f,      161.4f,  58870.0f}},
    {"sm90_few_rows_16x128x64",          Operands::k16Bits, {Family::kSwapAbSplitK,   16, 128,  64,  2,  5},  1,  2, { 6501.0f,   166.1f,   1.949f,  6574.0f,   1.919f,     78.05f,      143.8f,  50130.0f}},
    {"sm90_few_rows_32x128x64",          Operands::k16Bits, {Family::kSwapAbSplitK,   32, 128,  64,  2,  5},  1,  2, { 6885.0f,   246.6f,   2.031f,  6628.0f,   1.799f,     212.1f,      142.8f,  42640.0f}},
    {"sm90_few_rows_64x128x64",          Operands::k16Bits, {Family::kSwapAbSplitK,   64, 128,  64,  2,  4},  1,  2, { 7960.0f,   552.0f,   2.967f,  7287.0f,    2.65f,     593.4f,      122.3f,  51590.0f}},
    {"sm90_few_rows_split2_8x64x128",    Operands::k16Bits, {Family::kSwapAbSplitK,    8,  64, 128,  1,  5},  2,  2, { 7058.0f,   199.3f,  0.6605f,  6044.0f,  0.7108f,   0.04353f,      146.4f,  36860.0f}},
    {"sm90_few_rows_split2_16x64x128",   Operands::k16Bits, {Family::kSwapAbSplitK,   16,  64, 128,  1,  5},  2,  2, { 6927.0f,   381.9f,  0.7204f,  6189.0f,  0.7133f,   0.07724f,      149.3f,  47210.0f}},
    {"sm90_few_rows_split2_32x64x128",   Operands::k16Bits, {Family::kSwapAbSplitK,   32,  64, 128,  1,  4},  2,  2, { 7375.0f,   482.8f,   0.925f,  7536.0f,  0.9021f,    0.1929f,      102.9f,  37000.0f}},
    {"sm90_few_rows_split2_64x64x128",   Operands::k16Bits, {Family::kSwapAbSplitK,   64,  64, 128,  1,  3},  2,  2, { 8140.0f,   763.9f,   1.222f, 10470.0f,   1.267f,    0.7715f,       69.9f,  48220.0f}},
    {"sm90_few_rows_split4_8x64x128",    Operands::k16Bits, {Family::kSwapAbSplitK,    8,  64, 128,  1,  5},  4,  2, { 6581.0f,   300.0f,  0.3844f,  7651.0f,  0.4109f, 0.00008601f,      96.95f,  29380.0f}},
    {"sm90_few_rows_split4_16x64x128",   Operands::k16Bits, {Family::kSwapAbSplitK,   16,  64, 128,  1,  5},  4,  2, { 6482.0f,   504.7f,  0.3553f,  7487.0f,  0.3834f, 0.0001526f,      95.49f,  31420.0f}},
    {"sm90_few_rows_split4_32x64x128",   Operands::k16Bits, {Family::kSwapAbSplitK,   32,  64, 128,  1,  4},  4,  2, { 6559.0f,   734.6f,  0.4752f, 10520.0f,  0.5236f, 0.0003811f,      70.06f,  37750.0f}},
    {"sm90_few_rows_split4_64x64x128",   Operands::k16Bits, {Family::kSwapAbSplitK,   64,  64, 128,  1,  3},  4,  2, { 7096.0f,   828.5f,  0.7039f, 17260.0f,  0.7345f,   0.00153f,      57.56f,  57780.0f}},
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
