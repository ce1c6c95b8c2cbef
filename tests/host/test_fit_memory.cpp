// The way of computing a call that fits in memory, by an allocator that refuses what it is told to.
#include <cstdint>
#include <set>
#include <vector>

#include "core/memory_text.h"
#include "cuda/dispatch/plan.h"
#include "expect.h"

using namespace tileon;

namespace {

// Refuses its requests of these numbers, counted from 0, and remembers what it has granted and got back.
struct Allocator {
  std::set<int> refused = {};
  int requests = 0;
  int64_t held = 0;
  std::vector<int64_t> sizes = {};

  int choose(const std::vector<MemoryNeeds>& ways) {
    return first_that_fits(
        ways,
        [this](Request, int64_t bytes) {
          if (refused.count(requests++) != 0) return false;
          held += bytes;
          sizes.push_back(bytes);
          return true;
        },
        [this] { held = 0; });
  }
};

// As of a float32 product on Hopper: scratch, or a kernel that needs none.
void test_scratch_or_none() {
  const std::vector<MemoryNeeds> ways = {{0, 0, 600}, {}};
  Allocator grants;
  expect(grants.choose(ways) == 0 && grants.held == 600, "what fits is taken");
  Allocator refuses{{0}};
  expect(refuses.choose(ways) == 1 && refuses.held == 0, "where scratch does not fit, the kernel without it runs");
  expect(refuses.requests == 1, "which asks for nothing");
}

// As of a product whose operands are copied first.
void test_each_request_refused_in_turn() {
  const std::vector<MemoryNeeds> ways = {{100, 200, 400}, {}};
  for (int refused = 0; refused < 3; ++refused) {
    Allocator allocator{{refused}};
    expect(allocator.choose(ways) == 1, "any request that is refused leads to the next way");
    expect(allocator.held == 0, "what was granted before it is given back");
    expect(allocator.requests == refused + 1, "nothing is asked for once a request was refused");
  }
  Allocator all;
  expect(all.choose(ways) == 0 && all.sizes == std::vector<int64_t>({100, 200, 400}), "a, b, scratch in this order");
}

// As of a block-scaled product of codes that no kernel reads as they lie: the portable kernels need the copies too.
void test_the_next_way_may_fail_too() {
  const std::vector<MemoryNeeds> ways = {{100, 0, 400}, {100, 0, 0}};
  Allocator once{{1}};
  expect(once.choose(ways) == 1 && once.held == 100, "without scratch, with the copy");
  Allocator twice{{1, 2}};
  expect(twice.choose(ways) == -1 && twice.held == 0, "no way fits, and nothing is kept");
  Allocator first{{0, 1}};
  expect(first.choose(ways) == -1, "nor where the copy itself is refused");
  Allocator only{{0}};
  expect(only.choose({{0, 0, 400}}) == -1, "a row that was asked for by number has no other way");
}

void test_nothing_is_asked_for_by_ways_without_needs() {
  Allocator refuses{{0, 1, 2, 3}};
  expect(refuses.choose({{}}) == 0 && refuses.requests == 0, "a way without needs fits");
  expect(MemoryNeeds{}.none() && !MemoryNeeds{0, 0, 1}.none() && !MemoryNeeds{0, 1, 0}.none(), "none");
}

// The copy that is planned is the one that is made: where it lies, and how many bytes that takes.
void test_planned_copies() {
  int memory[4];
  const AlignedCopy rows({memory, 7, 1, 0}, 1, 5, 7, DType::kBFloat16);  // 5 rows of 7 along k: of 8 with the padding
  expect(rows.k_is_adjacent && rows.pitch == 8 && rows.bytes() == 5 * 8 * 2, "rows begin at multiples of 16 bytes");
  const Matrix of_rows = rows.at(memory);
  expect(of_rows.data == memory && of_rows.stride_mn == 8 && of_rows.stride_k == 1 && of_rows.stride_batch == 0,
         "rows");
  const AlignedCopy columns({memory, 1, 33, 33 * 9}, 4, 33, 9, DType::kFloat32);  // mn adjacent, 4 of a batch
  expect(!columns.k_is_adjacent && columns.pitch == 36 && columns.bytes() == 4 * 9 * 36 * 4, "columns");
  const Matrix of_columns = columns.at(nullptr);
  expect(of_columns.stride_mn == 1 && of_columns.stride_k == 36 && of_columns.stride_batch == 9 * 36, "of a batch");
  const AlignedCopy shared({memory, 7, 1, 0}, 64, 5, 7, DType::kFloat16);
  expect(shared.bytes() == 5 * 8 * 2 && shared.at(memory).stride_batch == 0, "one matrix serves the whole batch");
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
  test_scratch_or_none();
  test_each_request_refused_in_turn();
  test_the_next_way_may_fail_too();
  test_nothing_is_asked_for_by_ways_without_needs();
  test_planned_copies();
  test_words();
  return report("fit memory");
}
