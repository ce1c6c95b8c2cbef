// PTX of clusters (sm_90): their barrier, and the shared memory of each other's CTAs.
#pragma once

#include <cstdint>

namespace tileon::ptx {

// Arrives at the cluster's barrier; this thread's writes to shared memory become visible to the threads that then wait
// there.
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release;" ::: "memory"); }

// Arrives at the cluster's barrier to say what this thread has read and used, not what it wrote, for which ptxas would
// fence the GPU's memory.
__device__ __forceinline__ void cluster_arrive_having_read() {
  asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
}

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

// Arrives at another CTA's barrier, by its address in the cluster's window: to say what this thread has read, not what
// it wrote, for which ptxas would fence the GPU's memory.
__device__ __forceinline__ void mbarrier_arrive_cluster(uint32_t address) {
  asm volatile("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];" ::"r"(address) : "memory");
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

// As mbarrier_try_wait, of what other CTAs of the cluster have stored.
__device__ __forceinline__ bool mbarrier_try_wait_cluster(uint32_t barrier, uint32_t parity) {
  uint32_t complete;
  asm volatile(
      "{\n.reg .pred complete;\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 complete, [%1], %2;\n"
      "selp.u32 %0, 1, 0, complete;\n}"
      : "=r"(complete)
      : "r"(barrier), "r"(parity)
      : "memory");
  return complete != 0;
}

// Stores at an address in the cluster's window, and counts the bytes at the barrier at another in the same CTA: who
// waits there sees them. The thread itself goes on.
__device__ __forceinline__ void store_async_16(uint32_t address, const float* values, uint32_t barrier) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(address),
      "f"(values[0]), "f"(values[1]), "f"(values[2]), "f"(values[3]), "r"(barrier)
      : "memory");
}

}  // namespace tileon::ptx
