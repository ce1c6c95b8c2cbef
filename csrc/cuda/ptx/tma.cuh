// The tensor memory accelerator (sm_90): boxes of a tensor between global and shared memory. Coordinates run innermost
// first. What lies outside the tensor is read as zeros, which count as bytes all the same, and is not written.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace tileon::ptx {

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
// elected lane (sync.cuh) stores; that lane waits for it too. In one piece with the election: behind `if
// (elect_one())`, a short branch, ptxas moves the arithmetic that follows it, the next chunk's rounding, in front of
// the store.
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
