// What the cost model of the Hopper choice knows of an H200 and of an H100, in nanoseconds and in bytes a nanosecond:
// cost.h says what each number means. Written by benchmarks/fit/fit_hopper.py from the sweeps of benchmarks/results.
#pragma once

#include "cuda/sm90/heuristics/cost.h"
#include "cuda/sm90/heuristics/tables.h"

namespace tileon::sm90 {

constexpr GpuNumbers kH200Numbers = {
    .full_gpu_ns = 1059.0f,
    .not_hidden = 0.4589f,
    .uneven_waves = 0.1358f,
    .l2_bytes = 22950.0f,
    .short_k = 2.077f,
    .odd_columns = 0.2592f,
    .out_sectors = 0.8467f,
    .sm_straddling_k = 176.3f,
    .sm_straddling_mn = 166.3f,
    .sm_straddling_tile = 89.38f,
    .sm_sectors_k = 106.1f,
    .sm_sectors_mn = 221.8f,
    .l2_straddling_k = 0.06548f,
    .l2_straddling_mn = 0.05767f,
    .l2_sectors_k = 1.142f,
    .l2_sectors_mn = 1.239f,
    .hot_line_ns = 0.02502f,
    .start = 1.0f,
    .tile = 1.0f,
    .k = 1.0f,
    .memory_bytes = 1.0f,
    .memory_bytes_a_cta = 1.0f,
    .l2_bytes_a_tile = 1.0f,
};

constexpr GpuNumbers kH100Numbers = {
    .full_gpu_ns = 1160.0f,
    .not_hidden = 0.5897f,
    .uneven_waves = 0.3293f,
    .l2_bytes = 33590.0f,
    .short_k = 1.555f,
    .odd_columns = 0.03658f,
    .out_sectors = 0.04423f,
    .sm_straddling_k = 142.0f,
    .sm_straddling_mn = 150.3f,
    .sm_straddling_tile = 226.1f,
    .sm_sectors_k = 264.4f,
    .sm_sectors_mn = 304.7f,
    .l2_straddling_k = 0.06473f,
    .l2_straddling_mn = 0.4016f,
    .l2_sectors_k = 2.48f,
    .l2_sectors_mn = 2.218f,
    .hot_line_ns = 0.05073f,
    .start = 1.08f,
    .tile = 1.261f,
    .k = 0.8576f,
    .memory_bytes = 0.5279f,
    .memory_bytes_a_cta = 0.6946f,
    .l2_bytes_a_tile = 1.828f,
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
