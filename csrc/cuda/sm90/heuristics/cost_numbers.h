// The numbers of the Hopper choice's cost model, of an H200, in nanoseconds and in bytes a nanosecond:
// cost.h says what each means. Written by benchmarks/fit/fit_hopper.py from the sweeps of
// benchmarks/results/h200; a config's line may be written by hand too, with the numbers of a similar config.
#pragma once

#include <string_view>

#include "cuda/sm90/heuristics/cost.h"
#include "cuda/sm90/heuristics/tables.h"

namespace tileon::sm90 {

constexpr GpuNumbers kGpuNumbers = {
    .full_gpu_ns = 1199.0f,
    .not_hidden = 0.5066f,
    .uneven_waves = 0.2935f,
    .l2_bytes = 25610.0f,
    .short_k = 1.832f,
    .odd_columns = 0.2389f,
    .out_sectors = 0.7945f,
    .sm_straddling_k = 159.2f,
    .sm_straddling_mn = 184.3f,
    .sm_straddling_tile = 118.6f,
    .sm_sectors_k = 126.0f,
    .sm_sectors_mn = 179.9f,
    .l2_straddling_k = 0.00006742f,
    .l2_straddling_mn = 0.03214f,
    .l2_sectors_k = 1.334f,
    .l2_sectors_mn = 1.239f,
    .hot_line_ns = 0.02502f,
};

// One for each config of kDenseConfigs, in its order.
// clang-format off
constexpr NamedNumbers kConfigNumbers[] = {
    // name                              start, per_tile, per_k, per_k_mn, unaligned_tile, memory_bytes, memory_bytes_a_cta, l2_bytes_a_tile
    {"sm90_gemm_128x256x64",             { 6087.0f,   815.9f,   7.634f,   7.383f,  4597.0f,  6118.0f, 29850.0f, 246000.0f}},
    {"sm90_gemm_128x240x64",             { 5912.0f,   886.7f,   7.183f,   7.053f,  4271.0f,  5806.0f, 23400.0f, 190800.0f}},
    {"sm90_gemm_128x224x64",             { 6059.0f,   738.1f,    6.68f,   6.596f,  3979.0f,  5756.0f, 12940.0f, 229700.0f}},
    {"sm90_gemm_128x208x64",             { 6015.0f,   710.3f,   6.235f,   6.286f,  4196.0f,  5654.0f,  9308.0f, 232600.0f}},
    {"sm90_gemm_128x176x64",             { 6071.0f,   537.9f,   5.262f,   5.312f,  3245.0f,  6038.0f,  4638.0f, 128900.0f}},
    {"sm90_gemm_128x160x64",             { 6021.0f,   485.0f,    4.75f,   4.928f,  2336.0f,  5917.0f,  1364.0f, 131800.0f}},
    {"sm90_gemm_128x144x64",             { 5823.0f,   591.7f,   4.205f,    4.84f,  3005.0f,  6243.0f,   421.7f, 109500.0f}},
    {"sm90_gemm_128x128x64",             { 6141.0f,   215.9f,   3.728f,   3.618f,  1755.0f,  6389.0f,   405.8f, 105600.0f}},
    {"sm90_gemm_128x104x64",             { 5715.0f,   573.4f,   3.078f,   3.808f,  2165.0f,  6155.0f,   323.9f, 85460.0f}},
    {"sm90_gemm_128x96x64",              { 5750.0f,   359.0f,   2.748f,   3.119f,  1600.0f,  6501.0f,   285.9f, 65780.0f}},
    {"sm90_gemm_64x176x64",              { 5768.0f,   392.6f,   2.547f,   3.354f,  3478.0f,  5778.0f,   345.6f, 71460.0f}},
    {"sm90_gemm_64x128x128",             { 5802.0f,   359.2f,   1.906f,   1.937f,  2139.0f,  6645.0f,   197.7f, 59560.0f}},
    {"sm90_gemm_64x104x128",             { 5743.0f,   268.1f,   1.998f,   2.827f,  2288.0f,  6813.0f,   171.8f, 82130.0f}},
    {"sm90_gemm_64x96x128",              { 5734.0f,   274.0f,   1.573f,   2.192f,  1633.0f,  6441.0f,   215.3f, 56180.0f}},
    {"sm90_gemm_64x64x128",              { 5529.0f,   197.2f,   1.253f,   1.227f,  1230.0f,  6902.0f,   190.5f, 46880.0f}},
    {"sm90_gemm_64x32x128",              { 5546.0f,   166.3f,   0.875f,   1.381f,   818.1f,  7383.0f,   156.8f, 44230.0f}},
    {"sm90_pingpong_128x128x64",         { 6263.0f,   140.7f,   3.625f,   3.552f,  5393.0f,  6151.0f,   387.2f, 79170.0f}},
    {"sm90_pingpong_128x160x64",         { 6351.0f,   297.2f,   4.447f,   4.884f,  5256.0f,  6084.0f,   421.3f, 156100.0f}},
    {"sm90_pingpong_128x176x64",         { 6508.0f,   216.9f,   4.993f,   5.379f,  5873.0f,  5842.0f,  1111.0f, 142500.0f}},
    {"sm90_pingpong_128x192x64",         { 6559.0f,   158.8f,   5.726f,   5.489f,  5673.0f,  6339.0f,   416.5f, 320900.0f}},
    {"sm90_swapped_208x128x64",          { 5590.0f,  1646.0f,   6.123f,   6.715f,  4462.0f,  6385.0f, 12190.0f, 156700.0f}},
    {"sm90_swapped_176x128x64",          { 5942.0f,  1097.0f,   5.054f,   5.512f,  2194.0f,  5969.0f,  5419.0f, 119800.0f}},
    {"sm90_swapped_160x128x64",          { 5909.0f,   986.9f,   4.658f,   5.021f,  2176.0f,  5661.0f,  2584.0f, 94890.0f}},
    {"sm90_swapped_144x128x64",          { 5837.0f,   924.4f,   4.141f,   4.845f,  2735.0f,  5307.0f,  1072.0f, 111400.0f}},
    {"sm90_swapped_104x128x64",          { 6015.0f,   510.0f,   2.902f,   3.473f,  1510.0f,  5648.0f,   441.2f, 65950.0f}},
    {"sm90_swapped_96x128x64",           { 6003.0f,   502.5f,   2.552f,   2.887f,  1432.0f,  6107.0f,   372.4f, 59540.0f}},
    {"sm90_swapped_96x64x128",           { 5730.0f,   387.3f,   1.589f,   1.948f,  1687.0f,  6608.0f,   194.4f, 54810.0f}},
    {"sm90_swapped_104x64x128",          { 5743.0f,   339.4f,   2.111f,   2.657f,  1896.0f,  6994.0f,   166.8f, 64490.0f}},
    {"sm90_split2_64x64x128",            { 7441.0f,  1247.0f,  0.8454f,  0.8531f, 0.01002f,  4924.0f, 3331000.0f, 34260.0f}},
    {"sm90_split4_64x64x128",            { 6254.0f,  1364.0f,  0.5237f,  0.5565f, 0.01712f,  5117.0f, 2904000.0f, 35430.0f}},
    {"sm90_split8_64x64x128",            { 6360.0f,  1119.0f,  0.3262f,  0.3456f, 0.02926f,  4912.0f, 2539000.0f, 34970.0f}},
    {"sm90_split2_128x128x64",           { 4661.0f,  6477.0f,   1.989f,   2.042f,  0.0191f,  5108.0f, 19530000.0f, 67430.0f}},
    {"sm90_split4_128x128x64",           { 4821.0f,  4620.0f,  0.9581f,  0.9617f, 0.03265f,  4892.0f, 17050000.0f, 41200.0f}},
    {"sm90_split8_128x128x64",           { 6362.0f,  3495.0f,  0.5892f,  0.6142f, 0.05577f,  5004.0f, 14880000.0f, 77580.0f}},
    {"sm90_few_rows_8x64x128",           { 6156.0f,   128.0f,  0.9278f,  0.9547f,   10.25f,  7450.0f,   102.9f, 40220.0f}},
    {"sm90_few_rows_16x64x128",          { 6522.0f,   123.3f,   1.059f,  0.9715f,   78.89f,  7074.0f,   118.6f, 42890.0f}},
    {"sm90_few_rows_32x64x128",          { 7015.0f,   197.4f,   1.263f,   1.298f,   159.6f,  9652.0f,   77.42f, 45840.0f}},
    {"sm90_few_rows_64x64x128",          { 7750.0f,   369.6f,   1.791f,   1.728f,   394.5f, 32890.0f,   45.15f, 43150.0f}},
    {"sm90_few_rows_8x128x64",           { 6252.0f,   163.5f,   1.797f,   1.597f,   41.51f,  7778.0f,   107.6f, 42840.0f}},
    {"sm90_few_rows_16x128x64",          { 6490.0f,   198.4f,   1.799f,   1.835f,   66.85f,  7413.0f,   115.1f, 47180.0f}},
    {"sm90_few_rows_32x128x64",          { 6863.0f,   298.2f,    1.89f,   1.788f,   196.0f,  7464.0f,   113.9f, 47500.0f}},
    {"sm90_few_rows_64x128x64",          { 7774.0f,   727.3f,   2.678f,   2.491f,   584.0f, 10650.0f,   77.85f, 50970.0f}},
    {"sm90_few_rows_split2_8x64x128",    { 6928.0f,   165.2f,  0.6807f,  0.6812f, 0.04019f,  6498.0f,   135.8f, 36930.0f}},
    {"sm90_few_rows_split2_16x64x128",   { 6905.0f,   265.3f,  0.6823f,  0.6803f,  0.1026f,  6524.0f,   134.7f, 38290.0f}},
    {"sm90_few_rows_split2_32x64x128",   { 7298.0f,   452.8f,   0.878f,  0.8511f,   0.298f,  9352.0f,   84.96f, 36530.0f}},
    {"sm90_few_rows_split2_64x64x128",   { 7877.0f,   839.1f,   1.193f,   1.158f,   1.037f, 40360.0f,    46.3f, 42190.0f}},
    {"sm90_few_rows_split4_8x64x128",    { 6529.0f,   328.2f,  0.3799f,   0.401f, 0.0000945f,  8889.0f,   84.74f, 29780.0f}},
    {"sm90_few_rows_split4_16x64x128",   { 6464.0f,   522.1f,  0.3538f,  0.3662f, 0.000241f,  9350.0f,   77.65f, 30600.0f}},
    {"sm90_few_rows_split4_32x64x128",   { 6412.0f,   750.8f,  0.4856f,  0.5071f, 0.0007004f, 25590.0f,   51.83f, 33400.0f}},
    {"sm90_few_rows_split4_64x64x128",   { 7017.0f,   784.3f,   0.682f,  0.6865f, 0.002447f, 89110.0f,   47.54f, 50680.0f}},
};
// clang-format on

constexpr bool numbers_are_of_the_table() {
  for (int i = 0; i < kDenseConfigCount; ++i)
    if (std::string_view(kConfigNumbers[i].name) != kDenseConfigs[i].name) return false;
  return true;
}
static_assert(sizeof(kConfigNumbers) / sizeof(kConfigNumbers[0]) == kDenseConfigCount && numbers_are_of_the_table(),
              "each config of kDenseConfigs has its numbers here, in the same order");

constexpr CostTable<float, kDenseConfigCount> kCostTable(kDenseConfigs, kConfigNumbers);

}  // namespace tileon::sm90
