// Programmatic dependent launch (sm_90). Both do nothing in a kernel that was launched without it.
#pragma once

namespace tileon::ptx {

// Returns when every kernel that this one was launched behind is complete and its memory visible.
__device__ __forceinline__ void grid_dependency_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// Allows the next kernel of the stream to start once every CTA has said so or has exited.
__device__ __forceinline__ void grid_dependency_launch() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

}  // namespace tileon::ptx
