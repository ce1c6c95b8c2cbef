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
    {"sm90_gemm_128x256x64",             Operands::k16Bits, {Family::kCooperative,   128, 256,  64,  2, 16},  1,  1, { 6070.0f,   896.9f,   9.423f,  4910.0f,    9.19f,    7000.0f,      515.9f, 281500.0f}},
    {"sm90_gemm_128x240x64",             Operands::k16Bits, {Family::kCooperative,   128, 240,  64,  2, 16},  1,  1, { 5933.0f,   941.7f,   8.811f,  4567.0f,   8.198f,    7000.0f,     1058.0f, 124300.0f}},
    {"sm90_gemm_128x224x64",             Operands::k16Bits, {Family::kCooperative,   128, 224,  64,  2, 16},  1,  1, { 5920.0f,   959.3f,   8.238f,  4613.0f,    7.76f,    5334.0f,      763.0f, 120800.0f}},
    {"sm90_gemm_128x208x64",             Operands::k16Bits, {Family::kCooperative,   128, 208,  64,  2, 16},  1,  1, { 5894.0f,   939.8f,   7.644f,  4520.0f,   7.357f,    4748.0f,      846.2f, 127200.0f}},
    {"sm90_gemm_128x176x64",             Operands::k16Bits, {Family::kCooperative,   128, 176,  64,  2, 16},  1,  1, { 5907.0f,   741.0f,    6.47f,  4589.0f,    5.98f,    3610.0f,      780.1f,  83970.0f}},
    {"sm90_gemm_128x160x64",             Operands::k16Bits, {Family::kCooperative,   128, 160,  64,  2, 16},  1,  1, { 5810.0f,   687.9f,   5.905f,  4770.0f,    5.77f,    3094.0f,      443.3f,  68130.0f}},
    {"sm90_gemm_128x144x64",             Operands::k16Bits, {Family::kCooperative,   128, 144,  64,  2, 16},  1,  1, { 5768.0f,   672.4f,   5.269f,  4917.0f,   5.511f,    3358.0f,      300.1f,  64590.0f}},
    {"sm90_gemm_128x128x64",             Operands::k16Bits, {Family::kCooperative,   128, 128,  64,  2, 16},  1,  1, { 5577.0f,   640.2f,   4.786f,  5903.0f,   4.605f,    2337.0f,      160.5f,  62610.0f}},
    {"sm90_gemm_128x104x64",             Operands::k16Bits, {Family::kCooperative,   128, 104,  64,  2, 16},  1,  1, { 5585.0f,   762.2f,   4.008f,  5022.0f,   3.541f,    2330.0f,      237.5f,  54160.0f}},
    {"sm90_gemm_128x96x64",              Operands::k16Bits, {Family::kCooperative,   128,  96,  64,  2, 16},  1,  1, { 5592.0f,   448.7f,   3.817f,  4847.0f,   4.024f,    2019.0f,      423.8f,  61600.0f}},
    {"sm90_gemm_64x176x64",              Operands::k16Bits, {Family::kCooperative,    64, 176,  64,  1, 16},  1,  1, { 5628.0f,   484.4f,   3.459f,  5014.0f,   3.654f,    3768.0f,      253.9f,  52580.0f}},
    {"sm90_gemm_64x128x128",             Operands::k16Bits, {Family::kCooperative,    64, 128, 128,  1, 16},  1,  1, { 5723.0f,   468.2f,   2.685f,  5563.0f,   2.681f,    2367.0f,      173.9f,  64980.0f}},
    {"sm90_gemm_64x104x128",             Operands::k16Bits, {Family::kCooperative,    64, 104, 128,  1, 16},  1,  1, { 5608.0f,   335.3f,   2.633f,  5671.0f,   2.848f,    2478.0f,      144.6f,  56850.0f}},
    {"sm90_gemm_64x96x128",              Operands::k16Bits, {Family::kCooperative,    64,  96, 128,  1, 16},  1,  1, { 5612.0f,   195.2f,   2.255f,  5668.0f,   2.821f,    2004.0f,      168.4f,  52810.0f}},
    {"sm90_gemm_64x64x128",              Operands::k16Bits, {Family::kCooperative,    64,  64, 128,  1, 16},  1,  1, { 5408.0f,   189.5f,   1.894f,  5889.0f,   1.902f,    1542.0f,      155.2f,  59980.0f}},
    {"sm90_gemm_64x32x128",              Operands::k16Bits, {Family::kCooperative,    64,  32, 128,  1, 16},  1,  1, { 5335.0f,   180.7f,   1.348f,  5048.0f,   1.874f,    1054.0f,      230.9f,  47150.0f}},
    {"sm90_pingpong_128x128x64",         Operands::k16Bits, {Family::kPingpong,      128, 128,  64,  2, 16},  1,  1, { 6020.0f,   258.3f,   4.806f,  4758.0f,   4.697f,    4500.0f,      391.8f,  65940.0f}},
    {"sm90_pingpong_128x160x64",         Operands::k16Bits, {Family::kPingpong,      128, 160,  64,  2, 16, true},  1,  1, { 6197.0f,   400.6f,   5.731f,  4762.0f,   5.831f,    5379.0f,      384.3f,  74840.0f}},
    {"sm90_pingpong_128x176x64",         Operands::k16Bits, {Family::kPingpong,      128, 176,  64,  2, 16, true},  1,  1, { 6432.0f,   278.8f,   6.295f,  4566.0f,   6.163f,    6088.0f,      703.1f,  75990.0f}},
    {"sm90_pingpong_128x192x64",         Operands::k16Bits, {Family::kPingpong,      128, 192,  64,  2, 16, true},  1,  1, { 6379.0f,   491.1f,   7.012f,  4954.0f,   6.816f,    5928.0f,      295.7f, 179100.0f}},
    {"sm90_swapped_208x128x64",          Operands::k16Bits, {Family::kSwapAb,        208, 128,  64,  2, 16},  1,  1, { 6129.0f,  1175.0f,   7.611f,  4556.0f,   7.638f,    5026.0f,     1501.0f,  75160.0f}},
    {"sm90_swapped_176x128x64",          Operands::k16Bits, {Family::kSwapAb,        176, 128,  64,  2, 16},  1,  1, { 6090.0f,   980.6f,   6.347f,  4671.0f,   6.569f,    3138.0f,      854.1f,  90190.0f}},
    {"sm90_swapped_160x128x64",          Operands::k16Bits, {Family::kSwapAb,        160, 128,  64,  2, 16},  1,  1, { 6053.0f,   843.2f,   5.872f,  4605.0f,    6.16f,    2858.0f,      937.3f,  67320.0f}},
    {"sm90_swapped_144x128x64",          Operands::k16Bits, {Family::kSwapAb,        144, 128,  64,  2, 16},  1,  1, { 5996.0f,   783.9f,   5.298f,  4640.0f,   5.698f,    3091.0f,      514.7f,  63020.0f}},
    {"sm90_swapped_104x128x64",          Operands::k16Bits, {Family::kSwapAb,        104, 128,  64,  2, 16},  1,  1, { 5858.0f,   630.3f,   3.885f,  5060.0f,   3.944f,    1887.0f,      236.9f,  55760.0f}},
    {"sm90_swapped_96x128x64",           Operands::k16Bits, {Family::kSwapAb,         96, 128,  64,  2, 16},  1,  1, { 5858.0f,   552.8f,   3.583f,  5032.0f,   3.782f,    1668.0f,      278.2f,  54080.0f}},
    {"sm90_swapped_96x64x128",           Operands::k16Bits, {Family::kSwapAb,         96,  64, 128,  1, 16},  1,  1, { 5726.0f,   300.3f,   2.243f,  5585.0f,   2.698f,    1849.0f,      149.9f,  57620.0f}},
    {"sm90_cluster2x1_128x256x64",       Operands::k16Bits, loaded_together({Family::kCooperative, 128, 256, 64, 2, 16}, 2, 1),  1,  1, { 6392.0f,   952.3f,   9.423f,  4910.0f,    9.19f,    7000.0f,      515.9f, 256300.0f}},
    {"sm90_cluster2x2_128x128x64",       Operands::k16Bits, loaded_together({Family::kCooperative, 128, 128, 64, 2, 16}, 2, 2),  1,  1, { 6501.0f,   640.2f,   4.786f,  5903.0f,   4.605f,    2337.0f,      160.5f, 137400.0f}},
    {"sm90_cluster2x1_swapped_256x128x64", Operands::k16Bits, loaded_together({Family::kSwapAb,    256, 128, 64, 2, 16}, 2, 1),  1,  1, { 6070.0f,  2036.0f,   9.524f,  4910.0f,   9.289f,    7000.0f,      515.9f,  65820.0f}},
    {"sm90_cluster2x2_128x160x64",       Operands::k16Bits, loaded_together({Family::kCooperative, 128, 160, 64, 2, 16}, 2, 2),  1,  1, { 6576.0f,   696.2f,   5.976f,  4770.0f,   5.839f,    3094.0f,      443.3f,  66260.0f}},
    {"sm90_cluster4x2_64x64x64",         Operands::k16Bits, loaded_together({Family::kCooperative,  64,  64, 64, 1, 16}, 4, 2),  1,  1, { 6243.0f,   213.0f,   2.214f,  5889.0f,   2.224f,    1542.0f,      155.2f, 174300.0f}},
    {"sm90_cluster2x4_64x128x64",        Operands::k16Bits, loaded_together({Family::kCooperative,  64, 128, 64, 1, 16}, 2, 4),  1,  1, { 6279.0f,   468.2f,   2.685f,  5563.0f,   2.681f,    2367.0f,      173.9f,  58920.0f}},
    {"sm90_cluster4x2_128x64x64",        Operands::k16Bits, loaded_together({Family::kCooperative, 128,  64, 64, 2, 16}, 4, 2),  1,  1, { 6206.0f,   487.4f,   2.685f,  5563.0f,   2.681f,    2367.0f,      173.9f,  57810.0f}},
    {"sm90_cluster2x1_128x192x64",       Operands::k16Bits, loaded_together({Family::kCooperative, 128, 192, 64, 2, 16}, 2, 1),  1,  1, { 6379.0f,  1092.0f,   7.136f,  4954.0f,   6.937f,    5928.0f,      295.7f,  80370.0f}},
    {"sm90_cluster4x2_64x96x64",         Operands::k16Bits, loaded_together({Family::kCooperative,  64,  96, 64, 1, 16}, 4, 2),  1,  1, { 6284.0f,   228.1f,   2.255f,  5668.0f,   2.821f,    2004.0f,      168.4f,  93950.0f}},
    {"sm90_cluster1x4_128x128x64",       Operands::k16Bits, loaded_together({Family::kCooperative, 128, 128, 64, 2, 16}, 1, 4),  1,  1, { 6173.0f,   659.8f,     4.8f,  5903.0f,   4.619f,    2337.0f,      160.5f,  82050.0f}},
    {"sm90_split2_64x64x128",            Operands::k16Bits, {Family::kClusterSplitK,  64,  64, 128,  1, 16},  2,  1, { 8509.0f,   272.5f,   1.158f,  4040.0f,   1.275f,  0.003296f, 17260000.0f,  45290.0f}},
    {"sm90_split4_64x64x128",            Operands::k16Bits, {Family::kClusterSplitK,  64,  64, 128,  1, 16},  4,  1, { 7167.0f,   566.7f,  0.6176f,  3807.0f,  0.6437f,  0.005698f, 12300000.0f,  42590.0f}},
    {"sm90_split8_64x64x128",            Operands::k16Bits, {Family::kClusterSplitK,  64,  64, 128,  1, 16},  8,  1, { 7125.0f,   687.9f,  0.2879f,  3279.0f,  0.3549f,  0.009848f,  8767000.0f,  43560.0f}},
    {"sm90_split2_128x128x64",           Operands::k16Bits, {Family::kClusterSplitK, 128, 128,  64,  2, 16},  2,  1, { 9398.0f,  3237.0f,   2.523f,  4134.0f,   2.607f,  0.006684f, 33680000.0f,  69380.0f}},
    {"sm90_split4_128x128x64",           Operands::k16Bits, {Family::kClusterSplitK, 128, 128,  64,  2, 16},  4,  1, { 8684.0f,  1475.0f,   1.236f,  3839.0f,   1.323f,   0.01155f, 24000000.0f,  53050.0f}},
    {"sm90_split8_128x128x64",           Operands::k16Bits, {Family::kClusterSplitK, 128, 128,  64,  2, 16},  8,  1, { 8636.0f,  1309.0f,  0.8015f,  3707.0f,  0.7861f,   0.01997f, 17110000.0f,  41160.0f}},
    {"sm90_few_rows_8x64x128",           Operands::k16Bits, {Family::kSwapAbSplitK,    8,  64, 128,  1,  5},  1,  2, { 6003.0f,   15.79f,   1.411f,  5987.0f,   1.457f,     24.45f,      102.5f,  55260.0f}},
    {"sm90_few_rows_64x64x128",          Operands::k16Bits, {Family::kSwapAbSplitK,   64,  64, 128,  1,  3},  1,  2, { 7690.0f,   360.9f,   2.426f, 12820.0f,   2.346f,     437.4f,      45.66f,  43240.0f}},
    {"sm90_few_rows_8x128x64",           Operands::k16Bits, {Family::kSwapAbSplitK,    8, 128,  64,  2,  5},  1,  2, { 6120.0f,   104.2f,   2.569f,  5882.0f,   2.516f,     259.2f,      116.6f,  58280.0f}},
    {"sm90_few_rows_16x128x64",          Operands::k16Bits, {Family::kSwapAbSplitK,   16, 128,  64,  2,  5},  1,  2, { 6356.0f,   201.5f,   2.617f,  5845.0f,   2.677f,     204.0f,      118.4f,  53960.0f}},
    {"sm90_few_rows_32x128x64",          Operands::k16Bits, {Family::kSwapAbSplitK,   32, 128,  64,  2,  5},  1,  2, { 6737.0f,   375.9f,   2.682f,  5819.0f,   2.612f,     305.0f,      119.9f,  51180.0f}},
    {"sm90_few_rows_split2_8x64x128",    Operands::k16Bits, {Family::kSwapAbSplitK,    8,  64, 128,  1,  5},  2,  2, { 6906.0f,   12.22f,  0.8612f,  5220.0f,  0.9137f,   0.04786f,      123.2f,  55760.0f}},
    {"sm90_few_rows_split4_8x64x128",    Operands::k16Bits, {Family::kSwapAbSplitK,    8,  64, 128,  1,  5},  4,  2, { 6822.0f,   9.737f,  0.4365f,  5444.0f,  0.4855f, 0.00008421f,      113.1f,  53930.0f}},
    {"sm90_few_rows_split4_16x64x128",   Operands::k16Bits, {Family::kSwapAbSplitK,   16,  64, 128,  1,  5},  4,  2, { 6793.0f,   54.09f,  0.5221f,  6178.0f,  0.5227f, 0.0001161f,      87.39f,  55610.0f}},
    {"sm90_few_rows_split4_32x64x128",   Operands::k16Bits, {Family::kSwapAbSplitK,   32,  64, 128,  1,  4},  4,  2, { 6920.0f,   174.8f,  0.6167f,  6448.0f,  0.6467f, 0.0002688f,      82.14f,  44720.0f}},
    {"sm90_few_rows_split4_64x64x128",   Operands::k16Bits, {Family::kSwapAbSplitK,   64,  64, 128,  1,  3},  4,  2, { 7603.0f,   172.1f,  0.7726f,  8452.0f,  0.7707f,  0.001276f,       57.2f,  43190.0f}},
};
// clang-format on
constexpr int kDenseConfigCount = sizeof(kDenseConfigs) / sizeof(kDenseConfigs[0]);

// fp8. Dense configs in everything but the operands: pairs of fp8 take an element's place, so that a stage has twice
// the k in the same bytes and the same time. per_k and the fast configs' costs were set after squares of 1536 to 8192
// on an H200, and no script fits them; memory_bytes of those are the dense configs' of the same tiles at that time. The
// other numbers of promoted configs are from 261 random products, which every config multiplied, on an H100.
// clang-format off
constexpr KernelConfig kFp8Configs[] = {
    // name                                 operands                family         tile m, n, k   consumers, stages, takes registers, element bytes  splits, ctas_per_sm   start, per_tile, per_k, memory_bytes
    {"sm90_fp8_192x128x128",                  Operands::kFp8Promoted, {Family::kCooperative, 192, 128, 128, 3, 16, false, 1}, 1, 1, 4245.1f,  2505.1f,     4.5f,  1968.5f},
    {"sm90_fp8_128x192x128",                  Operands::kFp8Promoted, {Family::kCooperative, 128, 192, 128, 2, 16, true,  1}, 1, 1, 4348.1f,  2358.9f,    4.55f,  2056.8f},
    {"sm90_fp8_128x176x128",                  Operands::kFp8Promoted, {Family::kCooperative, 128, 176, 128, 2, 16, true,  1}, 1, 1, 4018.2f,  2652.1f,   4.165f,  1765.8f},
    {"sm90_fp8_128x160x128",                  Operands::kFp8Promoted, {Family::kCooperative, 128, 160, 128, 2, 16, true,  1}, 1, 1, 4263.2f,  2378.6f,   3.825f,  1639.4f},
    {"sm90_fp8_128x128x128",                  Operands::kFp8Promoted, {Family::kCooperative, 128, 128, 128, 2, 16, false, 1}, 1, 1, 4320.4f,  2092.9f,    3.15f,  1629.8f},
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
constexpr KernelConfig like_fp8(const char* name, const char* fp8_name, const CostNumbers& cost) {
  return {name, Operands::kE5M2, kFp8Configs[config_named(kFp8Configs, fp8_name)].tile, 1, 1, cost};
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
  const int many = operands == Operands::kWeightCodes ? 240 : operands == Operands::kMxfp8Weight ? 128 : 208;
  tile.takes_registers = tile_m >= many;
  tile.code_bits = operands == Operands::kFp4Weight ? 4 : 8;
  return {name, operands, tile, 1, 1, cost, -1, measured};
}

// Block-scaled products. int8's numbers were set after products on an H200, like those of kFp8Configs: no script fits
// them. Those of e4m3 with float32 scales, and of decoded weights, were fitted to 41 and to some 110 products of
// m from 16 to 8192 on an H200; those of weights in blocks to the 36 of weight_blocks.csv.xz, with whole tiles,
// per_tile at most 3000. What preparing takes is not in them, for it is the same for every config.
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
    decoded_weight("sm90_weight_blocks_256x128x64", Operands::kWeightBlocks, 256, 64, {5843.1f, 3000.0f, 12.535f, 1812.9f}),
    decoded_weight("sm90_weight_blocks_224x128x64", Operands::kWeightBlocks, 224, 64, {6217.0f, 2999.9f, 12.396f, 1812.9f}),
    decoded_weight("sm90_weight_blocks_192x128x64", Operands::kWeightBlocks, 192, 64, {5424.6f, 3000.0f, 11.232f, 1812.9f}),
    decoded_weight("sm90_weight_blocks_160x128x64", Operands::kWeightBlocks, 160, 64, {5785.4f, 2999.9f, 10.598f, 1812.9f}),
    decoded_weight("sm90_weight_blocks_128x128x128", Operands::kWeightBlocks, 128, 128, {5714.1f, 2797.0f, 9.695f, 1812.9f}),
    decoded_weight("sm90_weight_blocks_96x128x128", Operands::kWeightBlocks, 96, 128, {5949.9f, 2373.5f, 8.899f, 1812.9f}),
    decoded_weight("sm90_weight_blocks_64x128x128", Operands::kWeightBlocks, 64, 128, {6735.2f, 1830.4f, 8.043f, 1812.9f}),
};
// clang-format on
constexpr int kBlockScaledConfigCount = sizeof(kBlockScaledConfigs) / sizeof(kBlockScaledConfigs[0]);

}  // namespace tileon::sm90
