// Asynchronous copies by the tensor memory accelerator, and the barriers in shared memory on which they complete
// (sm_90).
//
// A barrier counts arrivals and bytes, and goes through phases. A phase is complete when all its arrivals and all the
// bytes it was told to expect are in; the barrier is then in the next phase. Waiting names a phase by its parity, and a
// fresh barrier is in phase 0: waiting for parity 0 waits for the first phase, waiting for parity 1 returns at once, as
// if a phase before the first were complete.
//
// TMA moves boxes of a tensor between global and shared memory. Coordinates run innermost first. What lies outside the
// tensor is read as zeros, which count as bytes all the same, and is not written.
#pragma once

#include <cuda.h>
#include <cstdint>

namespace tileon::ptx {

// ---- barriers ----

__device__ __forceinline__ void mbarrier_init(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Makes this thread's initialized barriers known to the async proxy and to the other CTAs of the cluster.
__device__ __forceinline__ void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Arrives, and raises the bytes that the phase waits for.
__device__ __forceinline__ void mbarrier_arrive_expect_tx(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ __forceinline__ void mbarrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// True once the phase of this parity is complete; may also return false after a while.
__device__ __forceinline__ bool mbarrier_try_wait(uint32_t barrier, uint32_t parity) {
  uint32_t complete;
  asm volatile(
      "{\n"
      ".reg .pred complete;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 complete, [%1], %2;\n"
      "selp.u32 %0, 1, 0, complete;\n"
      "}"
      : "=r"(complete)
      : "r"(barrier), "r"(parity)
      : "memory");
  return complete != 0;
}

// ---- copies ----

// Starts loading one box of a tensor of four dimensions; its bytes arrive at `barrier`.
__device__ __forceinline__ void tma_load_4d(uint32_t shared, const CUtensorMap& map, uint32_t barrier, int x, int y,
                                            int z, int w) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];" ::"r"(shared),
      "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w)
      : "memory");
}

// Starts copying bytes that lie in a piece; addresses and count are multiples of 16. They arrive at `barrier`.
__device__ __forceinline__ void bulk_load(uint32_t shared, const void* global, uint32_t barrier, int bytes) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared),
               "l"(global), "r"(bytes), "r"(barrier)
               : "memory");
}

// Starts storing one box of a tensor of three dimensions, as a group of its own. Called by the whole warp, whose
// elected lane (sync.cuh) stores, and waits for the store too. Election and store are one piece of assembly: behind `if
// (elect_one())`, a short branch, ptxas moves the arithmetic that follows, the next chunk's rounding, in front of the
// store.
__device__ __forceinline__ void tma_store_3d_by_warp(const CUtensorMap& map, uint32_t shared, int x, int y, int z) {
  asm volatile(
      "{\n"
      ".reg .pred elected;\n"
      "elect.sync _|elected, 0xffffffff;\n"
      "@elected cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];\n"
      "@elected cp.async.bulk.commit_group;\n"
      "}" ::"l"(&map),
      "r"(shared), "r"(x), "r"(y), "r"(z)
      : "memory");
}

// Returns when all but the newest kPending of this thread's groups, one a store, have read their shared memory.
template <int kPending>
__device__ __forceinline__ void tma_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

// Fetches the descriptor before it is needed.
__device__ __forceinline__ void prefetch_tensor_map(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

}  // namespace tileon::ptx
