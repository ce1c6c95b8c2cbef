// Which accesses to memory happen before which: Flanagan and Freund, "FastTrack" (2009). All of it does nothing but in
// the build that sees plain accesses (build.py --accesses).
#pragma once

#include <cstdint>
#include <vector>

#include "site.h"

namespace tileon::simulation {

#ifdef TILEON_SEES_ACCESSES
constexpr bool kSeesAccesses = true;
#else
constexpr bool kSeesAccesses = false;
#endif

struct Fiber;
struct Warp;
struct Cta;
struct Cluster;

// Of each thing of a CTA that runs by itself, up to which of its numbered steps one knows.
using Clock = std::vector<uint32_t>;

// These things: the threads, then
constexpr int kProductsOf = 0;  // a warpgroup's groups of wgmma, 8
constexpr int kStoresOf = 8;    // a warp's TMA stores, 32
constexpr int kClusterOf = 40;  // phases of the cluster's barrier, 1
constexpr int kPhasesOf = 41;   // a memory barrier's phases, 128
constexpr int kMaxMBarriers = 128, kThings = kPhasesOf + kMaxMBarriers;
constexpr uint32_t kUnderWay = 0xffffffff;  // a step that nobody knows of

void start_clock(Fiber& fiber);

// What the thread that is running did and knows is told to whoever acquires `to` later.
void release(Clock& to);
void acquire(Fiber& by, const Clock& from);
void acquire_step(int thing, uint32_t step);  // by the thread that is running
void synchronize_lanes(Warp& warp);

// The cluster's barrier: what the threads of each CTA tell in the phase that runs, and told up to the last two.
struct ClusterOrder {
  std::vector<Clock> arriving, told[2];
};
void come_to_cluster(bool release);
void complete_cluster_phase(Cluster& cluster);
void acquire_from_cluster();

// What a thread of another CTA tells: what it knows of its own one.
struct Tale {
  uint32_t cta;
  Clock clock;
};

// A memory barrier: what arrivals tell in the phase that runs, and told in the one before; and those from other CTAs of
// the cluster.
struct PhaseOrder {
  Clock arriving, told;
  std::vector<Tale> arriving_from_others, told_by_others;
  uint32_t completed = 0;  // phases
};
void release_at(Cta& cta, uint32_t barrier);  // of this CTA or of another one
void complete_phase(Cta& cta, uint32_t barrier);
void acquire_phase(uint32_t barrier);
void note_phase(Cta& cta, uint32_t barrier, const void* address, size_t bytes);  // written in the phase that runs

// What a CTA of the grid told, by a word of global memory or by this CTA's memory barrier: all that `tale` knows, to
// those who know of step `step` of the thread that loaded the word or waited.
struct Told {
  Tale tale;
  uint32_t barrier;  // 0: a word told it
  size_t thread;
  uint32_t step;
};
void tell_grid(const void* word);
void hear_from_grid(const void* word);

// An access now, by the thread that is running; a fault where one that it must not meet does not happen before it.
enum class Access : int8_t { kRead, kWrite, kAtomic };
void note_access(Access kind, const void* address, size_t bytes, const Site& where);
inline void note(Access kind, const void* address, size_t bytes, const Site& where) {
  if (kSeesAccesses) note_access(kind, address, bytes, where);
}
// An access that lasts, for everybody, until one knows of this step of that thing: of the thread that is running, or of
// the thing of its CTA.
void note_until(int thing, uint32_t step, Access kind, const void* address, size_t bytes);
int thing_of(const Cta& cta, int kind, int number);
// What the thread's cp.async wrote is written from now on.
void settle(const void* address, size_t bytes);
// The CTA of the thread that is running ends: what others of the cluster did to its shared memory is before that.
void expect_no_visitors();
void forget_accesses(const void* address, size_t bytes);
void trim_accesses();  // between runs

}  // namespace tileon::simulation
