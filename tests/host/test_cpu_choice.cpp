// What multiplies on the CPU (cpu/choice.h): tiles or ATen, by the problem and by what is true of the processor.
#include <initializer_list>

#include "cpu/choice.h"
#include "expect.h"

namespace {

using namespace tileon;

constexpr DType kF32 = DType::kFloat32, kF64 = DType::kFloat64;

// Row-major; `across`: b is, too, else its columns' elements are adjacent, as those of x @ weight.t().
Problem product(DType dtype, int64_t m, int64_t n, int64_t k, bool across = false) {
  Problem problem;
  problem.m = m, problem.n = n, problem.k = k;
  problem.out_dtype = problem.a.dtype = problem.b.dtype = dtype;
  problem.a.stride_mn = k, problem.a.stride_k = 1;
  problem.b.stride_mn = across ? 1 : k, problem.b.stride_k = across ? n : 1;
  return problem;
}

bool slow(const Problem& problem) { return is_for_aten(problem, false, false); }
bool fast(const Problem& problem) { return is_for_aten(problem, false, true); }

void check_any_processor() {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat8E4M3})
    expect(!slow(product(dtype, 200, 200, 200)) && !fast(product(dtype, 200, 200, 200)),
           "nothing that ATen would widen");
  for (const DType dtype : {kF32, kF64}) {
    expect(!slow(product(dtype, 8, 8, 8)) && !fast(product(dtype, 8, 8, 8)), "small ones are tiles'");
    expect(slow(product(dtype, 100, 100, 100)), "others ATen's");
    expect(!is_for_aten(product(dtype, 999, 999, 999), true, false), "not where sums must not hang on the rows");
  }
  expect(!slow(product(kF32, 32, 512, 512)) && slow(product(kF32, 33, 512, 512)), "a few rows by adjacent ones");
  expect(slow(product(kF32, 32, 512, 512, true)) && slow(product(kF64, 32, 512, 512)), "of float32 alone");
}

void check_fast_tiles() {
  for (const bool across : {false, true}) {
    expect(!fast(product(kF32, 64, 64, 96, across)) && fast(product(kF32, 640, 64, 95, across)), "from 96 k on");
    expect(!fast(product(kF64, 64, 64, 192, across)) && fast(product(kF64, 64, 64, 191, across)),
           "of float64 from 192");
    expect(!fast(product(kF32, 2048, 4, 2048, across)) && fast(product(kF32, 2048, 3, 2048, across)), "four columns");
  }
  expect(!fast(product(kF32, 16, 512, 512, true)) && fast(product(kF32, 15, 512, 512, true)), "columns are copied");
  expect(!fast(product(kF64, 64, 512, 512, true)) && fast(product(kF64, 63, 512, 512, true)), "for enough rows");
  expect(!fast(product(kF64, 2, 512, 512)), "rows are not");
  Problem batch = product(kF32, 8, 64, 128, true);
  batch.batch = 64;
  expect(!fast(batch), "rows of a batch that shares b");
  batch.b.stride_batch = 64 * 128;
  expect(fast(batch), "and of one that does not");
}

void check_bfloat16() {
  const Problem many = product(DType::kBFloat16, 64, 1024, 1024);
  expect(is_bfloat16_for_aten(many, false) && !is_bfloat16_for_aten(many, true), "many rows");
  const auto refused = [&](const auto& change) {
    Problem other = many;
    change(other);
    return !is_bfloat16_for_aten(other, false);
  };
  expect(refused([](Problem& p) { p.m = 63; }) && refused([](Problem& p) { p.k = 64; }), "few rows, few products");
  expect(refused([](Problem& p) { p.out_dtype = kF32; }), "sums that are not rounded to bfloat16");
  expect(refused([](Problem& p) { p.epilogue.activation = Activation::kRelu; }), "an activation");
  expect(refused([](Problem& p) { p.batch = 2; }), "a batch");
}

void check_folds() {
  const auto of = [](int64_t m, DType b, bool fast_accum) {
    Problem problem = product(DType::kFloat8E4M3, m, 64, 64);
    problem.b.dtype = b, problem.fast_accum = fast_accum;
    problem.a.scale = problem.b.scale = {nullptr, ScaleType::kE8M0, 32, {}};
    return problem;
  };
  for (const DType b : {DType::kFloat8E4M3, DType::kFloat4E2M1}) {
    expect(folds(of(65, b, true), false) && !folds(of(64, b, true), false), "more than a few rows");
    expect(folds(of(1, b, true), true), "any number where results hang on none");
    expect(!folds(of(65, b, false), true), "what may not be folded");
  }
  Problem mxfp4 = of(65, DType::kFloat4E2M1, true);
  mxfp4.a.dtype = DType::kFloat4E2M1;
  expect(!folds(mxfp4, true), "no mxfp4");
}

}  // namespace

int main() {
  check_any_processor();
  check_fast_tiles();
  check_bfloat16();
  check_folds();
  return report("test_cpu_choice");
}
