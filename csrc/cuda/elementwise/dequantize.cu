// Codes and scales to numbers; scales from (rows, cols) to the packed layout and back.
#include <algorithm>
#include <cstdint>
#include <stdexcept>

#include "core/small_floats.h"
#include "cuda/common/convert.cuh"
#include "cuda/common/kernel_choice.h"
#include "cuda/elementwise/elementwise.h"
#include "cuda/elementwise/row_walk.cuh"

namespace tileon {
namespace {

constexpr int kLaneElements = 8;
using Walk = RowWalk<kLaneElements, 4, 6>;

// e2m1_value and e4m3_value of small_floats.h in fewer instructions, of a code that is the top of `bits`: no thread
// here flushes float32's subnormals.
template <DType kElement>
__device__ __forceinline__ float fast_value(uint32_t bits) {
  constexpr bool e4m3 = kElement == DType::kFloat8E4M3;
  constexpr int down = e4m3 ? 4 : 6;  // to where exponent and mantissa of float32 meet
  constexpr uint32_t mask = e4m3 ? 0x07f00000u : 0x01c00000u;
  const float moved = float_of((bits & 0x80000000u) | (bits >> down & mask));
  const float value = moved * power_of_two(e4m3 ? 120 : 126);
  if constexpr (e4m3) return (bits & 0x7f000000u) == 0x7f000000u ? float_of(0x7fc00000u) : value;
  return value;
}

// A lane's codes and their scale: a word of e2m1, two of e4m3.
template <Format kFormat>
struct LaneCodes {
  static constexpr FormatInfo format = info(kFormat);
  static constexpr int bits = format.dtype == DType::kFloat8E4M3 ? 8 : 4;
  static constexpr int words = kLaneElements * bits / 32;
  struct alignas(words * 4) Vector {
    uint32_t words[LaneCodes::words];
  };

  Vector codes;
  uint8_t scale_byte;

  __device__ __forceinline__ void gather(const uint8_t* from, int64_t stride) {
#pragma unroll
    for (int i = 0; i < words; ++i) {
      codes.words[i] = 0;
#pragma unroll
      for (int j = 0; j < 4; ++j) codes.words[i] |= static_cast<uint32_t>(from[(i * 4 + j) * stride]) << (8 * j);
    }
  }

  __device__ __forceinline__ float scale() const {
    return format.scale == ScaleType::kE8M0 ? e8m0_value(scale_byte) : e4m3_value(scale_byte);
  }

  __device__ __forceinline__ float value(int i) const {
    return fast_value<format.dtype>(codes.words[i * bits / 32] << (32 - bits - i * bits % 32));
  }
};

// Rounds and stores a lane's numbers. (By vectors that say so: of a struct of elements the compiler stores some alone.)
template <typename Element>
__device__ __forceinline__ void store_numbers(Element* to, const float (&numbers)[kLaneElements]) {
  if constexpr (sizeof(Element) == 4) {
    auto* vectors = reinterpret_cast<float4*>(to);
    vectors[0] = {numbers[0], numbers[1], numbers[2], numbers[3]};
    vectors[1] = {numbers[4], numbers[5], numbers[6], numbers[7]};
  } else {
    const auto pair = [&](int i) { return round_pair<Element>(numbers[2 * i], numbers[2 * i + 1]); };
    *reinterpret_cast<uint4*>(to) = {pair(0), pair(1), pair(2), pair(3)};
  }
}

template <Format kFormat, typename Element, bool kVectors>
__global__ void __launch_bounds__(Walk::kThreads, kVectors ? Walk::kResident : 1)
    dequantize(const __grid_constant__ DequantizeProblem problem) {
  using Lane = LaneCodes<kFormat>;
  constexpr int vec = Lane::format.vec;
  float global = problem.global_scale == nullptr ? 1.0f : *problem.global_scale;

  Walk::walk(problem.rows, [&](int64_t row, int64_t begin) {
    const int inside = Walk::inside(begin, problem.k) - Walk::lane_begin();  // of this lane's spans
    const int64_t k = begin + Walk::lane_begin();
    const uint8_t* from = problem.data + row * problem.stride_row + k * Lane::bits / 8 * problem.stride_k;
    const uint8_t* scales = static_cast<const uint8_t*>(problem.scale) + problem.scale_strides.offset(row, k / vec);
    if (problem.global_scale_stride != 0) global = problem.global_scale[row * problem.global_scale_stride];
    Element* out = static_cast<Element*>(problem.out) + row * problem.k + k;

    Lane lanes[Walk::kCount];
#pragma unroll
    for (int span = 0; span < Walk::kCount; ++span) {
      constexpr int span_bytes = Walk::kSpanElements * Lane::bits / 8;
      static_assert(Walk::kSpanElements / vec % kScaleBlockCols == 0, "a span begins where a block of scales does");
      if (span * Walk::kSpanElements >= inside) continue;
      if constexpr (kVectors) {
        lanes[span].codes = *reinterpret_cast<const typename Lane::Vector*>(from + span * span_bytes);
      } else {
        lanes[span].gather(from + span * span_bytes * problem.stride_k, problem.stride_k);
      }
      lanes[span].scale_byte = scales[problem.scale_strides.of_col(span * Walk::kSpanElements / vec)];
    }
#pragma unroll
    for (int span = 0; span < Walk::kCount; ++span) {
      if (span * Walk::kSpanElements >= inside) continue;
      const float scale = lanes[span].scale();
      float numbers[kLaneElements];
#pragma unroll
      for (int i = 0; i < kLaneElements; ++i) numbers[i] = lanes[span].value(i) * scale * global;
      store_numbers(out + span * Walk::kSpanElements, numbers);
    }
  });
}

template <Format kFormat, typename Element>
void launch_dequantize(const DequantizeProblem& problem, cudaStream_t stream) {
  constexpr int64_t bytes = sizeof(typename LaneCodes<kFormat>::Vector);
  const bool vectors = has_vectors(problem.data, problem.stride_row, problem.stride_k, bytes);
  const auto launch = vectors ? launch_row_walk<Walk, &dequantize<kFormat, Element, true>, DequantizeProblem>
                              : launch_row_walk<Walk, &dequantize<kFormat, Element, false>, DequantizeProblem>;
  launch(problem, problem.rows, problem.k, stream);
}

// ---- float32 scales ----

struct Float32Params {
  DequantizeProblem problem;
  int row_shift;  // 2 to the power of it are the rows that share a scale; where all do, the scales' stride is 0
};
constexpr int kColumnShift = 7;  // 128 numbers of a row do, or all

// `kVectors`: rows of codes and of numbers are vectors from end to end, so that a lane has all of its numbers or none.
template <DType kElement, typename Element, bool kVectors>
__global__ void __launch_bounds__(Walk::kThreads) dequantize_float32(const __grid_constant__ Float32Params params) {
  const DequantizeProblem& problem = params.problem;
  const float* scales = static_cast<const float*>(problem.scale);
  const auto value_of = [](uint32_t code) {
    if constexpr (kElement == DType::kInt8) return static_cast<float>(static_cast<int8_t>(code));
    return fast_value<DType::kFloat8E4M3>(code << 24);
  };
  Walk::walk(problem.rows, [&](int64_t row, int64_t begin) {
    begin += Walk::lane_begin();
#pragma unroll
    for (int span = 0; span < Walk::kCount; ++span) {
      const int64_t k = begin + span * Walk::kSpanElements;
      const int count = static_cast<int>(min(problem.k - k, static_cast<int64_t>(kLaneElements)));
      if (count <= 0) continue;
      const uint8_t* from = problem.data + row * problem.stride_row + k * problem.stride_k;
      Element* out = static_cast<Element*>(problem.out) + row * problem.k + k;
      const float scale = scales[(row >> params.row_shift) * problem.scale_strides.row +
                                 (k >> kColumnShift) * problem.scale_strides.col];
      uint8_t codes[kLaneElements] = {};
      if constexpr (kVectors) {
        *reinterpret_cast<uint2*>(codes) = *reinterpret_cast<const uint2*>(from);
      } else {
#pragma unroll
        for (int i = 0; i < kLaneElements; ++i)
          if (i < count) codes[i] = from[i * problem.stride_k];
      }
      float numbers[kLaneElements];
#pragma unroll
      for (int i = 0; i < kLaneElements; ++i) numbers[i] = value_of(codes[i]) * scale;
      if constexpr (kVectors) {
        store_numbers(out, numbers);
      } else {
#pragma unroll
        for (int i = 0; i < kLaneElements; ++i)
          if (i < count) out[i] = round_to<Element>(numbers[i]);
      }
    }
  });
}

template <DType kElement, typename Element>
void launch_dequantize_float32(const DequantizeProblem& problem, cudaStream_t stream) {
  const bool vectors =
      problem.k % kLaneElements == 0 && has_vectors(problem.data, problem.stride_row, problem.stride_k, kLaneElements);
  const auto launch = vectors ? launch_row_walk<Walk, &dequantize_float32<kElement, Element, true>, Float32Params>
                              : launch_row_walk<Walk, &dequantize_float32<kElement, Element, false>, Float32Params>;
  launch({problem, info(problem.format).rows == 1 << kColumnShift ? kColumnShift : 0}, problem.rows, problem.k, stream);
}

// The kernel that moves scales has a thread for four columns of a row.
constexpr int kColBlocksPerCta = 4;  // a thread for each row of each
constexpr int kMoveThreads = kScaleBlockRows * kColBlocksPerCta;

// A CTA moves the scales of one row block, padding included where the target has it, and of several column blocks.
__global__ void __launch_bounds__(kMoveThreads) move_scales(const __grid_constant__ ScalePackProblem problem) {
  const ScaleStrides to = problem.to_packed ? packed_scales(problem.cols) : flat_scales(problem.cols, 1);
  const int64_t row_blocks = scale_row_blocks(problem.rows), col_blocks = scale_col_blocks(problem.cols);
  const int64_t block = static_cast<int64_t>(blockIdx.x) * kColBlocksPerCta + threadIdx.x % kColBlocksPerCta;
  if (block >= col_blocks) return;
  for (int64_t row_block = blockIdx.y; row_block < row_blocks; row_block += gridDim.y) {
    const int64_t row = row_block * kScaleBlockRows + threadIdx.x / kColBlocksPerCta;
    uint8_t scales[kScaleBlockCols] = {};
#pragma unroll
    for (int c = 0; c < kScaleBlockCols; ++c) {
      const int64_t col = block * kScaleBlockCols + c;
      if (row < problem.rows && col < problem.cols) scales[c] = problem.from[problem.from_strides.offset(row, col)];
    }
#pragma unroll
    for (int c = 0; c < kScaleBlockCols; ++c) {
      const int64_t col = block * kScaleBlockCols + c;
      if (problem.to_packed || (row < problem.rows && col < problem.cols)) problem.to[to.offset(row, col)] = scales[c];
    }
  }
}

}  // namespace

void run_dequantize(const DequantizeProblem& problem, cudaStream_t stream) {
  if (!has_packed_scales(problem.format)) {
    visit<DType::kFloat8E4M3, DType::kInt8>(info(problem.format).dtype, [&](auto element) {
      visit_elements(problem.out_dtype, [&](auto number) {
        launch_dequantize_float32<decltype(element)::value, decltype(number)>(problem, stream);
      });
    });
    return;
  }
  visit<Format::kMxfp8, Format::kMxfp4, Format::kNvfp4>(problem.format, [&](auto format) {
    visit_elements(problem.out_dtype, [&](auto element) {
      launch_dequantize<decltype(format)::value, decltype(element)>(problem, stream);
    });
  });
}

void run_scale_pack(const ScalePackProblem& problem, cudaStream_t stream) {
  if (problem.rows == 0 || problem.cols == 0) return;
  constexpr int64_t kMaxGridX = 0x7fffffff, kMaxGridY = 65535;
  const int64_t along_cols = (scale_col_blocks(problem.cols) + kColBlocksPerCta - 1) / kColBlocksPerCta;
  if (along_cols > kMaxGridX) throw std::runtime_error("tileon: more than 2^35 columns of scales");
  const dim3 grid(static_cast<unsigned>(along_cols),
                  static_cast<unsigned>(std::min(scale_row_blocks(problem.rows), kMaxGridY)));
  launch_kernel("launching a kernel that moves scales", {.grid = grid, .threads = kMoveThreads, .stream = stream},
                &move_scales, problem);
}

}  // namespace tileon
