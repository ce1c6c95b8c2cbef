// How threads meet and what they see of each other: elections, named barriers, fences, programmatic dependent launch,
// and how a watchdog ends a wait.
#pragma once

#include <cstdint>

namespace tileon::ptx {

// Of a warp (sm_90): true in one lane, the same at every call; called by the whole warp, whose lanes wait for each
// other here (PTX ISA, "elect.sync"): a loop of waits for a phase and elections keeps lanes within one round of each
// other. What it guards ptxas knows to be run by one thread. Behind a comparison of threadIdx it does not, and puts a
// loop over the active threads around every instruction of TMA.
__device__ __forceinline__ bool elect_one() {
  uint32_t elected;
  asm volatile(
      "{\n"
      ".reg .pred elected;\n"
      "elect.sync _|elected, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, elected;\n"
      "}"
      : "=r"(elected));
  return elected != 0;
}

// The CTA's 16 numbered barriers; __syncthreads is number 0. Arrives and waits for `threads` arrivals, a multiple of
// 32, all in all.
__device__ __forceinline__ void barrier_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Arrives without waiting.
__device__ __forceinline__ void barrier_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// This thread's writes to shared memory, before what the async proxy (TMA, wgmma) does next.
__device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Programmatic dependent launch (sm_90); both functions do nothing in a kernel that was launched without it, and on
// older GPUs. Returns when every kernel that this one was launched behind is complete and its memory visible.
__device__ __forceinline__ void grid_dependency_wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Allows the next kernel of the stream to start once every CTA has said so or has exited.
__device__ __forceinline__ void grid_dependency_launch() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// A store to nowhere, which ends the kernel with an error. Not a trap: with one in a kernel ptxas no longer gives the
// warps' roles registers of their own.
__device__ __forceinline__ void fault() { asm volatile("st.global.u32 [%0], %1;" ::"l"(0ull), "r"(0) : "memory"); }

}  // namespace tileon::ptx
