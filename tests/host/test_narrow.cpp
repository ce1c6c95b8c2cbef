// How the kernels for few rows or columns read the long operand (cuda/common/narrow.h): every element once, by aligned
// loads, into the place where the threads look for it; and when the choice weighs them.
#include <initializer_list>
#include <vector>

#include "cuda/common/narrow.h"
#include "expect.h"

using namespace tileon;

namespace {

constexpr Gpu kHopper{90, 132, 227 * 1024};
constexpr int64_t kSizes[] = {1, 2, 7, 8, 9, 31, 64, 100, 257, 1024, 4099, 70000};
constexpr DType kDTypesHere[] = {DType::kFloat8E4M3, DType::kBFloat16, DType::kFloat32, DType::kFloat64};

// `long_is_b`: of a, m is the short side. `k_adjacent` is of the long operand, whose lines are `padding` longer.
Problem problem(DType dtype, int64_t batch, int64_t rows, int64_t columns, int64_t k, bool k_adjacent,
                bool long_is_b = false, int64_t padding = 0) {
  Problem result;
  result.batch = batch;
  result.m = long_is_b ? columns : rows;
  result.n = long_is_b ? rows : columns;
  result.k = k;
  result.a.dtype = result.b.dtype = result.out_dtype = dtype;
  const int64_t line = (k_adjacent ? k : rows) + padding, matrix = line * (k_adjacent ? rows : k);
  const Matrix wide{reinterpret_cast<void*>(4096), k_adjacent ? line : 1, k_adjacent ? 1 : line, matrix};
  const Matrix narrow{reinterpret_cast<void*>(4096), k, 1, 0};
  static_cast<Matrix&>(result.a) = long_is_b ? narrow : wide;
  static_cast<Matrix&>(result.b) = long_is_b ? wide : narrow;
  return result;
}

template <typename Visit>
void visit_problems(const Visit& visit_one) {
  for (const DType dtype : kDTypesHere)
    for (const int64_t batch : {1, 3, 1000})
      for (const int64_t rows : kSizes)
        for (const int64_t k : kSizes)
          for (const bool k_adjacent : {true, false})
            for (const int columns : kNarrowTiles)
              visit_one(problem(dtype, batch, rows, 1, k, k_adjacent, rows % 2 == 0, rows % 3 * 4), columns);
}

void test_a_plan_fits_its_kernel() {
  visit_problems([](const Problem& each, int columns) {
    const NarrowPlan plan = narrow_plan(each, columns);
    const int bytes = info(each.a.dtype).bytes, sum_bytes = bytes == 8 ? 8 : 4;
    const int vector = narrow_vector(bytes, plan.along_k, columns);
    const int strands = narrow_strands(bytes, plan.along_k, columns), line = 1 << plan.log_line;
    const int groups = plan.threads() / line;
    expect(plan.threads() >= 32 && plan.threads() <= kNarrowThreads && line <= plan.threads(), "whole warps");
    expect(plan.rows() == (plan.along_k ? groups * plan.strands : line * vector), "the rows are those of the threads");
    expect(plan.strands >= 1 && plan.strands <= strands, "no more strands than a thread has");
    expect(plan.rows() * columns * sum_bytes <= kNarrowSharedBytes, "the sums fit the shared memory");
    const int step = plan.along_k ? vector * line : strands * groups, chunk = narrow_chunk(sum_bytes, columns);
    expect(step <= chunk && chunk % step == 0, "a chunk is made of whole steps");
    expect(plan.chunk == chunk || (plan.chunk < chunk && plan.chunk % step == 0 && plan.chunk >= each.k),
           "a chunk that is all of k is no larger than that takes");
    expect(narrow_shared_bytes(plan, sum_bytes, columns) <= kNarrowSharedBytes, "it fits the shared memory");
    expect((plan.log_unit >= 0) && (1 << plan.log_unit) <= vector, "a unit is within a vector");
  });
}

void test_loads_are_aligned_and_lines_whole() {
  visit_problems([](const Problem& each, int columns) {
    const NarrowPlan plan = narrow_plan(each, columns);
    const Matrix& operand = narrow_long(each);
    const int64_t rows = narrow_rows(each), unit = int64_t{1} << plan.log_unit;
    if (unit == 1) return;
    const int64_t bytes = unit * info(each.a.dtype).bytes;
    const int64_t line = plan.along_k ? each.k : rows, across = plan.along_k ? operand.stride_mn : operand.stride_k;
    expect(bytes == 4 || bytes == 8 || bytes == 16, "a load is one of these");
    expect(line % unit == 0, "a line has whole units");
    expect((plan.along_k ? operand.stride_k : operand.stride_mn) == 1, "a unit's elements are adjacent");
    expect((plan.along_k ? rows : each.k) == 1 || across % unit == 0, "lines begin aligned");
    expect(each.batch == 1 || operand.stride_batch % unit == 0, "matrices begin aligned");
  });
}

void test_the_widest_loads() {
  const auto unit_bytes = [](const Problem& each) { return info(each.a.dtype).bytes << narrow_plan(each, 2).log_unit; };
  expect(unit_bytes(problem(DType::kBFloat16, 1, 4096, 1, 4096, true)) == 16, "rows of whole vectors");
  expect(unit_bytes(problem(DType::kBFloat16, 1, 4096, 1, 4096, false)) == 16, "columns of whole vectors");
  expect(unit_bytes(problem(DType::kFloat16, 34, 936, 2, 7190, true)) == 4, "rows of pairs");
  expect(unit_bytes(problem(DType::kFloat8E4M3, 16, 14479, 1, 8, true)) == 8, "rows of eight bytes");
  expect(unit_bytes(problem(DType::kFloat8E4M3, 25, 7808, 1, 1, true)) == 16, "one column");
  expect(unit_bytes(problem(DType::kFloat8E4M3, 1, 4096, 1, 4098, true)) == 1, "fp8 in pairs is read by bytes");
  Problem offset = problem(DType::kFloat32, 1, 4096, 1, 4096, true);
  offset.a.data = reinterpret_cast<void*>(4096 + 8);
  expect(unit_bytes(offset) == 8, "what begins at a multiple of eight");
  offset.a.stride_k = 2;
  expect(unit_bytes(offset) == 4, "every other element");
}

void test_lines_lie_where_elements_are_adjacent() {
  for (const bool long_is_b : {false, true}) {
    expect(narrow_plan(problem(DType::kFloat16, 1, 4096, 1, 512, true, long_is_b), 8).along_k, "rows");
    expect(!narrow_plan(problem(DType::kFloat16, 1, 4096, 1, 512, false, long_is_b), 8).along_k, "columns");
    expect(narrow_plan(problem(DType::kFloat16, 1, 4096, 1, 512, false, long_is_b), 8).long_is_b == long_is_b, "side");
  }
  expect(narrow_plan(problem(DType::kFloat16, 1, 1, 1, 512, false), 2).along_k, "one row is a line");
  expect(!narrow_plan(problem(DType::kFloat16, 1, 512, 1, 1, true), 2).along_k, "one column is a line");
}

void test_plans_fill_the_gpu() {
  const auto ctas = [](const Problem& each, int columns) {
    const NarrowPlan plan = narrow_plan(each, columns);
    return (narrow_rows(each) + plan.rows() - 1) / plan.rows() * each.batch;
  };
  for (const bool k_adjacent : {true, false}) {
    expect(ctas(problem(DType::kBFloat16, 1, 16384, 1, 4096, k_adjacent), 2) >= 132, "many rows");
    expect(ctas(problem(DType::kBFloat16, 1, 4096, 1, 4096, k_adjacent), 8) >= 132, "fewer");
    expect(ctas(problem(DType::kFloat8E4M3, 25, 7808, 1, 1, k_adjacent), 2) >= 132, "one element a row");
  }
  expect(ctas(problem(DType::kBFloat16, 1, 64, 1, 32768, true), 2) == 64, "a CTA a row");
  expect(narrow_plan(problem(DType::kBFloat16, 1, 1, 1, 32768, true), 2).threads() == 256, "whose warps share k");
  expect(narrow_plan(problem(DType::kBFloat16, 100000, 1, 1, 8, true), 2).threads() == 32, "or one warp, of many");
}

void test_an_order_gives_every_element_a_place_of_its_own() {
  for (int log_threads = 0; log_threads <= 8; ++log_threads)
    for (int log_vector = 1; log_vector <= 4; ++log_vector)
      for (int log_unit = 0; log_unit <= log_vector; ++log_unit) {
        const int log_group = log_vector < 2 ? log_vector : 2, count = 2 << (log_threads + log_vector);
        const NarrowOrder order{log_threads, log_unit, log_vector, log_group};
        std::vector<bool> taken(static_cast<size_t>(count));
        for (int i = 0; i < count; ++i) {
          const int place = order.place(i);
          const bool is_new = place >= 0 && place < count && !taken[static_cast<size_t>(place)];
          expect(is_new, "places are a permutation");
          if (is_new) taken[static_cast<size_t>(place)] = true;
          // the thread that has loaded it, and which of its elements it is, as the kernels read them
          const int unit = i >> log_unit, thread = unit & ((1 << log_threads) - 1);
          const int step = i >> (log_threads + log_vector);
          const int of_thread =
              ((unit >> log_threads) << log_unit | (i & ((1 << log_unit) - 1))) - (step << log_vector);
          const int group = of_thread >> log_group, groups = step << (log_vector - log_group);
          expect(place == ((((group + groups) << log_threads) + thread) << log_group) + of_thread % (1 << log_group),
                 "a thread finds its elements");
        }
      }
}

void test_the_choice_weighs_few_rows_or_columns_and_small_products() {
  const auto pays = [](int64_t m, int64_t n, double ns) {
    Problem each = problem(DType::kBFloat16, 1, m, n, 4096, true);
    return narrow_pays(each, kHopper, ns, true);
  };
  expect(pays(4096, 8, 1e9) && pays(8, 4096, 1e9) && pays(1, 1, 1e9), "few of either");
  expect(!pays(9, 9, 1e9) && !pays(4096, 4096, 1e9), "many of both");
  const auto weighs = [](DType dtype, int64_t size, int64_t k) {
    return may_be_narrow(problem(dtype, 1, size, size, k, true));
  };
  expect(weighs(DType::kBFloat16, 62, 512) && weighs(DType::kFloat32, 40, 4096), "but of a small product");
  expect(!weighs(DType::kBFloat16, 40, 513) && !weighs(DType::kFloat32, 200, 201), "which is not so small");
  Problem fixed = problem(DType::kBFloat16, 1, 4096, 8, 4096, true);
  fixed.may_slice_k = false;
  expect(!narrow_pays(fixed, kHopper, 1e9, true), "not where no row may hang on others");
  expect(!pays(4096, 8, 1.0), "not where another kernel is faster");
  expect(narrow_pays(problem(DType::kBFloat16, 1, 4096, 1, 64, true), kHopper, 1e9) == kNarrowMeasured,
         "not before they have run on hardware");
}

void test_costs_grow_with_the_work() {
  const auto ns = [](int64_t batch, int64_t rows, int64_t columns, int64_t k) {
    return narrow_ns(problem(DType::kBFloat16, batch, rows, columns, k, true), kHopper);
  };
  expect(ns(1, 65536, 1, 4096) > 65536.0 * 4096 * 2 / 4800, "no faster than memory");
  expect(ns(1, 65536, 1, 4096) < 65536.0 * 4096 * 2 / 2000, "near it, of a large operand");
  expect(ns(1, 64, 1, 64) < 10000, "a launch and a wave, of a small one");
  expect(ns(1, 4096, 8, 4096) > ns(1, 4096, 8, 1024) && ns(16, 4096, 8, 1024) > ns(1, 4096, 8, 1024), "more work");
  expect(ns(1, 65536, 16, 4096) > 1.9 * ns(1, 65536, 8, 4096), "columns beyond eight read the operand again");
}

}  // namespace

int main() {
  test_a_plan_fits_its_kernel();
  test_loads_are_aligned_and_lines_whole();
  test_the_widest_loads();
  test_lines_lie_where_elements_are_adjacent();
  test_plans_fill_the_gpu();
  test_an_order_gives_every_element_a_place_of_its_own();
  test_the_choice_weighs_few_rows_or_columns_and_small_products();
  test_costs_grow_with_the_work();
  return report("narrow");
}
