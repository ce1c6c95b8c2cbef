// What is copied before a product runs (plan.h), with backends that only say what they take.
#include "cuda/dispatch/plan.h"

#include "expect.h"

namespace tileon {

namespace sm80 {
bool pays_for_copies(const Problem& problem, const Gpu&) { return problem.k >= 1000; }
bool wants_widening(const Problem& problem, const Gpu&) { return is_float8(problem.a.dtype); }
}  // namespace sm80

namespace {

const Gpu kHopper{90, 132, 0}, kOlder{80, 108, 0};
char memory[64];

int one_config() { return 1; }
bool lies_along_k(const Matrix& operand) { return operand.stride_k == 1; }

// Takes operands along k alone, and of fp8 and float16.
Choice choose_along_k(const Problem& problem, const Gpu&) {
  return {lies_along_k(problem.a) && lies_along_k(problem.b) ? 0 : -1};
}
WantedCopy wants_operand_along_k(Side side, const Problem& problem) {
  const Operand& operand = side == Side::kA ? problem.a : problem.b;
  if (lies_along_k(operand)) return WantedCopy::kNone;
  return is_float8(operand.dtype) ? WantedCopy::kAlongK : WantedCopy::kAsItLies;
}
Choice choose_any(const Problem&, const Gpu&) { return {0}; }
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
  const Problem problem = product(DType::kFloat8E4M3, 8, 30000, 1001, true, false);
  const Way way = plan({kTable}, problem, kHopper);
  expect(!way.a && way.b && way.problem.b.dtype == DType::kFloat8E4M3, "an operand across k, however large, as fp8");
  const OperandCopyProblem across = way.b->of(problem.b, memory);
  expect(across.rows == 30000 && across.columns == 1001 && across.from_row == 1 && across.from_column == 30000,
         "whose columns become rows");
  expect(across.to_row == 1024 && across.to_batch == 30000 * 1024, "that begin at multiples of 128 bytes");

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

void test_small_products_copy_nothing() {
  const Way way = plan({kTable}, product(DType::kFloat8E4M3, 8, 300, 100, false, true), kHopper);
  expect(!way.a && !way.b && way.config.backend == &kPortable, "where copies do not pay the portable kernels read all");
}

void test_sixteen_bits_keep_their_layout() {
  const Way way = plan({kTable}, product(DType::kBFloat16, 9, 300, 1001, true, false), kHopper);
  expect(!way.a && way.b && !way.b->k_is_adjacent && way.b->pitch == 320, "columns stay columns");
  expect(way.config.backend == &kPortable, "which the first backend here does not read");
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
  return report("plan");
}
