// The CTA's 16 numbered barriers; __syncthreads is number 0.
#pragma once

namespace tileon::ptx {

// Arrives and waits for `threads` arrivals, a multiple of 32, all in all.
__device__ __forceinline__ void barrier_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Arrives without waiting.
__device__ __forceinline__ void barrier_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

}  // namespace tileon::ptx
