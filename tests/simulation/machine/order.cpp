#include "order.h"

#include <algorithm>
#include <memory>
#include <unordered_map>

#include "guarded.h"
#include "state.h"

namespace tileon::simulation {

namespace {

int thread_count(const Cta& cta) { return static_cast<int>(cta.warps.size()) * 32; }

void join(Clock& to, const Clock& from) {
  if (to.size() < from.size()) to.resize(from.size());
  uint32_t* a = to.data();
  const uint32_t* b = from.data();
  for (size_t i = 0; i < from.size(); ++i) a[i] = std::max(a[i], b[i]);
}

}  // namespace

int thing_of(const Cta& cta, int kind, int number) { return thread_count(cta) + kind + number; }

void start_clock(Fiber& fiber) {
  if (!kSeesAccesses) return;
  const dim3& block = fiber.cta->grid->block;
  fiber.clock.assign(block.x * block.y * block.z + kThings, 0);
  fiber.clock[static_cast<size_t>(fiber.index)] = 1;
  fiber.came_step = fiber.came_phase = 0;
}

void release(Clock& to) {
  if (!kSeesAccesses) return;
  join(to, current->clock);
  ++current->clock[static_cast<size_t>(current->index)];
}

void acquire(Fiber& by, const Clock& from) {
  if (kSeesAccesses) join(by.clock, from);
}

void acquire_step(int thing, uint32_t step) {
  if (!kSeesAccesses) return;
  uint32_t& known = current->clock[static_cast<size_t>(thing)];
  known = std::max(known, step);
}

void synchronize_lanes(Warp& warp) {
  if (!kSeesAccesses) return;
  Clock all;
  const auto for_lanes = [&warp](const auto& use) {
    for (uint32_t lanes = warp.alive; lanes != 0; lanes &= lanes - 1) use(*warp.lanes[__builtin_ctz(lanes)]);
  };
  for_lanes([&all](Fiber& fiber) { join(all, fiber.clock); });
  for_lanes([&all](Fiber& fiber) {
    fiber.clock = all;
    ++fiber.clock[static_cast<size_t>(fiber.index)];
  });
}

void come_to_cluster(bool releases) {
  if (!kSeesAccesses) return;
  const Cta& cta = *current->cta;
  current->came_step = current->clock[static_cast<size_t>(current->index)]++;
  current->came_phase = cta.cluster->phase;
  if (!releases) return;
  auto& arriving = cta.cluster->order.arriving;
  arriving.resize(cta.cluster->ctas.size());
  release(arriving[static_cast<size_t>(cta.rank)]);
}

void complete_cluster_phase(Cluster& cluster) {
  if (kSeesAccesses) cluster.order.told[cluster.phase % 2] = cluster.order.arriving;
}

void acquire_from_cluster() {
  if (!kSeesAccesses) return;
  const Cta& cta = *current->cta;
  const Cluster& cluster = *cta.cluster;
  const auto& told = cluster.order.told[cluster.phase % 2];
  if (!told.empty()) join(current->clock, told[static_cast<size_t>(cta.rank)]);
  acquire_step(thing_of(cta, kClusterOf, 0), cluster.phase);
}

namespace {

int number_of(const Cta& cta, uint32_t barrier) {
  const auto found = std::find(cta.mbarriers.begin(), cta.mbarriers.end(), barrier);
  if (found == cta.mbarriers.end() || found - cta.mbarriers.begin() >= kMaxMBarriers)
    fault("a memory barrier that was not initialized, or more of them than are simulated");
  return static_cast<int>(found - cta.mbarriers.begin());
}

PhaseOrder& order_of(Cta& cta, uint32_t barrier) {
  cta.phase_orders.resize(cta.mbarriers.size());
  return cta.phase_orders[static_cast<size_t>(number_of(cta, barrier))];
}

// What was told to a thread by a memory barrier grows, so of each barrier what it told last is kept; a word, barrier 0,
// may be another one each time.
void hear(const Tale& tale, uint32_t barrier) {
  const auto thread = static_cast<size_t>(current->index);
  for (Told& known : current->cta->told)
    if (barrier != 0 && known.barrier == barrier && known.thread == thread && known.tale.cta == tale.cta) {
      join(known.tale.clock, tale.clock);
      known.step = current->clock[thread];
      return;
    }
  current->cta->told.push_back({tale, barrier, thread, current->clock[thread]});
}

}  // namespace

void release_at(Cta& cta, uint32_t barrier) {
  if (!kSeesAccesses) return;
  PhaseOrder& order = order_of(cta, barrier);
  if (&cta == current->cta) return release(order.arriving);
  order.arriving_from_others.push_back({current->cta->number, current->clock});
  ++current->clock[static_cast<size_t>(current->index)];
}

void complete_phase(Cta& cta, uint32_t barrier) {
  if (!kSeesAccesses) return;
  PhaseOrder& order = order_of(cta, barrier);
  order.told.swap(order.arriving);
  order.arriving.clear();
  order.told_by_others.swap(order.arriving_from_others);
  order.arriving_from_others.clear();
  ++order.completed;
}

void acquire_phase(uint32_t barrier) {
  if (!kSeesAccesses) return;
  Cta& cta = *current->cta;
  const PhaseOrder& order = order_of(cta, barrier);
  acquire(*current, order.told);
  for (const Tale& tale : order.told_by_others) hear(tale, barrier);
  acquire_step(thing_of(cta, kPhasesOf, number_of(cta, barrier)), order.completed);
}

namespace {

std::unordered_map<const void*, Tale> tales;  // by words of global memory

}  // namespace

void tell_grid(const void* word) {
  if (!kSeesAccesses) return;
  tales[word] = {current->cta->number, current->clock};  // of the last one who stored
  ++current->clock[static_cast<size_t>(current->index)];
}

void hear_from_grid(const void* word) {
  if (!kSeesAccesses) return;
  const auto found = tales.find(word);
  if (found != tales.end() && found->second.cta != current->cta->number) hear(found->second, 0);
}

// What is known of memory: of each 16 bytes, the accesses that another one may still have to know of.

namespace {

struct Noted {
  Site where;
  uint32_t step, cta;
  uint16_t thing, bytes;  // a bit for each byte
  Access kind;
  bool is_same_step(const Noted& other) const {
    return step == other.step && cta == other.cta && thing == other.thing && kind == other.kind;
  }
};
using Chunk = std::vector<Noted>;
constexpr uintptr_t kChunkBytes = 16, kPageBytes = 4096;

struct Page {
  uint64_t grid = 0;
  Chunk chunks[kPageBytes / kChunkBytes];
};
std::unordered_map<uintptr_t, std::unique_ptr<Page>> pages;

uintptr_t last_number = 0;
Page* last_page = nullptr;

Page& page_at(uintptr_t address) {
  const uintptr_t number = address / kPageBytes;
  if (last_page == nullptr || number != last_number) {
    auto& page = pages[number];
    if (page == nullptr) page = std::make_unique<Page>();
    last_page = page.get();
    last_number = number;
  }
  // Grids in front have ended: otherwise nothing here may be touched yet.
  if (last_page->grid != current->cta->grid->number) {
    for (Chunk& chunk : last_page->chunks) chunk.clear();
    last_page->grid = current->cta->grid->number;
  }
  return *last_page;
}

template <typename Use>
void for_each_chunk(const void* address, size_t bytes, const Use& use) {
  const auto begin = reinterpret_cast<uintptr_t>(address), end = begin + bytes;
  for (uintptr_t at = begin / kChunkBytes * kChunkBytes; bytes != 0 && at < end; at += kChunkBytes) {
    const uintptr_t first = std::max(at, begin) - at, last = std::min(at + kChunkBytes, end) - at;
    const auto mask = static_cast<uint16_t>((1u << last) - (1u << first));
    use(page_at(at).chunks[at % kPageBytes / kChunkBytes], mask, at + first);
  }
}

bool is_known(const Noted& old) {
  const Cta& cta = *current->cta;
  if (old.cta == cta.number) return old.step <= current->clock[old.thing];
  for (const Told& told : cta.told)
    if (told.tale.cta == old.cta && old.step <= told.tale.clock[old.thing] && told.step <= current->clock[told.thread])
      return true;
  if (old.cta / 16 != cta.number / 16) return false;  // another cluster's
  const uint32_t phase = current->clock[static_cast<size_t>(thing_of(cta, kClusterOf, 0))];
  if (phase == 0) return false;
  const auto& told = cta.cluster->order.told[phase % 2];
  if (old.cta % 16 >= told.size()) return false;
  const Clock& by_cta = told[old.cta % 16];
  return old.thing < by_cta.size() && old.step <= by_cta[old.thing];
}

std::string text_of(const Noted& one) {
  const char* kinds[] = {"read", "write", "atomic access"};
  std::string text = kinds[static_cast<int>(one.kind)];
  const int beyond = one.thing - thread_count(*current->cta);
  if (beyond < 0) {
    text += one.step == kUnderWay ? std::string(" by cp.async") : "";
    text += " of warp " + std::to_string(one.thing / 32) + ", lane " + std::to_string(one.thing % 32);
  } else if (beyond < kStoresOf) {
    text += " by wgmma of warpgroup " + std::to_string(beyond);
  } else if (beyond < kClusterOf) {
    text += " by a TMA store of warp " + std::to_string(beyond - kStoresOf);
  } else {
    text += " by a copy for the mbarrier at " +
            std::to_string(current->cta->mbarriers[static_cast<size_t>(beyond - kPhasesOf)]);
  }
  if (one.cta != current->cta->number)
    text += one.cta / 16 == current->cta->number / 16
                ? " of CTA " + std::to_string(one.cta % 16) + " of the cluster"
                : std::string(" of another cluster's CTA ") + std::to_string(one.cta % 16);
  return text + " at " + tileon::simulation::text_of(one.where);
}

[[noreturn]] void unordered(const Noted& old, const Noted& made, uintptr_t address) {
  const auto in_window = static_cast<int64_t>(address - reinterpret_cast<uintptr_t>(current->cta->window));
  const bool shared = in_window >= 0 && in_window < int64_t{kWindowEnd};
  fault(
      "nothing orders two accesses to " +
      (shared ? "shared address " + std::to_string(in_window) : guarded_place(reinterpret_cast<const void*>(address))) +
      ": a " + text_of(made) + ", behind a " + text_of(old));
}

// Where threads of two other clusters read, another read says nothing new: a write before would have been a fault, and
// one behind is.
bool is_read_by_two(const Chunk& chunk, const Noted& made) {
  if (made.kind != Access::kRead) return false;
  uint32_t first = made.cta;
  for (const Noted& old : chunk) {
    if (old.kind != Access::kRead || old.cta / 16 == made.cta / 16 || (made.bytes & ~old.bytes) != 0) continue;
    if (first != made.cta && first / 16 != old.cta / 16) return true;
    first = old.cta;
  }
  return false;
}

void add(Chunk& chunk, Noted made, uintptr_t address) {
  if (is_read_by_two(chunk, made)) return;
  size_t kept = 0;
  bool is_there = false;
  for (size_t i = 0; i < chunk.size(); ++i) {
    Noted& old = chunk[i];
    if (old.is_same_step(made)) {
      if ((made.bytes & ~old.bytes) == 0 && kept == i) return;
      is_there = true;
      old.bytes |= made.bytes;
    } else if ((old.bytes & made.bytes) != 0) {
      const bool meets = old.kind != made.kind || made.kind == Access::kWrite, known = is_known(old);
      // Where tiles of the output overlap, both write the same.
      if (meets && !known && (old.kind != made.kind || !is_guarded(reinterpret_cast<const void*>(address))))
        unordered(old, made, address);
      // Who knows of the new one knows of this.
      if (known && (made.kind == Access::kWrite || made.kind == old.kind)) old.bytes &= ~made.bytes;
    }
    if (old.bytes != 0) chunk[kept++] = old;
  }
  chunk.resize(kept);
  if (!is_there) chunk.push_back(made);
}

void add_all(Noted made, const void* address, size_t bytes) {
  for_each_chunk(address, bytes, [&made](Chunk& chunk, uint16_t mask, uintptr_t at) {
    made.bytes = mask;
    add(chunk, made, at);
  });
}

}  // namespace

void note_access(Access kind, const void* address, size_t bytes, const Site& where) {
  const auto self = static_cast<uint16_t>(current->index);
  add_all({where, current->clock[self], current->cta->number, self, 0, kind}, address, bytes);
}

void note_until(int thing, uint32_t step, Access kind, const void* address, size_t bytes) {
  if (!kSeesAccesses) return;
  add_all({current->where, step, current->cta->number, static_cast<uint16_t>(thing), 0, kind}, address, bytes);
}

void note_phase(Cta& cta, uint32_t barrier, const void* address, size_t bytes) {
  if (!kSeesAccesses) return;
  const int thing = thing_of(cta, kPhasesOf, number_of(cta, barrier));
  const uint32_t step = order_of(cta, barrier).completed + 1;
  add_all({current->where, step, cta.number, static_cast<uint16_t>(thing), 0, Access::kWrite}, address, bytes);
}

void settle(const void* address, size_t bytes) {
  if (!kSeesAccesses) return;
  for_each_chunk(address, bytes, [](Chunk& chunk, uint16_t, uintptr_t) {
    for (Noted& one : chunk)
      if (one.thing == current->index && one.step == kUnderWay)
        one.step = current->clock[static_cast<size_t>(current->index)];
  });
}

namespace {

// Whether the thread that read has come to a phase of the cluster's barrier since, which the one that is running has
// waited for: what it read it has, where others know nothing of its memory (barrier.cluster.arrive.relaxed).
bool has_read(const Noted& one) {
  const Cta& cta = *current->cta;
  if (one.kind != Access::kRead || one.thing >= thread_count(cta)) return false;
  const Fiber& visitor = *cta.cluster->ctas[one.cta % 16]->warps[one.thing / 32]->lanes[one.thing % 32];
  return one.step <= visitor.came_step &&
         visitor.came_phase < current->clock[static_cast<size_t>(thing_of(cta, kClusterOf, 0))];
}

}  // namespace

void expect_no_visitors() {
  const Cta& cta = *current->cta;
  if (!kSeesAccesses || cta.cluster->ctas.size() == 1) return;
  const auto begin = reinterpret_cast<uintptr_t>(cta.window) / kPageBytes;
  for (uintptr_t number = begin; number <= begin + kWindowEnd / kPageBytes; ++number) {
    const auto found = pages.find(number);
    if (found == pages.end() || found->second->grid != cta.grid->number) continue;
    for (const Chunk& chunk : found->second->chunks)
      for (const Noted& one : chunk)
        if (one.cta != cta.number && !is_known(one) && !has_read(one))
          fault("nothing orders the CTA's end behind a " + text_of(one));
  }
}

void forget_accesses(const void* address, size_t bytes) {
  if (!kSeesAccesses) return;
  const auto begin = reinterpret_cast<uintptr_t>(address) / kPageBytes;
  for (uintptr_t page = begin; page <= begin + bytes / kPageBytes + 1; ++page)
    if (const auto found = pages.find(page); found != pages.end()) found->second->grid = 0;
}

void trim_accesses() {
  tales.clear();
  constexpr size_t kMaxPages = 1 << 14;  // some hundred MB
  if (pages.size() < kMaxPages) return;
  pages.clear();
  last_page = nullptr;
}

}  // namespace tileon::simulation
