// A pipeline of stages in shared memory between one producer warp and the warpgroups that consume: two barriers a
// stage. And which warp a thread is of.
#pragma once

#include <cstdint>

#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/shared.cuh"

namespace tileon {

#ifdef TILEON_WATCHDOG
constexpr bool kWatchdog = true;
#else
constexpr bool kWatchdog = false;
#endif

// In the watchdog build, ends the kernel when a loop goes round more often than any sound one does.
struct Watchdog {
  uint32_t rounds = 0;
  __device__ __forceinline__ void tick(uint32_t limit = 1u << 22) {
    if constexpr (kWatchdog)
      if (++rounds > limit) ptx::fault();
  }
};

// This thread's warp, in a form that the compiler knows to be the same in all lanes: branches on it are uniform.
__device__ __forceinline__ int warp_index() { return __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x / 32), 0); }

__device__ __forceinline__ void wait_for_phase(uint32_t barrier, uint32_t parity) {
  Watchdog watchdog;
  while (!ptx::mbarrier_try_wait(barrier, parity)) watchdog.tick();
}

// The same of bytes that other CTAs of the cluster sent.
__device__ __forceinline__ void wait_for_phase_of_cluster(uint32_t barrier, uint32_t parity) {
  Watchdog watchdog;
  while (!ptx::mbarrier_try_wait_cluster(barrier, parity)) watchdog.tick();
}

// Where a role stands in the pipeline: the stage, and how often it has gone round, modulo two.
struct PipelineState {
  int stage = 0;
  uint32_t phase = 0;

  __device__ __forceinline__ void advance(int stages) {
    if (++stage == stages) {
      stage = 0;
      phase ^= 1;
    }
  }

  __device__ __forceinline__ void advance_by(int count, int stages) {
    stage += count;
    while (stage >= stages) {
      stage -= stages;
      phase ^= 1;
    }
  }
};

// The pipeline's place in shared memory. `full` barriers complete when a stage's bytes have arrived, `empty` barriers
// when every consumer has released it.
class Pipeline {
 public:
  static constexpr int kMaxStages = 16;
  static constexpr int kBarrierBytes = 2 * kMaxStages * 8;

  __device__ __forceinline__ Pipeline(uint32_t barriers, uint32_t data, int stage_bytes, int stages)
      : barriers_(barriers), data_(data), stage_bytes_(stage_bytes), stages_(stages) {}

  __device__ __forceinline__ int stages() const { return stages_; }
  __device__ __forceinline__ uint32_t data(int stage) const { return data_ + stage * stage_bytes_; }
  __device__ __forceinline__ uint32_t full(int stage) const { return barriers_ + stage * 8; }
  __device__ __forceinline__ uint32_t empty(int stage) const { return barriers_ + (kMaxStages + stage) * 8; }

  // init_full and init_empty: each by one thread, before a barrier of the CTA; one thread for both is slower. init_full
  // takes the stages from `begin` up to `end`, and its fence is for TMA, which arrives at `full` barriers alone. Not
  // unrolled: cold instructions cost more than the loop.
  __device__ __forceinline__ void init_full(int begin, int end, int producers = 1) const {
#pragma unroll 1
    for (int stage = begin; stage < end; ++stage) ptx::mbarrier_init(full(stage), producers);
    ptx::fence_mbarrier_init();
  }
  __device__ __forceinline__ void init_empty(int consumers) const {
#pragma unroll 1
    for (int stage = 0; stage < stages_; ++stage) ptx::mbarrier_init(empty(stage), consumers);
  }

  // The producer: waits until every consumer has released the stage's last round. Its first round finds all free.
  __device__ __forceinline__ void wait_until_empty(const PipelineState& at) const {
    wait_for_phase(empty(at.stage), at.phase ^ 1);
  }
  // A consumer: waits for the stage's bytes.
  __device__ __forceinline__ void wait_until_full(const PipelineState& at) const {
    wait_for_phase(full(at.stage), at.phase);
  }

  // A consumer, by one thread: it has read the stage.
  __device__ __forceinline__ void release(int stage) const { ptx::mbarrier_arrive(empty(stage)); }

 private:
  uint32_t barriers_;
  uint32_t data_;
  int stage_bytes_;
  int stages_;
};

}  // namespace tileon
