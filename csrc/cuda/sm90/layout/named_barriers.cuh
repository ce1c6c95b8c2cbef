// Who uses which of the CTA's numbered barriers.
#pragma once

namespace tileon::sm90 {

// 0 is __syncthreads.
__device__ constexpr int kAllConsumers = 1;                                        // of split_k/
__device__ constexpr int consumer_barrier(int consumer) { return 2 + consumer; }   // the four warps of one consumer
__device__ constexpr int main_loop_barrier(int consumer) { return 5 + consumer; }  // whose turn it is in ping-pong
__device__ constexpr int kDecoders = 2;                                            // of small_m/

}  // namespace tileon::sm90
