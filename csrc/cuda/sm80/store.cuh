// From a warp's accumulators to global memory: bias, activation, one rounding, whole 128-byte lines where they can be.
//
// A slab (a few rows of the warp's tile) goes through shared memory, so that a lane gets four neighbouring columns
// whatever the accumulators' layout was, and so that the formulas stand in the code once, not once an accumulator.
#pragma once

#include <cstdint>

#include "../../problem.h"
#include "convert.cuh"

namespace tileon::sm80 {

constexpr int kColumnsPerLane = 4;

// Four values as the output's dtype.
template <typename Element>
struct alignas(sizeof(Element) * kColumnsPerLane) Quad {
  Element values[kColumnsPerLane];
};

template <typename Accumulator>
__device__ __forceinline__ Accumulator load_bias(const Epilogue& epilogue, int64_t column) {
  const int64_t at = column * epilogue.bias_stride;
  switch (epilogue.bias_dtype) {
    case DType::kFloat16:
      return widen(static_cast<const __half*>(epilogue.bias)[at]);
    case DType::kBFloat16:
      return widen(static_cast<const __nv_bfloat16*>(epilogue.bias)[at]);
    case DType::kFloat32:
      return widen(static_cast<const float*>(epilogue.bias)[at]);
    default:
      return static_cast<Accumulator>(static_cast<const double*>(epilogue.bias)[at]);
  }
}

// One warp's way out. kColumns is the width of its tile; its lanes keep their columns from slab to slab.
template <typename Accumulator, int kColumns>
class WarpStore {
  static constexpr int kLanesPerRow = kColumns / kColumnsPerLane;
  static constexpr int kRowsAtOnce = 32 / kLanesPerRow;
  static_assert(kColumns % kColumnsPerLane == 0 && 32 % kLanesPerRow == 0);

 public:
  // `column_begin` is the warp's first column of the output, `vectors` whether four columns may be stored at once.
  __device__ WarpStore(const GemmProblem& problem, bool vectors, int64_t batch, int64_t column_begin, int lane)
      : problem_(problem),
        lane_row_(lane / kLanesPerRow),
        lane_column_(lane % kLanesPerRow * kColumnsPerLane),
        column_(column_begin + lane_column_),
        vectors_(vectors && column_ + kColumnsPerLane <= problem.n),
        batch_offset_(batch * problem.out.stride_batch) {
#pragma unroll
    for (int j = 0; j < kColumnsPerLane; ++j)
      bias_[j] = problem.epilogue.bias != nullptr && column_ + j < problem.n
                     ? load_bias<Accumulator>(problem.epilogue, column_ + j)
                     : Accumulator(0);
  }

  // Row i of the slab ([kRows][kPitch] in shared memory, written by this warp and synchronized) is row
  // `row_begin` + i `row_step` of the output.
  template <int kRows, int kPitch>
  __device__ __forceinline__ void store(const Accumulator* slab, int64_t row_begin, int row_step) const {
    static_assert(kRows % kRowsAtOnce == 0);
#pragma unroll 1
    for (int i = lane_row_; i < kRows; i += kRowsAtOnce) {
      const int64_t row = row_begin + i * row_step;
      if (row >= problem_.m) return;
      Quad<Accumulator> sums = *reinterpret_cast<const Quad<Accumulator>*>(slab + i * kPitch + lane_column_);
      const auto slope = static_cast<Accumulator>(problem_.epilogue.slope);
#pragma unroll
      for (int j = 0; j < kColumnsPerLane; ++j)
        sums.values[j] = activate(sums.values[j] + bias_[j], problem_.epilogue.activation, slope);
      store_row(sums, row);
    }
  }

 private:
  __device__ __forceinline__ void store_row(const Quad<Accumulator>& values, int64_t row) const {
    if constexpr (sizeof(Accumulator) == 8) {
      store_as<double>(values, row);
    } else {
      switch (problem_.out_dtype) {
        case DType::kFloat16:
          return store_as<__half>(values, row);
        case DType::kBFloat16:
          return store_as<__nv_bfloat16>(values, row);
        default:
          return store_as<float>(values, row);
      }
    }
  }

  template <typename Element>
  __device__ __forceinline__ void store_as(const Quad<Accumulator>& values, int64_t row) const {
    Quad<Element> rounded;
#pragma unroll
    for (int j = 0; j < kColumnsPerLane; ++j) rounded.values[j] = round_to<Element>(values.values[j]);
    Element* out = static_cast<Element*>(problem_.out.data) + batch_offset_ + row * problem_.out.stride_m +
                   column_ * problem_.out.stride_n;
    if (vectors_) {
      *reinterpret_cast<Quad<Element>*>(out) = rounded;
    } else {
#pragma unroll
      for (int j = 0; j < kColumnsPerLane; ++j)
        if (column_ + j < problem_.n) out[j * problem_.out.stride_n] = rounded.values[j];
    }
  }

  const GemmProblem& problem_;
  int lane_row_;
  int lane_column_;
  int64_t column_;
  bool vectors_;
  int64_t batch_offset_;
  Accumulator bias_[kColumnsPerLane];
};

}  // namespace tileon::sm80
