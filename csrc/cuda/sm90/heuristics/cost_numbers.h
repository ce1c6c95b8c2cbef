// What the cost model of the Hopper choice knows of an H200, in nanoseconds and in bytes a nanosecond: cost.h says what
// each number means. Written by benchmarks/fit/fit_hopper.py from the sweeps of benchmarks/results/h200.
#pragma once

#include "cuda/sm90/heuristics/cost.h"
#include "cuda/sm90/heuristics/tables.h"

namespace tileon::sm90 {

constexpr GpuNumbers kGpuNumbers = {
    .full_gpu_ns = 1199.0f,
    .not_hidden = 0.5066f,
    .uneven_waves = 0.2935f,
    .l2_bytes = 25610.0f,
    .short_k = 1.832f,
    .odd_columns = 0.2389f,
    .out_sectors = 0.7945f,
    .sm_straddling_k = 159.2f,
    .sm_straddling_mn = 184.3f,
    .sm_straddling_tile = 118.6f,
    .sm_sectors_k = 126.0f,
    .sm_sectors_mn = 179.9f,
    .l2_straddling_k = 0.00006742f,
    .l2_straddling_mn = 0.03214f,
    .l2_sectors_k = 1.334f,
    .l2_sectors_mn = 1.239f,
    .hot_line_ns = 0.02502f,
};

constexpr CostTable<float, kDenseConfigCount> kCostTable(kDenseConfigs);

}  // namespace tileon::sm90
