// From a warp's accumulators to global memory: bias, activation, one rounding, whole 128-byte lines where they can be.
//
// A slab (a few rows of the warp's tile) goes through shared memory, so that a lane gets four neighbouring columns
// whatever the accumulators' layout was, and so that the formulas stand in the code once an output dtype, not once an
// accumulator. Where the output's rows begin anywhere, neighbouring lanes get neighbouring columns instead: each of
// L2's sectors is then written by one instruction, not by four.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/common/convert.cuh"
#include "cuda/common/kernel_choice.h"
#include "cuda/ptx/convert.cuh"

namespace tileon {

constexpr int kColumnsPerLane = 4;

// Four values as the output's dtype.
template <typename Element>
struct alignas(sizeof(Element) * kColumnsPerLane) Quad {
  Element values[kColumnsPerLane];
};

// use(bias), with the pointer's own type.
template <typename Use>
__device__ __forceinline__ auto with_bias(const Epilogue& epilogue, const Use& use) {
  switch (epilogue.bias_dtype) {
    case DType::kFloat16:
      return use(static_cast<const __half*>(epilogue.bias));
    case DType::kBFloat16:
      return use(static_cast<const __nv_bfloat16*>(epilogue.bias));
    case DType::kFloat32:
      return use(static_cast<const float*>(epilogue.bias));
    default:
      return use(static_cast<const double*>(epilogue.bias));
  }
}

template <typename Accumulator>
__device__ __forceinline__ Accumulator load_bias(const Epilogue& epilogue, int64_t column) {
  const int64_t at = column * epilogue.bias_stride;
  return with_bias(epilogue, [&](const auto* bias) { return static_cast<Accumulator>(widen(bias[at])); });
}

// Of every `step`-th column from `column` on, as far as there are `columns`, and zeros: all loads before the first is
// used.
template <typename Accumulator, int kCount>
__device__ __forceinline__ void load_biases(const Epilogue& epilogue, int64_t column, int64_t columns, int step,
                                            Accumulator (&biases)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) biases[i] = 0;
  if (epilogue.bias == nullptr) return;
  with_bias(epilogue, [&](const auto* bias) {
    const auto* from = bias + column * epilogue.bias_stride;
    std::remove_cvref_t<decltype(*from)> loaded[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      if (i * step < columns) loaded[i] = from[i * step * epilogue.bias_stride];
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      if (i * step < columns) biases[i] = static_cast<Accumulator>(widen(loaded[i]));
  });
}

// Writes kColumns of wgmma's columns of a warp's 16 rows to `staging`, where its first row and column go. Rows of the
// staging are rows of the output: where the operands are swapped, those are wgmma's columns.
template <bool kSwapAb, int kPitch, int kColumns>
__device__ __forceinline__ void write_fragments(float* staging, const float* fragments) {
  const int row = threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;  // wgmma's
#pragma unroll
  for (int j = 0; j < kColumns / 8; ++j) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {  // eight rows apart
      const float first = fragments[j * 4 + half * 2], second = fragments[j * 4 + half * 2 + 1];
      if constexpr (kSwapAb) {
        staging[(column + j * 8) * kPitch + row + half * 8] = first;
        staging[(column + j * 8 + 1) * kPitch + row + half * 8] = second;
      } else {
        *reinterpret_cast<float2*>(staging + (row + half * 8) * kPitch + column + j * 8) = {first, second};
      }
    }
  }
}

// Stores one value as the output's dtype; `at` counts elements.
__device__ __forceinline__ void store_as(void* out, DType dtype, int64_t at, float value) {
  switch (dtype) {
    case DType::kFloat16:
      static_cast<__half*>(out)[at] = round_to<__half>(value);
      break;
    case DType::kBFloat16:
      static_cast<__nv_bfloat16*>(out)[at] = round_to<__nv_bfloat16>(value);
      break;
    case DType::kFloat8E4M3:
      static_cast<E4M3*>(out)[at] = round_to<E4M3>(value);
      break;
    default:
      static_cast<float*>(out)[at] = value;
  }
}

// One warp's way out. kColumns is the width of its tile; its lanes keep their columns from slab to slab.
template <typename Accumulator, int kColumns, typename Problem = KernelProblem>
class WarpStore {
  static constexpr int kLanesPerRow = kColumns / kColumnsPerLane;
  static constexpr int kRowsAtOnce = 32 / kLanesPerRow;
  // Of lanes that store neighbouring columns, and each its next ones kRowLanes further.
  static constexpr int kRowLanes = kColumns < 32 ? kColumns : 32;
  static constexpr int kRowColumns = kColumns / kRowLanes;
  static_assert(kRowColumns <= kColumnsPerLane && 32 % kRowLanes == 0);
  static constexpr bool kHasSpareRegisters = kColumns <= 32;  // beside the sums: for the loads of several biases
  static_assert(kColumns % kColumnsPerLane == 0 && 32 % kLanesPerRow == 0);

 public:
  // `column_begin` is the warp's first column of the output, `vectors` whether four columns may be stored at once.
  __device__ WarpStore(const Problem& problem, bool vectors, int64_t batch, int64_t column_begin, int lane)
      : problem_(problem),
        vectors_(vectors),
        lane_row_(vectors ? lane / kLanesPerRow : lane / kRowLanes),
        lane_column_(vectors ? lane % kLanesPerRow * kColumnsPerLane : lane % kRowLanes),
        column_(column_begin + lane_column_),
        batch_offset_(batch * problem.out.stride_batch) {
    const int step = vectors ? 1 : kRowLanes;
    if constexpr (kHasSpareRegisters) {
      load_biases(problem.epilogue, column_, problem.n - column_, step, bias_);
    } else {
#pragma unroll
      for (int j = 0; j < kColumnsPerLane; ++j)
        bias_[j] = problem.epilogue.bias != nullptr && column_ + j * step < problem.n
                       ? load_bias<Accumulator>(problem.epilogue, column_ + j * step)
                       : Accumulator(0);
    }
  }

  // Row i of the slab ([kRows][kPitch] in shared memory, written by this warp and synchronized) is row `row_begin` + i
  // `row_step` of the output.
  template <int kRows, int kPitch>
  __device__ __forceinline__ void store(const Accumulator* slab, int64_t row_begin, int row_step) const {
    const Slab rows{slab + lane_row_ * kPitch + lane_column_, row_begin + lane_row_ * row_step, row_step};
    if constexpr (sizeof(Accumulator) == 8) {
      store_as<double, kRows, kPitch>(rows);
    } else {
      switch (problem_.out_dtype) {
        case DType::kFloat16:
          return store_as<__half, kRows, kPitch>(rows);
        case DType::kBFloat16:
          return store_as<__nv_bfloat16, kRows, kPitch>(rows);
        case DType::kFloat8E4M3:
          if constexpr (std::is_base_of_v<ScaledKernelProblem, Problem>) return store_as<E4M3, kRows, kPitch>(rows);
          return;
        default:
          return store_as<float, kRows, kPitch>(rows);
      }
    }
  }

 private:
  // This lane's part of a slab.
  struct Slab {
    const Accumulator* first;  // in shared memory
    int64_t row;               // of the output, where that goes
    int row_step;
  };

  template <typename Element, int kRows, int kPitch>
  __device__ __forceinline__ void store_as(const Slab& slab) const {
    const Epilogue& epilogue = problem_.epilogue;
    const auto slope = static_cast<Accumulator>(epilogue.slope);
    if constexpr (std::is_same_v<Problem, KernelProblem>) {
      if (problem_.pre_activation != nullptr)
        store_rows<Element, kRows, kPitch, 1>(problem_.pre_activation, slab, [](Accumulator x) { return x; });
    }
    if (epilogue.activation == Activation::kNone || epilogue.activation == Activation::kLeakyRelu) {
      const Accumulator slope_or_1 = epilogue.activation == Activation::kNone ? Accumulator(1) : slope;
      store_rows<Element, kRows, kPitch, 4>(problem_.out.data, slab,
                                            [=](Accumulator x) { return leaky_relu(x, slope_or_1); });
    } else {
      const Activation activation = epilogue.activation;
      store_rows<Element, kRows, kPitch, 1>(problem_.out.data, slab,
                                            [=](Accumulator x) { return activate(x, activation, slope); });
    }
  }

  // kAtOnce rows are read before the first is written: the cheap activations wait for memory, not for arithmetic.
  template <typename Element, int kRows, int kPitch, int kAtOnce, typename Function>
  __device__ __forceinline__ void store_rows(void* out, const Slab& slab, const Function& function) const {
    if (!vectors_) return store_rows_by_column<Element, kRows, kPitch, kAtOnce>(out, slab, function);
    constexpr int lane_rows = kRows / kRowsAtOnce;
    constexpr int at_once = kAtOnce < lane_rows ? kAtOnce : lane_rows;
    static_assert(kRows % kRowsAtOnce == 0 && lane_rows % at_once == 0);
#pragma unroll 1
    for (int begin = 0; begin < lane_rows; begin += at_once) {
      Quad<Accumulator> sums[at_once];
#pragma unroll
      for (int i = 0; i < at_once; ++i)
        sums[i] = *reinterpret_cast<const Quad<Accumulator>*>(slab.first + (begin + i) * kRowsAtOnce * kPitch);
#pragma unroll
      for (int i = 0; i < at_once; ++i) {
        Quad<Element> rounded;
#pragma unroll
        for (int j = 0; j < kColumnsPerLane; ++j)
          rounded.values[j] = round_to<Element>(function(sums[i].values[j] + bias_[j]));
        store_quad(out, rounded, slab.row + (begin + i) * kRowsAtOnce * slab.row_step);
      }
    }
  }

  // Of neighbouring columns by neighbouring lanes.
  template <typename Element, int kRows, int kPitch, int kAtOnce, typename Function>
  __device__ __forceinline__ void store_rows_by_column(void* out, const Slab& slab, const Function& function) const {
    constexpr int rows_at_once = 32 / kRowLanes, lane_rows = kRows / rows_at_once;
    constexpr int at_once = kAtOnce < lane_rows ? kAtOnce : lane_rows;
    static_assert(kRows % rows_at_once == 0 && lane_rows % at_once == 0);
    auto* to =
        static_cast<Element*>(out) + batch_offset_ + slab.row * problem_.out.stride_m + column_ * problem_.out.stride_n;
    const int64_t row_step = int64_t{slab.row_step} * rows_at_once, step = row_step * problem_.out.stride_m;
    int64_t row = slab.row;
#pragma unroll 1
    for (int begin = 0; begin < lane_rows; begin += at_once) {
      Accumulator sums[at_once][kRowColumns];
#pragma unroll
      for (int i = 0; i < at_once; ++i)
#pragma unroll
        for (int j = 0; j < kRowColumns; ++j)
          sums[i][j] = slab.first[(begin + i) * rows_at_once * kPitch + j * kRowLanes];
#pragma unroll
      for (int i = 0; i < at_once; ++i, row += row_step, to += step)
#pragma unroll
        for (int j = 0; j < kRowColumns; ++j) {
          const auto rounded = round_to<Element>(function(sums[i][j] + bias_[j]));
          if (row < problem_.m && column_ + j * kRowLanes < problem_.n)
            to[j * kRowLanes * problem_.out.stride_n] = rounded;
        }
    }
  }

  template <typename Element>
  __device__ __forceinline__ void store_quad(void* out, const Quad<Element>& quad, int64_t row) const {
    if (row >= problem_.m) return;
    Element* to =
        static_cast<Element*>(out) + batch_offset_ + row * problem_.out.stride_m + column_ * problem_.out.stride_n;
    if (column_ + kColumnsPerLane <= problem_.n) {
      *reinterpret_cast<Quad<Element>*>(to) = quad;
    } else {
#pragma unroll
      for (int j = 0; j < kColumnsPerLane; ++j)
        if (column_ + j < problem_.n) to[j * problem_.out.stride_n] = quad.values[j];
    }
  }

  const Problem& problem_;
  bool vectors_;  // else neighbouring lanes have neighbouring columns
  int lane_row_;
  int lane_column_;
  int64_t column_;
  int64_t batch_offset_;
  Accumulator bias_[kColumnsPerLane];
};

// ---- with few registers: a lane keeps to one column, or to two neighbouring ones ----

// Stores neighbouring columns, the first `columns` of them; `at` counts elements. `vectors`: all at once.
template <int kCount>
__device__ __forceinline__ void store_columns(void* data, const KernelProblem& problem, int64_t at,
                                              const float (&values)[kCount], bool vectors, int columns) {
  if constexpr (kCount == 2) {
    if (vectors && problem.out_dtype == DType::kFloat16) {
      *reinterpret_cast<uint32_t*>(static_cast<__half*>(data) + at) = round_pair<__half>(values[0], values[1]);
      return;
    }
    if (vectors && problem.out_dtype == DType::kBFloat16) {
      *reinterpret_cast<uint32_t*>(static_cast<__nv_bfloat16*>(data) + at) =
          round_pair<__nv_bfloat16>(values[0], values[1]);
      return;
    }
    if (vectors && problem.out_dtype == DType::kFloat32) {
      *reinterpret_cast<float2*>(static_cast<float*>(data) + at) = {values[0], values[1]};
      return;
    }
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i)
    if (i < columns) store_as(data, problem.out_dtype, at + i * problem.out.stride_n, values[i]);
}

// Stores kRows x kColumns sums from `slab` ([kRows][kPitch] in shared memory, written by this warp and synchronized) to
// the output from (row, column) on: bias, activation, one rounding, any strides. kCount: columns of a lane. `vectors`:
// neighbouring columns can be stored at once. kKeepsPreActivation: the argument of the activation too, where it is
// wanted.
template <int kRows, int kColumns, int kPitch, int kCount, bool kKeepsPreActivation>
__device__ __forceinline__ void store_by_columns(const KernelProblem& problem, bool vectors, int64_t batch, int row,
                                                 int column, const float* slab) {
  constexpr int lanes_per_row = kColumns / kCount;
  constexpr int rows_at_once = 32 / lanes_per_row;
  static_assert(32 % lanes_per_row == 0 && kRows % rows_at_once == 0);
  const int lane_row = threadIdx.x % 32 / lanes_per_row, lane_column = threadIdx.x % lanes_per_row * kCount;
  column += lane_column;
  if (column >= problem.n) return;
  const int columns = min(problem.n - column, static_cast<int64_t>(kCount));
  vectors = vectors && columns == kCount;
  const Epilogue& epilogue = problem.epilogue;
  float bias[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i)  // one by one: Hopper's kernels have no registers for the loads of several
    bias[i] = epilogue.bias == nullptr || i >= columns ? 0.0f : load_bias<float>(epilogue, column + i);
  int64_t at =
      batch * problem.out.stride_batch + column * problem.out.stride_n + (row + lane_row) * problem.out.stride_m;
#pragma unroll 1
  for (int i = lane_row; i < kRows && row + i < problem.m; i += rows_at_once) {
    float values[kCount];
#pragma unroll
    for (int j = 0; j < kCount; ++j) values[j] = slab[i * kPitch + lane_column + j] + bias[j];
    if constexpr (kKeepsPreActivation) {
      if (problem.pre_activation != nullptr)
        store_columns(problem.pre_activation, problem, at, values, vectors, columns);
    }
    activate_all(values, epilogue);
    store_columns(problem.out.data, problem, at, values, vectors, columns);
    at += rows_at_once * problem.out.stride_m;
  }
}

}  // namespace tileon
