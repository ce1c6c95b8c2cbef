// Which config takes a product where results are batch invariant: one order of sums, whatever the rows.
#include <algorithm>
#include <initializer_list>
#include <string>

#include "cuda/dispatch/backends.h"
#include "cuda/sm80/heuristics/choice.h"
#include "cuda/sm90/heuristics/alike.h"
#include "expect.h"

using namespace tileon;

namespace {

constexpr Gpu kH200 = {90, 132, 227 * 1024};
constexpr int64_t kRows[] = {1, 2, 8, 16, 17, 64, 100, 128, 256, 512, 1000, 2048, 8192};

struct Weight {
  int64_t n, k;
};
constexpr Weight kLayers[] = {{1024, 1024}, {2048, 8192}, {1536, 8960}, {4096, 4096}, {14336, 4096}, {8192, 28672}};
constexpr Weight kLongK[] = {{64, 65536}, {128, 32768}};

// x @ weight^T, both contiguous.
Problem layer(int64_t m, const Weight& weight, DType dtype) {
  Problem problem;
  problem.m = m;
  problem.n = weight.n;
  problem.k = weight.k;
  problem.a.dtype = problem.b.dtype = dtype;
  problem.out_dtype = dtype == DType::kFloat64 ? dtype : DType::kBFloat16;
  void* data = reinterpret_cast<void*>(4096);
  static_cast<Matrix&>(problem.a) = static_cast<Matrix&>(problem.b) = {data, weight.k, 1, 0};
  problem.out = {data, weight.n, 1, 0};
  problem.may_slice_k = false;
  return problem;
}

void test_layers_do_not_split_k() {
  for (const Weight& weight : kLayers) {
    const int fixed = sm90::choose_dense(layer(kRowsOfOrder, weight, DType::kBFloat16), kH200);
    for (const int64_t m : kRows) {
      const int config = sm90::choose_dense_alike(layer(m, weight, DType::kBFloat16), kH200, fixed);
      expect(sm90::kDenseConfigs[config].splits == 1, "no layer's k is split", sm90::kDenseConfigs[config].name);
    }
  }
}

void test_a_very_long_k_is_split_for_any_rows() {
  for (const Weight& weight : kLongK) {
    const int fixed = sm90::choose_dense(layer(kRowsOfOrder, weight, DType::kBFloat16), kH200);
    const sm90::KernelConfig& order = sm90::kDenseConfigs[fixed];
    expect(order.splits > 1, "where it pays", order.name);
    for (const int64_t m : kRows) {
      const int config = sm90::choose_dense_alike(layer(m, weight, DType::kBFloat16), kH200, fixed);
      expect(sm90::add_alike(sm90::kDenseConfigs[config], order), "alike", sm90::kDenseConfigs[config].name);
    }
  }
}

// For the rows that there are, none that adds alike is expected to take less.
void test_the_fastest_of_them() {
  for (const Weight& weight : kLayers)
    for (const int64_t m : kRows) {
      const Problem problem = layer(m, weight, DType::kBFloat16);
      const auto costs = sm90::costs_with_activation(sm90::Operands::k16Bits, problem, kH200);
      const int config = sm90::choose_dense_alike(problem, kH200, 0);  // which does not split k
      for (int other = 0; other < sm90::kDenseConfigCount; ++other)
        if (sm90::kDenseConfigs[other].splits == 1)
          expect(costs.ns[config] <= costs.ns[other], "the fastest", sm90::kDenseConfigs[other].name);
    }
}

void test_splits_begin_alike() {
  const auto config = [](const std::string& name) {
    const auto has_name = [&](const sm90::KernelConfig& each) { return name == each.name; };
    return *std::find_if(std::begin(sm90::kDenseConfigs), std::end(sm90::kDenseConfigs), has_name);
  };
  const auto add_alike = [&](const char* one, const char* other) {
    return sm90::add_alike(config(one), config(other)) && sm90::add_alike(config(other), config(one));
  };
  expect(add_alike("sm90_gemm_64x32x128", "sm90_pingpong_128x192x64"), "k is not split");
  expect(add_alike("sm90_split4_64x64x128", "sm90_few_rows_split4_8x64x128"), "split by the same stages");
  expect(!add_alike("sm90_split4_64x64x128", "sm90_split4_128x128x64"), "by other stages");
  expect(!add_alike("sm90_split4_64x64x128", "sm90_split8_64x64x128"), "by more CTAs");
  expect(!add_alike("sm90_split4_64x64x128", "sm90_gemm_64x64x128"), "or not");
}

void test_fp8_keeps_how_sums_are_promoted() {
  for (const bool fast_accum : {false, true})
    for (const Weight& weight : kLayers) {
      Problem problem = layer(kRowsOfOrder, weight, DType::kFloat8E4M3);
      problem.fast_accum = fast_accum;
      const int fixed = sm90::choose_fp8(problem, kH200);
      for (const int64_t m : kRows) {
        problem.m = m;
        const int config = sm90::choose_fp8_alike(problem, kH200, fixed);
        expect(sm90::kFp8Configs[config].operands == sm90::kFp8Configs[fixed].operands, "the same sums");
      }
    }
}

void test_portable_kernels_keep_their_order() {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat8E4M3, DType::kFloat32, DType::kFloat64})
    for (const Weight& weight : kLayers) {
      const Gpu a100 = {80, 108, 163 * 1024};
      const int fixed = sm80::choose_dense(layer(kRowsOfOrder, weight, dtype), a100).config;
      const int order = sm80::order_of_sums(sm80::kDenseConfigs[fixed]);
      expect(order != 0, "it has one that others have", sm80::kDenseConfigs[fixed].name);
      for (const int64_t m : kRows) {
        const int config = sm80::choose_dense_alike(layer(m, weight, dtype), a100, fixed);
        expect(config >= 0 && sm80::order_of_sums(sm80::kDenseConfigs[config]) == order, "the same order");
        const sm80::TileConfig& tile = sm80::kDenseConfigs[config].tile;
        expect(tile.family != sm80::Family::kDirect || tile.warps_m == 1, "no warps share k",
               sm80::kDenseConfigs[config].name);
      }
    }
}

// ---- what the dispatcher makes of it: backends that only count ----

const char* name_of(int) { return "counted"; }
int two() { return 2; }
ConfigFields fields(int) { return {"bytes", "fake", "counting", "plain", 1, 2, 3}; }
const char* runs(int, const Problem&, const Gpu&) { return nullptr; }
Choice by_rows(const Problem& problem, const Gpu&) { return {problem.m == kRowsOfOrder ? 0 : 1, 10, 20}; }
int second(const Problem& problem, const Gpu&, int config) { return problem.may_slice_k ? -1 : config + 1; }

void test_the_dispatcher_asks_for_alike_configs() {
  Backend backend{80, 999, two, name_of, fields, runs, nullptr, by_rows, nullptr, nullptr, nullptr};
  Problem problem;
  problem.m = 7;
  expect(choice_of(backend, problem, kH200).config == 1, "by the rows that there are");
  is_batch_invariant = true;
  expect(choice_of(backend, problem, kH200).config == 0, "by fixed rows, where results are batch invariant");
  backend.choose_alike = second;
  const Choice choice = choice_of(backend, problem, kH200);
  is_batch_invariant = false;
  expect(choice.config == 1, "or one that adds alike");
  expect(choice.expected_ns == 10 && choice.compared_ns == 20, "whose time is that of the fixed rows");
}

}  // namespace

int main() {
  test_layers_do_not_split_k();
  test_a_very_long_k_is_split_for_any_rows();
  test_the_fastest_of_them();
  test_splits_begin_alike();
  test_fp8_keeps_how_sums_are_promoted();
  test_portable_kernels_keep_their_order();
  test_the_dispatcher_asks_for_alike_configs();
  return report("alike");
}
