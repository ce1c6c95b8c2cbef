// What the cost model of the Hopper choice knows of an H200 and of an H100, in nanoseconds and in bytes a nanosecond:
// operand_loads.h says what each number means. Written by benchmarks/fit/fit_hopper.py from the sweeps of
// benchmarks/results.
#pragma once

#include "cuda/sm90/heuristics/cost.h"
#include "cuda/sm90/heuristics/tables.h"

namespace tileon::sm90 {

constexpr GpuNumbers kH200Numbers = {
    .full_gpu_ns = 841.0f,
    .not_hidden = 0.2938f,
    .uneven_waves = 0.1512f,
    .l2_bytes = 40580.0f,
    .short_k = 2.544f,
    .odd_columns = 0.7f,
    .out_sectors = 0.6341f,
    .out_sectors_swapped = 1.584f,
    .sm_straddling_k = 378.2f,
    .sm_straddling_mn = 106.7f,
    .sm_straddling_tile = 241.2f,
    .sm_sectors_k = 72.33f,
    .sm_sectors_mn = 333.6f,
    .l2_straddling_k = 0.08692f,
    .l2_straddling_mn = 1.872f,
    .l2_sectors_k = 3.237f,
    .l2_sectors_mn = 2.17f,
    .sm_zeros_mn = 597.2f,
    .hot_line_ns = 0.02121f,
    .hot_sectors = 0.5083f,
    .stored_share = 0.6125f,
    .idle_sms = 0.2257f,
    .cluster_l2 = 0.004177f,
    .start = 1.0f,
    .tile = 1.0f,
    .k = 1.0f,
    .memory_bytes = 1.0f,
    .memory_bytes_a_cta = 1.0f,
    .l2_bytes_a_tile = 1.0f,
};

constexpr GpuNumbers kH100Numbers = {
    .full_gpu_ns = 1050.0f,
    .not_hidden = 0.2765f,
    .uneven_waves = 0.2912f,
    .l2_bytes = 19000.0f,
    .short_k = 2.251f,
    .odd_columns = 0.7f,
    .out_sectors = 0.386f,
    .out_sectors_swapped = 1.031f,
    .sm_straddling_k = 510.9f,
    .sm_straddling_mn = 1.595f,
    .sm_straddling_tile = 337.9f,
    .sm_sectors_k = 379.7f,
    .sm_sectors_mn = 867.0f,
    .l2_straddling_k = 0.3225f,
    .l2_straddling_mn = 1.329f,
    .l2_sectors_k = 1.156f,
    .l2_sectors_mn = 0.3729f,
    .sm_zeros_mn = 1252.0f,
    .hot_line_ns = 0.02458f,
    .hot_sectors = 0.4865f,
    .stored_share = 0.2854f,
    .idle_sms = 0.07541f,
    .cluster_l2 = 0.03872f,
    .start = 0.9326f,
    .tile = 1.143f,
    .k = 0.8711f,
    .memory_bytes = 0.657f,
    .memory_bytes_a_cta = 0.8221f,
    .l2_bytes_a_tile = 2.046f,
};

constexpr CostTable<float, kDenseConfigCount> kH200Costs(kDenseConfigs, kH200Numbers);
constexpr CostTable<float, kDenseConfigCount> kH100Costs(kDenseConfigs, kH100Numbers);

// What every dense config takes for the problem, by the numbers of the GPU that this one is most like.
inline Costs<float, kDenseConfigCount> dense_costs(Operands operands, const Problem& problem, const Gpu& gpu) {
  const bool like_h100 = is_like_h100(gpu);
  return Costs<float, kDenseConfigCount>(
      like_h100 ? kH100Costs : kH200Costs,
      DenseWork<float>(operands, problem, gpu.sm_count, like_h100 ? kH100Numbers : kH200Numbers));
}

}  // namespace tileon::sm90
