// What is copied before a product runs (plan.h), with backends that only say what they take.
#include "cuda/dispatch/plan.h"

#include <cmath>

#include "cuda/sm80/heuristics/choice.h"
#include "cuda/sm90/heuristics/select.h"
#include "expect.h"

namespace tileon {

namespace sm80 {
bool wants_widening(const Problem& problem, const Gpu&) { return is_float8(problem.a.dtype); }
}  // namespace sm80

namespace {

const Gpu kHopper{90, 132, 0}, kOlder{80, 108, 0};
alignas(16) char memory[64];  // TMA can write an output there

int one_config() { return 1; }
bool lies_along_k(const Matrix& operand) { return operand.stride_k == 1; }

// Takes operands of fp8 along k alone, others that are aligned too, in a tenth of the time that the portable backend
// takes for any.
double any_ns(const Problem& problem) {
  return 10.0 * static_cast<double>(problem.k) / (problem.a.dtype == DType::kFloat16 ? 20 : 1);
}
Choice choose_along_k(const Problem& problem, const Gpu&) {
  const auto takes = [](const Operand& operand) {
    return lies_along_k(operand) || (!is_float8(operand.dtype) && operand.stride_k % 32 == 0);
  };
  return {takes(problem.a) && takes(problem.b) ? 0 : -1, any_ns(problem) / 10};
}
WantedCopy wants_operand_along_k(Side side, const Problem& problem) {
  const Operand& operand = side == Side::kA ? problem.a : problem.b;
  if (lies_along_k(operand)) return WantedCopy::kNone;
  return is_float8(operand.dtype) ? WantedCopy::kAlongK : WantedCopy::kAsItLies;
}
Choice choose_any(const Problem& problem, const Gpu&) { return {0, any_ns(problem)}; }
WantedCopy wants_none(Side, const Problem&) { return WantedCopy::kNone; }

const Backend kFirst{
    90, 90, one_config, nullptr, nullptr, nullptr, nullptr, choose_along_k, wants_operand_along_k, nullptr, nullptr};
const Backend kPortable{80,      999,        one_config, nullptr, nullptr, nullptr,
                        nullptr, choose_any, wants_none, nullptr, nullptr};
const Backend* const kTable[] = {&kFirst, &kPortable};

Problem product(DType dtype, int64_t m, int64_t n, int64_t k, bool a_along_k, bool b_along_k) {
  Problem problem;
  problem.m = m, problem.n = n, problem.k = k;
  const auto operand = [&](int64_t mn, bool along_k) -> Operand {
    return {{memory, along_k ? k : 1, along_k ? 1 : mn, 0}, dtype, {}};
  };
  problem.a = operand(m, a_along_k);
  problem.b = operand(n, b_along_k);
  return problem;
}

void test_an_operand_of_fp8_is_copied_along_k_alone() {
  const Way way = plan({kTable}, product(DType::kFloat8E4M3, 8, 300, 1001, false, true), kHopper);
  expect(way.a && !way.b && way.config.backend == &kFirst, "only the operand that does not lie along k is copied");
  expect(way.a->k_is_adjacent && way.a->pitch == 1024 && way.a->bytes() == 8 * 1024, "into aligned rows of bytes");
  expect(way.problem.a.dtype == DType::kFloat8E4M3 && way.problem.a.stride_mn == 1024, "as the kernel then reads it");
}

void test_operands_of_fp8_are_widened_where_no_other_backend_takes_them() {
  const Way way = plan({kTable}, product(DType::kFloat8E4M3, 8, 300, 1001, false, true), kOlder);
  expect(way.a && way.b && way.config.backend == &kPortable, "both are copied");
  expect(way.problem.a.dtype == DType::kFloat16 && way.problem.b.dtype == DType::kFloat16, "as float16");
  expect(!way.a->k_is_adjacent && way.b->k_is_adjacent, "each laid out as it was");
}

void test_how_a_copy_is_made() {
  const Problem problem = product(DType::kFloat8E4M3, 8, 3000, 1001, true, false);
  const Way way = plan({kTable}, problem, kHopper);
  expect(!way.a && way.b && way.problem.b.dtype == DType::kFloat8E4M3, "an operand across k as fp8");
  const OperandCopyProblem across = way.b->of(problem.b, memory);
  expect(across.rows == 3000 && across.columns == 1001 && across.from_row == 1 && across.from_column == 3000,
         "whose columns become rows");
  expect(across.to_row == 1024 && across.to_batch == 3000 * 1024, "that begin at multiples of 128 bytes");

  Problem wide = product(DType::kBFloat16, 9, 300, 1001, true, false);
  wide.batch = 3;
  wide.b.stride_batch = 300 * 1001 + 1;
  const OperandCopyProblem along = plan({kTable}, wide, kHopper).b->of(wide.b, memory);
  expect(along.batch == 3 && along.rows == 1001 && along.columns == 300 && along.element_bytes == 2,
         "columns of 16 bits stay columns");
  expect(along.from_row == 600 && along.from_column == 2 && along.from_batch == 2 * (300 * 1001 + 1), "in bytes");
  expect(along.to_row == 640 && along.to_batch == 1001 * 640, "of the copy, too");
}

// Another config for each number of rows, of which every other one takes no more than 1000 rows.
Choice choose_by_rows(const Problem& problem, const Gpu&) { return {static_cast<int>(problem.m % 100)}; }
const char* why_not_many_rows(int number, const Problem& problem, const Gpu&) {
  return number % 2 == 0 && problem.m > 1000 ? "too many rows" : nullptr;
}

ConfigFields plain_fields(int) { return {"bfloat16", "sm80", "mma", "plain", 64, 64, 64}; }
ConfigFields fields_of_few_rows(int) { return {"mxfp4", "sm90", "small_m", "decoded", 64, 128, 256}; }

void test_the_batch_invariant_choice_does_not_look_at_the_rows() {
  Backend by_rows = kPortable;
  by_rows.config_fields = plain_fields;
  by_rows.choose_config = choose_by_rows;
  by_rows.why_not = why_not_many_rows;
  Backend any = kPortable;
  any.config_fields = plain_fields;
  any.why_not = why_not_many_rows;
  any.choose_config = [](const Problem&, const Gpu&) { return Choice{1}; };
  const Backend* const table[] = {&by_rows, &any};
  const auto chosen = [&](int64_t m, int64_t batch) {
    Problem problem = product(DType::kBFloat16, m, 300, 1001, true, true);
    problem.batch = batch;
    return plan({table}, problem, kOlder).config;
  };
  expect(chosen(7, 1).number == 7 && chosen(8, 3).number == 8, "the free choice looks at the rows");
  is_batch_invariant = true;
  for (const int64_t m : {1, 7, 256, 999}) expect(chosen(m, m).number == 56, "the choice of 256 rows");
  expect(chosen(1001, 1).backend == &any, "another backend where that config cannot run the problem");
  by_rows.config_fields = fields_of_few_rows;
  expect(chosen(7, 1).backend == &any, "another backend where the order of its sums hangs on the rows");
  is_batch_invariant = false;
}

// However many rows there are: neither whether copies are made, nor where their lines begin.
void test_batch_invariant_copies_do_not_look_at_the_rows() {
  Backend first = kFirst, portable = kPortable;
  first.config_fields = portable.config_fields = plain_fields;
  first.why_not = portable.why_not = [](int, const Problem&, const Gpu&) -> const char* { return nullptr; };
  const Backend* const table[] = {&first, &portable};
  const auto way_of = [&](int64_t m) {
    Problem problem = product(DType::kFloat8E4M3, m, 300, 2001, false, false);
    problem.a.stride_k = 400;
    return plan({table}, problem, kHopper);
  };
  const auto pitch_of = [&](int64_t m) {
    Problem problem = product(DType::kBFloat16, m, 300, 1001, false, true);
    problem.a.stride_k = 301;
    return plan({table}, problem, kHopper).a->pitch;
  };
  expect(pitch_of(20) == 32, "few rows have short lines");
  is_batch_invariant = true;
  for (int64_t m = 1; m <= 300; ++m) {
    expect(way_of(m).a.has_value() == way_of(256).a.has_value(), "as for 256 rows");
    expect(pitch_of(m) % 64 == 0, "lines begin where L2's do");
  }
  is_batch_invariant = false;
}

void test_small_products_copy_nothing() {
  const Way way = plan({kTable}, product(DType::kFloat8E4M3, 8, 300, 100, false, true), kHopper);
  expect(!way.a && !way.b && way.config.backend == &kPortable, "where copies do not pay the portable kernels read all");
}

void test_the_price_of_copies() {
  const Problem problem = product(DType::kBFloat16, 1000, 2000, 3000, true, false);
  const auto ns_of = [&](const Operand& operand, int64_t mn, DType dtype, bool along_k, const Gpu& gpu) {
    const AlignedCopy copy(operand, 1, mn, problem.k, dtype, along_k);
    return copy_ns(operand, copy, mn * problem.k, true, gpu);
  };
  Gpu fast = kHopper;
  fast.memory_gb_a_second = 4000;
  const double lines = ns_of(problem.a, 1000, DType::kBFloat16, false, fast);
  expect(std::abs(lines - 2 * 2 * 3e6 / (0.9 * 4000)) < 1, "bytes are read and written");
  expect(ns_of(problem.b, 2000, DType::kBFloat16, false, fast) == 2 * lines, "columns that stay columns are lines");
  expect(ns_of(problem.b, 2000, DType::kBFloat16, true, fast) > 2.2 * lines, "columns that become lines take longer");
  expect(ns_of(problem.a, 1000, DType::kFloat32, false, fast) > 1.5 * lines + 2000, "and other elements");
  Problem codes = product(DType::kFloat8E4M3, 1000, 2000, 3000, true, false);
  const auto transposed = [&](bool knows_begin) {
    return copy_ns(codes.b, AlignedCopy(codes.b, 1, 2000, 3000, codes.b.dtype, true), 6'000'000, knows_begin, fast);
  };
  const double words = transposed(true), bytes = transposed(false);
  expect(bytes > words + 1000, "where nobody may know where lines begin, of bytes");
  codes.b.stride_k = 2001;
  expect(transposed(true) == bytes, "as where they begin anywhere");
  const double unknown = ns_of(problem.a, 1000, DType::kBFloat16, false, kHopper);
  expect(std::abs(unknown - lines * 4000 / 4800) < 1, "memory of which nothing is known is an H200's");
}

void test_what_is_read_as_it_lies_may_still_be_copied() {
  Backend reads_all = kFirst;
  reads_all.choose_config = [](const Problem& problem, const Gpu&) { return Choice{0, any_ns(problem) / 20}; };
  const Backend* const table[] = {&reads_all, &kPortable};
  const Problem problem = product(DType::kBFloat16, 9, 300, 1001, true, false);
  expect(!plan({table}, problem, kHopper).b, "not where it takes less as it lies");
  reads_all.choose_config = [](const Problem& problem, const Gpu&) {
    return Choice{0, any_ns(problem) / (problem.b.stride_k == 300 ? 1 : 20)};
  };
  expect(plan({table}, problem, kHopper).b.has_value(), "where the copy saves more than it takes");
}

void test_sixteen_bits_keep_their_layout() {
  const Way way = plan({kTable}, product(DType::kBFloat16, 9, 300, 1001, true, false), kHopper);
  expect(!way.a && way.b && !way.b->k_is_adjacent && way.b->pitch == 320, "columns stay columns");
  expect(way.config.backend == &kFirst, "which the first backend reads");
}

void test_copies_of_float32_must_promise_more() {
  const auto copies = [](DType dtype, double share) {
    static double of_copied;
    of_copied = share * 10'000 - kCopyStartNs;
    Backend reads_copies = kFirst;
    reads_copies.choose_config = [](const Problem& problem, const Gpu&) {
      return Choice{problem.b.stride_k == 300 ? -1 : 0, of_copied};
    };
    reads_copies.wants_copy = [](Side side, const Problem& problem) {
      return side == Side::kB && problem.b.stride_k == 300 ? WantedCopy::kAsItLies : WantedCopy::kNone;
    };
    const Backend* const table[] = {&reads_copies, &kPortable};
    return plan({table}, product(dtype, 9, 300, 1000, true, false), kHopper).b.has_value();
  };
  expect(copies(DType::kBFloat16, 0.9) && !copies(DType::kBFloat16, 1.0), "of 16 bits as much as they take");
  expect(copies(DType::kFloat32, 0.75) && !copies(DType::kFloat32, 0.9), "of float32 more");
}

// By the choices that the library has, of 16 bits.
void test_copies_pay_for_large_products_and_for_a_long_k() {
  const auto wants_aligned = [](Side side, const Problem& problem) {
    const bool is_a = side == Side::kA;
    const bool reads = sm80::reads_vectors(is_a ? problem.a : problem.b, problem, is_a ? problem.m : problem.n);
    return reads ? WantedCopy::kNone : WantedCopy::kAsItLies;
  };
  Backend hopper = kFirst, portable = kPortable;
  hopper.choose_config = sm90::weigh_dense, hopper.wants_copy = wants_aligned;
  portable.choose_config = sm80::choose_dense, portable.wants_copy = wants_aligned;
  const Backend* const table[] = {&hopper, &portable};
  const auto pays = [&](int64_t m, int64_t n, int64_t k, const Gpu& gpu) {
    Problem problem = product(DType::kBFloat16, m, n, k, true, true);
    problem.a.stride_mn = problem.b.stride_mn = k + 1 - k % 2;  // no row is aligned
    problem.out = {memory, n, 1, 0}, problem.out_dtype = DType::kBFloat16;
    const Way way = plan({table}, problem, gpu);
    expect((way.config.backend == &hopper) == (way.a && gpu.capability == 90), "Hopper's kernels read the copies");
    return way.a.has_value();
  };
  const Gpu h200{90, 132, 227 * 1024, 90, -1, 4800}, h100{90, 132, 227 * 1024, 90, -1, 3350};
  const Gpu a100{80, 108, 163 * 1024, 80, -1, 2039};
  for (const Gpu& gpu : {h200, h100, a100}) {
    expect(pays(1024, 1024, 256, gpu) && pays(4096, 4096, 1000, gpu), "of large products");
    if (gpu.capability == 90) expect(pays(8192, 8192, 16, gpu), "a large output of a short k, too");
    expect(pays(200, 300, 8000, gpu), "a CTA walks a long k by itself");
    expect(!pays(24, 88, 100, gpu) && !pays(200, 300, 110, gpu), "a short one costs less than a launch");
    expect(!pays(36, 6162, 35, gpu) && !pays(404, 1903, 11, gpu), "whatever the output's size");
  }
}

}  // namespace
}  // namespace tileon

int main() {
  tileon::test_an_operand_of_fp8_is_copied_along_k_alone();
  tileon::test_operands_of_fp8_are_widened_where_no_other_backend_takes_them();
  tileon::test_how_a_copy_is_made();
  tileon::test_the_batch_invariant_choice_does_not_look_at_the_rows();
  tileon::test_small_products_copy_nothing();
  tileon::test_sixteen_bits_keep_their_layout();
  tileon::test_the_price_of_copies();
  tileon::test_copies_of_float32_must_promise_more();
  tileon::test_batch_invariant_copies_do_not_look_at_the_rows();
  tileon::test_copies_pay_for_large_products_and_for_a_long_k();
  tileon::test_what_is_read_as_it_lies_may_still_be_copied();
  return report("plan");
}
