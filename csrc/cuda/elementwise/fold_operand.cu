// The folds of a product's operands with e8m0 scales (core/fold.h), both in one launch, a warp for a row, whose lanes
// take blocks of 32 k in turn. Bound by memory: a code read and a byte written. A lane keeps its first blocks in
// registers while the row's largest element is found; of longer rows the others are read again, from a cache.
#include <cuda_fp8.h>

#include <algorithm>
#include <cstdint>

#include "core/fold.h"
#include "cuda/common/kernel_choice.h"
#include "cuda/elementwise/elementwise.h"
#include "cuda/ptx/convert.cuh"
#include "cuda/runtime/runtime.h"

namespace tileon {
namespace {

constexpr int kWarps = 4, kThreads = kWarps * 32;
constexpr int kBlock = 32;  // k with one scale
constexpr int kHeld = 4;    // blocks of a lane in registers

// CTAs of an SM: on GPUs behind Hopper ptxas takes more than the 128 registers of a thread that four of them leave.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
constexpr int kCtasPerSm = 3;
#else
constexpr int kCtasPerSm = 4;
#endif

struct FoldOperand {
  ScaledKernelOperand operand;
  int64_t rows, blocks, pitch;
  uint8_t* codes;
  float* scales;
};

struct FoldParams {
  FoldOperand a, b;
};

// ---- the codes of a block ----

// Two codes times the factor, as e4m3: the first in the low byte.
__device__ __forceinline__ uint32_t to_e4m3(float first, float second) {
  return __nv_cvt_float2_to_fp8x2({first, second}, __NV_SATFINITE, __NV_E4M3);
}

template <int kBits>
struct BlockCodes;

template <>
struct BlockCodes<8> {
  static constexpr int kVectors = 2;
  uint4 vectors[kVectors];

  // The largest magnitude that is a number.
  __device__ __forceinline__ float largest() const {
    uint32_t larger_by_one = 0;  // in each byte; NaN, the last code, becomes 0
#pragma unroll
    for (const uint4& vector : vectors)
      for (const uint32_t word : {vector.x, vector.y, vector.z, vector.w})
        larger_by_one = __vmaxu4(larger_by_one, ((word & 0x7f7f7f7f) + 0x01010101) & 0x7f7f7f7f);
    uint32_t most = 1;
#pragma unroll
    for (int i = 0; i < 4; ++i) most = max(most, larger_by_one >> 8 * i & 0xff);
    return e4m3_value(most - 1);
  }

  __device__ __forceinline__ void folded(float factor, uint4 (&out)[2]) const {
#pragma unroll
    for (int i = 0; i < 2; ++i)
      out[i] = {word_of(vectors[i].x, factor), word_of(vectors[i].y, factor), word_of(vectors[i].z, factor),
                word_of(vectors[i].w, factor)};
  }

 private:
  static __device__ __forceinline__ uint32_t word_of(uint32_t codes, float factor) {
    return pair_of(codes, factor) | pair_of(codes >> 16, factor) << 16;
  }
  static __device__ __forceinline__ uint32_t pair_of(uint32_t codes, float factor) {
    const __half2 pair = __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(codes), __NV_E4M3);
    return to_e4m3(__low2float(pair) * factor, __high2float(pair) * factor);
  }
};

template <>
struct BlockCodes<4> {
  static constexpr int kVectors = 1;
  uint4 vectors[kVectors];

  __device__ __forceinline__ float largest() const {
    const uint32_t words[] = {vectors[0].x, vectors[0].y, vectors[0].z, vectors[0].w};
    uint32_t most = 0;
    uint32_t left[] = {0x11111111, 0x11111111, 0x11111111, 0x11111111};  // codes that may be the largest: a bit each
#pragma unroll
    for (int bit = 2; bit >= 0; --bit) {
      uint32_t hits[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) hits[i] = words[i] >> bit & left[i];
      if ((hits[0] | hits[1] | hits[2] | hits[3]) == 0) continue;
      most |= 1u << bit;
#pragma unroll
      for (int i = 0; i < 4; ++i) left[i] = hits[i];
    }
    return e2m1_value(most);
  }

  // The eight magnitudes times the factor are a table, a byte each.
  __device__ __forceinline__ void folded(float factor, uint4 (&out)[2]) const {
    const uint32_t low = to_e4m3(0.0f * factor, 0.5f * factor) | to_e4m3(factor, 1.5f * factor) << 16;
    const uint32_t high = to_e4m3(2.0f * factor, 3.0f * factor) | to_e4m3(4.0f * factor, 6.0f * factor) << 16;
    const auto four = [&](uint32_t codes) {  // the lower 16 bits
      const uint32_t bytes = (codes & 0xff) | (codes & 0xff00) << 8;
      const uint32_t signs = ((bytes << 4 & 0x00800080) | (bytes << 8 & 0x80008000));
      return ptx::prmt(low, high, codes & 0x7777) | signs;
    };
    const uint4& codes = vectors[0];
    out[0] = {four(codes.x), four(codes.x >> 16), four(codes.y), four(codes.y >> 16)};
    out[1] = {four(codes.z), four(codes.z >> 16), four(codes.w), four(codes.w >> 16)};
  }
};

// ---- a row ----

// A warp's row; its lanes walk over blocks that are theirs.
template <int kBits>
class Row {
  using Codes = BlockCodes<kBits>;

 public:
  __device__ __forceinline__ Row(const FoldOperand& of, int64_t row) : of_(of), row_(row) {}

  __device__ __forceinline__ void fold() const {
    Codes held[kHeld];
    uint32_t scales[kHeld];
#pragma unroll
    for (int i = 0; i < kHeld; ++i)
      if (block(i) < of_.blocks) load(block(i), held[i], scales[i]);
    int magnitude = kNoMagnitude;
#pragma unroll
    for (int i = 0; i < kHeld; ++i)
      if (block(i) < of_.blocks) magnitude = max(magnitude, fold_magnitude(held[i].largest(), scales[i]));
    for_each_other([&](int64_t, const Codes& codes, uint32_t scale) {
      magnitude = max(magnitude, fold_magnitude(codes.largest(), scale));
    });
#pragma unroll
    for (int lane = 16; lane > 0; lane /= 2) magnitude = max(magnitude, __shfl_xor_sync(0xffffffff, magnitude, lane));
    const int power = fold_power(magnitude);
    if (threadIdx.x % 32 == 0) of_.scales[row_] = fold_scale(power);
#pragma unroll
    for (int i = 0; i < kHeld; ++i)
      if (block(i) < of_.blocks) store(block(i), held[i], fold_factor(scales[i], power));
    for_each_other(
        [&](int64_t at, const Codes& codes, uint32_t scale) { store(at, codes, fold_factor(scale, power)); });
  }

 private:
  static __device__ __forceinline__ int64_t block(int i) { return threadIdx.x % 32 + 32 * i; }

  __device__ __forceinline__ void load(int64_t block, Codes& codes, uint32_t& scale) const {
    const auto* bytes = static_cast<const uint8_t*>(of_.operand.data) + row_ * of_.operand.stride_row;
    const auto* vectors = reinterpret_cast<const uint4*>(bytes) + block * Codes::kVectors;
#pragma unroll
    for (int i = 0; i < Codes::kVectors; ++i) codes.vectors[i] = vectors[i];
    scale = static_cast<const uint8_t*>(of_.operand.scale)[of_.operand.scale_strides.offset(row_, block)];
  }

  __device__ __forceinline__ void store(int64_t block, const Codes& codes, float factor) const {
    uint4 out[2];
    codes.folded(factor, out);
    auto* to = reinterpret_cast<uint4*>(of_.codes + row_ * of_.pitch + block * kBlock);
    to[0] = out[0];
    to[1] = out[1];
  }

  // Calls use(block, codes, scale) for the lane's blocks that it does not hold.
  template <typename Use>
  __device__ __forceinline__ void for_each_other(const Use& use) const {
#pragma unroll 1
    for (int64_t at = block(kHeld); at < of_.blocks; at += 32) {
      Codes codes;
      uint32_t scale = 0;
      load(at, codes, scale);
      use(at, codes, scale);
    }
  }

  const FoldOperand& of_;
  int64_t row_;
};

__device__ __forceinline__ void fold_row(const FoldOperand& of, int64_t row) {
  if (of.operand.dtype == DType::kFloat4E2M1) {
    Row<4>(of, row).fold();
  } else {
    Row<8>(of, row).fold();
  }
}

__global__ void __launch_bounds__(kThreads, kCtasPerSm) fold(const __grid_constant__ FoldParams params) {
  const int64_t rows = params.a.rows + params.b.rows;
  for (int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32; row < rows;
       row += static_cast<int64_t>(gridDim.x) * kWarps) {
    if (row < params.a.rows) {
      fold_row(params.a, row);
    } else {
      fold_row(params.b, row - params.a.rows);
    }
  }
}

FoldOperand fold_operand(const OperandFoldProblem& of) {
  return {scaled_kernel_operand(of.operand), of.rows, of.k / kBlock, of.pitch, of.codes, of.scales};
}

}  // namespace

void run_operand_folds(const OperandFoldProblem& a, const OperandFoldProblem& b, cudaStream_t stream) {
  constexpr int64_t kMaxCtas = 0x7fffffff;
  const int64_t ctas = std::min((a.rows + b.rows + kWarps - 1) / kWarps, kMaxCtas);
  if (ctas == 0) return;
  launch_kernel("launching a kernel that folds operands",
                {.grid = dim3(static_cast<unsigned>(ctas)), .threads = kThreads, .stream = stream}, &fold,
                FoldParams{fold_operand(a), fold_operand(b)});
}

}  // namespace tileon
