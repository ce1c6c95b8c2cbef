// The folds of a product's operands with e8m0 scales (core/fold.h), both in one launch. A row has as many warps, up to
// eight, as hold all of it in registers while its largest element is found; their lanes take blocks of 32 k in turn. Of
// longer rows what does not fit is read again, from a cache. Bound by memory: a code read and a byte written
// (sm90/heuristics/scaled_cost.h has the rate).
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>
#include <stdexcept>

#include "core/fold.h"
#include "cuda/common/kernel_choice.h"
#include "cuda/elementwise/elementwise.h"
#include "cuda/ptx/convert.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/runtime/runtime.h"

namespace tileon {
namespace {

constexpr int kWarps = 8, kThreads = kWarps * 32;
constexpr int kBlock = 32;  // k with one scale
constexpr int kHeld = 4;    // blocks of a lane in registers

constexpr int kCtasPerSm = 3;  // which leave 80 registers a thread

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

  // The largest magnitude that is a number: of two numbers __hmax2 takes the one that is not NaN.
  __device__ __forceinline__ float largest() const {
    __half2 most = __float2half2_rn(0.0f);
    const auto look_at = [&](uint32_t codes) {
      most = __hmax2(most, __hmax2(__habs2(numbers(codes)), __habs2(numbers(codes >> 16))));
    };
#pragma unroll
    for (const uint4& vector : vectors) {
      look_at(vector.x);
      look_at(vector.y);
      look_at(vector.z);
      look_at(vector.w);
    }
    return fmaxf(__low2float(most), __high2float(most));
  }

  // In float16, which holds every code and what it becomes: a product that is rounded there is below half of e4m3's
  // smallest number. A factor beyond its range is two, of which no product is above the row's largest.
  __device__ __forceinline__ void folded(float factor, uint4 (&out)[2]) const {
    constexpr float kLargest = 32768.0f;
    const bool is_large = factor > kLargest;
    const __half2 first = __float2half2_rn(is_large ? kLargest : factor);
    const __half2 second = __float2half2_rn(is_large ? factor / kLargest : 1.0f);
    const auto pair_of = [&](uint32_t codes) -> uint32_t {
      const __half2 product = __hmul2(__hmul2(numbers(codes), first), second);
      return __nv_cvt_halfraw2_to_fp8x2(static_cast<__half2_raw>(product), __NV_SATFINITE, __NV_E4M3);
    };
    const auto word_of = [&](uint32_t codes) { return ptx::prmt(pair_of(codes), pair_of(codes >> 16), 0x5410); };
#pragma unroll
    for (int i = 0; i < 2; ++i)
      out[i] = {word_of(vectors[i].x), word_of(vectors[i].y), word_of(vectors[i].z), word_of(vectors[i].w)};
  }

 private:
  // Of two codes in the word's low half.
  static __device__ __forceinline__ __half2 numbers(uint32_t codes) {
    return __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(codes), __NV_E4M3);
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

// A row of some warps, `part` of which this one is. Its lanes walk over blocks that are theirs.
template <int kBits, int kRowWarps>
class Row {
  using Codes = BlockCodes<kBits>;

 public:
  __device__ __forceinline__ Row(const FoldOperand& of, int64_t row, int part)
      : of_(of), row_(row), blocks_(row < of.rows ? static_cast<int>(of.blocks) : 0), part_(part) {
#pragma unroll
    for (int i = 0; i < kHeld; ++i)
      if (block(i) < blocks_) load(block(i), held_[i], scales_[i]);
  }

  // The largest of this warp's blocks.
  __device__ __forceinline__ int magnitude() const {
    int largest = kNoMagnitude;
#pragma unroll
    for (int i = 0; i < kHeld; ++i)
      if (block(i) < blocks_) largest = max(largest, fold_magnitude(held_[i].largest(), scales_[i]));
    for_each_other([&](int, const Codes& codes, uint32_t scale) {
      largest = max(largest, fold_magnitude(codes.largest(), scale));
    });
#pragma unroll
    for (int lane = 16; lane > 0; lane /= 2) largest = max(largest, __shfl_xor_sync(0xffffffff, largest, lane));
    return largest;
  }

  // With the largest of the whole row.
  __device__ __forceinline__ void store_folded(int magnitude) const {
    const int power = fold_power(magnitude);
    if (part_ == 0 && threadIdx.x % 32 == 0) of_.scales[row_] = fold_scale(power);
#pragma unroll
    for (int i = 0; i < kHeld; ++i)
      if (block(i) < blocks_) store(block(i), held_[i], fold_factor(scales_[i], power));
    for_each_other([&](int at, const Codes& codes, uint32_t scale) { store(at, codes, fold_factor(scale, power)); });
  }

 private:
  __device__ __forceinline__ int block(int i) const {
    return static_cast<int>(threadIdx.x) % 32 + 32 * (part_ + kRowWarps * i);
  }

  __device__ __forceinline__ void load(int block, Codes& codes, uint32_t& scale) const {
    const auto* bytes = static_cast<const uint8_t*>(of_.operand.data) + row_ * of_.operand.stride_row;
    const auto* vectors = reinterpret_cast<const uint4*>(bytes) + block * Codes::kVectors;
#pragma unroll
    for (int i = 0; i < Codes::kVectors; ++i) codes.vectors[i] = vectors[i];
    scale = static_cast<const uint8_t*>(of_.operand.scale)[of_.operand.scale_strides.offset(row_, block)];
  }

  __device__ __forceinline__ void store(int block, const Codes& codes, float factor) const {
    uint4 out[2];
    codes.folded(factor, out);
    auto* to = reinterpret_cast<uint4*>(of_.codes + row_ * of_.pitch + int64_t{block} * kBlock);
    to[0] = out[0];
    to[1] = out[1];
  }

  // Calls use(block, codes, scale) for the lane's blocks that it does not hold.
  template <typename Use>
  __device__ __forceinline__ void for_each_other(const Use& use) const {
#pragma unroll 1
    for (int at = block(kHeld); at < blocks_; at += 32 * kRowWarps) {
      Codes codes;
      uint32_t scale = 0;
      load(at, codes, scale);
      use(at, codes, scale);
    }
  }

  const FoldOperand& of_;
  int64_t row_;
  int blocks_;  // of k
  int part_;
  Codes held_[kHeld];
  uint32_t scales_[kHeld];
};

// The largest magnitude of each warp's part of a row.
struct Magnitudes {
  int of_warp[kWarps];
};

// All warps of the CTA take part; those whose row is beyond the operand's read nothing.
template <int kBits, int kRowWarps>
__device__ __forceinline__ void fold_rows(const FoldOperand& of, int64_t first_row) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int64_t row = first_row + warp / kRowWarps;
  if constexpr (kRowWarps == 1) {
    if (row >= of.rows) return;
    const Row<kBits, 1> mine(of, row, 0);
    mine.store_folded(mine.magnitude());
  } else {
    Magnitudes& magnitudes = ptx::static_shared<Magnitudes>();
    const Row<kBits, kRowWarps> mine(of, row, warp % kRowWarps);
    const int of_part = mine.magnitude();
    if (threadIdx.x % 32 == 0) magnitudes.of_warp[warp] = of_part;
    __syncthreads();
    int largest = kNoMagnitude;
#pragma unroll
    for (int part = 0; part < kRowWarps; ++part)
      largest = max(largest, magnitudes.of_warp[warp / kRowWarps * kRowWarps + part]);
    if (row < of.rows) mine.store_folded(largest);
  }
}

// A CTA folds as many rows as its warps make, those of a first.
template <int kRowWarps>
__global__ void __launch_bounds__(kThreads, kCtasPerSm) fold(const __grid_constant__ FoldParams params) {
  constexpr int kRows = kWarps / kRowWarps;
  const int64_t group = blockIdx.x, groups_of_a = (params.a.rows + kRows - 1) / kRows;
  const bool is_a = group < groups_of_a;
  const FoldOperand& of = is_a ? params.a : params.b;
  const int64_t first_row = (is_a ? group : group - groups_of_a) * kRows;
  if (of.operand.dtype == DType::kFloat4E2M1) {
    fold_rows<4, kRowWarps>(of, first_row);
  } else {
    fold_rows<8, kRowWarps>(of, first_row);
  }
}

template <int kRowWarps>
void launch_folds(const FoldParams& params, cudaStream_t stream) {
  constexpr int64_t kMaxCtas = 0x7fffffff, kRows = kWarps / kRowWarps;
  const int64_t ctas = (params.a.rows + kRows - 1) / kRows + (params.b.rows + kRows - 1) / kRows;
  if (ctas == 0) return;
  if (ctas > kMaxCtas) throw std::runtime_error("tileon: more than 2^31 groups of rows to fold");
  launch_kernel("launching a kernel that folds operands",
                {.grid = dim3(static_cast<unsigned>(ctas)), .threads = kThreads, .stream = stream}, &fold<kRowWarps>,
                params);
}

FoldOperand fold_operand(const OperandFoldProblem& of) {
  return {scaled_kernel_operand(of.operand), of.rows, of.k / kBlock, of.pitch, of.codes, of.scales};
}

}  // namespace

void run_operand_folds(const OperandFoldProblem& a, const OperandFoldProblem& b, cudaStream_t stream) {
  const FoldParams params{fold_operand(a), fold_operand(b)};
  const auto holds = [&](int warps) { return params.a.blocks <= int64_t{warps} * 32 * kHeld; };
  if (holds(1)) return launch_folds<1>(params, stream);
  if (holds(2)) return launch_folds<2>(params, stream);
  if (holds(4)) return launch_folds<4>(params, stream);
  launch_folds<8>(params, stream);
}

}  // namespace tileon
