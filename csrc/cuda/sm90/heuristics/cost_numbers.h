// What the cost model of the Hopper choice knows of an H200 and of an H100, in nanoseconds and in bytes a nanosecond:
// operand_loads.h says what each number means. Written by benchmarks/fit/fit_hopper.py from the sweeps of
// benchmarks/results.
#pragma once

#include "cuda/sm90/heuristics/cost.h"
#include "cuda/sm90/heuristics/tables.h"

namespace tileon::sm90 {

constexpr GpuNumbers kH200Numbers = {
    .full_gpu_ns = 930.8f,
    .not_hidden = 0.2473f,
    .uneven_waves = 0.1526f,
    .l2_bytes = 29430.0f,
    .short_k = 2.288f,
    .odd_columns = 0.223f,
    .out_sectors = 0.5138f,
    .out_sectors_swapped = 1.455f,
    .sm_straddling_k = 377.4f,
    .sm_straddling_mn = 208.6f,
    .sm_straddling_tile = 260.8f,
    .sm_sectors_k = 113.8f,
    .sm_sectors_mn = 274.6f,
    .l2_straddling_k = 0.05025f,
    .l2_straddling_mn = 1.295f,
    .l2_sectors_k = 2.187f,
    .l2_sectors_mn = 1.425f,
    .sm_zeros_mn = 611.9f,
    .hot_line_ns = 0.0235f,
    .hot_sectors = 1.062f,
    .stored_share = 0.5672f,
    .idle_sms = 0.1797f,
    .cluster_l2 = 0.009333f,
    .start = 1.0f,
    .tile = 1.0f,
    .k = 1.0f,
    .memory_bytes = 1.0f,
    .memory_bytes_a_cta = 1.0f,
    .l2_bytes_a_tile = 1.0f,
};

constexpr GpuNumbers kH100Numbers = {
    .full_gpu_ns = 1006.0f,
    .not_hidden = 0.2725f,
    .uneven_waves = 0.2992f,
    .l2_bytes = 19020.0f,
    .short_k = 2.486f,
    .odd_columns = 0.1851f,
    .out_sectors = 0.3107f,
    .out_sectors_swapped = 1.003f,
    .sm_straddling_k = 451.3f,
    .sm_straddling_mn = 3.729f,
    .sm_straddling_tile = 369.1f,
    .sm_sectors_k = 352.2f,
    .sm_sectors_mn = 720.1f,
    .l2_straddling_k = 0.2633f,
    .l2_straddling_mn = 1.318f,
    .l2_sectors_k = 1.187f,
    .l2_sectors_mn = 0.5095f,
    .sm_zeros_mn = 1096.0f,
    .hot_line_ns = 0.02258f,
    .hot_sectors = 0.7315f,
    .stored_share = 0.1956f,
    .idle_sms = 0.06696f,
    .cluster_l2 = 0.00919f,
    .start = 0.9399f,
    .tile = 1.036f,
    .k = 0.8849f,
    .memory_bytes = 0.6866f,
    .memory_bytes_a_cta = 0.8233f,
    .l2_bytes_a_tile = 1.689f,
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
