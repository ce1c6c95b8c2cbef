// What the cost model of the Hopper choice knows of an H200 and of an H100, in nanoseconds and in bytes a nanosecond:
// cost.h says what each number means. Written by benchmarks/fit/fit_hopper.py from the sweeps of benchmarks/results.
#pragma once

#include "cuda/sm90/heuristics/cost.h"
#include "cuda/sm90/heuristics/tables.h"

namespace tileon::sm90 {

constexpr GpuNumbers kH200Numbers = {
    .full_gpu_ns = 972.8f,
    .not_hidden = 0.359f,
    .uneven_waves = 0.1438f,
    .l2_bytes = 28430.0f,
    .short_k = 2.122f,
    .odd_columns = 0.2997f,
    .out_sectors = 0.7461f,
    .sm_straddling_k = 211.5f,
    .sm_straddling_mn = 166.1f,
    .sm_straddling_tile = 176.5f,
    .sm_sectors_k = 114.0f,
    .sm_sectors_mn = 189.4f,
    .l2_straddling_k = 0.06817f,
    .l2_straddling_mn = 0.08179f,
    .l2_sectors_k = 1.957f,
    .l2_sectors_mn = 1.745f,
    .hot_line_ns = 0.02645f,
    .stored_share = 0.2764f,
    .idle_sms = 0.1509f,
    .cluster_l2 = 0.04342f,
    .start = 1.0f,
    .tile = 1.0f,
    .k = 1.0f,
    .memory_bytes = 1.0f,
    .memory_bytes_a_cta = 1.0f,
    .l2_bytes_a_tile = 1.0f,
};

constexpr GpuNumbers kH100Numbers = {
    .full_gpu_ns = 1275.0f,
    .not_hidden = 0.4416f,
    .uneven_waves = 0.281f,
    .l2_bytes = 31920.0f,
    .short_k = 2.665f,
    .odd_columns = 0.07579f,
    .out_sectors = 0.3041f,
    .sm_straddling_k = 450.1f,
    .sm_straddling_mn = 126.0f,
    .sm_straddling_tile = 548.9f,
    .sm_sectors_k = 74.01f,
    .sm_sectors_mn = 180.4f,
    .l2_straddling_k = 0.1596f,
    .l2_straddling_mn = 0.9876f,
    .l2_sectors_k = 2.75f,
    .l2_sectors_mn = 2.026f,
    .hot_line_ns = 0.02383f,
    .stored_share = 0.03953f,
    .idle_sms = 0.1419f,
    .cluster_l2 = 0.6638f,
    .start = 0.9303f,
    .tile = 1.197f,
    .k = 0.9212f,
    .memory_bytes = 0.6927f,
    .memory_bytes_a_cta = 0.7718f,
    .l2_bytes_a_tile = 2.256f,
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
