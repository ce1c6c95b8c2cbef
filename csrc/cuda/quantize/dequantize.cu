// Codes and scales to numbers.
#include <cstdint>

#include "../../small_floats.h"
#include "../output/convert.cuh"
#include "quantize.h"
#include "row_walk.cuh"

namespace tileon {
namespace {

// Sixteen codes of a row: two words of e2m1, four of e4m3.
template <int kWords>
__device__ __forceinline__ void load_codes(const uint8_t* from, int64_t stride, bool vectors,
                                           uint32_t (&words)[kWords]) {
  if (vectors) {
    struct alignas(kWords * 4) Vector {
      uint32_t words[kWords];
    };
    const Vector vector = *reinterpret_cast<const Vector*>(from);
#pragma unroll
    for (int i = 0; i < kWords; ++i) words[i] = vector.words[i];
  } else {
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      words[i] = 0;
#pragma unroll
      for (int j = 0; j < 4; ++j) words[i] |= static_cast<uint32_t>(from[(i * 4 + j) * stride]) << (8 * j);
    }
  }
}

template <typename Element>
__device__ __forceinline__ void store_numbers(Element* to, const float (&numbers)[kLaneElements]) {
  constexpr int per_vector = 16 / int(sizeof(Element));
  struct alignas(16) Vector {
    Element elements[per_vector];
  };
#pragma unroll
  for (int i = 0; i < kLaneElements; i += per_vector) {
    Vector vector;
#pragma unroll
    for (int j = 0; j < per_vector; ++j) vector.elements[j] = round_to<Element>(numbers[i + j]);
    *reinterpret_cast<Vector*>(to + i) = vector;
  }
}

template <Format kFormat, typename Element>
__global__ void __launch_bounds__(kWalkWarps * 32) dequantize(const __grid_constant__ DequantizeProblem problem) {
  constexpr FormatInfo format = info(kFormat);
  constexpr int bits = format.element == ElementType::kE4M3 ? 8 : 4;
  constexpr int words = kLaneElements * bits / 32;
  const float global = problem.global_scale == nullptr ? 1.0f : *problem.global_scale;
  constexpr int64_t vector_bytes = words * 4;
  const bool vectors = problem.stride_k == 1 && problem.stride_row % vector_bytes == 0 &&
                       reinterpret_cast<uintptr_t>(problem.data) % vector_bytes == 0;

  walk_rows(problem.rows, problem.k, [&](int64_t row, int64_t k) {
    if (k >= problem.k) return;
    uint32_t codes[words];
    load_codes(problem.data + row * problem.stride_row + k * bits / 8 * problem.stride_k, problem.stride_k, vectors,
               codes);
    const uint32_t byte = problem.scale[problem.scale_strides.offset(row, k / format.vec)];
    const float scale = format.scale == ScaleType::kE8M0 ? e8m0_value(byte) : e4m3_value(byte);
    float numbers[kLaneElements];
#pragma unroll
    for (int i = 0; i < kLaneElements; ++i) {
      const uint32_t code = codes[i * bits / 32] >> (i * bits % 32) & ((1 << bits) - 1);
      numbers[i] = (bits == 8 ? e4m3_value(code) : e2m1_value(code)) * scale * global;
    }
    store_numbers(static_cast<Element*>(problem.out) + row * problem.k + k, numbers);
  });
}

template <Format kFormat>
void launch_dequantize(const DequantizeProblem& problem, cudaStream_t stream) {
  switch (problem.out_dtype) {
    case DType::kFloat16:
      return launch_row_walk<&dequantize<kFormat, __half>>(problem, problem.rows, problem.k, stream);
    case DType::kBFloat16:
      return launch_row_walk<&dequantize<kFormat, __nv_bfloat16>>(problem, problem.rows, problem.k, stream);
    default:
      return launch_row_walk<&dequantize<kFormat, float>>(problem, problem.rows, problem.k, stream);
  }
}

}  // namespace

void run_dequantize(const DequantizeProblem& problem, cudaStream_t stream) {
  switch (problem.format) {
    case Format::kMxfp8:
      return launch_dequantize<Format::kMxfp8>(problem, stream);
    case Format::kMxfp4:
      return launch_dequantize<Format::kMxfp4>(problem, stream);
    case Format::kNvfp4:
      return launch_dequantize<Format::kNvfp4>(problem, stream);
  }
}

}  // namespace tileon
