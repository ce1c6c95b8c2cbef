// Asynchronous copies from global to shared memory, for any GPU from Ampere on.
#pragma once

#include <cstdint>

namespace tileon::ptx {

// Starts one 16-byte copy; bytes past the first `bytes` are written as zeros and never read. Bypasses L1.
// Complete when this thread's wait for its group returns; visible to others after a barrier behind that.
__device__ __forceinline__ void cp_async_16(uint32_t shared, const void* global, int bytes) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(bytes)
               : "memory");
}

// Starts the copy of kSize (4 or 8) bytes, those past the first `bytes` as zeros, which are never read.
template <int kSize>
__device__ __forceinline__ void cp_async_element(uint32_t shared, const void* global, int bytes) {
  static_assert(kSize == 4 || kSize == 8);
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared), "l"(global), "n"(kSize), "r"(bytes)
               : "memory");
}

// Closes the group of copies that this thread has started since the last commit.
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Returns when at most kPending of this thread's groups, the newest, are still under way.
template <int kPending>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace tileon::ptx
