// What the cost model of the Hopper choice knows of an H200 and of an H100, in nanoseconds and in bytes a nanosecond:
// operand_loads.h says what each number means. Written by benchmarks/fit/fit_hopper.py from the sweeps of
// benchmarks/results.
#pragma once

#include "cuda/sm90/heuristics/cost.h"
#include "cuda/sm90/heuristics/tables.h"

namespace tileon::sm90 {

constexpr GpuNumbers kH200Numbers = {
    .full_gpu_ns = 962.9f,
    .not_hidden = 0.3247f,
    .uneven_waves = 0.1381f,
    .l2_bytes = 24290.0f,
    .short_k = 2.211f,
    .odd_columns = 0.2315f,
    .out_sectors = 0.5838f,
    .out_sectors_swapped = 1.644f,
    .sm_straddling_k = 241.2f,
    .sm_straddling_mn = 85.63f,
    .sm_straddling_tile = 195.7f,
    .sm_sectors_k = 103.2f,
    .sm_sectors_mn = 251.0f,
    .l2_straddling_k = 0.1021f,
    .l2_straddling_mn = 0.6653f,
    .l2_sectors_k = 1.374f,
    .l2_sectors_mn = 1.072f,
    .sm_zeros_mn = 480.9f,
    .hot_line_ns = 0.01803f,
    .hot_sectors = 1.35f,
    .stored_share = 0.2275f,
    .idle_sms = 0.1271f,
    .cluster_l2 = 0.0163f,
    .start = 1.0f,
    .tile = 1.0f,
    .k = 1.0f,
    .memory_bytes = 1.0f,
    .memory_bytes_a_cta = 1.0f,
    .l2_bytes_a_tile = 1.0f,
};

constexpr GpuNumbers kH100Numbers = {
    .full_gpu_ns = 1334.0f,
    .not_hidden = 0.4149f,
    .uneven_waves = 0.2811f,
    .l2_bytes = 29540.0f,
    .short_k = 2.592f,
    .odd_columns = 0.07442f,
    .out_sectors = 0.195f,
    .out_sectors_swapped = 0.8666f,
    .sm_straddling_k = 465.8f,
    .sm_straddling_mn = 49.54f,
    .sm_straddling_tile = 474.3f,
    .sm_sectors_k = 113.1f,
    .sm_sectors_mn = 522.3f,
    .l2_straddling_k = 0.34f,
    .l2_straddling_mn = 1.058f,
    .l2_sectors_k = 2.187f,
    .l2_sectors_mn = 1.625f,
    .sm_zeros_mn = 147.2f,
    .hot_line_ns = 0.02412f,
    .hot_sectors = 0.601f,
    .stored_share = 0.01473f,
    .idle_sms = 0.1114f,
    .cluster_l2 = 0.2171f,
    .start = 0.9266f,
    .tile = 1.162f,
    .k = 0.9231f,
    .memory_bytes = 0.6937f,
    .memory_bytes_a_cta = 0.7773f,
    .l2_bytes_a_tile = 2.349f,
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
