// What a way of computing a call asks for besides the result, and what is said where that does not fit.
#include <cstdint>

#include "core/memory_text.h"
#include "cuda/dispatch/plan.h"
#include "expect.h"

using namespace tileon;

namespace {

int64_t scratch_of_600(int, const Problem&, const Gpu&) { return 600; }
const Backend kNeedsNone{};
const Backend kNeedsScratch = [] {
  Backend backend{};
  backend.scratch_bytes = scratch_of_600;
  return backend;
}();

// The copies and the scratch of a way lie behind one another in one buffer.
void test_memory_of_a_way() {
  Way way({&kNeedsNone, 0}, {});
  expect(way.bytes({}) == 0 && way.begin_of_scratch() == 0, "nothing is asked for");
  way.config.backend = &kNeedsScratch;
  expect(way.bytes({}) == 600 && way.begin_of_scratch() == 0, "scratch alone");
  way.b.emplace(Matrix{nullptr, 7, 1, 0}, 1, 5, 7, DType::kBFloat16);  // 160 bytes
  expect(way.begin_of_b() == 0 && way.begin_of_scratch() == 256 && way.bytes({}) == 856, "behind a copy of b");
  way.a.emplace(Matrix{nullptr, 7, 1, 0}, 1, 40, 7, DType::kBFloat16);  // 1280
  expect(way.begin_of_b() == 1280 && way.begin_of_scratch() == 1536 && way.bytes({}) == 2136, "a, b, scratch");
}

// The copy that is planned is the one that is made: where it lies, and how many bytes that takes.
void test_planned_copies() {
  int memory[4];
  const AlignedCopy rows({memory, 7, 1, 0}, 1, 5, 7, DType::kBFloat16);  // 5 rows of 7 along k: of 16 with the padding
  expect(rows.k_is_adjacent && rows.pitch == 16 && rows.bytes() == 5 * 16 * 2, "rows begin at sectors");
  const Matrix of_rows = rows.at(memory);
  expect(of_rows.data == memory && of_rows.stride_mn == 16 && of_rows.stride_k == 1 && of_rows.stride_batch == 0,
         "rows");
  const AlignedCopy columns({memory, 1, 33, 33 * 9}, 4, 33, 9, DType::kFloat32);  // mn adjacent, 4 of a batch
  expect(!columns.k_is_adjacent && columns.pitch == 40 && columns.bytes() == 4 * 9 * 40 * 4, "columns");
  const Matrix of_columns = columns.at(nullptr);
  expect(of_columns.stride_mn == 1 && of_columns.stride_k == 40 && of_columns.stride_batch == 9 * 40, "of a batch");
  const AlignedCopy shared({memory, 7, 1, 0}, 64, 5, 7, DType::kFloat16);
  expect(shared.bytes() == 5 * 16 * 2 && shared.at(memory).stride_batch == 0, "one matrix serves the whole batch");
  const AlignedCopy lines({memory, 257, 1, 0}, 1, 3, 257, DType::kBFloat16);
  expect(lines.pitch == 320 && lines.bytes() == 3 * 320 * 2, "long rows begin at lines of 128 bytes");
  const Operand fp4{{memory, 1, 96, 0}, DType::kFloat4E2M1, {}};  // pairs of codes along the rows
  const AlignedCopy codes = copy_of_codes(fp4, 96, 50);
  expect(codes.k_is_adjacent && codes.pitch == 32 && codes.bytes() == 96 * 32, "codes become rows of pairs");
}

void test_words() {
  const Shape shape{2, {1 << 20, 1 << 12}};
  expect(memory_text("matmul", shape, 4, true).find("CUDA out of memory. Tried to allocate 16.00 GiB for matmul") == 0,
         "a GPU's words begin as torch's");
  expect(memory_text("matmul", shape, 4, false)
                 .find("DefaultCPUAllocator: can't allocate memory: you tried to allocate 17179869184 bytes") == 0,
         "and the CPU's");
  expect(memory_text("matmul", {2, {int64_t{1} << 40, int64_t{1} << 40}}, 8, true).size() < 300, "of any size");
}

}  // namespace

int main() {
  test_memory_of_a_way();
  test_planned_copies();
  test_words();
  return report("fit memory");
}
