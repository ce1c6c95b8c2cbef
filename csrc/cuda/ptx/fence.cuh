// Order between memory accesses of different kinds.
#pragma once

namespace tileon::ptx {

// This thread's writes to shared memory, before what the async proxy (TMA, wgmma) does next.
__device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

}  // namespace tileon::ptx
