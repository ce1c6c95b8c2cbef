// Which thread runs next.
#include <algorithm>

#include "state.h"

// Of the thread that is running; taken along by every switch.
uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace tileon::simulation {

Fiber* current = nullptr;
Statistics statistics;
uint64_t fmaf_count = 0;

namespace {

constexpr uint64_t kMaxSwitches = uint64_t{1} << 32;  // of one launch: some minutes

Context host, scheduler;
unsigned char* scheduler_stack = nullptr;
std::vector<Warp*> ready_warps;  // with lanes that can run, but not the one that is running; oldest first
Warp* running = nullptr;
bool leaves_warp = false;  // though it has lanes that can run
bool scheduler_is_wanted = false;
uint64_t switches_left = 0;
Grid* shown_grid = nullptr;

int pick_lane(const Warp& warp) {
  uint32_t lanes = warp.ready;
  if ((lanes & (lanes - 1)) == 0) return __builtin_ctz(lanes);
  if (schedule.order == Order::kRandom && schedule.independent_lanes) {
    for (auto skip = random_number() % static_cast<unsigned>(__builtin_popcount(lanes)); skip > 0; --skip)
      lanes &= lanes - 1;
    return __builtin_ctz(lanes);
  }
  return schedule.lanes_backwards ? 31 - __builtin_clz(lanes) : __builtin_ctz(lanes);
}

size_t pick_warp() {
  switch (schedule.order) {
    case Order::kInTurn:
      return 0;
    case Order::kRandom:
      return random_number() % ready_warps.size();
    case Order::kNewestFirst:
      return ready_warps.size() - 1;
    case Order::kByWarp: {
      size_t best = 0;
      for (size_t i = 1; i < ready_warps.size(); ++i)
        if (ready_warps[i]->priority > ready_warps[best]->priority) best = i;
      return best;
    }
  }
  return 0;
}

void show(Fiber& fiber) {
  current = &fiber;
  threadIdx = fiber.thread;
  blockIdx = fiber.cta->block;
  if (Grid* grid = fiber.cta->grid; grid != shown_grid) {
    shown_grid = grid;
    blockDim = grid->block;
    gridDim = grid->grid;
  }
}

// Lets a lane of `warp` run.
void resume(Context& from, Warp& warp) {
  const int lane = pick_lane(warp);
  warp.ready &= ~(1u << lane);
  Fiber* fiber = warp.lanes[lane];
  if (&fiber->context == &from) return;
  ++statistics.switches;
  if (--switches_left == 0) fault("too many switches of threads: the kernel runs without end");
  show(*fiber);
  switch_context(from, fiber->context);
}

// The warp that shall run next; null where none can. Lanes run together where they may: a warp's lanes all run up to
// where they wait before another warp runs.
Warp* next_warp() {
  if (running != nullptr && running->ready != 0) {
    if (!leaves_warp && !schedule.independent_lanes) return running;
    ready_warps.push_back(running);
  }
  leaves_warp = false;
  running = nullptr;
  maybe_run_task();
  while (ready_warps.empty())
    if (!run_some_task()) return nullptr;
  const size_t at = pick_warp();
  running = ready_warps[at];
  ready_warps.erase(ready_warps.begin() + static_cast<long>(at));
  return running;
}

// Switches to some thread that can run, or to the scheduler. The caller waits somewhere, can run or has ended.
void switch_away() {
  Fiber* self = current;
  if (!scheduler_is_wanted) {
    if (Warp* next = next_warp(); next != nullptr) {
      resume(self->context, *next);
      return;
    }
  }
  if (running != nullptr && running->ready != 0) ready_warps.push_back(running);
  running = nullptr;
  switch_context(self->context, scheduler);
}

void schedule_all() {
  for (;;) {
    scheduler_is_wanted = false;
    current = nullptr;
    const bool any_alive = start_clusters();
    if (!any_alive && grids.empty()) break;
    Warp* next = next_warp();
    if (next == nullptr && start_one_more()) continue;
    if (next == nullptr) report_deadlock();
    resume(scheduler, *next);
  }
  stop_running();
}

}  // namespace

void block() {
  // The common case: the next lane of the same warp.
  if (running->ready != 0 && !leaves_warp && !scheduler_is_wanted && !schedule.independent_lanes) {
    resume(current->context, *running);
  } else {
    switch_away();
  }
}

void wake_lanes(Warp& warp, uint32_t lanes, bool before_others) {
  if (warp.ready == 0 && &warp != running)
    ready_warps.insert(before_others ? ready_warps.begin() : ready_warps.end(), &warp);
  warp.ready |= lanes;
}

void wake(Fiber* fiber) { wake_lanes(*fiber->warp, 1u << fiber->lane); }

void wake_all(std::vector<Fiber*>& fibers) {
  for (Fiber* fiber : fibers) wake(fiber);
  fibers.clear();
}

void maybe_preempt() {
  if (!one_in(schedule.preempt_one_in)) return;
  // Together with lanes that could go on, this one does not stop.
  if (!schedule.independent_lanes && current->warp->ready != 0) return;
  leaves_warp = true;
  wake(current);
  switch_away();
}

void maybe_preempt_warp() {
  if (schedule.preempt_one_in == 0 || !one_in(4)) return;
  leaves_warp = true;
  wake(current);
  switch_away();
}

void call_scheduler() { scheduler_is_wanted = true; }

void thread_main() {
  Fiber* self = current;
  self->cta->grid->call->run();
  self->doing = "exit";
  Warp& warp = *self->warp;
  Cta& cta = *self->cta;
  Cluster& cluster = *cta.cluster;
  end_thread_copies(*self);
  end_thread_products(*self);
  publish_writes();
  self->exited = true;
  warp.alive &= ~(1u << self->lane);
  if (warp.arrived != 0 && warp.arrived == warp.alive)
    fault("a lane ended, and the others of its warp wait for it in an instruction of the whole warp");
  if (--cta.alive == 0) {
    end_tasks(cta);
    expect_no_bytes(cta);
    expect_no_visitors();
    if (!cta.launched_dependents) ++cta.grid->ctas_released;
    std::memset(cta.window + kDynamicBegin, kPoison, cta.grid->dynamic_bytes);  // another CTA's from now on
  } else {
    release_cta_barrier(cta);
  }
  if (--cluster.alive == 0) {
    cluster_ended(cluster);
    call_scheduler();
  } else {
    release_cluster_barrier(cluster);
  }
  switch_away();
  __builtin_trap();
}

void run_all_grids() {
  if (grids.empty()) return;
  install_signal_handler();
  if (scheduler_stack == nullptr) scheduler_stack = take_stack();
  prepare_context(scheduler, scheduler_stack, kStackBytes, 0, schedule_all);
  ready_warps.clear();
  running = nullptr;
  leaves_warp = scheduler_is_wanted = false;
  shown_grid = nullptr;
  switches_left = kMaxSwitches;
  switch_context(host, scheduler);
  current = nullptr;
  running = nullptr;
  ready_warps.clear();
  tasks.clear();
  running_task = nullptr;
  grids.clear();
  forget_waiting_for_words();
  abandon_clusters();
  trim_accesses();
}

void stop_running() {
  Context ended;
  switch_context(ended, host);
  __builtin_trap();
}

}  // namespace tileon::simulation
