// Asynchronous products of a warpgroup: PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions".
#include <algorithm>
#include <array>

#include "arithmetic.h"
#include "cut_sums.h"
#include "descriptor.h"
#include "state.h"

namespace tileon::simulation {

namespace {

constexpr int kMaxColumns = 256, kThreads = 128, kMaxUnderWay = 64;

// What 128 threads issued together.
struct Issued {
  Product product;
  Site where;
  int sums;                                        // which of the warpgroup's
  std::vector<std::array<uint32_t, 4>> fragments;  // a thread's each, where a comes from registers
};

struct ProductGroup {
  std::vector<Issued> products;
  int committed = 0;      // threads
  int count = 0;          // products of the first thread that committed
  uint64_t operands = 0;  // checksum of what they read from shared memory
  uint64_t task = 0;
  Clock order;  // what its threads tell by the registers that it reads
};

// Sums that the tensor core has: [column][row], bits of float32 or int32.
struct Sums {
  alignas(64) uint32_t values[kMaxColumns][64];
};

}  // namespace

struct Warpgroup {
  Cta* cta;
  std::vector<Fiber*> threads;
  ProductGroup groups[kMaxUnderWay];  // group g in place g % kMaxUnderWay
  int executed, checked;              // groups
  std::vector<std::unique_ptr<Sums>> sums;
  std::vector<Fiber*> waiting;
};

Warpgroup* new_warpgroup() { return new Warpgroup; }

void reset_warpgroup(Warpgroup& group, Cta& cta) {
  group.cta = &cta;
  group.threads.clear();
  for (ProductGroup& one : group.groups) {
    one.products.clear();
    one.committed = 0;
  }
  group.executed = group.checked = 0;
  group.waiting.clear();
}

void add_to_warpgroup(Warpgroup& group, Fiber& fiber) { group.threads.push_back(&fiber); }

namespace {

uint64_t checksum_of(Cta& cta, const Place& place) {
  uint64_t sum = 0;
  for_each_chunk(cta, place, [&](int, const unsigned char* bytes, uint32_t) {
    uint64_t words[2];
    std::memcpy(words, bytes, 16);
    sum = (sum ^ words[0]) * 0x9e3779b97f4a7c15u + words[1];
  });
  return sum;
}

Place place_of_a(const Product& product) { return {product.a, 64, product.transpose_a}; }
Place place_of_b(const Product& product) { return {product.b, product.columns, product.transpose_b}; }

uint64_t checksum_of(Cta& cta, const ProductGroup& group) {
  uint64_t sum = 0;
  for (const Issued& issued : group.products) {
    if (issued.fragments.empty()) sum += checksum_of(cta, place_of_a(issued.product));
    sum = sum * 31 + checksum_of(cta, place_of_b(issued.product));
  }
  return sum;
}

void note_operands(Cta& cta, const ProductGroup& group, int number) {
  const int products = thing_of(cta, kProductsOf, current->index / kThreads);
  const auto use = [&](int, const unsigned char* bytes, uint32_t) {
    note_until(products, static_cast<uint32_t>(number + 1), Access::kRead, bytes, 16);
  };
  for (const Issued& issued : group.products) {
    current->where = issued.where;
    if (issued.fragments.empty()) for_each_chunk(cta, place_of_a(issued.product), use);
    for_each_chunk(cta, place_of_b(issued.product), use);
  }
}

// An operand in the form in which the multiplication reads it: of `a` [k][64], of `b` as its steps say.
template <typename T>
struct Operands {
  alignas(64) T a[32 * 64];
  alignas(64) T b[32 * kMaxColumns];
  int k_step, column_step;
};
alignas(64) unsigned char raw[kMaxColumns * 32];
Operands<float> float_operands;
Operands<int32_t> integer_operands;

void widen_to(float* to, Type type, const unsigned char* from, int count) { widen(type, from, count, to); }
void widen_to(int32_t* to, Type, const unsigned char* from, int count) {
  widen(reinterpret_cast<const int8_t*>(from), count, to);
}

void gather(Cta& cta, const Place& place) {
  for_each_chunk(cta, place, [&](int chunk, const unsigned char* bytes, uint32_t address) {
    expect_fenced(cta, address, 16, nullptr, "wgmma");
    std::memcpy(raw + chunk * 16, bytes, 16);
  });
}

template <typename T>
void read_operands(Cta& cta, const Issued& issued, Operands<T>& operands) {
  const Product& product = issued.product;
  const int per_line = 32 / bytes_of(product.a_type), columns = product.columns;
  alignas(64) static T wide[kMaxColumns * 32];
  if (!issued.fragments.empty()) {
    for (int thread = 0; thread < kThreads; ++thread) {
      const int row = thread / 32 * 16 + thread % 32 / 4;
      for (int i = 0; i < 4; ++i)
        std::memcpy(raw + (row + i % 2 * 8) * 32 + i / 2 * 16 + thread % 4 * 4,
                    &issued.fragments[static_cast<size_t>(thread)][static_cast<size_t>(i)], 4);
    }
  } else {
    gather(cta, place_of_a(product));
  }
  widen_to(wide, product.a_type, raw, 64 * per_line);
  if (product.transpose_a) {
    for (int eight = 0; eight < 8; ++eight)
      for (int k = 0; k < 16; ++k)
        std::memcpy(operands.a + k * 64 + eight * 8, wide + (eight * 16 + k) * 8, 8 * sizeof(T));
  } else {
    for (int row = 0; row < 64; ++row)
      for (int k = 0; k < per_line; ++k) operands.a[k * 64 + row] = wide[row * per_line + k];
  }
  gather(cta, place_of_b(product));
  if (product.transpose_b) {
    widen_to(wide, product.b_type, raw, columns * 16);
    for (int eight = 0; eight < columns / 8; ++eight)
      for (int k = 0; k < 16; ++k)
        std::memcpy(operands.b + k * kMaxColumns + eight * 8, wide + (eight * 16 + k) * 8, 8 * sizeof(T));
    operands.k_step = kMaxColumns;
    operands.column_step = 1;
  } else {
    widen_to(operands.b, product.b_type, raw, columns * per_line);
    operands.k_step = 1;
    operands.column_step = per_line;
  }
}

// The same product by Hopper's sums.
void multiply_cut(const Product& product, const Operands<float>& operands, float* sums) {
  const int count = 32 / bytes_of(product.a_type);
  for (int column = 0; column < product.columns; ++column)
    for (int row = 0; row < 64; ++row)
      sums[column * 64 + row] =
          cut_sum(product.a_type, operands.a + row, 64, product.b_type, operands.b + column * operands.column_step,
                  operands.k_step, count, sums[column * 64 + row]);
}

template <typename T>
void multiply(Warpgroup& group, const Issued& issued, Operands<T>& operands) {
  auto* sums = reinterpret_cast<T*>(group.sums[static_cast<size_t>(issued.sums)]->values);
  const Product& product = issued.product;
  if (!product.accumulate) std::memset(sums, 0, static_cast<size_t>(product.columns) * 64 * sizeof(T));
  read_operands(*group.cta, issued, operands);
  if constexpr (std::is_same_v<T, float>)
    if (sums_are_cut) return multiply_cut(product, operands, sums);
  multiply_64_rows(operands.a, operands.b, operands.k_step, operands.column_step, 32 / bytes_of(product.a_type),
                   product.columns, sums);
}

void execute_next_group(Warpgroup& group) {
  ProductGroup& work = group.groups[group.executed % kMaxUnderWay];
  ++group.executed;
  for (const Issued& issued : work.products) {
    ++statistics.products;
    if (issued.product.a_type == Type::kInt8) {
      multiply(group, issued, integer_operands);
    } else {
      multiply(group, issued, float_operands);
    }
  }
}

// Somebody may know from here on that groups before `count` are complete: until now nobody may have touched their
// operands.
void check_operands(Warpgroup& group, int count) {
  for (; group.checked < count; ++group.checked) {
    ProductGroup& work = group.groups[group.checked % kMaxUnderWay];
    if (checksum_of(*group.cta, work) != work.operands)
      fault("shared memory was overwritten while wgmma of " + text_of(work.products[0].where) + " could still read it");
    work.products.clear();
    work.committed = 0;
  }
}

// Moves a thread's sums between its registers and the tensor core: PTX ISA, "Accumulator D" of wgmma's fragments.
// Register j of thread t: row t / 32 * 16 + t % 32 / 4 + j / 2 % 2 * 8, column j / 4 * 8 + t % 4 * 2 + j % 2.
template <typename Move>
void for_each_register(const Fiber& fiber, int count, Sums& sums, const Move& move) {
  const int thread = fiber.index % kThreads;
  const int row = thread / 32 * 16 + thread % 32 / 4, column = thread % 4 * 2;
  for (int j = 0; j < count; j += 4) {
    uint32_t(*at)[64] = &sums.values[j * 2 + column];
    move(j, at[0][row]);
    move(j + 1, at[1][row]);
    move(j + 2, at[0][row + 8]);
    move(j + 3, at[1][row + 8]);
  }
}

// Which of the warpgroup's sums these registers are; takes them over where they are none yet.
int sums_of(Fiber& fiber, Warpgroup& group, uint32_t* registers, int count, bool accumulate) {
  int free = -1;
  for (int i = 0; i < static_cast<int>(fiber.sums.size()); ++i) {
    Accumulator& one = fiber.sums[static_cast<size_t>(i)];
    if (one.registers == registers) {
      if (one.count != count) fault("wgmma of other columns than the products under way have");
      one.last_group = fiber.committed;
      return i;
    }
    if (one.registers == nullptr && free < 0) free = i;
  }
  if (!fiber.fenced_sums) fault("wgmma takes over registers without a wgmma.fence before");
  if (free < 0) {
    free = static_cast<int>(fiber.sums.size());
    fiber.sums.emplace_back();
  }
  while (static_cast<int>(group.sums.size()) <= free) group.sums.push_back(std::make_unique<Sums>());
  fiber.sums[static_cast<size_t>(free)] = {registers, count, fiber.committed};
  if (accumulate)
    for_each_register(fiber, count, *group.sums[static_cast<size_t>(free)],
                      [&](int j, uint32_t& value) { value = registers[j]; });
  std::fill_n(registers, count, kPoisonedSum);  // whoever reads them before the wait
  return free;
}

bool is_same(const Product& a, const Product& b) {
  return a.a_type == b.a_type && a.b_type == b.b_type && a.columns == b.columns && a.accumulate == b.accumulate &&
         a.transpose_a == b.transpose_a && a.transpose_b == b.transpose_b && a.a == b.a && a.b == b.b;
}

}  // namespace

void perform_products(Task& task) {
  Warpgroup& group = *task.group;
  while (group.executed < static_cast<int>(task.bytes)) execute_next_group(group);
  // Groups are complete in their order: those in front of this one are.
  std::erase_if(tasks, [&](const Task& other) {
    return other.kind == Task::Kind::kProducts && other.group == &group &&
           static_cast<int>(other.bytes) <= group.executed;
  });
}

void wgmma_fence(Site where) {
  if (!enter("wgmma.fence", where)) return;
  current->fenced_sums = current->fenced_inputs = true;
}

void wgmma(uint32_t* sums, const Product& product, Site where) {
  enter("wgmma.mma_async", where);
  Fiber& fiber = *current;
  Warpgroup& group = *fiber.warp->group;
  if (group.threads.size() != kThreads) fault("wgmma by a warpgroup that has not four warps");
  if (fiber.committed - group.checked >= kMaxUnderWay) fault("more groups of wgmma are under way than are simulated");
  if (product.fragment != nullptr && !fiber.fenced_inputs)
    fault("wgmma reads registers that were written without a wgmma.fence behind that");
  const int number = sums_of(fiber, group, sums, product.columns / 2, product.accumulate);
  ProductGroup& work = group.groups[fiber.committed % kMaxUnderWay];
  const auto place = static_cast<size_t>(fiber.issued++);
  if (place == work.products.size()) {
    work.products.push_back({product, where, number, {}});
    if (product.fragment != nullptr) work.products.back().fragments.resize(kThreads);
  }
  Issued& issued = work.products[place];
  if (!is_same(issued.product, product) || issued.sums != number || !(issued.where == where))
    fault("threads of a warpgroup issue different products: another one was at " + text_of(issued.where));
  if (product.fragment != nullptr)
    std::memcpy(issued.fragments[static_cast<size_t>(fiber.index % kThreads)].data(), product.fragment, 16);
}

void wgmma_commit(Site where) {
  if (!enter("wgmma.commit_group", where)) return;
  Fiber& fiber = *current;
  Warpgroup& group = *fiber.warp->group;
  const int number = fiber.committed++;
  ProductGroup& work = group.groups[number % kMaxUnderWay];
  if (work.committed == 0) {
    work.count = fiber.issued;
    work.order.clear();
  }
  if (work.count != fiber.issued) fault("threads of a warpgroup issued different numbers of products");
  fiber.issued = 0;
  fiber.fenced_inputs = false;
  // What a thread has loaded into a fragment it has read when the product is done, whichever thread waits for that.
  if (kSeesAccesses && std::any_of(work.products.begin(), work.products.end(),
                                   [](const Issued& one) { return one.product.fragment != nullptr; }))
    release(work.order);
  if (++work.committed < kThreads) return;
  work.operands = checksum_of(*group.cta, work);
  if (kSeesAccesses) note_operands(*group.cta, work, number);
  Task task{};
  task.kind = Task::Kind::kProducts;
  task.cta = group.cta;
  task.group = &group;
  task.bytes = static_cast<uint32_t>(number + 1);
  work.task = add_task(task);
  wake_all(group.waiting);
}

void wgmma_wait(int pending, Site where) {
  if (!enter("wgmma.wait_group", where)) return;
  Fiber& fiber = *current;
  Warpgroup& group = *fiber.warp->group;
  const int target = fiber.committed - pending;
  while (group.executed < target) {
    const ProductGroup& next = group.groups[group.executed % kMaxUnderWay];
    if (next.committed == kThreads) {
      run_task(next.task);
    } else {
      group.waiting.push_back(&fiber);
      block();
    }
  }
  check_operands(group, target);
  const int thing = thing_of(*group.cta, kProductsOf, fiber.index / kThreads);
  for (int i = kSeesAccesses ? static_cast<int>(fiber.clock[static_cast<size_t>(thing)]) : target; i < target; ++i)
    acquire(fiber, group.groups[i % kMaxUnderWay].order);
  acquire_step(thing, static_cast<uint32_t>(std::max(target, 0)));
  for (Accumulator& one : fiber.sums) {
    if (one.registers == nullptr || one.last_group >= target) continue;
    const auto place = static_cast<size_t>(&one - fiber.sums.data());
    for_each_register(fiber, one.count, *group.sums[place], [&](int j, uint32_t& value) { one.registers[j] = value; });
    one.registers = nullptr;
    fiber.fenced_sums = false;
  }
}

void end_thread_products(Fiber& fiber) {
  if (fiber.issued != 0) fault("the thread ends with products that it never committed");
  for (const Accumulator& one : fiber.sums)
    if (one.registers != nullptr) fault("the thread ends before it has waited for its products");
}

}  // namespace tileon::simulation
