// Barriers of CTAs and clusters, and those in shared memory.
#include "state.h"

namespace tileon::simulation {

namespace {

void release_waiting(NamedBarrier& barrier) {
  for (Fiber* fiber : barrier.waiting) acquire(*fiber, barrier.order);
  barrier.order.clear();
  wake_all(barrier.waiting);
}

}  // namespace

// __syncthreads: PTX ISA, "bar, barrier". Threads that have ended are not waited for.

void release_cta_barrier(Cta& cta) {
  NamedBarrier& barrier = cta.barriers[0];
  if (barrier.waiting.empty() || static_cast<int>(barrier.waiting.size()) < cta.alive) return;
  barrier.result = barrier.value;
  barrier.value = 0;
  release_waiting(barrier);
}

int sync_threads_or(int value, Site where) {
  if (!enter("bar.sync 0", where)) return value;
  publish_writes();
  Cta& cta = *current->cta;
  NamedBarrier& barrier = cta.barriers[0];
  barrier.value |= value != 0;
  release(barrier.order);
  barrier.waiting.push_back(current);
  release_cta_barrier(cta);
  block();
  return barrier.result;
}

// Named barriers count threads, a whole warp at a time.

namespace {

void arrive_at(NamedBarrier& barrier, int id, int threads) {
  const std::string name = "barrier " + std::to_string(id);
  if (id < 0 || id > 15) fault(name + ": there are 16, from 0 on");
  if (threads <= 0 || threads % 32 != 0)
    fault(name + " counts " + std::to_string(threads) + " threads, not whole warps");
  if (barrier.arrived == 0) barrier.expected = threads;
  if (barrier.expected != threads)
    fault(name + " is waited for with " + std::to_string(barrier.expected) + " and with " + std::to_string(threads) +
          " threads");
  uint32_t& lanes = barrier.arrived_lanes[current->warp->index];
  const uint32_t bit = 1u << current->lane;
  if ((lanes & bit) != 0) fault(name + ": a warp comes twice before the others have come");
  lanes |= bit;
  release(barrier.order);
  if (++barrier.arrived < threads) return;
  for (const uint32_t of_warp : barrier.arrived_lanes)
    if (of_warp != 0 && of_warp != 0xffffffffu) fault(name + ": a part of a warp came, which counts as all of it");
  barrier.arrived = 0;
  std::memset(barrier.arrived_lanes, 0, sizeof barrier.arrived_lanes);
  release_waiting(barrier);
}

}  // namespace

void sync_named(int id, int threads, Site where) {
  if (!enter("bar.sync", where)) return;
  publish_writes();
  NamedBarrier& barrier = current->cta->barriers[id & 15];
  current->wait_address = static_cast<uint32_t>(id);
  barrier.waiting.push_back(current);
  arrive_at(barrier, id, threads);
  block();
}

void arrive_named(int id, int threads, Site where) {
  if (!enter("bar.arrive", where)) return;
  publish_writes();
  arrive_at(current->cta->barriers[id & 15], id, threads);
}

// PTX ISA, "barrier.cluster".

void release_cluster_barrier(Cluster& cluster) {
  if (cluster.arrived == 0 || cluster.arrived < cluster.alive) return;
  cluster.arrived = 0;
  ++cluster.phase;
  complete_cluster_phase(cluster);
  wake_all(cluster.waiting);
}

void cluster_arrive(bool release, Site where) {
  if (!enter("barrier.cluster.arrive", where)) return;
  if (current->arrived_at_cluster) fault("barrier.cluster.arrive twice without a wait in between");
  current->arrived_at_cluster = true;
  if (release) publish_writes();
  come_to_cluster(release);
  Cluster& cluster = *current->cta->cluster;
  current->wait_parity = cluster.phase;
  ++cluster.arrived;
  release_cluster_barrier(cluster);
}

void cluster_wait(Site where) {
  if (!enter("barrier.cluster.wait", where)) {
    current->arrived_at_cluster = false;
    return;
  }
  if (!current->arrived_at_cluster) fault("barrier.cluster.wait without an arrival before");
  current->arrived_at_cluster = false;
  Cluster& cluster = *current->cta->cluster;
  while (current->wait_parity == cluster.phase) {
    cluster.waiting.push_back(current);
    block();
  }
  acquire_from_cluster();
}

// PTX ISA, "mbarrier". The 64 bits, which it leaves open: arrivals to come (20 bits), arrivals of a phase (20), bytes
// to come (21, signed), the phase's parity, and 01, which neither zeros nor poison have.

namespace {

constexpr int64_t kMaxArrivals = (1 << 20) - 1, kMaxBytes = (1 << 20) - 1;

struct MBarrier {
  int64_t pending, arrivals, bytes;
  uint32_t parity;

  explicit MBarrier(int64_t arrivals_) : pending(arrivals_), arrivals(arrivals_), bytes(0), parity(0) {}
  static MBarrier of_word(uint64_t word) {
    MBarrier barrier(static_cast<int64_t>(word >> 20 & 0xfffff));
    barrier.pending = static_cast<int64_t>(word & 0xfffff);
    barrier.bytes = static_cast<int64_t>(word << 3) >> 43;
    barrier.parity = static_cast<uint32_t>(word >> 61 & 1);
    return barrier;
  }
  uint64_t word() const {
    return static_cast<uint64_t>(pending) | static_cast<uint64_t>(arrivals) << 20 |
           (static_cast<uint64_t>(bytes) & 0x1fffff) << 40 | uint64_t{parity} << 61 | uint64_t{1} << 62;
  }
};
bool is_mbarrier(uint64_t word) { return word >> 62 == 1; }

uint64_t& word_at(Cta& cta, uint32_t barrier) {
  if (barrier % 8 != 0) fault("an mbarrier at an address that is no multiple of 8");
  return *reinterpret_cast<uint64_t*>(shared_of(cta, barrier, 8));
}

MBarrier read(Cta& cta, uint32_t barrier) {
  const uint64_t word = word_at(cta, barrier);
  if (!is_mbarrier(word))
    fault("the mbarrier at " + std::to_string(barrier) + " was not initialized, or was overwritten");
  return MBarrier::of_word(word);
}

void write(Cta& cta, uint32_t barrier, MBarrier state) {
  const bool complete = state.pending == 0 && state.bytes == 0;
  if (complete) {
    state.parity ^= 1;
    state.pending = state.arrivals;
  }
  word_at(cta, barrier) = state.word();
  if (!complete) return;
  complete_phase(cta, barrier);
  auto& waiting = cta.at_mbarriers;
  std::vector<Fiber*> others;
  for (Fiber* fiber : waiting) {
    if (fiber->wait_address == barrier) {
      wake(fiber);
    } else {
      others.push_back(fiber);
    }
  }
  waiting.swap(others);
}

void change_bytes(MBarrier& state, int64_t bytes, uint32_t barrier) {
  state.bytes += bytes;
  if (state.bytes > kMaxBytes || state.bytes < -kMaxBytes)
    fault("the mbarrier at " + std::to_string(barrier) + " counts more bytes than it can");
}

void arrive(Cta& cta, uint32_t barrier, uint32_t bytes) {
  publish_writes();
  release_at(cta, barrier);
  MBarrier state = read(cta, barrier);
  change_bytes(state, bytes, barrier);
  // Where the arrivals are in and only bytes are missing, another arrival belongs to no phase.
  if (state.pending == 0)
    fault("the mbarrier at " + std::to_string(barrier) + " has all " + std::to_string(state.arrivals) +
          " arrivals of its phase, and another one comes");
  --state.pending;
  write(cta, barrier, state);
}

}  // namespace

void mbarrier_init(uint32_t barrier, uint32_t arrivals, Site where) {
  if (!enter("mbarrier.init", where)) return;
  if (arrivals == 0 || arrivals > kMaxArrivals) fault("an mbarrier of " + std::to_string(arrivals) + " arrivals");
  Cta& cta = *current->cta;
  uint64_t& word = word_at(cta, barrier);
  for (const uint32_t other : cta.mbarriers)
    if (other == barrier && is_mbarrier(word))
      fault("the mbarrier at " + std::to_string(barrier) + " is initialized a second time");
  word = MBarrier(arrivals).word();
  cta.mbarriers.push_back(barrier);
  wrote_shared(barrier, 8);
  note(Access::kWrite, &word, 8, where);
}

void mbarrier_arrive(uint32_t barrier, Site where) {
  if (enter("mbarrier.arrive", where)) arrive(*current->cta, barrier, 0);
}

void mbarrier_arrive_cluster(uint32_t address, Site where) {
  if (!enter("mbarrier.arrive.shared::cluster", where)) return;
  if (address >> 24 == 0) fault("an arrival at an address that is not of the cluster's window");
  arrive(cta_of_cluster((address >> 24) - 1), address & 0xffffff, 0);
}

void mbarrier_arrive_expect_tx(uint32_t barrier, uint32_t bytes, Site where) {
  if (enter("mbarrier.arrive.expect_tx", where)) arrive(*current->cta, barrier, bytes);
}

void bytes_arrived(Cta& cta, uint32_t barrier, uint32_t bytes) {
  MBarrier state = read(cta, barrier);
  change_bytes(state, -static_cast<int64_t>(bytes), barrier);
  write(cta, barrier, state);
}

// The phase that completed last has the parity that is asked for, or it has not and this waits: PTX ISA,
// "mbarrier.test_wait, mbarrier.try_wait".
bool mbarrier_try_wait(uint32_t barrier, uint32_t parity, Site where) {
  if (!enter("mbarrier.try_wait", where)) return true;
  Cta& cta = *current->cta;
  if (read(cta, barrier).parity != parity) {
    acquire_phase(barrier);
    return true;
  }
  if (schedule.false_waits && one_in(16)) return false;
  current->wait_address = barrier;
  current->wait_parity = parity;
  cta.at_mbarriers.push_back(current);
  block();
  if (read(cta, barrier).parity == parity) return false;
  acquire_phase(barrier);
  return true;
}

void expect_no_bytes(Cta& cta) {
  for (const uint32_t barrier : cta.mbarriers) {
    const uint64_t word = word_at(cta, barrier);
    if (is_mbarrier(word) && MBarrier::of_word(word).bytes != 0)
      fault("its CTA ends, and " + text_of_mbarrier(cta, barrier));
  }
}

std::string text_of_mbarrier(Cta& cta, uint32_t barrier) {
  const uint64_t word = word_at(cta, barrier);
  std::string text = "the mbarrier at " + std::to_string(barrier);
  if (!is_mbarrier(word)) return text + " is none";
  const MBarrier state = MBarrier::of_word(word);
  return text + " is in a phase of parity " + std::to_string(state.parity) + ", " + std::to_string(state.pending) +
         " of " + std::to_string(state.arrivals) + " arrivals and " + std::to_string(state.bytes) + " bytes to come";
}

}  // namespace tileon::simulation
