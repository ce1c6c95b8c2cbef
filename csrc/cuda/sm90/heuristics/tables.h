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
    {"sm90_gemm_128x256x64",             Operands::k16Bits, {Family::kCooperative,   128, 256,  64,  2, 16},  1,  1, { 5928.0f,  1118.0f,   9.446f,  5123.0f,   9.189f,    6158.0f,      622.8f, 222700.0f}},
    {"sm90_gemm_128x240x64",             Operands::k16Bits, {Family::kCooperative,   128, 240,  64,  2, 16},  1,  1, { 5899.0f,  1092.0f,   8.829f,  4930.0f,   8.149f,    4349.0f,      666.8f, 125100.0f}},
    {"sm90_gemm_128x224x64",             Operands::k16Bits, {Family::kCooperative,   128, 224,  64,  2, 16},  1,  1, { 6058.0f,   896.8f,     8.3f,  5022.0f,   7.819f,    2372.0f,      471.3f, 179600.0f}},
    {"sm90_gemm_128x208x64",             Operands::k16Bits, {Family::kCooperative,   128, 208,  64,  2, 16},  1,  1, { 6015.0f,   854.8f,   7.716f,  4937.0f,    7.41f,    2309.0f,      503.4f, 127600.0f}},
    {"sm90_gemm_128x176x64",             Operands::k16Bits, {Family::kCooperative,   128, 176,  64,  2, 16},  1,  1, { 6027.0f,   643.4f,   6.528f,  4994.0f,   6.174f,    1730.0f,      512.7f,  94310.0f}},
    {"sm90_gemm_128x160x64",             Operands::k16Bits, {Family::kCooperative,   128, 160,  64,  2, 16},  1,  1, { 5944.0f,   604.1f,   5.973f,  5261.0f,   5.866f,    1436.0f,      314.2f,  86670.0f}},
    {"sm90_gemm_128x144x64",             Operands::k16Bits, {Family::kCooperative,   128, 144,  64,  2, 16},  1,  1, { 5885.0f,   590.7f,   5.323f,  5344.0f,   5.613f,    1950.0f,      255.4f,  68520.0f}},
    {"sm90_gemm_128x128x64",             Operands::k16Bits, {Family::kCooperative,   128, 128,  64,  2, 16},  1,  1, { 5854.0f,   445.8f,   4.885f,  6623.0f,   4.715f,    1272.0f,      146.1f,  65310.0f}},
    {"sm90_gemm_128x104x64",             Operands::k16Bits, {Family::kCooperative,   128, 104,  64,  2, 16},  1,  1, { 5720.0f,   632.0f,   4.082f,  5453.0f,   3.976f,    1425.0f,      213.4f,  58330.0f}},
    {"sm90_gemm_128x96x64",              Operands::k16Bits, {Family::kCooperative,   128,  96,  64,  2, 16},  1,  1, { 5646.0f,   371.0f,   3.827f,  5290.0f,   4.167f,    1129.0f,      323.3f,  58280.0f}},
    {"sm90_gemm_64x176x64",              Operands::k16Bits, {Family::kCooperative,    64, 176,  64,  1, 16},  1,  1, { 5684.0f,   447.6f,   3.482f,  5250.0f,   3.916f,    2363.0f,      258.8f,  56000.0f}},
    {"sm90_gemm_64x128x128",             Operands::k16Bits, {Family::kCooperative,    64, 128, 128,  1, 16},  1,  1, { 5758.0f,   458.7f,   2.771f,  5882.0f,   2.742f,    1994.0f,      175.5f,  63870.0f}},
    {"sm90_gemm_64x104x128",             Operands::k16Bits, {Family::kCooperative,    64, 104, 128,  1, 16},  1,  1, { 5681.0f,   232.6f,   2.691f,  5990.0f,   3.024f,    1563.0f,      145.6f,  56510.0f}},
    {"sm90_gemm_64x96x128",              Operands::k16Bits, {Family::kCooperative,    64,  96, 128,  1, 16},  1,  1, { 5681.0f,   232.2f,   2.255f,  5907.0f,    2.87f,    1253.0f,      169.5f,  55020.0f}},
    {"sm90_gemm_64x64x128",              Operands::k16Bits, {Family::kCooperative,    64,  64, 128,  1, 16},  1,  1, { 5462.0f,   138.8f,   1.945f,  6400.0f,   1.994f,     991.7f,      146.1f,  56610.0f}},
    {"sm90_gemm_64x32x128",              Operands::k16Bits, {Family::kCooperative,    64,  32, 128,  1, 16},  1,  1, { 5349.0f,   200.2f,   1.342f,  5153.0f,   1.861f,     708.7f,      266.3f,  44050.0f}},
    {"sm90_pingpong_128x128x64",         Operands::k16Bits, {Family::kPingpong,      128, 128,  64,  2, 16},  1,  1, { 6070.0f,   237.0f,   4.856f,  5182.0f,   4.758f,    3188.0f,      321.0f,  70030.0f}},
    {"sm90_pingpong_128x160x64",         Operands::k16Bits, {Family::kPingpong,      128, 160,  64,  2, 16, true},  1,  1, { 6229.0f,   426.7f,    5.78f,  5343.0f,   5.863f,    1824.0f,      253.3f,  79850.0f}},
    {"sm90_pingpong_128x176x64",         Operands::k16Bits, {Family::kPingpong,      128, 176,  64,  2, 16, true},  1,  1, { 6491.0f,   307.5f,   6.313f,  4856.0f,   6.218f,    2152.0f,      546.3f,  77670.0f}},
    {"sm90_pingpong_128x192x64",         Operands::k16Bits, {Family::kPingpong,      128, 192,  64,  2, 16, true},  1,  1, { 6376.0f,   591.0f,   7.024f,  5892.0f,   6.848f,    2337.0f,      180.7f, 251300.0f}},
    {"sm90_swapped_208x128x64",          Operands::k16Bits, {Family::kSwapAb,        208, 128,  64,  2, 16},  1,  1, { 6294.0f,  1059.0f,   7.681f,  4860.0f,     7.8f,    2386.0f,     1394.0f, 100300.0f}},
    {"sm90_swapped_176x128x64",          Operands::k16Bits, {Family::kSwapAb,        176, 128,  64,  2, 16},  1,  1, { 6285.0f,   828.8f,   6.415f,  5078.0f,   6.611f,    1749.0f,      463.7f, 119500.0f}},
    {"sm90_swapped_160x128x64",          Operands::k16Bits, {Family::kSwapAb,        160, 128,  64,  2, 16},  1,  1, { 6206.0f,   724.7f,   5.936f,  4961.0f,   6.251f,    1987.0f,      652.1f,  78250.0f}},
    {"sm90_swapped_144x128x64",          Operands::k16Bits, {Family::kSwapAb,        144, 128,  64,  2, 16},  1,  1, { 6091.0f,   715.5f,   5.359f,  5166.0f,   5.822f,    1877.0f,      321.0f,  70240.0f}},
    {"sm90_swapped_104x128x64",          Operands::k16Bits, {Family::kSwapAb,        104, 128,  64,  2, 16},  1,  1, { 6007.0f,   500.7f,   3.949f,  5437.0f,   4.086f,    1227.0f,      218.9f,  57760.0f}},
    {"sm90_swapped_96x128x64",           Operands::k16Bits, {Family::kSwapAb,         96, 128,  64,  2, 16},  1,  1, { 5995.0f,   425.4f,   3.658f,  5315.0f,   3.964f,    1234.0f,      278.0f,  54580.0f}},
    {"sm90_swapped_96x64x128",           Operands::k16Bits, {Family::kSwapAb,         96,  64, 128,  1, 16},  1,  1, { 5775.0f,   277.5f,   2.268f,  5864.0f,   2.673f,    1370.0f,      149.4f,  55660.0f}},
    {"sm90_cluster2x1_128x256x64",       Operands::k16Bits, loaded_together({Family::kCooperative, 128, 256, 64, 2, 16}, 2, 1),  1,  1, { 6420.0f,  1132.0f,   9.446f,  5123.0f,   9.189f,    6158.0f,      622.8f, 174200.0f}},
    {"sm90_cluster2x2_128x128x64",       Operands::k16Bits, loaded_together({Family::kCooperative, 128, 128, 64, 2, 16}, 2, 2),  1,  1, { 6726.0f,   446.0f,   4.885f,  6623.0f,   4.715f,    1272.0f,      146.1f, 158300.0f}},
    {"sm90_cluster2x1_swapped_256x128x64", Operands::k16Bits, loaded_together({Family::kSwapAb,    256, 128, 64, 2, 16}, 2, 1),  1,  1, { 6392.0f,  1729.0f,   9.621f,  5123.0f,   9.359f,    6158.0f,      622.8f,  57430.0f}},
    {"sm90_cluster2x2_128x160x64",       Operands::k16Bits, loaded_together({Family::kCooperative, 128, 160, 64, 2, 16}, 2, 2),  1,  1, { 6526.0f,   680.0f,   6.142f,  5261.0f,   6.032f,    1436.0f,      314.2f, 104800.0f}},
    {"sm90_cluster4x2_64x64x64",         Operands::k16Bits, loaded_together({Family::kCooperative,  64,  64, 64, 1, 16}, 4, 2),  1,  1, { 6293.0f,   202.8f,   2.196f,  6400.0f,   2.251f,     991.7f,      146.1f, 213300.0f}},
    {"sm90_cluster2x4_64x128x64",        Operands::k16Bits, loaded_together({Family::kCooperative,  64, 128, 64, 1, 16}, 2, 4),  1,  1, { 6098.0f,   458.7f,   2.771f,  5882.0f,   2.742f,    1994.0f,      175.5f,  74210.0f}},
    {"sm90_cluster4x2_128x64x64",        Operands::k16Bits, loaded_together({Family::kCooperative, 128,  64, 64, 2, 16}, 4, 2),  1,  1, { 5829.0f,   458.7f,   2.972f,  5882.0f,   2.941f,    1994.0f,      175.5f,  97850.0f}},
    {"sm90_cluster2x1_128x192x64",       Operands::k16Bits, loaded_together({Family::kCooperative, 128, 192, 64, 2, 16}, 2, 1),  1,  1, { 6486.0f,   953.7f,   7.226f,  5892.0f,   7.045f,    2337.0f,      180.7f,  93680.0f}},
    {"sm90_cluster4x2_64x96x64",         Operands::k16Bits, loaded_together({Family::kCooperative,  64,  96, 64, 1, 16}, 4, 2),  1,  1, { 6346.0f,   232.2f,   2.255f,  5907.0f,    2.87f,    1253.0f,      169.5f,  63280.0f}},
    {"sm90_cluster1x4_128x128x64",       Operands::k16Bits, loaded_together({Family::kCooperative, 128, 128, 64, 2, 16}, 1, 4),  1,  1, { 6616.0f,   445.8f,   4.911f,  6623.0f,    4.74f,    1272.0f,      146.1f,  95300.0f}},
    {"sm90_cluster2x1_128x224x64",       Operands::k16Bits, loaded_together({Family::kCooperative, 128, 224, 64, 2, 16}, 2, 1),  1,  1, { 6622.0f,  1246.0f,   8.508f,  5022.0f,   8.016f,    2372.0f,      471.3f, 138200.0f}},
    {"sm90_cluster2x1_128x208x64",       Operands::k16Bits, loaded_together({Family::kCooperative, 128, 208, 64, 2, 16}, 2, 1),  1,  1, { 6710.0f,  1077.0f,    7.91f,  4937.0f,   7.596f,    2309.0f,      503.4f, 116000.0f}},
    {"sm90_cluster2x1_128x176x64",       Operands::k16Bits, loaded_together({Family::kCooperative, 128, 176, 64, 2, 16}, 2, 1),  1,  1, { 6790.0f,   810.7f,   6.692f,  4994.0f,   6.329f,    1730.0f,      512.7f,  94310.0f}},
    {"sm90_cluster1x2_swapped_208x128x64", Operands::k16Bits, loaded_together({Family::kSwapAb, 208, 128, 64, 2, 16}, 1, 2),  1,  1, { 6437.0f,  1681.0f,   7.681f,  4860.0f,     7.8f,    2386.0f,     1394.0f,  91180.0f}},
    {"sm90_split2_64x64x128",            Operands::k16Bits, {Family::kClusterSplitK,  64,  64, 128,  1, 16},  2,  1, { 8449.0f,   319.5f,   1.174f,  4242.0f,   1.326f,  0.003125f, 20140000.0f,  47390.0f}},
    {"sm90_split4_64x64x128",            Operands::k16Bits, {Family::kClusterSplitK,  64,  64, 128,  1, 16},  4,  1, { 7246.0f,   493.4f,  0.6169f,  3969.0f,  0.6503f,  0.006421f, 14280000.0f,  41360.0f}},
    {"sm90_split8_64x64x128",            Operands::k16Bits, {Family::kClusterSplitK,  64,  64, 128,  1, 16},  8,  1, { 7217.0f,   619.1f,  0.2881f,  3406.0f,  0.3843f,   0.01319f, 10120000.0f,  39810.0f}},
    {"sm90_split2_128x128x64",           Operands::k16Bits, {Family::kClusterSplitK, 128, 128,  64,  2, 16},  2,  1, { 9662.0f,  3064.0f,   2.585f,  4410.0f,   2.581f,  0.005791f, 30030000.0f,  91820.0f}},
    {"sm90_split4_128x128x64",           Operands::k16Bits, {Family::kClusterSplitK, 128, 128,  64,  2, 16},  4,  1, { 8511.0f,  1709.0f,   1.268f,  4223.0f,   1.343f,   0.01189f, 21290000.0f,  57150.0f}},
    {"sm90_split8_128x128x64",           Operands::k16Bits, {Family::kClusterSplitK, 128, 128,  64,  2, 16},  8,  1, { 8825.0f,  1115.0f,  0.7675f,  3801.0f,  0.8004f,   0.02444f, 15090000.0f,  45570.0f}},
    {"sm90_few_rows_8x64x128",           Operands::k16Bits, {Family::kSwapAbSplitK,    8,  64, 128,  1,  5},  1,  2, { 6040.0f,   14.64f,   1.393f,  6144.0f,   1.486f,     17.23f,      103.9f,  52570.0f}},
    {"sm90_few_rows_64x64x128",          Operands::k16Bits, {Family::kSwapAbSplitK,   64,  64, 128,  1,  3},  1,  2, { 7763.0f,   272.0f,   2.413f, 12080.0f,   2.371f,     282.1f,       48.4f,  42910.0f}},
    {"sm90_few_rows_8x128x64",           Operands::k16Bits, {Family::kSwapAbSplitK,    8, 128,  64,  2,  5},  1,  2, { 6161.0f,   110.9f,   2.558f,  6096.0f,   2.588f,     179.4f,      120.2f,  57690.0f}},
    {"sm90_few_rows_16x128x64",          Operands::k16Bits, {Family::kSwapAbSplitK,   16, 128,  64,  2,  5},  1,  2, { 6431.0f,   176.6f,   2.608f,  6109.0f,   2.769f,     127.3f,      119.2f,  54110.0f}},
    {"sm90_few_rows_32x128x64",          Operands::k16Bits, {Family::kSwapAbSplitK,   32, 128,  64,  2,  5},  1,  2, { 6829.0f,   284.6f,   2.629f,  6111.0f,   2.703f,     206.3f,      117.4f,  51020.0f}},
    {"sm90_few_rows_split2_8x64x128",    Operands::k16Bits, {Family::kSwapAbSplitK,    8,  64, 128,  1,  5},  2,  2, { 6928.0f,   12.91f,  0.8525f,  5397.0f,  0.9253f,   0.03375f,      124.3f,  52470.0f}},
    {"sm90_few_rows_split4_8x64x128",    Operands::k16Bits, {Family::kSwapAbSplitK,    8,  64, 128,  1,  5},  4,  2, { 6871.0f,   8.922f,  0.4391f,  5746.0f,  0.4999f, 0.00005979f,      110.2f,  51670.0f}},
    {"sm90_few_rows_split4_16x64x128",   Operands::k16Bits, {Family::kSwapAbSplitK,   16,  64, 128,  1,  5},  4,  2, { 6790.0f,    55.9f,  0.5149f,  6452.0f,  0.5586f, 0.00008925f,       87.1f,  47160.0f}},
    {"sm90_few_rows_split4_32x64x128",   Operands::k16Bits, {Family::kSwapAbSplitK,   32,  64, 128,  1,  4},  4,  2, { 6930.0f,   166.3f,  0.6138f,  6522.0f,  0.6493f, 0.0002243f,       85.6f,  41720.0f}},
    {"sm90_few_rows_split4_64x64x128",   Operands::k16Bits, {Family::kSwapAbSplitK,   64,  64, 128,  1,  3},  4,  2, { 7618.0f,   166.2f,   0.757f,  8399.0f,  0.7627f,  0.001155f,      59.53f,  41230.0f}},
};
// clang-format on
constexpr int kDenseConfigCount = sizeof(kDenseConfigs) / sizeof(kDenseConfigs[0]);

// The number of a config by its name; -1 where the table has none of it.
template <int kCount>
constexpr int config_named(const KernelConfig (&configs)[kCount], std::string_view name) {
  for (int config = 0; config < kCount; ++config)
    if (configs[config].name == name) return config;
  return -1;
}

// Tiles of dense configs, the last of which CTAs share. Their costs are the dense configs', and what the exchange takes
// (streamed.h). Two consumers take registers beside 96 sums and more: what they hand over goes by addresses of its own.
constexpr KernelConfig streamed(const char* name, const char* dense_name) {
  const int like = config_named(kDenseConfigs, dense_name);
  KernelConfig config = kDenseConfigs[like];
  config.name = name;
  config.tile.takes_registers = config.tile.mma_columns() > 128;
  config.like = like;
  config.streams = true;
  return config;
}
constexpr KernelConfig kStreamedConfigs[] = {
    streamed("sm90_stream_k_128x256x64", "sm90_gemm_128x256x64"),
    streamed("sm90_stream_k_128x128x64", "sm90_gemm_128x128x64"),
    streamed("sm90_stream_k_2x1_128x256x64", "sm90_cluster2x1_128x256x64"),
    streamed("sm90_stream_k_2x1_128x192x64", "sm90_cluster2x1_128x192x64"),
    streamed("sm90_stream_k_2x2_128x128x64", "sm90_cluster2x2_128x128x64"),
    streamed("sm90_stream_k_1x2_swapped_208x128x64", "sm90_cluster1x2_swapped_208x128x64"),
};
constexpr int kStreamedConfigCount = sizeof(kStreamedConfigs) / sizeof(kStreamedConfigs[0]);

// With registers for three sets of sums: of two stages, and those that leave the tensor core.
constexpr TileConfig promoted_behind(TileConfig tile) {
  tile.promotes_behind = true;
  return tile;
}

// fp8. Dense configs in everything but the operands: pairs of fp8 take an element's place, so that a stage has twice
// the k in the same bytes and the same time. per_k and the fast configs' costs were set after squares of 1536 to 8192
// on an H200, and no script fits them; memory_bytes of those are the dense configs' of the same tiles at that time. The
// other numbers of promoted configs are from 261 random products, which every config multiplied, on an H100. per_k of
// 128 x 128 was set by hand, from 3.15 to 3.06, when that tile came to promote behind: with scales of rows it took 0.94
// to 0.98 of the time on an H200, from 1024 rows on.
// clang-format off
constexpr KernelConfig kFp8Configs[] = {
    // name                                 operands                family         tile m, n, k   consumers, stages, takes registers, element bytes  splits, ctas_per_sm   start, per_tile, per_k, memory_bytes
    {"sm90_fp8_192x128x128",                  Operands::kFp8Promoted, {Family::kCooperative, 192, 128, 128, 3, 16, false, 1}, 1, 1, 4245.1f,  2505.1f,     4.5f,  1968.5f},
    {"sm90_fp8_128x192x128",                  Operands::kFp8Promoted, {Family::kCooperative, 128, 192, 128, 2, 16, true,  1}, 1, 1, 4348.1f,  2358.9f,    4.55f,  2056.8f},
    {"sm90_fp8_128x176x128",                  Operands::kFp8Promoted, {Family::kCooperative, 128, 176, 128, 2, 16, true,  1}, 1, 1, 4018.2f,  2652.1f,   4.165f,  1765.8f},
    {"sm90_fp8_128x160x128",                  Operands::kFp8Promoted, {Family::kCooperative, 128, 160, 128, 2, 16, true,  1}, 1, 1, 4263.2f,  2378.6f,   3.825f,  1639.4f},
    {"sm90_fp8_128x128x128",                  Operands::kFp8Promoted, promoted_behind({Family::kCooperative, 128, 128, 128, 2, 16, true, 1}), 1, 1, 4320.4f,  2092.9f,    3.06f, 1629.8f},
    {"sm90_fp8_128x96x128",                   Operands::kFp8Promoted, {Family::kCooperative, 128,  96, 128, 2, 16, false, 1}, 1, 1, 4588.6f,  1621.5f,    2.65f,  1619.5f},
    {"sm90_fp8_64x128x128",                   Operands::kFp8Promoted, {Family::kCooperative,  64, 128, 128, 1, 16, false, 1}, 1, 1, 4993.1f,   992.4f,     2.5f,  1466.2f},
    {"sm90_fp8_64x64x128",                    Operands::kFp8Promoted, {Family::kCooperative,  64,  64, 128, 1, 16, false, 1}, 1, 1, 5147.5f,   699.6f,     1.6f,  1221.3f},
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

// Block-scaled configs that are dense or fp8 ones in everything but the operands.
constexpr KernelConfig like_dense(const char* name, const char* dense_name) {
  const int like = config_named(kDenseConfigs, dense_name);
  return {name, Operands::kBFloat16, kDenseConfigs[like].tile, 1, 1, {}, like};
}
// One that promotes behind comes without: its registers are asked for in int8 and bfloat16, too.
constexpr KernelConfig like_fp8(const char* name, const char* fp8_name, const CostNumbers& cost) {
  TileConfig tile = kFp8Configs[config_named(kFp8Configs, fp8_name)].tile;
  if (tile.promotes_behind) tile.promotes_behind = tile.takes_registers = false;
  return {name, Operands::kE5M2, tile, 1, 1, cost};
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
  KernelConfig config{name, Operands::kFp8Blocks, like.tile, 1, 1, cost};
  config.tile.has_stage_scales = true;
  return config;
}

// The same swapped, for few rows of a: CTAs share tiles.
constexpr KernelConfig swapped_blocks(const char* name, int tile_m, const CostNumbers& cost) {
  KernelConfig config{name, Operands::kFp8Blocks, {Family::kSwapAb, tile_m, 128, 128, 2, 16, false, 1}, 1, 1, cost};
  config.tile.has_stage_scales = true;
  return config;
}

// Of 16 bits and a weight that is decoded in the main loop.
constexpr KernelConfig decoded_weight(const char* name, Operands operands, int tile_m, int block_k,
                                      const CostNumbers& cost, bool measured = true) {
  TileConfig tile{Family::kSwapAb, tile_m, 128, block_k, 2, 16};
  const int many = operands == Operands::kMxfp8Weight ? 128 : 160;
  tile.takes_registers = tile_m >= many;
  tile.code_bits = operands == Operands::kFp4Weight ? 4 : 8;
  tile.has_scale_words = operands == Operands::kFp4Weight || operands == Operands::kMxfp8Weight;
  return {name, operands, tile, 1, 1, cost, -1, measured};
}

// Of folds, the weight's in the main loop. Sums in the tensor core, and those that have left it, are up to 192
// registers of a thread. Each consumer has 64 rows of the weight: three share a stage of `a` where their registers hold
// the sums.
constexpr KernelConfig folded_weight(const char* name, Operands operands, int tile_m, int consumers,
                                     const CostNumbers& cost) {
  TileConfig tile{
      Family::kSwapAb, tile_m, 64 * consumers, 128, consumers, 16, consumers == 2 && tile_m >= 128, 1, true};
  tile.code_bits = operands == Operands::kFoldedE2M1 ? 4 : 8;
  tile.has_scale_words = true;
  return {name, operands, tile, 1, 1, cost};
}

// Block-scaled products. int8's numbers were set after products on an H200, like those of kFp8Configs: no script
// fits them. Those of e4m3 with float32 scales of rows were fitted to 41 products of m from 16 to 8192 on an H200,
// those with scales of blocks to 36, and of these the swapped ones by hand, as was, of those of rows, per_k of 128 x
// 128, from 3.021 to 2.933, when that tile came to promote behind, and of the fast 64 x 128, from 1.679 to 1.96,
// after 256 rows by 4096 x 7168 and 8192 x 8192; those of decoded weights to half of the times of 1,205 weights
// alone scaled (decoded_weights.csv.xz) and of 1,837 products of two operands (block_scaled_unseen.csv.xz), but the
// start of fp4's 64 rows, set by hand to 50 of 24 to 512 rows by five weights on an H200; those of weights in blocks
// to the 36 of weight_blocks.csv.xz, with whole tiles, per_tile at most 3000, before their main loop was what it is;
// those of folded weights to half of the times of 1,390 products of mixed and mxfp8 (folded_weights.csv.xz). What
// preparing takes is not in them, for it is the same for every config.
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
    like_fp8("sm90_block_scaled_float8_128x192x128", "sm90_fp8_128x192x128", {3800.0f, 600.0f, 4.55f, 3761.4f}),
    like_fp8("sm90_block_scaled_float8_128x128x128", "sm90_fp8_128x128x128", {4377.2f, 782.4f, 3.15f, 3761.4f}),
    like_fp8("sm90_block_scaled_float8_64x128x128", "sm90_fp8_64x128x128", {5697.8f, 0.0f, 2.5f, 2680.4f}),
    {"sm90_block_scaled_few_rows_8x128x256",  Operands::kCodes, {Family::kSmallM,  8, 128, 256, 4, 8}},
    {"sm90_block_scaled_few_rows_16x128x256", Operands::kCodes, {Family::kSmallM, 16, 128, 256, 4, 8}},
    {"sm90_block_scaled_few_rows_32x128x256", Operands::kCodes, {Family::kSmallM, 32, 128, 256, 4, 8}},
    {"sm90_block_scaled_few_rows_64x128x256", Operands::kCodes, {Family::kSmallM, 64, 128, 256, 2, 8}},
    with_factors("sm90_scaled_fp8_192x128x128", "sm90_fp8_192x128x128", {3921.4f, 1387.3f, 4.152f, 2103.6f}),
    with_factors("sm90_scaled_fp8_128x192x128", "sm90_fp8_128x192x128", {3971.4f, 1594.6f, 4.125f, 2561.0f}),
    with_factors("sm90_scaled_fp8_128x160x128", "sm90_fp8_128x160x128", {4249.6f, 1536.6f, 3.472f, 2162.8f}),
    with_factors("sm90_scaled_fp8_128x128x128", "sm90_fp8_128x128x128", {4839.5f, 1027.1f, 2.933f, 2421.9f}),
    with_factors("sm90_scaled_fp8_64x128x128", "sm90_fp8_64x128x128", {5356.2f, 566.6f, 2.401f, 2791.3f}),
    with_factors("sm90_scaled_fp8_64x64x128", "sm90_fp8_64x64x128", {5536.8f, 381.3f, 1.577f, 2905.0f}),
    with_factors("sm90_scaled_fp8_fast_128x224x128", "sm90_fp8_fast_128x224x128", {3687.4f, 2112.4f, 4.619f, 2496.9f}),
    with_factors("sm90_scaled_fp8_fast_pingpong_128x192x128", "sm90_fp8_fast_pingpong_128x192x128", {6708.5f, 404.2f, 4.09f, 2853.0f}),
    with_factors("sm90_scaled_fp8_fast_pingpong_128x160x128", "sm90_fp8_fast_pingpong_128x160x128", {5937.1f, 572.1f, 3.381f, 2284.0f}),
    with_factors("sm90_scaled_fp8_fast_pingpong_128x128x128", "sm90_fp8_fast_pingpong_128x128x128", {6135.9f, 327.9f, 2.844f, 2468.3f}),
    with_factors("sm90_scaled_fp8_fast_64x128x256", "sm90_fp8_fast_64x128x256", {6791.2f, 446.9f, 1.96f, 3210.1f}),
    with_factors("sm90_scaled_fp8_fast_64x64x256", "sm90_fp8_fast_64x64x256", {4695.6f, 0.0f, 1.265f, 2776.7f}),
    {"sm90_scaled_int8_pingpong_128x192x128", Operands::kInt8Rows, {Family::kPingpong,    128, 192, 128, 2, 16, true,  1, true}, 1, 1, {7737.9f, 211.2f,  3.83f, 3300.0f}},
    {"sm90_scaled_int8_pingpong_128x160x128", Operands::kInt8Rows, {Family::kPingpong,    128, 160, 128, 2, 16, true,  1, true}, 1, 1, {7900.0f, 290.0f,   3.2f, 3300.0f}},
    {"sm90_scaled_int8_128x128x128",          Operands::kInt8Rows, {Family::kCooperative, 128, 128, 128, 2, 16, false, 1, true}, 1, 1, {3927.0f,  38.4f,  2.83f, 3300.0f}},
    {"sm90_scaled_int8_64x128x256",           Operands::kInt8Rows, {Family::kCooperative,  64, 128, 256, 1, 16, false, 1, true}, 1, 1, {3729.1f, 327.8f, 1.575f, 2635.0f}},
    {"sm90_scaled_int8_64x64x256",            Operands::kInt8Rows, {Family::kCooperative,  64,  64, 256, 1, 16, false, 1, true}, 1, 1, {3740.9f, 149.9f,  1.05f, 2774.0f}},
    with_block_factors("sm90_scaled_fp8_blocks_192x128x128", "sm90_fp8_192x128x128", {4669.3f, 1527.8f, 4.379f, 2095.8f}),
    with_block_factors("sm90_scaled_fp8_blocks_128x128x128", "sm90_fp8_128x128x128", {5539.6f, 772.6f, 3.232f, 2317.2f}),
    with_block_factors("sm90_scaled_fp8_blocks_64x128x128", "sm90_fp8_64x128x128", {6555.2f, 655.8f, 2.353f, 3006.1f}),
    decoded_weight("sm90_weight_fp4_256x128x64", Operands::kFp4Weight, 256, 64, {3500.0f, 500.0f, 9.998f, 923.2f}),
    decoded_weight("sm90_weight_fp4_224x128x64", Operands::kFp4Weight, 224, 64, {3500.0f, 3084.3f, 8.593f, 2994.5f}),
    decoded_weight("sm90_weight_fp4_192x128x64", Operands::kFp4Weight, 192, 64, {3500.0f, 862.7f, 8.357f, 1006.6f}),
    decoded_weight("sm90_weight_fp4_160x128x64", Operands::kFp4Weight, 160, 64, {4241.5f, 1257.5f, 7.444f, 1083.8f}),
    decoded_weight("sm90_weight_fp4_128x128x64", Operands::kFp4Weight, 128, 64, {4709.7f, 1479.9f, 6.705f, 1194.6f}),
    decoded_weight("sm90_weight_fp4_64x128x64", Operands::kFp4Weight, 64, 64, {5500.0f, 1510.0f, 5.630f, 3115.4f}),
    decoded_weight("sm90_weight_codes_256x128x64", Operands::kWeightCodes, 256, 64, {3500.0f, 500.0f, 10.493f, 3426.9f}),
    decoded_weight("sm90_weight_codes_240x128x64", Operands::kWeightCodes, 240, 64, {3500.0f, 500.0f, 10.110f, 3160.1f}),
    decoded_weight("sm90_weight_codes_224x128x64", Operands::kWeightCodes, 224, 64, {3500.0f, 808.9f, 9.638f, 3290.5f}),
    decoded_weight("sm90_weight_codes_208x128x64", Operands::kWeightCodes, 208, 64, {3500.0f, 864.0f, 9.006f, 3333.0f}),
    decoded_weight("sm90_weight_codes_192x128x64", Operands::kWeightCodes, 192, 64, {3500.0f, 968.2f, 8.498f, 3863.3f}),
    decoded_weight("sm90_weight_codes_176x128x64", Operands::kWeightCodes, 176, 64, {3637.6f, 1403.0f, 8.291f, 3461.9f}),
    decoded_weight("sm90_weight_codes_160x128x64", Operands::kWeightCodes, 160, 64, {4254.5f, 1278.1f, 7.745f, 1733.5f}),
    decoded_weight("sm90_weight_codes_128x128x128", Operands::kWeightCodes, 128, 128, {4732.1f, 797.7f, 6.565f, 1923.1f}),
    decoded_weight("sm90_weight_codes_96x128x128", Operands::kWeightCodes, 96, 128, {5543.7f, 1027.2f, 5.530f, 2260.2f}),
    decoded_weight("sm90_weight_codes_64x128x128", Operands::kWeightCodes, 64, 128, {6397.2f, 686.2f, 4.891f, 2575.5f}),
    decoded_weight("sm90_weight_mxfp8_256x128x64", Operands::kMxfp8Weight, 256, 64, {3500.0f, 2134.3f, 11.328f, 1319.2f}),
    decoded_weight("sm90_weight_mxfp8_224x128x64", Operands::kMxfp8Weight, 224, 64, {4277.2f, 4703.4f, 9.542f, 1911.0f}),
    decoded_weight("sm90_weight_mxfp8_192x128x64", Operands::kMxfp8Weight, 192, 64, {4856.9f, 3906.8f, 8.821f, 1835.0f}),
    decoded_weight("sm90_weight_mxfp8_160x128x64", Operands::kMxfp8Weight, 160, 64, {5644.1f, 3578.3f, 8.306f, 2047.6f}),
    decoded_weight("sm90_weight_mxfp8_128x128x128", Operands::kMxfp8Weight, 128, 128, {5690.4f, 3087.7f, 7.184f, 1600.8f}),
    decoded_weight("sm90_weight_mxfp8_96x128x128", Operands::kMxfp8Weight, 96, 128, {6662.8f, 2284.6f, 6.695f, 3693.3f}),
    decoded_weight("sm90_weight_mxfp8_64x128x128", Operands::kMxfp8Weight, 64, 128, {7846.0f, 1555.7f, 5.322f, 2336.1f}),
    decoded_weight("sm90_weight_blocks_256x128x64", Operands::kWeightBlocks, 256, 64, {5843.1f, 3000.0f, 12.535f, 1812.9f}),
    decoded_weight("sm90_weight_blocks_224x128x64", Operands::kWeightBlocks, 224, 64, {6217.0f, 2999.9f, 12.396f, 1812.9f}),
    decoded_weight("sm90_weight_blocks_192x128x64", Operands::kWeightBlocks, 192, 64, {5424.6f, 3000.0f, 11.232f, 1812.9f}),
    decoded_weight("sm90_weight_blocks_160x128x64", Operands::kWeightBlocks, 160, 64, {5785.4f, 2999.9f, 10.598f, 1812.9f}),
    decoded_weight("sm90_weight_blocks_128x128x128", Operands::kWeightBlocks, 128, 128, {5714.1f, 2797.0f, 9.695f, 1812.9f}),
    decoded_weight("sm90_weight_blocks_96x128x128", Operands::kWeightBlocks, 96, 128, {5949.9f, 2373.5f, 8.899f, 1812.9f}),
    decoded_weight("sm90_weight_blocks_64x128x128", Operands::kWeightBlocks, 64, 128, {6735.2f, 1830.4f, 8.043f, 1812.9f}),
    folded_weight("sm90_folded_mxfp8_192x128x128", Operands::kFoldedE4M3, 192, 2, {3500.0f, 3655.3f, 5.174f, 3498.0f}),
    folded_weight("sm90_folded_mxfp8_160x128x128", Operands::kFoldedE4M3, 160, 2, {3500.0f, 3499.9f, 4.651f, 3778.7f}),
    folded_weight("sm90_folded_mxfp8_128x128x128", Operands::kFoldedE4M3, 128, 2, {4655.3f, 2408.9f, 4.215f, 4200.0f}),
    folded_weight("sm90_folded_mxfp8_96x128x128", Operands::kFoldedE4M3, 96, 2, {5136.3f, 1967.2f, 3.794f, 3697.8f}),
    folded_weight("sm90_folded_mxfp8_96x192x128", Operands::kFoldedE4M3, 96, 3, {3500.0f, 3085.5f, 5.031f, 2691.1f}),
    folded_weight("sm90_folded_mxfp8_64x192x128", Operands::kFoldedE4M3, 64, 3, {5252.0f, 1823.3f, 4.397f, 1799.1f}),
    folded_weight("sm90_folded_mxfp8_64x128x128", Operands::kFoldedE4M3, 64, 2, {6230.7f, 1386.0f, 3.292f, 2018.8f}),
    folded_weight("sm90_folded_fp4_192x128x128", Operands::kFoldedE2M1, 192, 2, {7434.5f, 3907.8f, 5.014f, 2000.0f}),
    folded_weight("sm90_folded_fp4_160x128x128", Operands::kFoldedE2M1, 160, 2, {8109.2f, 3236.1f, 4.450f, 1877.6f}),
    folded_weight("sm90_folded_fp4_128x128x128", Operands::kFoldedE2M1, 128, 2, {8867.0f, 2344.8f, 4.092f, 2218.0f}),
    folded_weight("sm90_folded_fp4_96x128x128", Operands::kFoldedE2M1, 96, 2, {9000.0f, 2004.9f, 3.701f, 2400.0f}),
    folded_weight("sm90_folded_fp4_96x192x128", Operands::kFoldedE2M1, 96, 3, {7989.4f, 2807.2f, 4.858f, 2400.0f}),
    folded_weight("sm90_folded_fp4_64x192x128", Operands::kFoldedE2M1, 64, 3, {9000.0f, 1787.1f, 4.377f, 1201.9f}),
    folded_weight("sm90_folded_fp4_64x128x128", Operands::kFoldedE2M1, 64, 2, {9000.0f, 1448.0f, 3.362f, 2400.0f}),
    {"sm90_weight_direct_8x16x128",  Operands::kDirectWeight, {Family::kDirectWeight,  8, 16, 128, 1, 2}},
    {"sm90_weight_direct_8x32x128",  Operands::kDirectWeight, {Family::kDirectWeight,  8, 32, 128, 1, 2}},
    {"sm90_weight_direct_16x16x128", Operands::kDirectWeight, {Family::kDirectWeight, 16, 16, 128, 1, 2}},
    {"sm90_weight_direct_16x32x128", Operands::kDirectWeight, {Family::kDirectWeight, 16, 32, 128, 1, 2}},
    swapped_blocks("sm90_scaled_fp8_blocks_swapped_64x128x128", 64, {9600.0f, 700.0f, 2.4f, 3500.0f}),
    swapped_blocks("sm90_scaled_fp8_blocks_swapped_16x128x128", 16, {9000.0f, 600.0f, 1.6f, 3600.0f}),
};
// clang-format on
constexpr int kBlockScaledConfigCount = sizeof(kBlockScaledConfigs) / sizeof(kBlockScaledConfigs[0]);

}  // namespace tileon::sm90
