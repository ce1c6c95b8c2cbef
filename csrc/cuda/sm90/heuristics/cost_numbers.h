// What the cost model of the Hopper choice knows of an H200 and of an H100, in nanoseconds and in bytes a nanosecond:
// operand_loads.h says what each number means. Written by benchmarks/fit/fit_hopper.py from the sweeps of
// benchmarks/results.
#pragma once

#include "cuda/sm90/heuristics/cost.h"
#include "cuda/sm90/heuristics/tables.h"

namespace tileon::sm90 {

constexpr GpuNumbers kH200Numbers = {
    .full_gpu_ns = 876.1f,
    .not_hidden = 0.2824f,
    .uneven_waves = 0.1491f,
    .l2_bytes = 36970.0f,
    .short_k = 2.363f,
    .odd_columns = 0.257f,
    .out_sectors = 0.6284f,
    .out_sectors_swapped = 1.546f,
    .sm_straddling_k = 385.7f,
    .sm_straddling_mn = 125.6f,
    .sm_straddling_tile = 250.4f,
    .sm_sectors_k = 80.2f,
    .sm_sectors_mn = 352.8f,
    .l2_straddling_k = 0.07487f,
    .l2_straddling_mn = 1.84f,
    .l2_sectors_k = 2.912f,
    .l2_sectors_mn = 1.836f,
    .sm_zeros_mn = 566.8f,
    .hot_line_ns = 0.02084f,
    .hot_sectors = 0.5978f,
    .stored_share = 0.6161f,
    .idle_sms = 0.2174f,
    .cluster_l2 = 0.004713f,
    .start = 1.0f,
    .tile = 1.0f,
    .k = 1.0f,
    .memory_bytes = 1.0f,
    .memory_bytes_a_cta = 1.0f,
    .l2_bytes_a_tile = 1.0f,
};

constexpr GpuNumbers kH100Numbers = {
    .full_gpu_ns = 1039.0f,
    .not_hidden = 0.2833f,
    .uneven_waves = 0.2986f,
    .l2_bytes = 19000.0f,
    .short_k = 2.18f,
    .odd_columns = 0.2327f,
    .out_sectors = 0.4035f,
    .out_sectors_swapped = 1.059f,
    .sm_straddling_k = 479.0f,
    .sm_straddling_mn = 2.315f,
    .sm_straddling_tile = 335.6f,
    .sm_sectors_k = 350.7f,
    .sm_sectors_mn = 798.3f,
    .l2_straddling_k = 0.3442f,
    .l2_straddling_mn = 1.301f,
    .l2_sectors_k = 1.147f,
    .l2_sectors_mn = 0.3704f,
    .sm_zeros_mn = 1111.0f,
    .hot_line_ns = 0.02616f,
    .hot_sectors = 0.4026f,
    .stored_share = 0.2661f,
    .idle_sms = 0.07234f,
    .cluster_l2 = 0.03928f,
    .start = 0.9379f,
    .tile = 1.133f,
    .k = 0.8735f,
    .memory_bytes = 0.671f,
    .memory_bytes_a_cta = 0.8366f,
    .l2_bytes_a_tile = 1.917f,
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
