// How a kernel of the watchdog build ends a wait that never would.
#pragma once

namespace tileon::ptx {

// A store to nowhere, which ends the kernel with an error. Not a trap: with one in a kernel ptxas no longer gives the
// warps' roles registers of their own.
__device__ __forceinline__ void fault() { asm volatile("st.global.u32 [%0], %1;" ::"l"(0ull), "r"(0) : "memory"); }

}  // namespace tileon::ptx
