// One lane of a warp (sm_90).
#pragma once

#include <cstdint>

namespace tileon::ptx {

// True in one lane, the same at every call; called by the whole warp, whose lanes wait for each other here (PTX ISA,
// "elect.sync"): a loop of waits for a phase and elections keeps lanes within one round of each other. What it guards
// ptxas knows to be run by one thread. Behind a comparison of threadIdx it does not, and puts a loop over the active
// threads around every instruction of TMA.
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

}  // namespace tileon::ptx
