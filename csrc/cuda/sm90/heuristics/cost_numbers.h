// What the cost model of the Hopper choice knows of an H200 and of an H100, in nanoseconds and in bytes a nanosecond:
// operand_loads.h says what each number means. Written by benchmarks/fit/fit_hopper.py from the sweeps of
// benchmarks/results.
#pragma once

#include "cuda/sm90/heuristics/cost.h"
#include "cuda/sm90/heuristics/tables.h"

namespace tileon::sm90 {

constexpr GpuNumbers kH200Numbers = {
    .full_gpu_ns = 935.7f,
    .not_hidden = 0.3879f,
    .uneven_waves = 0.1504f,
    .l2_bytes = 26070.0f,
    .short_k = 2.152f,
    .odd_columns = 0.2366f,
    .out_sectors = 0.6047f,
    .out_sectors_swapped = 1.561f,
    .sm_straddling_k = 186.7f,
    .sm_straddling_mn = 114.7f,
    .sm_straddling_tile = 143.1f,
    .sm_sectors_k = 108.1f,
    .sm_sectors_mn = 203.4f,
    .l2_straddling_k = 0.02475f,
    .l2_straddling_mn = 0.6023f,
    .l2_sectors_k = 1.556f,
    .l2_sectors_mn = 1.199f,
    .sm_zeros_mn = 434.7f,
    .hot_line_ns = 0.01946f,
    .hot_sectors = 1.136f,
    .stored_share = 0.4471f,
    .idle_sms = 0.131f,
    .cluster_l2 = 0.01467f,
    .start = 1.0f,
    .tile = 1.0f,
    .k = 1.0f,
    .memory_bytes = 1.0f,
    .memory_bytes_a_cta = 1.0f,
    .l2_bytes_a_tile = 1.0f,
};

constexpr GpuNumbers kH100Numbers = {
    .full_gpu_ns = 1205.0f,
    .not_hidden = 0.5084f,
    .uneven_waves = 0.2857f,
    .l2_bytes = 33520.0f,
    .short_k = 1.815f,
    .odd_columns = 0.1246f,
    .out_sectors = 0.2336f,
    .out_sectors_swapped = 0.8081f,
    .sm_straddling_k = 283.4f,
    .sm_straddling_mn = 35.75f,
    .sm_straddling_tile = 411.4f,
    .sm_sectors_k = 165.8f,
    .sm_sectors_mn = 390.5f,
    .l2_straddling_k = 0.5658f,
    .l2_straddling_mn = 0.9947f,
    .l2_sectors_k = 2.117f,
    .l2_sectors_mn = 1.701f,
    .sm_zeros_mn = 775.4f,
    .hot_line_ns = 0.02262f,
    .hot_sectors = 0.6018f,
    .stored_share = 0.3321f,
    .idle_sms = 0.09003f,
    .cluster_l2 = 0.3048f,
    .start = 0.9408f,
    .tile = 1.131f,
    .k = 0.9104f,
    .memory_bytes = 0.6897f,
    .memory_bytes_a_cta = 0.7989f,
    .l2_bytes_a_tile = 2.479f,
};

constexpr CostTable<float, kDenseConfigCount> kH200Costs(kDenseConfigs, kH200Numbers);
constexpr CostTable<float, kDenseConfigCount> kH100Costs(kDenseConfigs, kH100Numbers);

// An H200's memory has 4.8 TB/s, an H100's up to 3.9; where nothing is known of it the GPU is taken for an H200.
constexpr int kH100MemoryAtMost = 4200;
constexpr bool is_like_h100(const Gpu& gpu) {
  return gpu.memory_gb_a_second > 0 && gpu.memory_gb_a_second <= kH100MemoryAtMost;
}

// What every dense config takes for the problem, by the numbers of the GPU that this one is most like.
inline Costs<float, kDenseConfigCount> dense_costs(Operands operands, const Problem& problem, const Gpu& gpu) {
  const bool like_h100 = is_like_h100(gpu);
  return Costs<float, kDenseConfigCount>(
      like_h100 ? kH100Costs : kH200Costs,
      DenseWork<float>(operands, problem, gpu.sm_count, like_h100 ? kH100Numbers : kH200Numbers));
}

}  // namespace tileon::sm90
