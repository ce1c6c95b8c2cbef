// How CTAs finish a tile that each of them has a part of k of, where every tile has as many CTAs (StreamK::parts): each
// hands over its sums, adds up those of some of wgmma's columns, and stores these. One CTA that read the sums of all
// others took longer than all of them had for their products, where a tile had five.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "cuda/common/epilogue_store.cuh"
#include "cuda/common/pipeline.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/sm90/epilogue/ops.cuh"
#include "cuda/sm90/epilogue/staged_store.cuh"
#include "cuda/sm90/epilogue/tma_store.cuh"
#include "cuda/sm90/heuristics/config.h"
#include "cuda/sm90/layout/kernel_params.h"
#include "cuda/sm90/layout/stream_k.h"
#include "cuda/sm90/mainloop/kernel.cuh"

namespace tileon::sm90 {

// By a consumer's 128 threads. A group is eight of wgmma's columns, of which a thread has four sums. The sums of a
// CTA's own groups meet in the pipeline's place, a row of groups for each part of k.
template <typename Kernel>
class FinishTogether {
  static constexpr int kGroups = Kernel::columns / 8;
  static constexpr int kGroupBytes = 128 * sizeof(float4);
  static constexpr int kAtOnce = WarpStaging<Kernel>::columns / 8;  // groups
  static constexpr int kColumns = 8 * kAtOnce;
  static_assert(Kernel::swapped && Kernel::row_blocks == 1 && !Kernel::ping_pong);
  static_assert(Kernel::config.consumer_rows() == 4 * kStoreRows);

  static constexpr int row_groups(int parts) { return (kGroups + parts - 1) / parts; }
  static constexpr bool fits(int parts) {
    constexpr int stages = pipeline_stages(Kernel::config, Major::kK, Major::kK);
    const int least_stages = std::min(stages, parts * kLeastSharedK / Kernel::config.block_k);
    return Kernel::config.consumers * parts * row_groups(parts) * kGroupBytes <= least_stages * Kernel::stage_bytes;
  }
  static constexpr bool all_fit() {
    for (int parts = 2; parts <= kMostParts; ++parts)
      if (!fits(parts)) return false;
    return true;
  }
  static_assert(all_fit());

 public:
  __device__ __forceinline__ FinishTogether(const StreamK& stream, const StreamKMemory& memory,
                                            const typename Kernel::Shared& shared)
      : memory_(memory), shared_(shared), parts_(stream.parts) {
    // Worked out here: before the main loop, where the compiler would do it, there are no registers to keep it in.
    const int cta = static_cast<int>(ptx::opaque(blockIdx.x)), thread = static_cast<int>(ptx::opaque(threadIdx.x));
    consumer_ = thread / 128;
    thread_ = thread % 128;
    blocks_ = stream.begin_of(cta + 1) - stream.begin_of(cta);
    part_ = cta % parts_;
    first_cta_ = cta - part_;
    begin_ = part_ * kGroups / parts_;
    end_ = (part_ + 1) * kGroups / parts_;
    row_bytes_ = row_groups(parts_) * kGroupBytes;
    rows_ = reinterpret_cast<unsigned char*>(shared.staging()) + consumer_ * parts_ * row_bytes_;
  }

  // Hands over the sums of other CTAs' groups, and returns when all of this CTA's are there.
  __device__ __forceinline__ void exchange(const Pipeline& pipeline, const typename Kernel::Sums& sums) const {
    ptx::barrier_sync(kConsumersBarrier, Kernel::config.consumers * 128);  // all stages have been read
    auto* own = reinterpret_cast<float4*>(rows_ + part_ * row_bytes_ - begin_ * kGroupBytes) + thread_;
    float4* others = sums_of(part_) + thread_;
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      const float* four = &sums[0][4 * group];
      float4* to = group >= begin_ && group < end_ ? own : others;
      to[group * 128] = make_float4(four[0], four[1], four[2], four[3]);
    }
    ptx::barrier_sync(consumer_barrier(consumer_), 128);
    // A stage behind this CTA's last one for each consumer: nothing else will arrive at its barrier.
    const int round = blocks_ + consumer_, stages = pipeline.stages();
    const PipelineState at{round % stages, static_cast<uint32_t>(round / stages % 2)};
    const int other = thread_, bytes = (end_ - begin_) * kGroupBytes;
    if (other == part_) {
      ptx::mbarrier_arrive_expect_tx(pipeline.full(at.stage), (parts_ - 1) * bytes);
    } else if (other < parts_) {
      ptx::store_release(ready_of(part_, other), memory_.launch);
      wait_for(ready_of(other, part_));
      ptx::fence_proxy_async_global();
      if (bytes > 0)
        ptx::bulk_load(static_cast<uint32_t>(__cvta_generic_to_shared(rows_ + other * row_bytes_)),
                       sums_of(other) + begin_ * 128, pipeline.full(at.stage), bytes);
    }
    pipeline.wait_until_full(at);
  }

  // Stores this CTA's columns of the tile at `position`. `scale(sums, column)` makes the product of sums, the first of
  // which are of that column.
  template <typename Scale>
  __device__ __forceinline__ void store(const KernelParams& params, const Scale& scale,
                                        const TilePosition& position) const {
    const int warp = consumer_ * 4 + thread_ / 32, warp_row = warp * kStoreRows;
    unsigned char* buffer = shared_.warp_store(warp);
    const float* bias = shared_.bias(consumer_) + warp_row;
    const StorePlace place{position.m_begin, position.n_begin + warp_row, position.batch};
    const bool is_rounded = params.store_by_tma && params.epilogue_op != EpilogueOp::kActivation;
#pragma unroll 1
    for (int group = begin_; group < end_; group += kAtOnce) {
      float sums[1][4 * kAtOnce];
      add_up(group, sums[0]);
      scale(sums, group * 8);
      __syncwarp();  // what was in the buffer has been read
      if (is_rounded) {
        store_rounded(params, buffer, bias, sums[0], group, place);
      } else {
        store_any(params, reinterpret_cast<float*>(buffer), sums[0], group, place);
      }
    }
  }

 private:
  // The sums of kAtOnce groups, those behind the last one as it, always in the order of k.
  __device__ __forceinline__ void add_up(int group, float (&sums)[4 * kAtOnce]) const {
    const auto* from = reinterpret_cast<const float4*>(rows_) + thread_;
#pragma unroll
    for (float& sum : sums) sum = -0.0f;  // leaves every number as it is
#pragma unroll 1
    for (int part = 0; part < parts_; ++part) {
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const float4 four = from[(min(group + j, end_ - 1) - begin_) * 128];
        sums[4 * j] += four.x, sums[4 * j + 1] += four.y, sums[4 * j + 2] += four.z, sums[4 * j + 3] += four.w;
      }
      from += row_bytes_ / sizeof(float4);
    }
  }

  // To rows of 16 bits that begin at multiples of sixteen bytes.
  __device__ __forceinline__ void store_rounded(const KernelParams& params, unsigned char* buffer, const float* bias,
                                                const float* sums, int group, const StorePlace& place) const {
    uint32_t words[kColumns / 4];
    with_formula(params, [&](const auto& formula) {
      ChunkBias<Kernel, kColumns> chunk_bias;
      if constexpr (std::remove_cvref_t<decltype(formula)>::biased) chunk_bias.read(bias);
      round_chunk<Kernel, kColumns>(sums, chunk_bias, formula, words);
    });
    const TransposedChunkRows rows(static_cast<uint32_t>(__cvta_generic_to_shared(buffer)), thread_ % 32);
#pragma unroll
    for (int column = 0; column + 16 <= kColumns; column += 16) rows.write_16(column, &words[column / 4]);
    if constexpr (kColumns % 16 == 8) rows.write_8(kColumns - 8, &words[(kColumns - 8) / 4]);
    __syncwarp();
    copy_rows(params.problem, reinterpret_cast<const typename Kernel::Out*>(buffer), group * 8, place);
  }

  // The buffer's rows of 16 numbers, to the tile's rows from `first` on: a lane has half a row.
  template <typename Out>
  __device__ __forceinline__ void copy_rows(const KernelProblem& problem, const Out* buffer, int first,
                                            const StorePlace& place) const {
    constexpr int half = kStoreRows / 2;
    static_assert(half * sizeof(Out) == sizeof(float4));
    const int lane = thread_ % 32, begin = lane % 2 * half, column = place.column + begin;
    const int64_t rows = std::min<int64_t>(problem.m - place.row, end_ * 8);
#pragma unroll
    for (int i = 0; i < kColumns; i += 16) {
      const int row = i + lane / 2;
      if (row >= kColumns || first + row >= rows) break;
      const Out* from = buffer + row * kStoreRows + begin;
      Out* to = static_cast<Out*>(problem.out.data) + (place.row + first + row) * problem.out.stride_m + column;
      if (column + half <= problem.n) {
        *reinterpret_cast<float4*>(to) = *reinterpret_cast<const float4*>(from);
      } else {
#pragma unroll 1
        for (int j = 0; column + j < problem.n; ++j) to[j] = from[j];
      }
    }
  }

  // As store_staged does: to outputs of any dtype and strides, with any activation.
  __device__ __forceinline__ void store_any(const KernelParams& params, float* staging, const float* sums, int group,
                                            const StorePlace& place) const {
    constexpr int pitch = WarpStaging<Kernel>::pitch;
    write_fragments<true, pitch, kColumns>(staging, sums);
    __syncwarp();
    store_by_columns<kColumns, kStoreRows, pitch, Kernel::staged_columns_of_lane, Kernel::keeps_pre_activation>(
        params.problem, params.vector_stores, place.batch, place.row + group * 8, place.column, staging,
        (end_ - group) * 8);
  }

  // What CTA `part` of the tile hands over: [group][thread].
  __device__ __forceinline__ float4* sums_of(int part) const {
    return reinterpret_cast<float4*>(memory_.sums) +
           (int64_t{first_cta_ + part} * Kernel::config.consumers + consumer_) * (kGroups * 128);
  }
  // Whether CTA `reader` may read the sums of CTA `part`.
  __device__ __forceinline__ uint64_t* ready_of(int part, int reader) const {
    return memory_.ready + ((first_cta_ + part) * Kernel::config.consumers + consumer_) * parts_ + reader;
  }

  __device__ __forceinline__ void wait_for(uint64_t* ready) const {
    Watchdog watchdog;
    while (ptx::load_acquire(ready) != memory_.launch) watchdog.tick();
    *ready = 0;
  }

  const StreamKMemory& memory_;
  const typename Kernel::Shared& shared_;
  int consumer_, thread_;
  int blocks_;                    // of k, this CTA's
  int parts_, part_, first_cta_;  // of the tile
  int begin_, end_;               // groups that this CTA adds up
  int row_bytes_;                 // of a part's groups
  unsigned char* rows_;
};

}  // namespace tileon::sm90
