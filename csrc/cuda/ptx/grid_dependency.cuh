// Programmatic dependent launch (sm_90). Both do nothing in a kernel that was launched without it, and on older GPUs.
#pragma once

namespace tileon::ptx {

// Returns when every kernel that this one was launched behind is complete and its memory visible.
__device__ __forceinline__ void grid_dependency_wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Allows the next kernel of the stream to start once every CTA has said so or has exited.
__device__ __forceinline__ void grid_dependency_launch() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace tileon::ptx
