// What the cost model of the Hopper choice knows of an H200 and of an H100, in nanoseconds and in bytes a nanosecond:
// operand_loads.h says what each number means. Written by benchmarks/fit/fit_hopper.py from the sweeps of
// benchmarks/results.
#pragma once

#include "cuda/sm90/heuristics/cost.h"
#include "cuda/sm90/heuristics/tables.h"

namespace tileon::sm90 {

constexpr GpuNumbers kH200Numbers = {
    .full_gpu_ns = 902.3f,
    .not_hidden = 0.3078f,
    .uneven_waves = 0.1559f,
    .l2_bytes = 30250.0f,
    .short_k = 2.144f,
    .odd_columns = 0.2234f,
    .out_sectors = 0.7078f,
    .out_sectors_swapped = 1.691f,
    .sm_straddling_k = 332.4f,
    .sm_straddling_mn = 173.4f,
    .sm_straddling_tile = 237.2f,
    .sm_sectors_k = 127.9f,
    .sm_sectors_mn = 255.2f,
    .l2_straddling_k = 0.03648f,
    .l2_straddling_mn = 1.173f,
    .l2_sectors_k = 2.162f,
    .l2_sectors_mn = 1.364f,
    .sm_zeros_mn = 473.0f,
    .hot_line_ns = 0.02163f,
    .hot_sectors = 1.146f,
    .stored_share = 0.5141f,
    .idle_sms = 0.2022f,
    .cluster_l2 = 0.009975f,
    .start = 1.0f,
    .tile = 1.0f,
    .k = 1.0f,
    .memory_bytes = 1.0f,
    .memory_bytes_a_cta = 1.0f,
    .l2_bytes_a_tile = 1.0f,
};

constexpr GpuNumbers kH100Numbers = {
    .full_gpu_ns = 871.4f,
    .not_hidden = 0.2976f,
    .uneven_waves = 0.2824f,
    .l2_bytes = 19260.0f,
    .short_k = 2.539f,
    .odd_columns = 0.2465f,
    .out_sectors = 0.4905f,
    .out_sectors_swapped = 1.154f,
    .sm_straddling_k = 709.6f,
    .sm_straddling_mn = 5.685f,
    .sm_straddling_tile = 234.8f,
    .sm_sectors_k = 261.8f,
    .sm_sectors_mn = 964.0f,
    .l2_straddling_k = 0.2535f,
    .l2_straddling_mn = 1.328f,
    .l2_sectors_k = 1.1f,
    .l2_sectors_mn = 0.3619f,
    .sm_zeros_mn = 363.7f,
    .hot_line_ns = 0.02948f,
    .hot_sectors = 0.5709f,
    .stored_share = 0.1659f,
    .idle_sms = 0.07809f,
    .cluster_l2 = 0.091f,
    .start = 0.944f,
    .tile = 0.9803f,
    .k = 0.8973f,
    .memory_bytes = 0.6449f,
    .memory_bytes_a_cta = 0.8016f,
    .l2_bytes_a_tile = 2.022f,
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
