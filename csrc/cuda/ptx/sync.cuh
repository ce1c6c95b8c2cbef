// How threads meet, of a warp, a CTA or a cluster, and what they see of each other: elections, named barriers, the
// cluster's barrier and memory, fences, programmatic dependent launch; a warp's budget of registers; and how a watchdog
// ends a wait.
#pragma once

#include <cstdint>

namespace tileon::ptx {

// Of a warp (sm_90): true in one lane, the same at every call. The whole warp calls, and its lanes wait for each other
// here (PTX ISA, "elect.sync"): a loop of waits for a phase and elections keeps lanes within one round of each other.
// ptxas knows that one thread runs what an election guards. Behind a comparison of threadIdx it does not know, and puts
// a loop over the active threads around every instruction of TMA.
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

// ---- clusters (sm_90): their barrier, and the shared memory of each other's CTAs ----

// Arrives at the cluster's barrier; this thread's writes to shared memory become visible to those who then wait there.
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release;" ::: "memory"); }

// Arrives at the cluster's barrier without making memory visible: for a thread whose arrival alone is waited for.
__device__ __forceinline__ void cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
}

// Returns when every thread of the cluster that has not exited has arrived.
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }

// The address, in the cluster's window, of what lies at `shared` in CTA `rank`.
__device__ __forceinline__ uint32_t map_to_cta(uint32_t shared, uint32_t rank) {
  uint32_t address;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared), "r"(rank));
  return address;
}

__device__ __forceinline__ uint32_t load_cluster_4(uint32_t address) {
  uint32_t word;
  asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(word) : "r"(address) : "memory");
  return word;
}

__device__ __forceinline__ float4 load_cluster_16(uint32_t address) {
  float4 values;
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(values.x), "=f"(values.y), "=f"(values.z), "=f"(values.w)
               : "r"(address)
               : "memory");
  return values;
}

// ---- registers: a warp's budget, and what the compiler may know of values ----

// Sets how many registers each thread of a warpgroup has (sm_90a); all four warps take part. release_registers gives
// registers back: more than kCount must not be in use.
template <int kCount>
__device__ __forceinline__ void release_registers() {
  static_assert(kCount >= 24 && kCount <= 256 && kCount % 8 == 0);
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}

// Takes registers, and waits until kCount a thread are there.
template <int kCount>
__device__ __forceinline__ void acquire_registers() {
  static_assert(kCount >= 24 && kCount <= 256 && kCount % 8 == 0);
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

// No instruction: hides `value` from the compiler, so that what follows from it is computed behind this point.
__device__ __forceinline__ uint32_t opaque(uint32_t value) {
  asm volatile("" : "+r"(value));
  return value;
}

// No instruction, but an order: this folder's instructions, and every use of `value`, stay on their side of this point.
__device__ __forceinline__ void pin(float& value) { asm volatile("" : "+f"(value)::"memory"); }

}  // namespace tileon::ptx
