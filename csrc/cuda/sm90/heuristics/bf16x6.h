// Float32 products: the configs, and whether splitting the operands for them pays. Data and pure functions, compiled by
// any C++ compiler.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/common/kernel_choice.h"
#include "cuda/sm90/heuristics/cost.h"
#include "cuda/sm90/layout/encoding.h"

namespace tileon::sm90 {

// A kernel multiplies the planes of 64 k, six products, and adds the sums in float32 to those before. per_k is
// that of the split operands, whose rows are three times as long: of two products of bfloat16. `start` is that of all
// three kernels: the last one, which leaves at once unless a number could not be split, too. The numbers, and those
// below, are fitted to benchmarks/results/h200/sweep_float32.csv.xz by benchmarks/fit/fit_float32.py.
// clang-format off
constexpr KernelConfig kBf16x6Configs[] = {
    // name                            operands           family                 tile m, n, k  consumers, stages, takes registers  splits, ctas_per_sm   start, per_tile, per_k, memory_bytes
    {"sm90_bf16x6_128x192x64",          Operands::kBf16x3, {Family::kCooperative,   128, 192,  64, 2, 16, true},  1, 1, 3070.4f, 6343.3f, 14.7837f, 3761.4f},
    {"sm90_bf16x6_128x176x64",          Operands::kBf16x3, {Family::kCooperative,   128, 176,  64, 2, 16, true},  1, 1, 3240.9f, 5943.5f, 13.0314f, 3761.4f},
    {"sm90_bf16x6_128x160x64",          Operands::kBf16x3, {Family::kCooperative,   128, 160,  64, 2, 16, true},  1, 1, 3245.5f, 5689.1f, 11.7189f, 3761.4f},
    {"sm90_bf16x6_128x128x64",          Operands::kBf16x3, {Family::kCooperative,   128, 128,  64, 2, 16, true},  1, 1, 3808.3f, 4987.7f,  9.1387f, 3761.4f},
    {"sm90_bf16x6_128x96x64",           Operands::kBf16x3, {Family::kCooperative,   128,  96,  64, 2, 16},        1, 1, 4258.5f, 3999.4f,  6.8870f, 3761.4f},
    {"sm90_bf16x6_64x128x64",           Operands::kBf16x3, {Family::kCooperative,    64, 128,  64, 1, 16},        1, 1, 5640.2f, 2853.9f,  4.5840f, 3761.4f},
    {"sm90_bf16x6_64x96x64",            Operands::kBf16x3, {Family::kCooperative,    64,  96,  64, 1, 16},        1, 1, 6114.6f, 2120.8f,  3.4949f, 3761.4f},
    {"sm90_bf16x6_64x64x64",            Operands::kBf16x3, {Family::kCooperative,    64,  64,  64, 1, 16},        1, 1, 6608.1f, 1413.5f,  2.5546f, 3761.4f},
    {"sm90_bf16x6_split2_128x128x64",   Operands::kBf16x3, {Family::kClusterSplitK, 128, 128,  64, 2, 16},        2, 1, 4907.2f, 8344.6f,  4.5363f, 3761.4f},
    {"sm90_bf16x6_split4_128x128x64",   Operands::kBf16x3, {Family::kClusterSplitK, 128, 128,  64, 2, 16},        4, 1, 5301.3f, 6657.7f,  2.2397f, 3761.4f},
    {"sm90_bf16x6_split2_64x64x64",     Operands::kBf16x3, {Family::kClusterSplitK,  64,  64,  64, 1, 16},        2, 1, 7261.3f, 2780.2f,  1.6434f, 3761.4f},
    {"sm90_bf16x6_split4_64x64x64",     Operands::kBf16x3, {Family::kClusterSplitK,  64,  64,  64, 1, 16},        4, 1, 7329.6f, 1884.8f,  0.9573f, 3761.4f},
    {"sm90_bf16x6_split8_64x64x64",     Operands::kBf16x3, {Family::kClusterSplitK,  64,  64,  64, 1, 16},        8, 1, 7280.1f, 1778.9f,  0.5763f, 3761.4f},
};
// clang-format on
constexpr int kBf16x6ConfigCount = sizeof(kBf16x6Configs) / sizeof(kBf16x6Configs[0]);

constexpr double kSplitBytesPerNs = 3351.0;

// Of a tile's own time where rows of the output lie so that its columns cannot be stored in pairs (direct_store.cuh).
constexpr double kSingleStores = 1.69;

// The numbers are an H200's. An H100 takes so many times as long, the median of 1,300 times of 206 products.
constexpr double kBf16x6OfH100 = 1.18;

// Products that are expected to take up to so long took so much longer: 62 random ones on an H200, 0.7 to 4.3 us.
constexpr double kSmallBf16x6Ns = 14000.0, kMoreOfSmallBf16x6Ns = 2400.0;

// Multiplications that FFMA gets done at most, on all SMs.
constexpr double kFfmaProductsPerNs = 16009.0;

inline double split_ns(const Problem& problem) {
  const double read = static_cast<double>(problem.k) * sizeof(float);
  const double written = static_cast<double>(bf16x3_k(problem.k)) * kElementBytes;  // the last panel whole
  const double a = static_cast<double>(bf16x3_matrices(problem.a, problem)) * static_cast<double>(problem.m);
  const double b = static_cast<double>(bf16x3_matrices(problem.b, problem)) * static_cast<double>(problem.n);
  return (a + b) * (read + written) / kSplitBytesPerNs;
}

// The product of the split operands, worked out once for all configs.
class SplitProduct {
 public:
  explicit SplitProduct(const Problem& problem)
      : problem_(bf16x3_problem(problem, nullptr)), work_(problem_, kElementBytes) {}

  // What a config takes of it, without the kernels that split.
  double ns(const KernelConfig& config, int sm_count) const {
    KernelConfig as_stored = config;
    if (persistent(config.tile) && !takes_vector_stores(problem_, 2))
      as_stored.cost.per_tile *= static_cast<float>(kSingleStores);
    return largest_bound_ns(as_stored, problem_, work_, sm_count);
  }

 private:
  Problem problem_;
  Work work_;
};

}  // namespace tileon::sm90
