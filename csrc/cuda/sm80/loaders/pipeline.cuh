// The pipeline of k-blocks in shared memory that every portable kernel runs on: who fetches what, and who waits for
// whom.
#pragma once

#include <cstdint>

#include "cuda/ptx/cp_async.cuh"
#include "cuda/ptx/shared.cuh"

namespace tileon::sm80 {

// Fetches kStages - 1 k-blocks ahead of the one that is being multiplied. All threads of the CTA take part.
template <int kStages, int kBlockK, int kABytes, int kBBytes, typename ReaderA, typename ReaderB>
class Pipeline {
  static constexpr int kStageBytes = kABytes + kBBytes;

 public:
  static constexpr int bytes = kStages * kStageBytes;

  __device__ Pipeline(uint32_t shared, ReaderA& reader_a, ReaderB& reader_b, int64_t k_size)
      : shared_(shared),
        reader_a_(reader_a),
        reader_b_(reader_b),
        blocks_left_(static_cast<int>((k_size + kBlockK - 1) / kBlockK)),
        last_k_count_(static_cast<int>(k_size - (blocks_left_ - int64_t{1}) * kBlockK)) {
    for (int stage = 0; stage < kStages - 1; ++stage) fetch_next();
  }

  // Starts the fetch of one more k-block, into the stage read before the last wait. Readers that hold the k-block
  // before in registers first write that one to its stage: a k-block and a barrier before its use.
  __device__ __forceinline__ void fetch_next() {
    reader_a_.land();
    reader_b_.land();
    if (blocks_left_ > 0) {
      const int k_count = blocks_left_ == 1 ? last_k_count_ : kBlockK;
      reader_a_.fetch(shared_ + write_, k_count);
      reader_b_.fetch(shared_ + write_ + kABytes, k_count);
    }
    --blocks_left_;
    ptx::cp_async_commit();  // an empty group too: a count of groups stays a count of k-blocks
    write_ = next(write_);
  }

  // Returns when the next k-block has arrived for all threads, and all threads are done with the one before it.
  __device__ __forceinline__ void wait_for_next() {
    read_ = next(read_);
    ptx::cp_async_wait<kStages - 2>();
    __syncthreads();
  }

  // Behind the wait for the last k-block, since groups behind it are empty: returns when no thread reads the pipeline
  // any more.
  __device__ __forceinline__ void drain() { __syncthreads(); }

  // Where the k-block lies for which the last wait was.
  __device__ __forceinline__ uint32_t a() const { return shared_ + read_; }
  __device__ __forceinline__ uint32_t b() const { return shared_ + read_ + kABytes; }

 private:
  static __device__ __forceinline__ int next(int stage) {
    return stage == (kStages - 1) * kStageBytes ? 0 : stage + kStageBytes;
  }

  uint32_t shared_;
  ReaderA& reader_a_;
  ReaderB& reader_b_;
  int blocks_left_;                         // to fetch
  int last_k_count_;                        // how much of k the last block holds
  int write_ = 0;                           // the stage to fetch into, in bytes from the pipeline's start
  int read_ = (kStages - 1) * kStageBytes;  // the stage to read; the first wait moves it to 0
};

// Multiplies all k-blocks of a pipeline in kSteps steps each. load(step, buffer) reads a step's operands from the
// k-block that the last wait was for, multiply(buffer) multiplies them; the operands of the next step load while those
// of this one are multiplied, so there are two buffers, of constant numbers.
template <int kSteps, typename Pipeline, typename Load, typename Multiply>
__device__ __forceinline__ void multiply_blocks(Pipeline& pipeline, int blocks, const Load& load,
                                                const Multiply& multiply) {
  static_assert(kSteps % 2 == 0, "two buffers take turns");
  if (blocks == 0) return;
  pipeline.wait_for_next();
  load(0, 0);
#pragma unroll 1
  for (int block = 0; block < blocks; ++block) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      if (step == kSteps - 1) pipeline.wait_for_next();
      load((step + 1) % kSteps, (step + 1) % 2);
      if (step == 0) pipeline.fetch_next();
      multiply(step % 2);
    }
  }
}

}  // namespace tileon::sm80
