// Bound by reading the operands: 8 MB take some 0.5 ms.
#include "cpu/magnitudes.h"

#include <torch/csrc/stable/ops.h>

#include <algorithm>
#include <cstdint>
#include <mutex>

#include "cpu/multiversion.h"

namespace tileon {
namespace {

// Of some words of bfloat16 without their signs: the largest, and the least one less 1, of which zeros are the largest.
struct Extremes {
  uint16_t most = 0, least_less_1 = 0xffff;
};

TILEON_MULTIVERSION Extremes extremes_of(const uint16_t* words, int64_t count) {
  uint16_t most = 0, least_less_1 = 0xffff;
#pragma GCC unroll 1
  for (int64_t i = 0; i < count; ++i) {
    const uint16_t magnitude = words[i] & 0x7fff, less_1 = magnitude - 1;
    most = magnitude > most ? magnitude : most;
    least_less_1 = less_1 < least_less_1 ? less_1 : least_less_1;
  }
  return {most, least_less_1};
}

// False where the elements of no dimension are adjacent.
bool magnitudes_of(const Operand& operand, int64_t mn, int64_t k, Magnitudes& magnitudes) {
  const bool along_k = operand.stride_k == 1;
  if (!along_k && operand.stride_mn != 1) return false;
  const int64_t lines = along_k ? mn : k, words = along_k ? k : mn;
  const int64_t stride = along_k ? operand.stride_mn : operand.stride_k;
  constexpr int64_t kWordsPerTask = 1 << 18;
  std::mutex mutex;
  Extremes all;
  const auto look_at = [&](int64_t begin, int64_t end) {
    Extremes extremes;
    for (int64_t line = begin; line < end; ++line) {
      const Extremes of_line = extremes_of(static_cast<const uint16_t*>(operand.data) + line * stride, words);
      extremes.most = std::max(extremes.most, of_line.most);
      extremes.least_less_1 = std::min(extremes.least_less_1, of_line.least_less_1);
    }
    const std::lock_guard<std::mutex> lock(mutex);
    all.most = std::max(all.most, extremes.most);
    all.least_less_1 = std::min(all.least_less_1, extremes.least_less_1);
  };
  torch::stable::parallel_for(0, lines, 1 + kWordsPerTask / std::max<int64_t>(words, 1), look_at);
  const uint32_t least = static_cast<uint32_t>(static_cast<uint16_t>(all.least_less_1 + 1)) << 16;
  magnitudes = {least == 0 ? Magnitudes().least : least, static_cast<uint32_t>(all.most) << 16};
  return true;
}

}  // namespace

bool are_products_of_normal(const Problem& problem) {
  Magnitudes of_a, of_b;
  return magnitudes_of(problem.a, problem.m, problem.k, of_a) && magnitudes_of(problem.b, problem.n, problem.k, of_b) &&
         are_products_normal(of_a, of_b);
}

}  // namespace tileon
