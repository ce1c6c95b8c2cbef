// What the cost model of the Hopper choice knows of an H200 and of an H100, in nanoseconds and in bytes a nanosecond:
// cost.h says what each number means. Written by benchmarks/fit/fit_hopper.py from the sweeps of benchmarks/results.
#pragma once

#include "cuda/sm90/heuristics/cost.h"
#include "cuda/sm90/heuristics/tables.h"

namespace tileon::sm90 {

constexpr GpuNumbers kH200Numbers = {
    .full_gpu_ns = 1239.0f,
    .not_hidden = 0.475f,
    .uneven_waves = 0.2229f,
    .l2_bytes = 26470.0f,
    .short_k = 2.194f,
    .odd_columns = 0.4234f,
    .out_sectors = 0.7431f,
    .sm_straddling_k = 175.2f,
    .sm_straddling_mn = 238.2f,
    .sm_straddling_tile = 46.27f,
    .sm_sectors_k = 110.0f,
    .sm_sectors_mn = 187.5f,
    .l2_straddling_k = 0.03737f,
    .l2_straddling_mn = 0.05715f,
    .l2_sectors_k = 1.378f,
    .l2_sectors_mn = 1.283f,
    .hot_line_ns = 0.0267f,
    .start = 1.0f,
    .tile = 1.0f,
    .k = 1.0f,
    .memory_bytes = 1.0f,
    .memory_bytes_a_cta = 1.0f,
    .l2_bytes_a_tile = 1.0f,
};

constexpr GpuNumbers kH100Numbers = {
    .full_gpu_ns = 1424.0f,
    .not_hidden = 0.5289f,
    .uneven_waves = 0.5092f,
    .l2_bytes = 30040.0f,
    .short_k = 1.586f,
    .odd_columns = 0.04579f,
    .out_sectors = 0.2784f,
    .sm_straddling_k = 314.0f,
    .sm_straddling_mn = 192.7f,
    .sm_straddling_tile = 325.0f,
    .sm_sectors_k = 108.8f,
    .sm_sectors_mn = 112.4f,
    .l2_straddling_k = 0.1464f,
    .l2_straddling_mn = 0.2886f,
    .l2_sectors_k = 2.142f,
    .l2_sectors_mn = 2.014f,
    .hot_line_ns = 0.03216f,
    .start = 0.9039f,
    .tile = 1.352f,
    .k = 0.9538f,
    .memory_bytes = 0.6557f,
    .memory_bytes_a_cta = 0.7622f,
    .l2_bytes_a_tile = 1.702f,
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
