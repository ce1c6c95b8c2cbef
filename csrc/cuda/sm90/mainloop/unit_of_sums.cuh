// Sums of a weight's codes under scales that change along k, every 128 elements. The tensor core adds all of them up in
// the same registers, so the sums are kept in units of the scale that their codes have at the time: where it changes,
// they are multiplied by the quotient of the old scale and the new one.
#pragma once

#include <cstdint>

#include "core/formats.h"

namespace tileon::sm90 {

// The unit of a consumer's sums that never changes: their scale multiplies them in the end.
template <typename Kernel>
struct OneUnit {
  static constexpr bool changes = false;

  template <typename Scale>
  __device__ __forceinline__ explicit OneUnit(const Scale&) {}
  __device__ __forceinline__ bool changes_at(int) const { return false; }
  __device__ __forceinline__ void move_on(typename Kernel::Sums&) {}
  __device__ __forceinline__ void finish(typename Kernel::Sums&) const {}
};

// The unit of a thread's two rows, each of which has scales of its own. A scale may be any number: where it is not from
// 2^-8 to 2^8 times what the row's was when its sums were last empty, the sums leave for memory, and begin anew. So two
// units of a sum are at most a factor of 2^16 apart, and nothing is divided by zero.
template <typename Kernel>
class UnitOfSums {
  using Scale = typename Kernel::AccumulatorScale;
  using Sums = typename Kernel::Sums;
  static constexpr int kStages = kFloat32ScaleBlock / Kernel::config.block_k;  // under one scale
  static constexpr int kAhead = 16;                                            // scales that are prefetched
  static_assert(Kernel::swapped && Kernel::row_blocks == 1 && kStages * Kernel::config.block_k == kFloat32ScaleBlock);

 public:
  static constexpr bool changes = true;

  // Of the scale of the first stage that is multiplied.
  __device__ __forceinline__ explicit UnitOfSums(const Scale& scale)
      : scale_(scale), first_stage_(scale.first_block() % kStages), block_(scale.first_block() / kStages) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      unit_[i] = scale.of_row(i, block_);
      next_[i] = scale.of_row(i, block_ + 1);
    }
    begin();
#pragma unroll
    for (int i = 2; i < kAhead; ++i) scale.prefetch(block_ + i);
  }

  // Whether stage `stage` of those that are multiplied, counted from 0, is the first one under another scale.
  __device__ __forceinline__ bool changes_at(int stage) const {
    return stage > 0 && (first_stage_ + stage) % kStages == 0;
  }

  // To the unit of the next scale.
  __device__ __forceinline__ void move_on(Sums& sums) {
    float factors[2];
    bool is_near = true;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float size = fabsf(next_[i]);
      const bool is_same = next_[i] == unit_[i];
      is_near &= is_same || (size >= begun_[i] * 0x1p-8f && size <= begun_[i] * 0x1p8f);
      factors[i] = is_same ? 1.0f : unit_[i] / next_[i];
    }
    const bool all_are_near = __all_sync(0xffffffffu, is_near);
    if (all_are_near) {
#pragma unroll
      for (int i = 0; i < Kernel::columns / 2; ++i) sums[0][i] *= factors[i / 2 % 2];
    } else {
      put_aside(sums);
    }
    ++block_;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      unit_[i] = next_[i];
      next_[i] = scale_.of_row(i, block_ + 1);
    }
    scale_.prefetch(block_ + kAhead);
    if (!all_are_near) begin();
  }

  // From their unit to what they are, with those that were put aside.
  __device__ __forceinline__ void finish(Sums& sums) const {
#pragma unroll
    for (int i = 0; i < Kernel::columns / 2; ++i) sums[0][i] *= unit_[i / 2 % 2];
    if (has_aside_) {
      const float4* aside = scale_.aside();
#pragma unroll
      for (int i = 0; i < kFours; ++i) {
        const float4 four = aside[i * 128];
        float* sum = &sums[0][4 * i];
        sum[0] += four.x, sum[1] += four.y, sum[2] += four.z, sum[3] += four.w;
      }
    }
  }

 private:
  static constexpr int kFours = Kernel::columns / 8;  // of a thread's sums

  // The sums are empty. NaN is near nothing: where a quotient with the scale could leave float32.
  __device__ __forceinline__ void begin() {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float size = fabsf(unit_[i]);
      begun_[i] = size >= 0x1p-100f && size <= 0x1p100f ? size : __int_as_float(0x7fffffff);
    }
  }

  // What a thread puts aside nobody else reads.
  __device__ __forceinline__ void put_aside(Sums& sums) {
    float4* aside = scale_.aside();
#pragma unroll
    for (int i = 0; i < kFours; ++i) {
      float* sum = &sums[0][4 * i];
      float4 four = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      if (has_aside_) four = aside[i * 128];
      four.x = fmaf(sum[0], unit_[0], four.x), four.y = fmaf(sum[1], unit_[0], four.y);
      four.z = fmaf(sum[2], unit_[1], four.z), four.w = fmaf(sum[3], unit_[1], four.w);
      aside[i * 128] = four;
      sum[0] = sum[1] = sum[2] = sum[3] = 0.0f;
    }
    has_aside_ = true;
  }

  const Scale& scale_;
  int first_stage_;  // of those under the first scale
  int block_;        // of k, whose scale is the unit
  float unit_[2], next_[2];
  float begun_[2];  // magnitudes of the units in which the sums began
  bool has_aside_ = false;
};

}  // namespace tileon::sm90
