// fp8 products on Hopper: the tile table and the choice of a row. Data and pure functions, compiled by any C++
// compiler.
#pragma once

#include <cstdint>

#include "cuda/common/kernel_choice.h"
#include "cuda/sm90/heuristics/cost.h"

namespace tileon::sm90 {

// A row of the dense table in everything but the operands: pairs of fp8 take an element's place, so that a stage has
// twice the k in the same bytes and the same time. The costs were set after squares of 1536 to 8192 on an H200, and no
// script fits them. bytes_per_ns, and the start and per_tile of most promoted rows, are those that the dense rows of
// these tiles had then.
struct Float8Row {
  Row row;
  bool promoted;  // partial sums leave the tensor core at each stage, of 128 k; otherwise never (fast_accum)
};

// clang-format off
constexpr Float8Row kFp8Configs[] = {
    // name                                    family          tile m, n, k (pairs)  consumers, stages, takes registers  splits, ctas_per_sm   start, per_tile, per_k, per_k_mn, bytes_per_ns
    {{"sm90_fp8_192x128x128",                {Family::kCooperative, 192, 128,  64, 3, 16},        1, 1, 4500.0f,  600.0f,  9.00f,  9.00f, 3761.4f}, true},
    {{"sm90_fp8_128x192x128",                {Family::kCooperative, 128, 192,  64, 2, 16, true},  1, 1, 3800.0f,  600.0f,  9.10f,  9.10f, 3761.4f}, true},
    {{"sm90_fp8_128x176x128",                {Family::kCooperative, 128, 176,  64, 2, 16, true},  1, 1, 4469.3f,  645.6f,  8.33f,  8.33f, 3761.4f}, true},
    {{"sm90_fp8_128x160x128",                {Family::kCooperative, 128, 160,  64, 2, 16, true},  1, 1, 4438.6f,  691.2f,  7.65f,  7.65f, 3761.4f}, true},
    {{"sm90_fp8_128x128x128",                {Family::kCooperative, 128, 128,  64, 2, 16},        1, 1, 4377.2f,  782.4f,  6.30f,  6.30f, 3761.4f}, true},
    {{"sm90_fp8_128x96x128",                 {Family::kCooperative, 128,  96,  64, 2, 16},        1, 1, 5002.5f,  289.4f,  5.30f,  5.30f, 1981.8f}, true},
    {{"sm90_fp8_64x128x128",                 {Family::kCooperative,  64, 128,  64, 1, 16},        1, 1, 5697.8f,    0.0f,  5.00f,  5.00f, 2680.4f}, true},
    {{"sm90_fp8_64x64x128",                  {Family::kCooperative,  64,  64,  64, 1, 16},        1, 1, 4925.4f,  286.4f,  3.20f,  3.20f, 2835.2f}, true},
    {{"sm90_fp8_fast_128x256x128",           {Family::kCooperative, 128, 256,  64, 2, 16},        1, 1, 4878.1f,  390.8f, 10.89f, 10.89f, 3318.3f}, false},
    {{"sm90_fp8_fast_128x224x128",           {Family::kCooperative, 128, 224,  64, 2, 16},        1, 1, 3040.6f, 2325.6f,  9.41f,  9.41f, 4327.3f}, false},
    {{"sm90_fp8_fast_128x208x128",           {Family::kCooperative, 128, 208,  64, 2, 16},        1, 1, 3541.1f, 1134.5f,  9.11f,  9.11f, 4300.0f}, false},
    {{"sm90_fp8_fast_192x128x128",           {Family::kCooperative, 192, 128,  64, 3, 16},        1, 1, 3919.0f,  611.2f,  8.60f,  8.60f, 3761.4f}, false},
    {{"sm90_fp8_fast_pingpong_128x192x128",  {Family::kPingpong,    128, 192,  64, 2, 16, true},  1, 1, 4303.2f,  185.5f,  8.34f,  8.34f, 4474.2f}, false},
    {{"sm90_fp8_fast_pingpong_128x176x128",  {Family::kPingpong,    128, 176,  64, 2, 16, true},  1, 1, 5640.5f,  165.5f,  7.29f,  7.29f, 2159.8f}, false},
    {{"sm90_fp8_fast_pingpong_128x160x128",  {Family::kPingpong,    128, 160,  64, 2, 16, true},  1, 1, 4900.6f,    5.9f,  6.84f,  6.84f, 2875.7f}, false},
    {{"sm90_fp8_fast_pingpong_128x128x128",  {Family::kPingpong,    128, 128,  64, 2, 16},        1, 1, 4400.0f,    0.0f,  5.85f,  5.85f, 3761.4f}, false},
    {{"sm90_fp8_fast_64x128x256",            {Family::kCooperative,  64, 128, 128, 1, 16},        1, 1, 4690.0f,   77.6f,  3.33f,  3.33f, 2680.4f}, false},
    {{"sm90_fp8_fast_64x64x256",             {Family::kCooperative,  64,  64, 128, 1, 16},        1, 1, 4508.7f,  140.4f,  1.97f,  1.97f, 2835.2f}, false},
};
// clang-format on
constexpr int kFp8ConfigCount = sizeof(kFp8Configs) / sizeof(kFp8Configs[0]);

// The product as the kernels see it: pairs of fp8 as elements of 16 bits. That they are of the output's dtype only says
// that an output of 16 bits is theirs to store.
inline Problem as_pairs(const Problem& problem) {
  Problem pairs = problem;
  pairs.a.dtype = info(problem.out_dtype).bytes == 2 ? problem.out_dtype : DType::kBFloat16;
  pairs.b.dtype = pairs.a.dtype;
  pairs.k = (problem.k + 1) / 2;
  for (Operand* operand : {&pairs.a, &pairs.b}) {
    operand->stride_mn /= 2;
    operand->stride_batch /= 2;
  }
  return pairs;
}

// wgmma reads fp8 along k alone.
inline bool is_k_major(const Matrix& operand, const Problem& problem, int64_t mn) {
  const TmaAccess access = tma_access(operand, problem.batch, mn, problem.k, 1);
  return access.readable && access.major == Major::kK;
}

// Why the fp8 kernels cannot run the problem on this GPU; null where every row can.
inline const char* why_not_float8(const Problem& problem, const Gpu& gpu) {
  if (!is_float8(problem.a.dtype)) return "it does not take operands of this dtype";
  if (!is_k_major(problem.a, problem, problem.m)) return "it cannot read the strides or the alignment of `a`";
  if (!is_k_major(problem.b, problem, problem.n)) return "it cannot read the strides or the alignment of `b`";
  return why_not(as_pairs(problem), gpu);
}

// The row that is expected to be fastest, by index; -1 where none can run the problem.
inline int choose_float8(const Problem& problem, const Gpu& gpu) {
  if (why_not_float8(problem, gpu) != nullptr) return -1;
  const Problem pairs = as_pairs(problem);
  const Work work(pairs);
  return cheapest(
      kFp8Configs, [&](const Float8Row& row) { return row.promoted != problem.fast_accum; },
      [&](const Float8Row& row) { return largest_bound_ns(row.row, pairs, work, gpu.sm_count); });
}

}  // namespace tileon::sm90
