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
    {"sm90_gemm_128x256x64",             Operands::k16Bits, {Family::kCooperative,   128, 256,  64,  2, 16},  1,  1, { 6060.0f,   885.0f,   9.226f,  5673.0f,   9.011f,   27340.0f,      363.8f, 507200.0f}},
    {"sm90_gemm_128x240x64",             Operands::k16Bits, {Family::kCooperative,   128, 240,  64,  2, 16},  1,  1, { 5915.0f,   949.5f,   8.617f,  5257.0f,   7.994f,   16850.0f,      536.6f, 150100.0f}},
    {"sm90_gemm_128x224x64",             Operands::k16Bits, {Family::kCooperative,   128, 224,  64,  2, 16},  1,  1, { 5928.0f,   941.5f,   8.046f,  5272.0f,   7.547f,    5353.0f,      461.4f, 139500.0f}},
    {"sm90_gemm_128x208x64",             Operands::k16Bits, {Family::kCooperative,   128, 208,  64,  2, 16},  1,  1, { 5911.0f,   901.1f,   7.475f,  5221.0f,   7.212f,    4810.0f,      432.5f, 167500.0f}},
    {"sm90_gemm_128x176x64",             Operands::k16Bits, {Family::kCooperative,   128, 176,  64,  2, 16},  1,  1, { 5935.0f,   696.6f,   6.325f,  5332.0f,   5.981f,    3613.0f,      416.6f,  92490.0f}},
    {"sm90_gemm_128x160x64",             Operands::k16Bits, {Family::kCooperative,   128, 160,  64,  2, 16},  1,  1, { 5843.0f,   673.2f,   5.758f,  5536.0f,   5.659f,    3108.0f,      294.9f,  88500.0f}},
    {"sm90_gemm_128x144x64",             Operands::k16Bits, {Family::kCooperative,   128, 144,  64,  2, 16},  1,  1, { 5860.0f,   591.2f,   5.144f,  5639.0f,   5.365f,    3390.0f,      244.0f,  74400.0f}},
    {"sm90_gemm_128x128x64",             Operands::k16Bits, {Family::kCooperative,   128, 128,  64,  2, 16},  1,  1, { 5773.0f,   482.3f,   4.671f,  7272.0f,   4.545f,    2410.0f,      133.2f,  60330.0f}},
    {"sm90_gemm_128x104x64",             Operands::k16Bits, {Family::kCooperative,   128, 104,  64,  2, 16},  1,  1, { 5705.0f,   569.3f,    3.98f,  5586.0f,   3.824f,    2389.0f,      234.0f,  57990.0f}},
    {"sm90_gemm_128x96x64",              Operands::k16Bits, {Family::kCooperative,   128,  96,  64,  2, 16},  1,  1, { 5609.0f,   417.1f,   3.709f,  5644.0f,   3.899f,    2017.0f,      272.1f,  60910.0f}},
    {"sm90_gemm_64x176x64",              Operands::k16Bits, {Family::kCooperative,    64, 176,  64,  1, 16},  1,  1, { 5609.0f,   493.5f,    3.34f,  5623.0f,   3.658f,    3797.0f,      227.8f,  59290.0f}},
    {"sm90_gemm_64x128x128",             Operands::k16Bits, {Family::kCooperative,    64, 128, 128,  1, 16},  1,  1, { 5821.0f,   383.6f,   2.671f,  6187.0f,   2.561f,    2334.0f,      170.4f,  64180.0f}},
    {"sm90_gemm_64x104x128",             Operands::k16Bits, {Family::kCooperative,    64, 104, 128,  1, 16},  1,  1, { 5651.0f,   298.7f,   2.551f,  6119.0f,   2.672f,    2493.0f,      148.8f,  57050.0f}},
    {"sm90_gemm_64x96x128",              Operands::k16Bits, {Family::kCooperative,    64,  96, 128,  1, 16},  1,  1, { 5626.0f,   222.1f,   2.167f,  6056.0f,   2.652f,    1958.0f,      175.3f,  52650.0f}},
    {"sm90_gemm_64x64x128",              Operands::k16Bits, {Family::kCooperative,    64,  64, 128,  1, 16},  1,  1, { 5365.0f,   216.3f,   1.828f,  6746.0f,   1.796f,    1476.0f,      137.1f,  58620.0f}},
    {"sm90_gemm_64x32x128",              Operands::k16Bits, {Family::kCooperative,    64,  32, 128,  1, 16},  1,  1, { 5445.0f,   46.01f,   1.278f,  5251.0f,   1.706f,    1005.0f,      303.4f,  46660.0f}},
    {"sm90_pingpong_128x128x64",         Operands::k16Bits, {Family::kPingpong,      128, 128,  64,  2, 16},  1,  1, { 6070.0f,   223.6f,   4.686f,  5644.0f,   4.594f,   15270.0f,      258.1f,  73820.0f}},
    {"sm90_pingpong_128x160x64",         Operands::k16Bits, {Family::kPingpong,      128, 160,  64,  2, 16, true},  1,  1, { 6234.0f,   355.6f,   5.602f,  5610.0f,   5.675f,    5372.0f,      249.4f,  85600.0f}},
    {"sm90_pingpong_128x176x64",         Operands::k16Bits, {Family::kPingpong,      128, 176,  64,  2, 16, true},  1,  1, { 6292.0f,   408.4f,   6.113f,  5571.0f,    5.99f,    6098.0f,      282.1f,  88990.0f}},
    {"sm90_pingpong_128x192x64",         Operands::k16Bits, {Family::kPingpong,      128, 192,  64,  2, 16, true},  1,  1, { 6302.0f,   462.4f,   6.894f,  6296.0f,   6.683f,    5994.0f,      171.0f, 206200.0f}},
    {"sm90_swapped_208x128x64",          Operands::k16Bits, {Family::kSwapAb,        208, 128,  64,  2, 16},  1,  1, { 6141.0f,  1167.0f,   7.439f,  5168.0f,   7.462f,    5009.0f,      784.8f, 100800.0f}},
    {"sm90_swapped_176x128x64",          Operands::k16Bits, {Family::kSwapAb,        176, 128,  64,  2, 16},  1,  1, { 6129.0f,   922.1f,    6.21f,  5325.0f,   6.554f,    3142.0f,      485.3f, 123900.0f}},
    {"sm90_swapped_160x128x64",          Operands::k16Bits, {Family::kSwapAb,        160, 128,  64,  2, 16},  1,  1, { 6075.0f,   815.8f,   5.739f,  5249.0f,   6.044f,    2833.0f,      511.1f,  80270.0f}},
    {"sm90_swapped_144x128x64",          Operands::k16Bits, {Family::kSwapAb,        144, 128,  64,  2, 16},  1,  1, { 5987.0f,   793.7f,   5.162f,  5539.0f,   5.577f,    3095.0f,      265.9f,  81260.0f}},
    {"sm90_swapped_104x128x64",          Operands::k16Bits, {Family::kSwapAb,        104, 128,  64,  2, 16},  1,  1, { 5921.0f,   538.8f,   3.804f,  5674.0f,   3.833f,    1861.0f,      215.0f,  57910.0f}},
    {"sm90_swapped_96x128x64",           Operands::k16Bits, {Family::kSwapAb,         96, 128,  64,  2, 16},  1,  1, { 5919.0f,   483.4f,   3.506f,  5600.0f,   3.639f,    1640.0f,      262.7f,  55530.0f}},
    {"sm90_swapped_96x64x128",           Operands::k16Bits, {Family::kSwapAb,         96,  64, 128,  1, 16},  1,  1, { 5721.0f,   307.7f,   2.157f,  6001.0f,   2.576f,    1841.0f,      156.1f,  57590.0f}},
    {"sm90_cluster2x1_128x256x64",       Operands::k16Bits, loaded_together({Family::kCooperative, 128, 256, 64, 2, 16}, 2, 1),  1,  1, { 6511.0f,   885.0f,   9.226f,  5673.0f,   9.011f,   27340.0f,      363.8f, 222900.0f}},
    {"sm90_cluster2x2_128x128x64",       Operands::k16Bits, loaded_together({Family::kCooperative, 128, 128, 64, 2, 16}, 2, 2),  1,  1, { 6467.0f,   482.3f,   4.671f,  7272.0f,   4.545f,    2410.0f,      133.2f, 119900.0f}},
    {"sm90_cluster2x1_swapped_256x128x64", Operands::k16Bits, loaded_together({Family::kSwapAb,    256, 128, 64, 2, 16}, 2, 1),  1,  1, { 6060.0f,  2003.0f,   9.344f,  5673.0f,   9.127f,   27340.0f,      363.8f,  74680.0f}},
    {"sm90_cluster2x2_128x160x64",       Operands::k16Bits, loaded_together({Family::kCooperative, 128, 160, 64, 2, 16}, 2, 2),  1,  1, { 6550.0f,   686.8f,   5.875f,  5536.0f,   5.773f,    3108.0f,      294.9f,  68170.0f}},
    {"sm90_cluster4x2_64x64x64",         Operands::k16Bits, loaded_together({Family::kCooperative,  64,  64, 64, 1, 16}, 4, 2),  1,  1, { 6393.0f,   216.3f,   2.013f,  6746.0f,   1.977f,    1476.0f,      137.1f,  55660.0f}},
    {"sm90_cluster2x4_64x128x64",        Operands::k16Bits, loaded_together({Family::kCooperative,  64, 128, 64, 1, 16}, 2, 4),  1,  1, { 6233.0f,   383.6f,   2.671f,  6187.0f,   2.561f,    2334.0f,      170.4f,  87210.0f}},
    {"sm90_cluster4x2_128x64x64",        Operands::k16Bits, loaded_together({Family::kCooperative, 128,  64, 64, 2, 16}, 4, 2),  1,  1, { 6348.0f,   383.6f,   2.671f,  6187.0f,   2.561f,    2334.0f,      170.4f, 104000.0f}},
    {"sm90_cluster2x1_128x192x64",       Operands::k16Bits, loaded_together({Family::kCooperative, 128, 192, 64, 2, 16}, 2, 1),  1,  1, { 6466.0f,   904.6f,   7.053f,  6296.0f,   6.837f,    5994.0f,      171.0f,  76730.0f}},
    {"sm90_cluster4x2_64x96x64",         Operands::k16Bits, loaded_together({Family::kCooperative,  64,  96, 64, 1, 16}, 4, 2),  1,  1, { 6431.0f,   222.1f,   2.167f,  6056.0f,   2.652f,    1958.0f,      175.3f,  57770.0f}},
    {"sm90_cluster1x4_128x128x64",       Operands::k16Bits, loaded_together({Family::kCooperative, 128, 128, 64, 2, 16}, 1, 4),  1,  1, { 6437.0f,   482.3f,   4.671f,  7272.0f,   4.545f,    2410.0f,      133.2f,  33370.0f}},
    {"sm90_split2_64x64x128",            Operands::k16Bits, {Family::kClusterSplitK,  64,  64, 128,  1, 16},  2,  1, { 8274.0f,   387.1f,   1.141f,  4380.0f,   1.212f,  0.003385f, 21030000.0f,  44660.0f}},
    {"sm90_split4_64x64x128",            Operands::k16Bits, {Family::kClusterSplitK,  64,  64, 128,  1, 16},  4,  1, { 7212.0f,   527.1f,  0.5889f,  4079.0f,  0.6142f,  0.005559f, 15240000.0f,  40710.0f}},
    {"sm90_split8_64x64x128",            Operands::k16Bits, {Family::kClusterSplitK,  64,  64, 128,  1, 16},  8,  1, { 6775.0f,   840.9f,  0.3203f,  3606.0f,  0.3699f,  0.009127f, 11040000.0f,  38420.0f}},
    {"sm90_split2_128x128x64",           Operands::k16Bits, {Family::kClusterSplitK, 128, 128,  64,  2, 16},  2,  1, { 9397.0f,  3191.0f,   2.484f,  4470.0f,   2.505f,  0.007002f, 28430000.0f,  74620.0f}},
    {"sm90_split4_128x128x64",           Operands::k16Bits, {Family::kClusterSplitK, 128, 128,  64,  2, 16},  4,  1, { 8340.0f,  1794.0f,   1.239f,  4251.0f,    1.27f,    0.0115f, 20600000.0f,  59110.0f}},
    {"sm90_split8_128x128x64",           Operands::k16Bits, {Family::kClusterSplitK, 128, 128,  64,  2, 16},  8,  1, { 8609.0f,  1361.0f,  0.7686f,  3970.0f,  0.7418f,   0.01888f, 14930000.0f,  42350.0f}},
    {"sm90_few_rows_8x64x128",           Operands::k16Bits, {Family::kSwapAbSplitK,    8,  64, 128,  1,  5},  1,  2, { 6041.0f,   21.73f,   1.335f,  6342.0f,   1.393f,     30.19f,      107.1f,  52700.0f}},
    {"sm90_few_rows_64x64x128",          Operands::k16Bits, {Family::kSwapAbSplitK,   64,  64, 128,  1,  3},  1,  2, { 7715.0f,   357.4f,    2.29f, 12560.0f,   2.196f,     436.8f,      49.37f,  42380.0f}},
    {"sm90_few_rows_8x128x64",           Operands::k16Bits, {Family::kSwapAbSplitK,    8, 128,  64,  2,  5},  1,  2, { 6124.0f,   114.8f,   2.461f,  6281.0f,   2.417f,     282.0f,      124.4f,  58640.0f}},
    {"sm90_few_rows_16x128x64",          Operands::k16Bits, {Family::kSwapAbSplitK,   16, 128,  64,  2,  5},  1,  2, { 6363.0f,   213.7f,   2.484f,  6367.0f,   2.526f,     194.6f,      118.3f,  54070.0f}},
    {"sm90_few_rows_32x128x64",          Operands::k16Bits, {Family::kSwapAbSplitK,   32, 128,  64,  2,  5},  1,  2, { 6730.0f,   375.0f,   2.543f,  6290.0f,   2.482f,     306.9f,      120.1f,  50830.0f}},
    {"sm90_few_rows_split2_8x64x128",    Operands::k16Bits, {Family::kSwapAbSplitK,    8,  64, 128,  1,  5},  2,  2, { 6932.0f,    18.3f,  0.8215f,  5556.0f,  0.8797f,   0.05434f,      127.2f,  55860.0f}},
    {"sm90_few_rows_split4_8x64x128",    Operands::k16Bits, {Family::kSwapAbSplitK,    8,  64, 128,  1,  5},  4,  2, { 6653.0f,   30.66f,  0.4658f,  5909.0f,  0.4963f, 0.00009124f,      115.9f,  52190.0f}},
    {"sm90_few_rows_split4_16x64x128",   Operands::k16Bits, {Family::kSwapAbSplitK,   16,  64, 128,  1,  5},  4,  2, { 6716.0f,   85.17f,  0.4669f,  6194.0f,  0.5389f, 0.0001216f,      101.9f,  50010.0f}},
    {"sm90_few_rows_split4_32x64x128",   Operands::k16Bits, {Family::kSwapAbSplitK,   32,  64, 128,  1,  4},  4,  2, { 6984.0f,   146.5f,  0.5848f,  6684.0f,  0.6169f, 0.0002635f,      89.75f,  43970.0f}},
    {"sm90_few_rows_split4_64x64x128",   Operands::k16Bits, {Family::kSwapAbSplitK,   64,  64, 128,  1,  3},  4,  2, { 7639.0f,   139.7f,  0.7079f,  8958.0f,  0.7137f,  0.001121f,      59.64f,  40780.0f}},
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
