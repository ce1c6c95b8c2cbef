// Hopper's configs of tf32: which operands they take, and what is copied before.
#include <initializer_list>
#include <string>

#include "cuda/sm80/heuristics/choice.h"
#include "cuda/sm90/heuristics/select.h"
#include "expect.h"

using namespace tileon;
using namespace tileon::sm90;

namespace {

constexpr Gpu kH200{90, 132, 227 * 1024};

Matrix operand(int64_t mn, int64_t k, bool along_k) {
  void* data = reinterpret_cast<void*>(4096);
  return along_k ? Matrix{data, k, 1, 0} : Matrix{data, 1, mn, 0};
}

Problem product(int64_t m, int64_t n, int64_t k, bool a_along_k, bool b_along_k) {
  Problem problem;
  problem.m = m, problem.n = n, problem.k = k;
  problem.allow_tf32 = true;
  static_cast<Matrix&>(problem.a) = operand(m, k, a_along_k);
  static_cast<Matrix&>(problem.b) = operand(n, k, b_along_k);
  problem.out = {reinterpret_cast<void*>(4096), n, 1, 0};
  return problem;
}

void test_table() {
  for (const KernelConfig& config : kTf32Configs) {
    const TileConfig& tile = config.tile;
    expect(tile.element_bytes == kTf32Bytes && tile.block_k == 32 && config.operands == Operands::kTf32, "of tf32");
    if (tile.family != Family::kPingpong)
      expect(tile.consumer_rows() == 64, "a consumer whose rows are mn-major has 64 of them");
    for (const Major a : {Major::kK, Major::kMn})
      for (const Major b : {Major::kK, Major::kMn})
        if (takes_a(tile, a) && takes_b(tile, b))
          expect(pipeline_stages(tile, a, b) >= 3, "stages for what is under way");
  }
}

void test_majors() {
  const auto count = [](bool a_along_k, bool b_along_k) {
    const Problem problem = product(512, 512, 512, a_along_k, b_along_k);
    int found = 0;
    for (const KernelConfig& config : kTf32Configs) found += why_not_tf32(config.tile, problem, kH200) == nullptr;
    return found;
  };
  expect(count(true, true) == kTf32ConfigCount, "all configs read operands along k");
  expect(count(true, false) > 0 && count(false, true) > 0, "one operand may be mn-major");
  expect(count(false, false) == 0, "not both");
  Problem unaligned = product(512, 512, 511, true, true);
  expect(std::string(why_not_tf32(kTf32Configs[0].tile, unaligned, kH200)).find("`a`") != std::string::npos,
         "rows begin at multiples of 16 bytes");
  unaligned.allow_tf32 = false;
  expect(choose_tf32(product(8192, 8192, 8192, true, true), {80, 108, 163 * 1024}) < 0, "on Hopper alone");
}

void test_copies() {
  const auto copies = [](const Problem& problem) {
    const Tf32Copies found = tf32_copies(problem);
    return std::string(found.a ? "a" : "") + (found.b ? "b" : "");
  };
  for (const bool a : {true, false})
    for (const bool b : {true, false})
      if (a || b) expect(copies(product(4096, 4096, 4096, a, b)).empty(), "operands that are read as they lie");
  expect(copies(product(4096, 8192, 4096, false, false)) == "a", "of two mn-major operands the smaller one");
  expect(copies(product(8192, 4096, 4096, false, false)) == "b", "whichever that is");
  expect(copies(product(4096, 4096, 4095, true, true)) == "ab", "rows that TMA cannot read");
}

void test_stores() {
  Problem problem = product(512, 512, 512, true, true);
  problem.out_dtype = DType::kFloat32;
  const auto ns = [&](int64_t stride_m) {
    problem.out = {reinterpret_cast<void*>(uintptr_t{4096}), stride_m, 1, 0};
    return tf32_store_ns(kTf32Configs[0], problem, kH200.sm_count);
  };
  expect(ns(512) == 0 && ns(516) == 0, "rows of whole 16 bytes are in the bound");
  expect(ns(513) > 2 * ns(514) && ns(514) > 0, "others take longer, the less is stored at once");
}

void test_choice() {
  const auto chosen = [](int64_t m, int64_t n, int64_t k) { return choose_tf32(product(m, n, k, true, true), kH200); };
  expect(chosen(4096, 4096, 4096) >= 0, "large products go by wgmma");
  // As Backends::choose holds the two against each other.
  const Problem few_tiles = product(100, 64, 16384, true, true);
  expect(sm80::choose_dense(few_tiles, kH200).compared_ns < weigh_tf32(few_tiles, kH200).compared_ns,
         "few tiles with a long k by the portable kernels, which slice it");
  for (const int64_t m : {64, 1000, 5000})
    for (const bool a_along_k : {true, false}) {
      const Problem problem = product(m, 4096, 2048, a_along_k, !a_along_k);
      const int config = choose_tf32(problem, kH200);
      if (config >= 0)
        expect(why_not_tf32(kTf32Configs[config].tile, problem, kH200) == nullptr, "a config that takes it");
    }
}

}  // namespace

int main() {
  test_table();
  test_majors();
  test_copies();
  test_stores();
  test_choice();
  return report("hopper tf32 config");
}
