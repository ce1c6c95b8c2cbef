// The Scheduler of kernels that share their last tiles (layout/stream_k.h): whole tiles first, then this CTA's range of
// the shared blocks, from its end to its beginning. So the sums that another CTA waits for come first, and those that
// this CTA waits for were the first of another's: hardly anybody waits. A CTA waits for CTAs of lower numbers alone,
// and all CTAs are there at once, since the launch is cooperative.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/common/pipeline.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/sm90/layout/kernel_params.h"
#include "cuda/sm90/layout/stream_k.h"
#include "cuda/sm90/mainloop/kernel.cuh"

namespace tileon::sm90 {

template <typename Kernel>
class StreamedTiles {
  using Params = typename Kernel::Params;
  static_assert(!Kernel::ping_pong && std::is_same_v<typename Kernel::Sum, float>);

 public:
  static constexpr bool shares_tiles = true;

  // Tile `first`, and those `step` further on; then the shared ones.
  __device__ __forceinline__ StreamedTiles(const Params& params, int first, int step)
      : params_(params), tile_(first), step_(step) {
    if (tile_ >= params.stream.first_tile) begin_shared();
  }

  __device__ __forceinline__ bool has_tile() const { return !is_shared_ || tile_ >= lowest_; }
  __device__ __forceinline__ void advance() {
    if (is_shared_) {
      --tile_;
    } else if ((tile_ += step_) >= params_.stream.first_tile) {
      begin_shared();
    }
  }
  __device__ __forceinline__ TilePosition position() const {
    return GroupedTiles<Kernel>::position_of(params_, max(tile_, 0));
  }
  __device__ __forceinline__ TilePosition next_position() const {
    StreamedTiles next = *this;
    next.advance();
    return next.position();
  }

  // The tile's blocks of k that this CTA multiplies.
  __device__ __forceinline__ int first_block() const { return is_shared_ ? max(begin_ - first_of_tile(), 0) : 0; }
  __device__ __forceinline__ int end_block() const {
    return is_shared_ ? min(end_ - first_of_tile(), params_.k_blocks) : params_.k_blocks;
  }
  __device__ __forceinline__ int blocks() const { return end_block() - first_block(); }

  // By a consumer's 128 threads, with the sums of their part of the tile. True: they are the tile's now, and these
  // threads store them; false: another CTA finishes the tile.
  __device__ __forceinline__ bool finish_sums(const typename Kernel::Shared&, int consumer,
                                              typename Kernel::Sums& sums) const {
    if (end_block() < params_.k_blocks) {
      hand_over(consumer, sums);
      return false;
    }
    add_sums_of_others(consumer, sums);
    return true;
  }

 private:
  static constexpr int kFours = Kernel::columns / 8;  // of a thread's sums in a block of 64 rows

  __device__ __forceinline__ void hand_over(int consumer, const typename Kernel::Sums& sums) const {
    float4* to = sums_of(blockIdx.x, consumer);
#pragma unroll
    for (int block = 0; block < Kernel::row_blocks; ++block)
#pragma unroll
      for (int i = 0; i < kFours; ++i) {
        const float* four = &sums[block][4 * i];
        to[(block * kFours + i) * 128] = make_float4(four[0], four[1], four[2], four[3]);
      }
    ptx::barrier_sync(consumer_barrier(consumer), 128);
    if (threadIdx.x % 128 == 0) ptx::store_release(ready_of(blockIdx.x, consumer), params_.stream_memory.launch);
  }

  // Those of the CTAs in front, the nearest first.
  __device__ __forceinline__ void add_sums_of_others(int consumer, typename Kernel::Sums& sums) const {
    if (first_block() == 0) return;
    const int begin = first_of_tile();
#pragma unroll 1
    for (int cta = static_cast<int>(blockIdx.x) - 1;; --cta) {
      if (threadIdx.x % 128 == 0) wait_for(ready_of(cta, consumer));
      ptx::barrier_sync(consumer_barrier(consumer), 128);
      const float4* from = sums_of(cta, consumer);
#pragma unroll
      for (int block = 0; block < Kernel::row_blocks; ++block)
#pragma unroll
        for (int i = 0; i < kFours; ++i) {
          const float4 four = from[(block * kFours + i) * 128];
          float* sum = &sums[block][4 * i];
          sum[0] += four.x, sum[1] += four.y, sum[2] += four.z, sum[3] += four.w;
        }
      if (params_.stream.begin_of(cta) <= begin) return;
    }
  }

  __device__ __forceinline__ void begin_shared() {
    const StreamK& stream = params_.stream;
    is_shared_ = true;
    begin_ = stream.begin_of(blockIdx.x);
    end_ = stream.begin_of(blockIdx.x + 1);
    lowest_ = stream.first_tile + begin_ / params_.k_blocks;
    tile_ = end_ > begin_ ? stream.first_tile + (end_ - 1) / params_.k_blocks : lowest_ - 1;
  }

  // The tile's first block, in the row of shared ones.
  __device__ __forceinline__ int first_of_tile() const {
    return (tile_ - params_.stream.first_tile) * params_.k_blocks;
  }

  __device__ __forceinline__ float4* sums_of(int cta, int consumer) const {
    constexpr int kOfConsumer = Kernel::row_blocks * kFours * 128;
    return reinterpret_cast<float4*>(params_.stream_memory.sums) +
           (int64_t{place_of(cta)} * Kernel::config.consumers + consumer) * kOfConsumer + threadIdx.x % 128;
  }
  __device__ __forceinline__ uint64_t* ready_of(int cta, int consumer) const {
    return params_.stream_memory.ready + place_of(cta) * Kernel::config.consumers + consumer;
  }
  // Of CTAs that load together, `cta` is a cluster, and this is the place of this CTA's counterpart in it.
  static __device__ __forceinline__ int place_of(int cta) {
    constexpr int ctas = Kernel::config.cluster_ctas();
    return ctas == 1 ? cta : cta * ctas + static_cast<int>(blockIdx.y);
  }

  __device__ __forceinline__ void wait_for(uint64_t* ready) const {
    Watchdog watchdog;
    while (ptx::load_acquire(ready) != params_.stream_memory.launch) watchdog.tick();
    *ready = 0;
  }

  const Params& params_;
  int tile_, step_;
  bool is_shared_ = false;
  int begin_ = 0, end_ = 0;  // of the shared blocks, this CTA's
  int lowest_ = 0;           // tile of them
};

}  // namespace tileon::sm90
