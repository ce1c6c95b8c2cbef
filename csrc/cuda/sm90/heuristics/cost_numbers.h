// The numbers of the Hopper choice's cost model, of an H200, in nanoseconds and in bytes a nanosecond:
// cost.h says what each means. Written by benchmarks/fit/fit_hopper.py from the sweeps of
// benchmarks/results/h200; a config's line may be written by hand too, with the numbers of a similar config.
#pragma once

#include <array>
#include <string_view>

#include "cuda/sm90/heuristics/cost.h"

namespace tileon::sm90 {

constexpr GpuNumbers kGpuNumbers = {
    .full_gpu_ns = 993.9f,
    .not_hidden = 0.5836f,
    .uneven_waves = 0.3067f,
    .l2_bytes = 29510.0f,
    .short_k = 1.739f,
    .odd_columns = 0.1906f,
    .out_sectors = 0.8238f,
    .sm_straddling_k = 1.232f,
    .sm_straddling_mn = 0.5915f,
    .sm_straddling_tile = 1.424f,
    .sm_sectors_k = 0.9067f,
    .sm_sectors_mn = 1.489f,
    .l2_straddling_k = 0.0001635f,
    .l2_straddling_mn = 0.1524f,
    .l2_sectors_k = 1.491f,
    .l2_sectors_mn = 1.282f,
    .hot_line_ns = 0.02391f,
};

struct NamedNumbers {
  const char* name;
  ConfigNumbers numbers;
};

// One for each row of kRows, in its order.
// clang-format off
constexpr NamedNumbers kConfigNumbers[] = {
    // name                              start, per_tile, per_k, per_k_mn, unaligned_tile, memory_bytes, memory_bytes_a_cta, l2_bytes_a_tile
    {"sm90_gemm_128x256x64",             { 6093.0f,   936.2f,   7.402f,   6.269f,  3836.0f,  5544.0f,  9235.0f,  1217.0f}},
    {"sm90_gemm_128x240x64",             { 5876.0f,   964.9f,    6.78f,   6.138f,  3892.0f,  5476.0f,  6947.0f,  1038.0f}},
    {"sm90_gemm_128x224x64",             { 6023.0f,   760.5f,   6.235f,   6.161f,  3735.0f,  6338.0f,  3674.0f,  1256.0f}},
    {"sm90_gemm_128x208x64",             { 5991.0f,   737.9f,   5.749f,   5.758f,  4301.0f,  6015.0f,  2636.0f,  1154.0f}},
    {"sm90_gemm_128x176x64",             { 5983.0f,   650.6f,   4.806f,   4.826f,  3182.0f,  6560.0f,  1803.0f,   962.1f}},
    {"sm90_gemm_128x160x64",             { 6036.0f,   499.2f,   4.253f,   4.421f,  2501.0f,  6403.0f,   836.9f,   914.4f}},
    {"sm90_gemm_128x144x64",             { 5907.0f,   558.0f,   3.775f,   4.226f,  2895.0f,  6357.0f,   712.9f,   758.3f}},
    {"sm90_gemm_128x128x64",             { 6033.0f,   273.2f,   3.238f,   3.166f,  1806.0f,  7463.0f,   374.1f,   701.6f}},
    {"sm90_gemm_128x104x64",             { 5747.0f,   581.9f,   2.702f,   3.237f,  2160.0f,  6324.0f,   432.5f,   683.1f}},
    {"sm90_gemm_128x96x64",              { 5801.0f,   361.4f,   2.332f,   2.609f,  1603.0f,  6972.0f,   316.2f,   549.2f}},
    {"sm90_gemm_64x176x64",              { 5839.0f,   410.6f,   1.992f,   2.578f,  3455.0f,  6277.0f,   336.6f,   533.1f}},
    {"sm90_gemm_64x128x128",             { 5877.0f,   344.2f,   1.459f,   1.441f,  2174.0f,  6748.0f,   225.0f,   525.9f}},
    {"sm90_gemm_64x104x128",             { 5812.0f,   275.6f,   1.516f,   2.076f,  2273.0f,  6373.0f,   219.9f,   530.0f}},
    {"sm90_gemm_64x96x128",              { 5779.0f,   300.6f,   1.174f,     1.7f,  1765.0f,  6662.0f,   239.8f,   518.2f}},
    {"sm90_gemm_64x64x128",              { 5523.0f,   207.3f,  0.9683f,  0.9115f,  1330.0f,  7030.0f,   216.4f,   500.5f}},
    {"sm90_gemm_64x32x128",              { 5615.0f,   156.1f,  0.6734f,   1.114f,   822.3f,  7513.0f,   184.5f,   490.1f}},
    {"sm90_pingpong_128x128x64",         { 6200.0f,   256.4f,   3.078f,   2.864f,  4701.0f,  6787.0f,   323.1f,   592.2f}},
    {"sm90_pingpong_128x160x64",         { 6286.0f,   381.8f,   3.965f,   4.287f,  4906.0f,  6498.0f,   436.2f,   806.7f}},
    {"sm90_pingpong_128x176x64",         { 6431.0f,   358.1f,   4.387f,    4.71f,  5894.0f,  6338.0f,   648.2f,   824.2f}},
    {"sm90_pingpong_128x192x64",         { 6504.0f,   284.9f,   5.503f,   5.085f,  5354.0f,  7127.0f,   513.0f,  1605.0f}},
    {"sm90_swapped_208x128x64",          { 5576.0f,  1636.0f,   5.518f,   6.064f,  4450.0f,  6018.0f,  5081.0f,   939.2f}},
    {"sm90_swapped_176x128x64",          { 5731.0f,  1326.0f,   4.554f,   4.843f,  2578.0f,  6268.0f,  2448.0f,   855.0f}},
    {"sm90_swapped_160x128x64",          { 5817.0f,  1122.0f,   4.029f,   4.442f,  2308.0f,  5924.0f,  1803.0f,   741.6f}},
    {"sm90_swapped_144x128x64",          { 5825.0f,   988.6f,   3.601f,   4.232f,  2744.0f,  5803.0f,  1652.0f,   722.3f}},
    {"sm90_swapped_104x128x64",          { 5989.0f,   563.0f,   2.362f,   2.945f,  1429.0f,  5774.0f,   629.7f,   518.9f}},
    {"sm90_swapped_96x128x64",           { 5929.0f,   595.4f,   2.073f,     2.4f,  1367.0f,  5864.0f,   622.7f,   533.5f}},
    {"sm90_swapped_96x64x128",           { 5828.0f,   382.3f,   1.227f,   1.673f,  1693.0f,  6676.0f,   216.7f,   537.3f}},
    {"sm90_swapped_104x64x128",          { 5829.0f,   357.1f,   1.608f,   2.039f,  1895.0f,  6452.0f,   214.0f,   510.3f}},
    {"sm90_split2_64x64x128",            { 7830.0f,   882.9f,  0.6255f,  0.6667f, 0.03124f,  5025.0f, 1870000.0f,   359.9f}},
    {"sm90_split4_64x64x128",            { 6988.0f,   886.4f,  0.2746f,   0.345f, 0.04708f,  4539.0f, 989000.0f,   329.4f}},
    {"sm90_split8_64x64x128",            { 6761.0f,   957.0f,  0.1055f,  0.1588f, 0.07091f,  3705.0f, 523700.0f,   253.4f}},
    {"sm90_split2_128x128x64",           { 6210.0f,  4782.0f,   1.782f,    1.82f, 0.05941f,  5514.0f, 7286000.0f,   510.6f}},
    {"sm90_split4_128x128x64",           { 5708.0f,  3922.0f,  0.7516f,  0.7832f, 0.08945f,  4936.0f, 3859000.0f,   441.0f}},
    {"sm90_split8_128x128x64",           { 5548.0f,  4024.0f,  0.4823f,   0.487f,  0.1348f,  5180.0f, 2043000.0f,   339.3f}},
    {"sm90_few_rows_8x64x128",           { 6213.0f,   145.9f,  0.8173f,  0.8479f,   6.854f,  7704.0f,   121.3f,   444.8f}},
    {"sm90_few_rows_16x64x128",          { 6478.0f,   227.8f,  0.7864f,  0.7559f,   24.33f,  7168.0f,   133.4f,   449.8f}},
    {"sm90_few_rows_32x64x128",          { 6941.0f,   297.0f,   1.087f,   1.096f,   89.36f,  9097.0f,   92.29f,   479.4f}},
    {"sm90_few_rows_64x64x128",          { 7602.0f,   508.5f,   1.461f,   1.463f,   298.5f, 16340.0f,   58.71f,   397.6f}},
    {"sm90_few_rows_8x128x64",           { 6210.0f,   231.5f,   1.646f,   1.614f,   25.87f,  8092.0f,   126.4f,   475.7f}},
    {"sm90_few_rows_16x128x64",          { 6424.0f,   325.4f,   1.644f,   1.754f,   57.32f,  7622.0f,   134.9f,   537.7f}},
    {"sm90_few_rows_32x128x64",          { 6799.0f,   348.9f,   1.641f,   1.859f,   117.1f,  8929.0f,   106.4f,   598.7f}},
    {"sm90_few_rows_64x128x64",          { 7645.0f,   862.5f,   2.016f,   2.073f,   444.0f, 10920.0f,   82.08f,   475.1f}},
    {"sm90_few_rows_split2_8x64x128",    { 6996.0f,   191.0f,  0.4554f,  0.4443f,  0.1642f,  6354.0f,   158.1f,   346.5f}},
    {"sm90_few_rows_split2_16x64x128",   { 6908.0f,   320.5f,  0.4719f,  0.4475f,  0.4248f,  6410.0f,   156.6f,   366.4f}},
    {"sm90_few_rows_split2_32x64x128",   { 7346.0f,   436.8f,  0.6513f,  0.6171f,   1.364f,  8252.0f,   102.7f,   377.6f}},
    {"sm90_few_rows_split2_64x64x128",   { 8182.0f,   503.6f,  0.9893f,  0.9527f,   6.001f, 12590.0f,   71.94f,   392.1f}},
    {"sm90_few_rows_split4_8x64x128",    { 6723.0f,   251.4f,  0.2263f,  0.2317f, 0.003244f,  6473.0f,   148.2f,   301.5f}},
    {"sm90_few_rows_split4_16x64x128",   { 6736.0f,   374.4f,  0.2372f,  0.2479f, 0.008386f,  6886.0f,   126.8f,   321.7f}},
    {"sm90_few_rows_split4_32x64x128",   { 6785.0f,   530.0f,  0.3293f,  0.3399f, 0.02701f,  8750.0f,   93.01f,   318.5f}},
    {"sm90_few_rows_split4_64x64x128",   { 7243.0f,   675.1f,  0.4615f,  0.4831f,  0.1179f, 13120.0f,   68.27f,   342.9f}},
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
