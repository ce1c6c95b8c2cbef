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
    {"sm90_gemm_128x256x64",             Operands::k16Bits, {Family::kCooperative,   128, 256,  64,  2, 16},  1,  1, { 6186.0f,   701.9f,   8.765f,  5059.0f,   8.715f,   26250.0f,     2602.0f, 510000.0f}},
    {"sm90_gemm_128x240x64",             Operands::k16Bits, {Family::kCooperative,   128, 240,  64,  2, 16},  1,  1, { 6080.0f,   748.2f,   8.218f,  4851.0f,   7.944f,   16420.0f,     5195.0f, 164200.0f}},
    {"sm90_gemm_128x224x64",             Operands::k16Bits, {Family::kCooperative,   128, 224,  64,  2, 16},  1,  1, { 6053.0f,   777.4f,   7.714f,  4862.0f,   7.412f,    5045.0f,     2504.0f, 149700.0f}},
    {"sm90_gemm_128x208x64",             Operands::k16Bits, {Family::kCooperative,   128, 208,  64,  2, 16},  1,  1, { 6015.0f,   764.2f,   7.183f,  4821.0f,   7.034f,    4639.0f,     2069.0f, 143700.0f}},
    {"sm90_gemm_128x176x64",             Operands::k16Bits, {Family::kCooperative,   128, 176,  64,  2, 16},  1,  1, { 6061.0f,   570.8f,   6.027f,  4902.0f,   5.861f,    3362.0f,     1794.0f,  89790.0f}},
    {"sm90_gemm_128x160x64",             Operands::k16Bits, {Family::kCooperative,   128, 160,  64,  2, 16},  1,  1, { 5946.0f,   556.4f,     5.5f,  5137.0f,   5.413f,    2972.0f,      616.2f,  70820.0f}},
    {"sm90_gemm_128x144x64",             Operands::k16Bits, {Family::kCooperative,   128, 144,  64,  2, 16},  1,  1, { 5822.0f,   633.6f,   4.847f,  5306.0f,   5.251f,    3189.0f,      369.1f,  62710.0f}},
    {"sm90_gemm_128x128x64",             Operands::k16Bits, {Family::kCooperative,   128, 128,  64,  2, 16},  1,  1, { 5890.0f,   385.1f,   4.403f,  5773.0f,   4.357f,    2268.0f,      279.6f,  58890.0f}},
    {"sm90_gemm_128x104x64",             Operands::k16Bits, {Family::kCooperative,   128, 104,  64,  2, 16},  1,  1, { 5848.0f,   457.8f,   3.674f,  5419.0f,   3.342f,    2302.0f,      301.6f,  42990.0f}},
    {"sm90_gemm_128x96x64",              Operands::k16Bits, {Family::kCooperative,   128,  96,  64,  2, 16},  1,  1, { 5696.0f,   341.0f,   3.356f,  5452.0f,   3.648f,    2041.0f,      333.4f,  43490.0f}},
    {"sm90_gemm_64x176x64",              Operands::k16Bits, {Family::kCooperative,    64, 176,  64,  1, 16},  1,  1, { 5776.0f,   316.8f,   3.141f,  5047.0f,   3.409f,    3636.0f,      353.5f,  43410.0f}},
    {"sm90_gemm_64x128x128",             Operands::k16Bits, {Family::kCooperative,    64, 128, 128,  1, 16},  1,  1, { 5868.0f,   392.8f,   2.433f,  5707.0f,   2.394f,    2212.0f,      215.1f,  53140.0f}},
    {"sm90_gemm_64x104x128",             Operands::k16Bits, {Family::kCooperative,    64, 104, 128,  1, 16},  1,  1, { 5773.0f,   268.9f,   2.357f,  6113.0f,   2.421f,    2331.0f,      159.4f,  47550.0f}},
    {"sm90_gemm_64x96x128",              Operands::k16Bits, {Family::kCooperative,    64,  96, 128,  1, 16},  1,  1, { 5744.0f,   268.2f,   1.985f,  5714.0f,   2.438f,    1786.0f,      214.6f,  45780.0f}},
    {"sm90_gemm_64x64x128",              Operands::k16Bits, {Family::kCooperative,    64,  64, 128,  1, 16},  1,  1, { 5511.0f,   149.3f,   1.692f,  6444.0f,   1.632f,    1450.0f,      164.8f,  45980.0f}},
    {"sm90_gemm_64x32x128",              Operands::k16Bits, {Family::kCooperative,    64,  32, 128,  1, 16},  1,  1, { 5557.0f,    14.8f,   1.189f,  5614.0f,   1.636f,     965.2f,      298.5f,  39760.0f}},
    {"sm90_pingpong_128x128x64",         Operands::k16Bits, {Family::kPingpong,      128, 128,  64,  2, 16},  1,  1, { 6256.0f,   121.7f,    4.39f,  5293.0f,   4.348f,   15430.0f,      434.3f,  50470.0f}},
    {"sm90_pingpong_128x160x64",         Operands::k16Bits, {Family::kPingpong,      128, 160,  64,  2, 16, true},  1,  1, { 6412.0f,   242.7f,   5.308f,  5143.0f,   5.453f,    5374.0f,      469.0f,  84080.0f}},
    {"sm90_pingpong_128x176x64",         Operands::k16Bits, {Family::kPingpong,      128, 176,  64,  2, 16, true},  1,  1, { 6545.0f,   205.2f,   5.827f,  4953.0f,   5.876f,    6118.0f,      932.9f,  87600.0f}},
    {"sm90_pingpong_128x192x64",         Operands::k16Bits, {Family::kPingpong,      128, 192,  64,  2, 16, true},  1,  1, { 6490.0f,   281.7f,   6.512f,  5416.0f,   6.399f,    5909.0f,      352.1f, 174500.0f}},
    {"sm90_swapped_208x128x64",          Operands::k16Bits, {Family::kSwapAb,        208, 128,  64,  2, 16},  1,  1, { 5905.0f,  1323.0f,   7.095f,  5335.0f,   7.538f,    4719.0f,     2165.0f, 161500.0f}},
    {"sm90_swapped_176x128x64",          Operands::k16Bits, {Family::kSwapAb,        176, 128,  64,  2, 16},  1,  1, { 6004.0f,   988.0f,   5.941f,  5251.0f,   6.102f,    2913.0f,     1576.0f,  82130.0f}},
    {"sm90_swapped_160x128x64",          Operands::k16Bits, {Family::kSwapAb,        160, 128,  64,  2, 16},  1,  1, { 6027.0f,   839.8f,   5.426f,  5191.0f,   5.749f,    2639.0f,      872.1f,  64270.0f}},
    {"sm90_swapped_144x128x64",          Operands::k16Bits, {Family::kSwapAb,        144, 128,  64,  2, 16},  1,  1, { 5973.0f,   773.9f,   4.879f,  5337.0f,   5.597f,    2919.0f,      401.9f,  65770.0f}},
    {"sm90_swapped_104x128x64",          Operands::k16Bits, {Family::kSwapAb,        104, 128,  64,  2, 16},  1,  1, { 6009.0f,   478.1f,   3.568f,  5457.0f,   3.523f,    1701.0f,      271.7f,  45620.0f}},
    {"sm90_swapped_96x128x64",           Operands::k16Bits, {Family::kSwapAb,         96, 128,  64,  2, 16},  1,  1, { 6016.0f,   435.2f,   3.236f,  5215.0f,   3.568f,    1496.0f,      378.8f,  47590.0f}},
    {"sm90_swapped_96x64x128",           Operands::k16Bits, {Family::kSwapAb,         96,  64, 128,  1, 16},  1,  1, { 5770.0f,   287.9f,   2.037f,  6006.0f,   2.519f,    1739.0f,      172.0f,  45960.0f}},
    {"sm90_swapped_104x64x128",          Operands::k16Bits, {Family::kSwapAb,        104,  64, 128,  1, 16},  1,  1, { 5807.0f,   270.0f,   2.504f,  6462.0f,   2.511f,    1970.0f,      131.2f,  44450.0f}},
    {"sm90_cluster2x1_128x256x64",       Operands::k16Bits, loaded_together({Family::kCooperative, 128, 256, 64, 2, 16}, 2, 1),  1,  1, { 6614.0f,   717.9f,   8.765f,  5059.0f,   8.715f,   26250.0f,     2602.0f, 202400.0f}},
    {"sm90_cluster2x2_128x128x64",       Operands::k16Bits, loaded_together({Family::kCooperative, 128, 128, 64, 2, 16}, 2, 2),  1,  1, { 6572.0f,   385.1f,   4.403f,  5773.0f,   4.357f,    2268.0f,      279.6f, 110900.0f}},
    {"sm90_cluster2x1_swapped_256x128x64", Operands::k16Bits, loaded_together({Family::kSwapAb,    256, 128, 64, 2, 16}, 2, 1),  1,  1, { 6186.0f,  1641.0f,   8.796f,  5059.0f,   8.746f,   26250.0f,     2602.0f,  74770.0f}},
    {"sm90_split2_64x64x128",            Operands::k16Bits, {Family::kClusterSplitK,  64,  64, 128,  1, 16},  2,  1, { 8186.0f,   631.0f,   1.026f,  4440.0f,   1.059f,  0.003949f, 11510000.0f,  41490.0f}},
    {"sm90_split4_64x64x128",            Operands::k16Bits, {Family::kClusterSplitK,  64,  64, 128,  1, 16},  4,  1, { 7046.0f,   725.4f,  0.5577f,  4249.0f,  0.5817f,  0.005748f,  8849000.0f,  40220.0f}},
    {"sm90_split8_64x64x128",            Operands::k16Bits, {Family::kClusterSplitK,  64,  64, 128,  1, 16},  8,  1, { 6377.0f,  1030.0f,  0.3992f,  4362.0f,  0.4278f,  0.008364f,  6809000.0f,  68040.0f}},
    {"sm90_split2_128x128x64",           Operands::k16Bits, {Family::kClusterSplitK, 128, 128,  64,  2, 16},  2,  1, { 7093.0f,  5307.0f,   2.326f,  4564.0f,   2.359f,   0.00762f, 31590000.0f,  57680.0f}},
    {"sm90_split4_128x128x64",           Operands::k16Bits, {Family::kClusterSplitK, 128, 128,  64,  2, 16},  4,  1, { 6227.0f,  3872.0f,   1.117f,  4334.0f,    1.12f,   0.01109f, 24290000.0f,  59470.0f}},
    {"sm90_split8_128x128x64",           Operands::k16Bits, {Family::kClusterSplitK, 128, 128,  64,  2, 16},  8,  1, { 6638.0f,  3456.0f,  0.7515f,  4615.0f,   0.741f,   0.01614f, 18690000.0f, 187000.0f}},
    {"sm90_few_rows_8x64x128",           Operands::k16Bits, {Family::kSwapAbSplitK,    8,  64, 128,  1,  5},  1,  2, { 6127.0f,   9.263f,   1.199f,  6463.0f,   1.251f,     24.26f,      108.6f,  42540.0f}},
    {"sm90_few_rows_16x64x128",          Operands::k16Bits, {Family::kSwapAbSplitK,   16,  64, 128,  1,  5},  1,  2, { 6534.0f,   20.68f,   1.265f,  6207.0f,   1.278f,     130.1f,      120.2f,  43620.0f}},
    {"sm90_few_rows_32x64x128",          Operands::k16Bits, {Family::kSwapAbSplitK,   32,  64, 128,  1,  4},  1,  2, { 7119.0f,    75.8f,   1.577f,  7656.0f,   1.696f,     258.7f,      83.68f,  46230.0f}},
    {"sm90_few_rows_64x64x128",          Operands::k16Bits, {Family::kSwapAbSplitK,   64,  64, 128,  1,  3},  1,  2, { 7875.0f,   247.3f,   2.185f, 16600.0f,   2.092f,     469.3f,      46.96f,  35630.0f}},
    {"sm90_few_rows_8x128x64",           Operands::k16Bits, {Family::kSwapAbSplitK,    8, 128,  64,  2,  5},  1,  2, { 6342.0f,    50.3f,   2.194f,  6196.0f,   2.066f,     267.9f,      126.0f,  50040.0f}},
    {"sm90_few_rows_16x128x64",          Operands::k16Bits, {Family::kSwapAbSplitK,   16, 128,  64,  2,  5},  1,  2, { 6514.0f,   164.1f,   2.214f,  6151.0f,    2.24f,     168.9f,      125.1f,  43230.0f}},
    {"sm90_few_rows_32x128x64",          Operands::k16Bits, {Family::kSwapAbSplitK,   32, 128,  64,  2,  5},  1,  2, { 6781.0f,   350.7f,   2.257f,  6129.0f,   2.119f,     229.5f,      125.3f,  37750.0f}},
    {"sm90_few_rows_64x128x64",          Operands::k16Bits, {Family::kSwapAbSplitK,   64, 128,  64,  2,  4},  1,  2, { 7927.0f,   662.3f,   3.096f,  7311.0f,   2.893f,     781.2f,      90.96f,  39340.0f}},
    {"sm90_few_rows_split2_8x64x128",    Operands::k16Bits, {Family::kSwapAbSplitK,    8,  64, 128,  1,  5},  2,  2, { 7024.0f,   17.13f,  0.7993f,  5803.0f,  0.8413f,   0.04782f,      127.0f,  47460.0f}},
    {"sm90_few_rows_split2_16x64x128",   Operands::k16Bits, {Family::kSwapAbSplitK,   16,  64, 128,  1,  5},  2,  2, { 7070.0f,   67.82f,  0.8569f,  5871.0f,  0.8588f,    0.0743f,      131.7f,  48530.0f}},
    {"sm90_few_rows_split2_32x64x128",   Operands::k16Bits, {Family::kSwapAbSplitK,   32,  64, 128,  1,  4},  2,  2, { 7585.0f,   154.7f,   1.081f,  7608.0f,   1.063f,    0.1558f,      85.39f,  46210.0f}},
    {"sm90_few_rows_split2_64x64x128",   Operands::k16Bits, {Family::kSwapAbSplitK,   64,  64, 128,  1,  3},  2,  2, { 8526.0f,   278.0f,   1.337f, 12630.0f,   1.488f,    0.4999f,      52.38f,  61200.0f}},
    {"sm90_few_rows_split4_8x64x128",    Operands::k16Bits, {Family::kSwapAbSplitK,    8,  64, 128,  1,  5},  4,  2, { 6670.0f,   77.88f,  0.4555f,  6530.0f,  0.4659f, 0.00004675f,      106.4f,  45150.0f}},
    {"sm90_few_rows_split4_16x64x128",   Operands::k16Bits, {Family::kSwapAbSplitK,   16,  64, 128,  1,  5},  4,  2, { 6778.0f,   135.5f,   0.455f,  6998.0f,  0.4733f, 0.00007258f,      92.67f,  44270.0f}},
    {"sm90_few_rows_split4_32x64x128",   Operands::k16Bits, {Family::kSwapAbSplitK,   32,  64, 128,  1,  4},  4,  2, { 6970.0f,   270.2f,  0.5421f,  9043.0f,  0.5826f, 0.0001522f,      69.67f,  48290.0f}},
    {"sm90_few_rows_split4_64x64x128",   Operands::k16Bits, {Family::kSwapAbSplitK,   64,  64, 128,  1,  3},  4,  2, { 7430.0f,   352.1f,  0.8174f, 17460.0f,  0.8054f, 0.0004865f,      51.17f,  73330.0f}},
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
