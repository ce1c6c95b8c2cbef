// Copies that run beside the threads: cp.async, TMA, bulk copies. And what is under way of them and of wgmma.
#include <algorithm>

#include "state.h"

namespace tileon::simulation {

std::vector<Task> tasks;
const Task* running_task = nullptr;

namespace {

uint64_t task_count = 0;

Moment moment_of(const Task& task) {
  switch (task.kind) {
    case Task::Kind::kProducts:
      return schedule.products;
    case Task::Kind::kStoreBox:
      return schedule.stores;
    default:
      return schedule.loads;
  }
}

void perform(Task& task) {
  ++statistics.tasks;
  running_task = &task;
  if (task.kind == Task::Kind::kProducts) {
    perform_products(task);
  } else {
    perform_copy(task);
  }
  running_task = nullptr;
}

void run_at(size_t index) {
  Task task = tasks[index];
  tasks.erase(tasks.begin() + static_cast<long>(index));
  perform(task);
}

}  // namespace

uint64_t add_task(Task task) {
  task.number = ++task_count;
  task.owner = current;
  task.where = current->where;
  if (happens_now(moment_of(task))) {
    perform(task);
  } else {
    tasks.push_back(task);
  }
  return task.number;
}

bool run_task(uint64_t number) {
  for (size_t i = 0; i < tasks.size(); ++i) {
    if (tasks[i].number != number) continue;
    run_at(i);
    return true;
  }
  return false;
}

bool run_some_task() {
  if (tasks.empty()) return false;
  run_at(schedule.seed < 4 ? 0 : random_number() % tasks.size());
  return true;
}

void maybe_run_task() {
  if (tasks.empty() || schedule.seed < 4 || !one_in(8)) return;
  const size_t index = random_number() % tasks.size();
  if (moment_of(tasks[index]) == Moment::kRandom) run_at(index);
}

// The CTA's last thread has ended.
void end_tasks(Cta& cta) {
  for (size_t i = 0; i < tasks.size();) {
    if (tasks[i].cta != &cta) {
      ++i;
    } else if (tasks[i].kind == Task::Kind::kStoreBox) {
      running_task = &tasks[i];
      fault("its CTA ends before the store has read its shared memory: there was no wait for that");
    } else {
      running_task = &tasks[i];
      fault("its CTA ends while this is under way");
    }
  }
}

void expect_waited_for_grid() {
  if (current->cta->grid->dependent && !current->waited_for_grid)
    fault("global memory is used before griddepcontrol.wait, while the kernel in front may still run");
}

namespace {

// cp.async: PTX ISA, "Non-bulk copy". Of each thread, in the order of its groups.

void land(Copy& copy) {
  if (copy.landed) return;
  copy.landed = true;
  std::memcpy(copy.to, copy.from, static_cast<size_t>(copy.valid));
  std::memset(copy.to + copy.valid, 0, static_cast<size_t>(copy.bytes - copy.valid));
}

}  // namespace

void copy_async(uint32_t shared, const void* global, int bytes, int valid, Site where) {
  enter("cp.async", where);
  if (valid < 0 || valid > bytes)
    fault("cp.async of " + std::to_string(valid) + " of " + std::to_string(bytes) + " bytes");
  if (valid > 0) expect_waited_for_grid();
  const auto size = static_cast<uint32_t>(bytes);
  if (shared % size != 0) fault("cp.async to an address that is no multiple of its size");
  if (valid > 0 && reinterpret_cast<uintptr_t>(global) % size != 0)
    fault("cp.async from an address that is no multiple of its size");
  expect_inside(global, static_cast<size_t>(valid));
  Copy copy{shared_of(*current->cta, shared, size), static_cast<const unsigned char*>(global), bytes, valid, false};
  note(Access::kRead, global, static_cast<size_t>(valid), where);
  note_until(current->index, kUnderWay, Access::kWrite, copy.to, size);
  std::memset(copy.to, kPoison, size);  // from here on nobody knows what lies there
  if (happens_now(schedule.copies)) land(copy);
  current->copies.push_back(copy);
}

void commit_copies(Site where) {
  if (enter("cp.async.commit_group", where)) current->copy_ends.push_back(current->copies.size());
}

void wait_for_copies(int pending, Site where) {
  if (!enter("cp.async.wait_group", where)) return;
  Fiber& fiber = *current;
  const auto groups = static_cast<int>(fiber.copy_ends.size());
  const int closed = groups - pending;
  if (closed <= 0) return;
  const size_t end = fiber.copy_ends[static_cast<size_t>(closed) - 1];
  for (size_t i = 0; i < end; ++i) {
    land(fiber.copies[i]);
    settle(fiber.copies[i].to, static_cast<size_t>(fiber.copies[i].bytes));
  }
  // What need not have come yet may have.
  if (schedule.copies == Moment::kRandom)
    for (size_t i = end; i < fiber.copies.size() && one_in(2); ++i) land(fiber.copies[i]);
  fiber.copies.erase(fiber.copies.begin(), fiber.copies.begin() + static_cast<long>(end));
  fiber.copy_ends.erase(fiber.copy_ends.begin(), fiber.copy_ends.begin() + closed);
  for (size_t& later : fiber.copy_ends) later -= end;
}

void end_thread_copies(Fiber& fiber) {
  if (!fiber.copies.empty()) fault("the thread ends without a wait for copies of its");
}

// TMA: PTX ISA, "Tensors" and "cp.async.bulk.tensor".

namespace {

const TensorMap& decode(const CUtensorMap& map, int dimensions) {
  if (reinterpret_cast<uintptr_t>(&map) % 64 != 0) fault("a tensor map at an address that is no multiple of 64");
  const auto& decoded = reinterpret_cast<const TensorMap&>(map);
  if (decoded.magic != kTensorMapMagic) fault("a tensor map that was never encoded");
  if (dimensions != 0 && decoded.dimensions != dimensions)
    fault("a tensor map of " + std::to_string(decoded.dimensions) + " dimensions where " + std::to_string(dimensions) +
          " coordinates are given");
  return decoded;
}

uint32_t row_bytes(const TensorMap& map) { return uint32_t{map.box[0]} * map.element_bytes; }

uint32_t config_count(const TensorMap& map) {
  uint32_t rows = 1;
  for (int i = 1; i < map.dimensions; ++i) rows *= map.box[i];
  return rows;
}

// From the first byte to the end of the last row.
size_t extent_of(const TensorMap& map) {
  uint64_t bytes = map.sizes[0] * map.element_bytes;
  for (int i = 1; i < map.dimensions; ++i) bytes += (map.sizes[i] - 1) * map.strides[i];
  return bytes;
}

// Calls `use(shared, global, first, end)` for each 16 bytes of a box: of those, the bytes from `first` to `end` lie
// inside the tensor.
template <typename Use>
void for_each_chunk(const Task& task, const Use& use) {
  const TensorMap& map = task.map;
  const uint32_t bytes = row_bytes(map), rows = config_count(map);
  const auto tensor_bytes = static_cast<int64_t>(map.sizes[0] * map.element_bytes);
  uint32_t place = task.shared;
  for (uint32_t row = 0; row < rows; ++row) {
    bool inside = true;
    const unsigned char* line = map.data;
    uint32_t rest = row;
    for (int i = 1; i < map.dimensions; ++i) {
      const int64_t at = task.at[i] + static_cast<int64_t>(rest % map.box[i]);
      rest /= map.box[i];
      inside = inside && at >= 0 && at < static_cast<int64_t>(map.sizes[i]);
      line += at * static_cast<int64_t>(map.strides[i]);
    }
    for (uint32_t byte = 0; byte < bytes; byte += 16, place += 16) {
      const int64_t begin = int64_t{task.at[0]} * map.element_bytes + byte;
      const int64_t first = std::clamp<int64_t>(-begin, 0, 16);
      const int64_t end = inside ? std::clamp<int64_t>(tensor_bytes - begin, 0, 16) : 0;
      use(swizzled(place, map.swizzle_bits), line + begin, first, std::max(first, end));
    }
  }
}

// Whether a part of the box lies inside the tensor. Where k is 0 none does, and the map is of memory that is not read.
bool touches_tensor(const Task& task) {
  for (int i = 0; i < task.map.dimensions; ++i)
    if (task.at[i] >= static_cast<int64_t>(task.map.sizes[i]) || task.at[i] + int64_t{task.map.box[i]} <= 0)
      return false;
  return true;
}

uint64_t checksum_of(const unsigned char* bytes, uint32_t count) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i + 8 <= count; i += 8) {
    uint64_t word;
    std::memcpy(&word, bytes + i, 8);
    sum = (sum ^ word) * 0x9e3779b97f4a7c15u;
  }
  return sum;
}

// Whether `cta` is of the thread that is running: of another CTA it knows what a barrier has told to all.
const Fiber* reader_in(const Cta& cta) { return &cta == current->cta ? current : nullptr; }

// A task that moves a box between global memory and a CTA of the cluster, after the checks that PTX's rules ask for.
Task box_task(Task::Kind kind, Cta& cta, const CUtensorMap& map, uint32_t shared, const int* at, int dimensions) {
  expect_waited_for_grid();
  Task task{};
  task.kind = kind;
  task.cta = &cta;
  task.map = decode(map, dimensions);
  task.shared = shared;
  task.bytes = row_bytes(task.map) * config_count(task.map);
  for (int i = 0; i < dimensions; ++i) task.at[i] = at[i];
  if (shared % 128 != 0) fault("TMA with a shared address that is no multiple of 128");
  if (touches_tensor(task)) expect_inside(task.map.data, extent_of(task.map));
  shared_of(cta, shared, task.bytes);
  expect_fenced(cta, shared, task.bytes, reader_in(cta), kind == Task::Kind::kStoreBox ? "a TMA store" : "a TMA load");
  return task;
}

void start_load(Task& task) {
  Cta& cta = *task.cta;
  expect_fenced(cta, task.barrier, 8, reader_in(cta), "a load");
  forget_writers(cta, task.shared, task.bytes);
  unsigned char* to = shared_of(cta, task.shared, task.bytes);
  note_phase(cta, task.barrier, to, task.bytes);
  std::memset(to, kPoison, task.bytes);  // from here on nobody knows what lies there
  add_task(task);
}

}  // namespace

void load_box(uint32_t shared, const CUtensorMap& map, uint32_t barrier, const int* at, int dimensions, Site where) {
  enter("cp.async.bulk.tensor load", where);
  Task task = box_task(Task::Kind::kLoadBox, *current->cta, map, shared, at, dimensions);
  task.barrier = barrier;
  start_load(task);
}

// PTX ISA, ".multicast::cluster": a copy for each CTA, which arrives there by itself.
void load_box_multicast(uint32_t shared, const CUtensorMap& map, uint32_t barrier, uint16_t ctas, const int* at,
                        int dimensions, Site where) {
  enter("cp.async.bulk.tensor multicast load", where);
  if (ctas == 0 || ctas >> current->cta->cluster->ctas.size() != 0)
    fault("a load for CTAs that the cluster has not, or for none: " + std::to_string(ctas));
  for (uint32_t rank = 0; rank < current->cta->cluster->ctas.size(); ++rank) {
    if ((ctas >> rank & 1) == 0) continue;
    Task task = box_task(Task::Kind::kLoadBox, cta_of_cluster(rank), map, shared, at, dimensions);
    task.barrier = barrier;
    start_load(task);
  }
}

void load_bytes(uint32_t shared, const void* global, uint32_t barrier, int bytes, Site where) {
  enter("cp.async.bulk load", where);
  expect_waited_for_grid();
  if (shared % 16 != 0 || reinterpret_cast<uintptr_t>(global) % 16 != 0 || bytes % 16 != 0 || bytes <= 0)
    fault("a bulk copy of " + std::to_string(bytes) + " bytes of which something is no multiple of 16");
  Task task{};
  task.kind = Task::Kind::kLoadBytes;
  task.cta = current->cta;
  task.shared = shared;
  task.barrier = barrier;
  task.from = static_cast<const unsigned char*>(global);
  task.bytes = static_cast<uint32_t>(bytes);
  expect_inside(global, task.bytes);
  shared_of(*current->cta, shared, task.bytes);
  expect_fenced(*current->cta, shared, task.bytes, current, "a bulk copy");
  start_load(task);
}

// PTX ISA, "st.async": both addresses are of one CTA of the cluster.
void store_async(uint32_t address, const float (&values)[4], uint32_t barrier, Site where) {
  enter("st.async", where);
  const uint32_t rank = address >> 24;
  if (rank == 0 || barrier >> 24 != rank) fault("st.async to addresses that are not of one CTA of the cluster");
  if (address % 16 != 0) fault("st.async of 16 bytes to an address that is no multiple of 16");
  Task task{};
  task.kind = Task::Kind::kStoreWords;
  task.cta = &cta_of_cluster(rank - 1);
  task.shared = address & 0xffffff;
  task.barrier = barrier & 0xffffff;
  task.bytes = sizeof values;
  std::memcpy(task.words, values, sizeof values);
  start_load(task);
  constexpr size_t most = 64;  // wait at a time: thousands would take a tile's time each
  if (tasks.size() > most) run_some_task();
}

void store_box_by_warp(const CUtensorMap& map, uint32_t shared, const int* at, int dimensions, Site where) {
  if (!elect_one(where)) return;
  enter("cp.async.bulk.tensor store", where);
  Task task = box_task(Task::Kind::kStoreBox, *current->cta, map, shared, at, dimensions);
  task.checksum = checksum_of(shared_of(*current->cta, shared, task.bytes), task.bytes);
  for_each_chunk(task, [&where](uint32_t, const unsigned char* data, int64_t first, int64_t end) {
    note(Access::kWrite, data + first, static_cast<size_t>(end - first), where);
  });
  Fiber& fiber = *current;
  note_until(thing_of(*fiber.cta, kStoresOf, fiber.warp->index), ++fiber.stores_issued, Access::kRead,
             shared_of(*fiber.cta, shared, task.bytes), task.bytes);
  fiber.stores.push_back(add_task(task));
}

void wait_for_store_reads(int pending, Site where) {
  if (!enter("cp.async.bulk.wait_group.read", where)) return;
  Fiber& fiber = *current;
  const auto count = static_cast<int>(fiber.stores.size()) - pending;
  if (count <= 0) return;
  acquire_step(thing_of(*fiber.cta, kStoresOf, fiber.warp->index),
               fiber.stores_issued - static_cast<uint32_t>(pending));
  for (int i = 0; i < count; ++i) run_task(fiber.stores[static_cast<size_t>(i)]);
  fiber.stores.erase(fiber.stores.begin(), fiber.stores.begin() + count);
}

void prefetch_tensor_map(const CUtensorMap& map, Site where) {
  enter("prefetch.tensormap", where);
  decode(map, 0);
}

// 16 bytes of float32, as TMA of TFLOAT32 rounds them: to nearest, ties to even; seen on an H100, PTX says nothing.
static void round_to_tf32(unsigned char* bytes) {
  uint32_t words[4];
  std::memcpy(words, bytes, sizeof words);
  for (uint32_t& word : words)
    word = (word & 0x7fffffffu) > 0x7f800000u ? 0x7fffffffu : (word + 0xfffu + (word >> 13 & 1)) & 0xffffe000u;
  std::memcpy(bytes, words, sizeof words);
}

void perform_copy(Task& task) {
  unsigned char* window = task.cta->window;
  switch (task.kind) {
    case Task::Kind::kLoadBox:
      for_each_chunk(task, [&](uint32_t place, const unsigned char* data, int64_t first, int64_t end) {
        unsigned char* to = window + place;
        if (end - first < 16) std::memset(to, 0, 16);
        if (end > first) std::memcpy(to + first, data + first, static_cast<size_t>(end - first));
        if (task.map.rounds_to_tf32) round_to_tf32(to);
      });
      bytes_arrived(*task.cta, task.barrier, task.bytes);
      return;
    case Task::Kind::kLoadBytes:
      std::memcpy(window + task.shared, task.from, task.bytes);
      bytes_arrived(*task.cta, task.barrier, task.bytes);
      return;
    case Task::Kind::kStoreWords:
      std::memcpy(window + task.shared, task.words, task.bytes);
      bytes_arrived(*task.cta, task.barrier, task.bytes);
      return;
    case Task::Kind::kStoreBox:
      if (checksum_of(window + task.shared, task.bytes) != task.checksum)
        fault("shared memory was overwritten before a TMA store had read it");
      for_each_chunk(task, [&](uint32_t place, const unsigned char* data, int64_t first, int64_t end) {
        if (end > first)
          std::memcpy(const_cast<unsigned char*>(data) + first, window + place + first,
                      static_cast<size_t>(end - first));
      });
      return;
    case Task::Kind::kProducts:
      return;
  }
}

}  // namespace tileon::simulation
