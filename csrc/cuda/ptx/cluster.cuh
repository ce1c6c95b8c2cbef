// CTAs of one cluster (sm_90): their barrier and each other's shared memory.
#pragma once

#include <cstdint>

namespace tileon::ptx {

// Arrives at the cluster's barrier; this thread's writes to shared memory become visible to those who then wait there.
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release;" ::: "memory"); }

// The same for a thread of which nobody waits for memory, only for its coming.
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

}  // namespace tileon::ptx
