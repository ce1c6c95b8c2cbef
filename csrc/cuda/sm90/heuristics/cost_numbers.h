// The numbers of the Hopper choice's cost model, of an H200, in nanoseconds and in bytes a nanosecond: cost.h says
// what each means. Written by benchmarks/fit_hopper.py from benchmarks/results/h200/sweep*.csv; a config's line may
// be written by hand too, with the numbers of a similar config.
#pragma once

#include <array>
#include <string_view>

#include "cuda/sm90/heuristics/cost.h"

namespace tileon::sm90 {

constexpr GpuNumbers kGpuNumbers = {
    .full_gpu_ns = 982.4f,
    .not_hidden = 0.5884f,
    .uneven_waves = 0.2955f,
    .l2_bytes = 31530.0f,
    .short_k = 1.548f,
    .odd_columns = 0.2049f,
    .out_sectors = 0.9182f,
    .sm_straddling_k = 0.915f,
    .sm_straddling_mn = 0.0005411f,
    .sm_straddling_tile = 1.379f,
    .sm_sectors_k = 0.6178f,
    .sm_sectors_mn = 1.291f,
    .l2_straddling_k = 0.0001791f,
    .l2_straddling_mn = 0.4631f,
    .l2_sectors_k = 1.623f,
    .l2_sectors_mn = 1.226f,
    .hot_line_ns = 0.02646f,
};

struct NamedNumbers {
  const char* name;
  ConfigNumbers numbers;
};

// One for each row of kRows, in its order.
// clang-format off
constexpr NamedNumbers kConfigNumbers[] = {
    // name                              start, per_tile, per_k, per_k_mn, unaligned_tile, memory_bytes, memory_bytes_a_cta, l2_bytes_a_tile
    {"sm90_gemm_128x256x64",             { 6095.0f,   910.0f,   7.577f,   5.933f,  3605.0f,  5214.0f,  8470.0f,   871.0f}},
    {"sm90_gemm_128x240x64",             { 5938.0f,   927.1f,   6.821f,   5.634f,  3614.0f,  5137.0f,  6844.0f,   770.1f}},
    {"sm90_gemm_128x224x64",             { 6001.0f,   765.4f,   6.063f,   5.871f,  3914.0f,  6260.0f,  3176.0f,   941.1f}},
    {"sm90_gemm_128x208x64",             { 5961.0f,   738.6f,   5.586f,   5.618f,  3906.0f,  6002.0f,  2147.0f,   909.0f}},
    {"sm90_gemm_128x176x64",             { 5985.0f,   617.6f,   4.605f,   4.622f,  3190.0f,  6501.0f,  1597.0f,   665.1f}},
    {"sm90_gemm_128x160x64",             { 5979.0f,   529.9f,    4.16f,    4.24f,  2507.0f,  6689.0f,   620.4f,   671.5f}},
    {"sm90_gemm_128x144x64",             { 5862.0f,   585.2f,    3.68f,    4.03f,  2866.0f,  6495.0f,   548.4f,   603.4f}},
    {"sm90_gemm_128x128x64",             { 6018.0f,   270.3f,   3.028f,   3.036f,  1772.0f,  7839.0f,   295.8f,   527.8f}},
    {"sm90_gemm_128x104x64",             { 5705.0f,   601.7f,   2.531f,   2.958f,  2116.0f,  6478.0f,   363.4f,   485.7f}},
    {"sm90_gemm_128x96x64",              { 5769.0f,   364.3f,   2.205f,   2.432f,  1536.0f,  7204.0f,   265.3f,   445.9f}},
    {"sm90_gemm_64x176x64",              { 5772.0f,   442.9f,   1.954f,     2.5f,  3461.0f,  6520.0f,   300.3f,   441.8f}},
    {"sm90_gemm_64x128x128",             { 5831.0f,   356.8f,   1.464f,   1.435f,  2147.0f,  6865.0f,   227.9f,   431.4f}},
    {"sm90_gemm_64x104x128",             { 5751.0f,   301.6f,   1.459f,   1.962f,  2267.0f,  6281.0f,   225.1f,   426.4f}},
    {"sm90_gemm_64x96x128",              { 5753.0f,   311.8f,   1.108f,   1.614f,  1764.0f,  6642.0f,   238.0f,   418.3f}},
    {"sm90_gemm_64x64x128",              { 5491.0f,   219.5f,  0.9148f,  0.8348f,  1297.0f,  6953.0f,   218.8f,   397.6f}},
    {"sm90_gemm_64x32x128",              { 5565.0f,   184.6f,  0.6659f,   1.112f,   780.4f,  7235.0f,   212.3f,   400.6f}},
    {"sm90_pingpong_128x128x64",         { 6125.0f,   296.5f,   3.016f,    2.67f,  4864.0f,  6924.0f,   297.3f,   463.7f}},
    {"sm90_pingpong_128x160x64",         { 6233.0f,   412.1f,   3.791f,   4.054f,  4941.0f,  6861.0f,   315.7f,   586.3f}},
    {"sm90_pingpong_128x176x64",         { 6373.0f,   370.7f,   4.213f,   4.513f,  5739.0f,  6573.0f,   457.7f,   610.7f}},
    {"sm90_pingpong_128x192x64",         { 6455.0f,   299.9f,   5.331f,   4.893f,  5175.0f,  7500.0f,   345.3f,  1138.0f}},
    {"sm90_swapped_208x128x64",          { 5684.0f,  1483.0f,    5.21f,   5.612f,  4348.0f,  5392.0f,  6619.0f,   644.3f}},
    {"sm90_swapped_176x128x64",          { 5833.0f,  1191.0f,   4.311f,   4.634f,  2485.0f,  5884.0f,  2943.0f,   621.5f}},
    {"sm90_swapped_160x128x64",          { 5821.0f,  1088.0f,   3.896f,   4.245f,  2275.0f,  5867.0f,  2125.0f,   575.6f}},
    {"sm90_swapped_144x128x64",          { 5812.0f,   967.2f,   3.495f,   4.074f,  2725.0f,  5645.0f,  1949.0f,   583.1f}},
    {"sm90_swapped_104x128x64",          { 6025.0f,   514.9f,   2.269f,   2.796f,  1328.0f,  5743.0f,   611.1f,   431.4f}},
    {"sm90_swapped_96x128x64",           { 5998.0f,   522.8f,   1.982f,   2.272f,  1265.0f,  5912.0f,   544.0f,   426.4f}},
    {"sm90_swapped_96x64x128",           { 5815.0f,   372.1f,    1.15f,   1.613f,  1663.0f,  6392.0f,   239.0f,   416.4f}},
    {"sm90_swapped_104x64x128",          { 5806.0f,   350.8f,   1.558f,   2.054f,  1893.0f,  6180.0f,   237.7f,   420.6f}},
    {"sm90_split2_64x64x128",            { 7963.0f,   742.1f,  0.5738f,  0.6165f,  0.0243f,  4962.0f, 2292000.0f,   290.7f}},
    {"sm90_split4_64x64x128",            { 7054.0f,   815.8f,  0.2345f,  0.2835f,  0.0382f,  4391.0f, 1187000.0f,   258.0f}},
    {"sm90_split8_64x64x128",            { 6695.0f,  1002.0f, 0.08377f,  0.1335f,    0.06f,  3618.0f, 616100.0f,   204.5f}},
    {"sm90_split2_128x128x64",           { 6984.0f,  4082.0f,   1.702f,    1.73f, 0.04644f,  5394.0f, 7740000.0f,   422.7f}},
    {"sm90_split4_128x128x64",           { 6003.0f,  3589.0f,  0.7136f,  0.7234f, 0.07292f,  4820.0f, 4016000.0f,   341.1f}},
    {"sm90_split8_128x128x64",           { 5328.0f,  4239.0f,  0.4778f,  0.4723f,  0.1146f,  5111.0f, 2083000.0f,   269.5f}},
    {"sm90_few_rows_8x64x128",           { 6183.0f,   133.4f,  0.8164f,  0.8667f,   5.297f,  7711.0f,   123.0f,   364.5f}},
    {"sm90_few_rows_16x64x128",          { 6489.0f,   184.2f,  0.9117f,  0.8741f,   20.92f,  7082.0f,   146.9f,   408.4f}},
    {"sm90_few_rows_32x64x128",          { 6947.0f,   268.6f,   1.101f,    1.12f,   104.7f,  8760.0f,   96.68f,   410.8f}},
    {"sm90_few_rows_64x64x128",          { 7655.0f,   452.6f,   1.357f,   1.357f,   332.8f, 14180.0f,   60.72f,   327.5f}},
    {"sm90_few_rows_8x128x64",           { 6179.0f,   229.4f,   1.685f,   1.757f,   20.34f,  7957.0f,   132.2f,   420.9f}},
    {"sm90_few_rows_16x128x64",          { 6410.0f,   294.5f,   1.781f,   1.878f,   48.48f,  7567.0f,   143.7f,   476.6f}},
    {"sm90_few_rows_32x128x64",          { 6792.0f,   364.3f,   1.633f,   2.094f,   124.5f,  8789.0f,   111.2f,   528.6f}},
    {"sm90_few_rows_64x128x64",          { 7606.0f,   867.7f,   1.948f,    1.99f,   476.8f, 10350.0f,   85.42f,   395.3f}},
    {"sm90_few_rows_split2_8x64x128",    { 6965.0f,   185.0f,  0.4394f,  0.4279f,   0.231f,  6288.0f,   163.0f,   284.0f}},
    {"sm90_few_rows_split2_16x64x128",   { 6892.0f,   304.9f,  0.4617f,   0.439f,  0.6911f,  6266.0f,   168.3f,   299.9f}},
    {"sm90_few_rows_split2_32x64x128",   { 7346.0f,   414.8f,  0.6236f,  0.5941f,   2.532f,  7673.0f,   113.9f,   300.8f}},
    {"sm90_few_rows_split2_64x64x128",   { 8194.0f,   462.8f,  0.9256f,  0.9109f,   12.46f, 12390.0f,   70.81f,   312.5f}},
    {"sm90_few_rows_split4_8x64x128",    { 6711.0f,   235.5f,  0.2069f,  0.2069f, 0.008136f,  6423.0f,   149.8f,   236.4f}},
    {"sm90_few_rows_split4_16x64x128",   { 6684.0f,   385.3f,  0.2158f,  0.2251f, 0.02429f,  6692.0f,   134.0f,   250.5f}},
    {"sm90_few_rows_split4_32x64x128",   { 6766.0f,   518.2f,  0.3012f,  0.2999f, 0.08868f,  7971.0f,   101.7f,   245.9f}},
    {"sm90_few_rows_split4_64x64x128",   { 7287.0f,   618.2f,  0.4413f,  0.4523f,  0.4265f, 11490.0f,   73.01f,   264.3f}},
};
// clang-format on

constexpr bool numbers_are_of_the_table() {
  for (int row = 0; row < kDenseConfigCount; ++row)
    if (std::string_view(kConfigNumbers[row].name) != kRows[row].name) return false;
  return true;
}
static_assert(sizeof(kConfigNumbers) / sizeof(kConfigNumbers[0]) == kDenseConfigCount && numbers_are_of_the_table(),
              "each config of kRows has its numbers here, in the same order");

constexpr std::array<CostedConfig, kDenseConfigCount> kCostedConfigs = [] {
  std::array<CostedConfig, kDenseConfigCount> costed{};
  for (int row = 0; row < kDenseConfigCount; ++row) costed[row] = {kRows[row], kConfigNumbers[row].numbers};
  return costed;
}();

}  // namespace tileon::sm90
