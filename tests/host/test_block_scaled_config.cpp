// The choice of the portable block-scaled kernels, how they read an operand, and what torch's scaled_mm takes instead.
#include <initializer_list>

#include "cuda/dispatch/scaled_mm_rules.h"
#include "cuda/sm80/heuristics/choice.h"
#include "expect.h"

namespace {

using namespace tileon;

constexpr Gpu kH200{90, 132, 227 * 1024, 90};
constexpr Gpu kAda{89, 128, 99 * 1024, 89};

Problem problem_of(int64_t m, int64_t n, int64_t k) {
  Problem problem;
  problem.m = m;
  problem.n = n;
  problem.k = k;
  problem.out_dtype = DType::kFloat16;
  for (Operand* operand : {&problem.a, &problem.b}) {
    operand->dtype = DType::kFloat8E4M3;
    operand->scale.vec = 32;
  }
  return problem;
}

Operand operand_at(uintptr_t address, int64_t stride_mn, int64_t stride_k, DType element) {
  Operand operand;
  operand.data = reinterpret_cast<const void*>(address);
  operand.stride_mn = stride_mn;
  operand.stride_k = stride_k;
  operand.dtype = element;
  operand.scale.vec = 32;
  return operand;
}

sm80::TileConfig chosen(const Problem& problem, const Gpu& gpu) {
  return sm80::kBlockScaledConfigs[sm80::choose(sm80::kBlockScaledConfigs, problem, gpu)].tile;
}

void check_choice() {
  for (const Gpu& gpu : {kH200, kAda}) {
    for (const sm80::KernelConfig& config : sm80::kBlockScaledConfigs)
      expect(sm80::why_not(config, sm80::Kind::kMxfp8, problem_of(1, 1, 32), gpu) == nullptr,
             "every config fits every GPU that has the portable kernels");
    const sm80::TileConfig large = chosen(problem_of(8192, 8192, 4096), gpu);
    expect(large.tile_m * large.tile_n == 256 * 128, "large products take the largest tiles");
    expect(chosen(problem_of(1, 4096, 4096), gpu).tile_m < 128, "a single row takes a low tile");
    expect(chosen(problem_of(1, 1, 4096), gpu).tile_m > 0, "there is a config for the smallest product");
    Problem mixed = problem_of(8192, 8192, 4096);
    mixed.b.dtype = DType::kFloat4E2M1;
    expect(chosen(mixed, gpu).tile_n == 256, "the long side of the tile is where the elements are short");
    mixed.b.dtype = DType::kFloat8E4M3;
    mixed.a.dtype = DType::kFloat4E2M1;
    expect(chosen(mixed, gpu).tile_m == 256, "in either order");
  }
}

void check_kinds() {
  Problem problem = problem_of(1, 1, 32);
  const auto is = [&](DType a, DType b, ScaleType scale, sm80::Kind kind) {
    problem.a.dtype = a;
    problem.b.dtype = b;
    problem.b.scale.type = scale;
    return sm80::kind_of(problem) == kind;
  };
  constexpr auto e4m3 = DType::kFloat8E4M3, e2m1 = DType::kFloat4E2M1;
  using sm80::Kind;
  expect(is(e2m1, e2m1, ScaleType::kE4M3, Kind::kNvfp4) && is(e2m1, e2m1, ScaleType::kE8M0, Kind::kMxfp4) &&
             is(e4m3, e4m3, ScaleType::kE8M0, Kind::kMxfp8) && is(e4m3, e2m1, ScaleType::kE8M0, Kind::kMxE4M3E2M1) &&
             is(e2m1, e4m3, ScaleType::kE8M0, Kind::kMxE2M1E4M3),
         "pairs of formats");
}

void check_access() {
  const auto reads = [](uintptr_t address, int64_t stride_mn, int64_t stride_k, ScaleType scale, int64_t mn,
                        int64_t k) {
    Problem problem = problem_of(mn, 1, k);
    problem.b.scale.type = scale;
    return !wants_copy_of_codes(operand_at(address, stride_mn, stride_k, DType::kFloat4E2M1), mn, problem);
  };
  constexpr auto e8m0 = ScaleType::kE8M0, e4m3 = ScaleType::kE4M3;
  expect(reads(256, 32, 1, e8m0, 5, 64), "aligned rows");
  expect(!reads(257, 32, 1, e8m0, 5, 64), "an odd address");
  expect(!reads(256, 40, 1, e8m0, 5, 64), "rows 40 bytes apart, for loads of 16");
  expect(reads(256, 40, 1, e4m3, 5, 80), "and for loads of 8");
  expect(reads(256, 33, 1, e8m0, 1, 64), "the stride of a single row is never used");
  expect(!reads(256, 1, 64, e8m0, 5, 64), "a transposed view");
  expect(reads(1, 3, 7, e8m0, 0, 64), "nothing is read of an empty operand");
}

void check_scaled_mm() {
  Problem problem = problem_of(256, 128, 512);
  problem.out = {nullptr, 128, 1, 0};
  problem.a = operand_at(256, 512, 1, DType::kFloat8E4M3);
  problem.b = operand_at(512, 512, 1, DType::kFloat8E4M3);
  problem.a.scale.strides = problem.b.scale.strides = packed_scales(512 / 32);
  expect(scaled_mm_takes(problem), "plain mxfp8");
  const auto refused = [&](auto change) {
    Problem other = problem;
    change(other);
    return !scaled_mm_takes(other);
  };
  expect(refused([](auto& p) { p.a.dtype = DType::kFloat4E2M1; }), "mixed operands");
  expect(refused([](auto& p) { p.b.scale.type = ScaleType::kE4M3; }), "signed scales");
  expect(refused([](auto& p) { p.b.scale.strides = flat_scales(16, 1); }), "2-D scales");
  expect(refused([](auto& p) { p.a.stride_mn = 528; }), "rows with gaps");
  expect(refused([](auto& p) { p.n = 120; }), "columns that are no multiple of 16");
  expect(refused([](auto& p) { p.out_dtype = DType::kFloat8E4M3; }), "an output of e4m3");
  expect(refused([](auto& p) { p.epilogue.activation = Activation::kRelu; }), "an activation");
  expect(
      !has_block_scaled_tensor_cores(90) && has_block_scaled_tensor_cores(100) && !has_block_scaled_tensor_cores(120),
      "which GPUs are asked");
}

}  // namespace

int main() {
  check_choice();
  check_kinds();
  check_access();
  check_scaled_mm();
  return report("block-scaled config");
}
