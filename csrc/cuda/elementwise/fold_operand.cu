// The folds of a product's operands with e8m0 scales (core/fold.h), both in one launch. A row has as many warps, up to
// eight, as hold all of it in registers while its largest element is found; their lanes take blocks of 32 k in turn. Of
// longer rows what does not fit is read again, from a cache. Bound by memory: a code read and a byte written
// (sm90/heuristics/scaled_cost.h has the rate).
//
// Of an operand whose codes a kernel folds while it multiplies, the factors of blocks alone: a warp a row, which reads
// the scales and, mostly, the codes of four blocks.
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
constexpr int kBlock = 32;   // k with one scale
constexpr int kHeld = 4;     // blocks of a lane in registers
constexpr int kFewHeld = 2;  // beside factors: of few rows, whose instructions come cold

constexpr int kCtasPerSm = 3;  // which leave 80 registers a thread

struct FoldOperand {
  ScaledKernelOperand operand;
  int64_t rows, blocks, pitch;
  uint8_t* codes;
  float* scales;
  bool is_interleaved;
};

struct FoldParams {
  FoldOperand a, b;
};

struct FoldedFactors {
  ScaledKernelOperand operand;
  int64_t rows, blocks, words, stride;
  uint32_t* factors;
  float* scales;
  bool reads_words;  // four scales at once
};

struct FoldWithFactorsParams {
  FoldOperand a;
  FoldedFactors b;
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
  static constexpr float kTopBinade = 256.0f;  // where the largest code's begins
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

  // A factor beyond float16's range is two, of which no product is above the row's largest.
  __device__ __forceinline__ void folded(float factor, uint4 (&out)[2]) const {
    constexpr float kLargest = 32768.0f;
    if (factor <= kLargest) {
      const __half2 factors[] = {__float2half2_rn(factor)};
      multiply_by(factors, out);
    } else {
      const __half2 factors[] = {__float2half2_rn(kLargest), __float2half2_rn(factor / kLargest)};
      multiply_by(factors, out);
    }
  }

 private:
  template <int kFactors>
  __device__ __forceinline__ void multiply_by(const __half2 (&factors)[kFactors], uint4 (&out)[2]) const {
    const auto word_of = [&](uint32_t codes) { return ptx::multiply_e4m3(codes, factors); };
#pragma unroll
    for (int i = 0; i < 2; ++i)
      out[i] = {word_of(vectors[i].x), word_of(vectors[i].y), word_of(vectors[i].z), word_of(vectors[i].w)};
  }

  // Of two codes in the word's low half.
  static __device__ __forceinline__ __half2 numbers(uint32_t codes) {
    return __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(codes), __NV_E4M3);
  }
};

template <>
struct BlockCodes<4> {
  static constexpr int kVectors = 1;
  static constexpr float kTopBinade = 4.0f;
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

// ---- a block where it lies ----

template <int kBits>
__device__ __forceinline__ BlockCodes<kBits> load_codes(const ScaledKernelOperand& operand, int64_t row, int block) {
  BlockCodes<kBits> codes;
  const auto* bytes = static_cast<const uint8_t*>(operand.data) + row * operand.stride_row;
  const auto* vectors = reinterpret_cast<const uint4*>(bytes) + block * BlockCodes<kBits>::kVectors;
#pragma unroll
  for (int i = 0; i < BlockCodes<kBits>::kVectors; ++i) codes.vectors[i] = vectors[i];
  return codes;
}

__device__ __forceinline__ uint32_t load_scale(const ScaledKernelOperand& operand, int64_t row, int block) {
  return static_cast<const uint8_t*>(operand.scale)[operand.scale_strides.offset(row, block)];
}

__device__ __forceinline__ int largest_of_warp(int value) {
#pragma unroll
  for (int lane = 16; lane > 0; lane /= 2) value = max(value, __shfl_xor_sync(0xffffffff, value, lane));
  return value;
}

// ---- a row ----

// A row of some warps, `part` of which this one is. Its lanes walk over blocks that are theirs.
template <int kBits, int kRowWarps, int kHeldBlocks>
class Row {
  using Codes = BlockCodes<kBits>;

 public:
  __device__ __forceinline__ Row(const FoldOperand& of, int64_t row, int part)
      : of_(of), row_(row), blocks_(row < of.rows ? static_cast<int>(of.blocks) : 0), part_(part) {
#pragma unroll
    for (int i = 0; i < kHeldBlocks; ++i)
      if (block(i) < blocks_) load(block(i), held_[i], scales_[i]);
  }

  // The largest of this warp's blocks.
  __device__ __forceinline__ int magnitude() const {
    int largest = kNoMagnitude;
#pragma unroll
    for (int i = 0; i < kHeldBlocks; ++i)
      if (block(i) < blocks_) largest = max(largest, fold_magnitude(held_[i].largest(), scales_[i]));
    for_each_other([&](int, const Codes& codes, uint32_t scale) {
      largest = max(largest, fold_magnitude(codes.largest(), scale));
    });
    return largest_of_warp(largest);
  }

  // With the largest of the whole row.
  __device__ __forceinline__ void store_folded(int magnitude) const {
    const int power = fold_power(magnitude);
    if (part_ == 0 && threadIdx.x % 32 == 0) of_.scales[row_] = fold_scale(power);
#pragma unroll
    for (int i = 0; i < kHeldBlocks; ++i)
      if (block(i) < blocks_) store(block(i), held_[i], fold_factor(scales_[i], power));
    for_each_other([&](int at, const Codes& codes, uint32_t scale) { store(at, codes, fold_factor(scale, power)); });
  }

 private:
  __device__ __forceinline__ int block(int i) const {
    return static_cast<int>(threadIdx.x) % 32 + 32 * (part_ + kRowWarps * i);
  }

  __device__ __forceinline__ void load(int block, Codes& codes, uint32_t& scale) const {
    codes = load_codes<kBits>(of_.operand, row_, block);
    scale = load_scale(of_.operand, row_, block);
  }

  __device__ __forceinline__ void store(int block, const Codes& codes, float factor) const {
    uint4 out[2];
    codes.folded(factor, out);
    auto* to = reinterpret_cast<uint4*>(of_.codes + row_ * of_.pitch + int64_t{block} * kBlock);
    const auto [first, second] = out;
    to[0] = of_.is_interleaved ? uint4{first.x, first.z, second.x, second.z} : first;
    to[1] = of_.is_interleaved ? uint4{first.y, first.w, second.y, second.w} : second;
  }

  // Calls use(block, codes, scale) for the lane's blocks that it does not hold.
  template <typename Use>
  __device__ __forceinline__ void for_each_other(const Use& use) const {
#pragma unroll 1
    for (int at = block(kHeldBlocks); at < blocks_; at += 32 * kRowWarps) {
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
  Codes held_[kHeldBlocks];
  uint32_t scales_[kHeldBlocks];
};

// The largest magnitude of each warp's part of a row.
struct Magnitudes {
  int of_warp[kWarps];
};

// All warps of the CTA take part; those whose row is beyond the operand's read nothing.
template <int kBits, int kRowWarps, int kHeldBlocks>
__device__ __forceinline__ void fold_rows(const FoldOperand& of, int64_t first_row) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int64_t row = first_row + warp / kRowWarps;
  if constexpr (kRowWarps == 1) {
    if (row >= of.rows) return;
    const Row<kBits, 1, kHeldBlocks> mine(of, row, 0);
    mine.store_folded(mine.magnitude());
  } else {
    Magnitudes& magnitudes = ptx::static_shared<Magnitudes>();
    const Row<kBits, kRowWarps, kHeldBlocks> mine(of, row, warp % kRowWarps);
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

// ---- the factors of rows ----
//
// A row has eight lanes, which have every eighth word: the scales of four blocks. The four rows of a warp are
// neighbours in what it stores. Loops stay loops: instructions come cold, and more of them take longer than the scales.

constexpr int kRowLanes = 8, kRowsOfWarp = 32 / kRowLanes;

// Four bytes of core/fold.h at once, where scales lie within a row's usual ones: a byte is a scale's distance from some
// scale below, shifted.
template <int kBits>
class QuickFactors {
  static constexpr int kShift = kBits == 8 ? 2 : 3;
  static constexpr int kZero = kBits == 8 ? 127 - 15 : 127 - 5;  // the scale whose byte is 0, beside a power of 0
  static constexpr int kLeast = kBits == 8 ? 1 : 0, kMost = kBits == 8 ? 30 : 11;

 public:
  // `largest` is the row's largest scale, NaN where it has that.
  __device__ __forceinline__ QuickFactors(int power, int largest) {
    const int zero = kZero + power, least = zero + kLeast;
    any_ = least >= 0 && least <= 128 && largest <= zero + kMost;
    zero_ = static_cast<uint32_t>(zero) * 0x01010101;
    least_ = static_cast<uint32_t>(least) * 0x01010101;
  }

  // Whether all four scales are that large: a byte's top bit is left where it, or the rest less the least, has one.
  __device__ __forceinline__ bool take(uint32_t scales) const {
    return any_ && (((scales | 0x80808080) - least_ | scales) & 0x80808080) == 0x80808080;
  }
  __device__ __forceinline__ uint32_t of(uint32_t scales) const { return (scales - zero_) << kShift; }

 private:
  bool any_;
  uint32_t zero_, least_;
};

template <int kBits>
class FactorsOfRow {
 public:
  // Of rows behind the last one the factors are 0.
  __device__ __forceinline__ FactorsOfRow(const FoldedFactors& of, int64_t row)
      : of_(of), row_(row), blocks_(static_cast<int>(row < of.rows ? of.blocks : 0)) {
    const ScaleStrides& strides = of.operand.scale_strides;
    scale_ = static_cast<const uint8_t*>(of.operand.scale) + strides.of_row(row) + part() * strides.col_block;
  }

  // The row's power. Where its largest scale has a block with a code in the top binade no element is larger: two such
  // blocks of each lane are looked at, then all. Where they have one in the binade below, those of smaller scales, at
  // most 1.75 of it, change nothing. Else all codes are looked at.
  __device__ __forceinline__ int power() {
    int first = 0, last = 0;
    for_each_word([&](int word, uint32_t scales) {
      const int found = largest_of_word(word, scales);
      first = found > largest_ ? word : first;
      last = found >= largest_ ? word : last;
      largest_ = max(largest_, found);
    });
    const int of_lane = largest_;
    largest_ = largest_of_row(of_lane);
    constexpr float kTopBinade = BlockCodes<kBits>::kTopBinade;
    float code = 0;
    if (of_lane == largest_ && largest_ >= 0) code = fmaxf(largest_code_of_word(first), largest_code_of_word(last));
    if (largest_of_row(code >= kTopBinade) == 0) {
      for_each_block([&](int block, uint32_t scale) {
        if (static_cast<int>(scale) == largest_) code = fmaxf(code, largest_code(block));
      });
    }
    const bool is_known = largest_of_row(code >= kTopBinade / 2) != 0;
    int magnitude = fold_magnitude(code, static_cast<uint32_t>(largest_));
    if (!is_known) {
      for_each_block(
          [&](int block, uint32_t scale) { magnitude = max(magnitude, fold_magnitude(largest_code(block), scale)); });
    }
    return fold_power(largest_of_row(magnitude));
  }

  __device__ __forceinline__ void store(int power) const {
    if (row_ >= of_.stride) return;
    if (part() == 0 && row_ < of_.rows) of_.scales[row_] = fold_scale(power);
    const QuickFactors<kBits> quick(power, has_nan_ ? static_cast<int>(kE8M0NaN) : largest_);
#pragma unroll 4
    for (int word = part(); word < of_.words; word += kRowLanes) {
      const uint32_t scales = load(word);
      const bool is_quick = quick.take(scales) && word * 4 + 4 <= blocks_;
      of_.factors[word * of_.stride + row_] = is_quick ? quick.of(scales) : any_factors(word, scales, power);
    }
  }

 private:
  static __device__ __forceinline__ int part() { return static_cast<int>(threadIdx.x) % 32 / kRowsOfWarp; }

  // All lanes of the warp take part.
  static __device__ __forceinline__ int largest_of_row(int value) {
#pragma unroll
    for (int lanes = 16; lanes >= kRowsOfWarp; lanes /= 2)
      value = max(value, __shfl_xor_sync(0xffffffff, value, lanes));
    return value;
  }

  // The scales of a word of the lane's, 0 behind the row's last one.
  __device__ __forceinline__ uint32_t load(int word) const {
    const ScaleStrides& strides = of_.operand.scale_strides;
    const uint8_t* scales = scale_ + (word - part()) * strides.col_block;
    const int inside = blocks_ - word * 4;
    if (of_.reads_words) return inside > 0 ? *reinterpret_cast<const uint32_t*>(scales) : 0;
    uint32_t bytes = 0;
#pragma unroll 1
    for (int at = 0; at < min(inside, 4); ++at) bytes |= static_cast<uint32_t>(scales[at * strides.col]) << 8 * at;
    return bytes;
  }

  // Calls use(word, scales) for the lane's words; those of the last one may reach behind the row.
  template <typename Use>
  __device__ __forceinline__ void for_each_word(const Use& use) const {
#pragma unroll 4
    for (int word = part(); word * 4 < blocks_; word += kRowLanes) use(word, load(word));
  }
  template <typename Use>
  __device__ __forceinline__ void for_each_block(const Use& use) const {
#pragma unroll 1
    for (int word = part(); word * 4 < blocks_; word += kRowLanes) {
      const uint32_t scales = load(word);
#pragma unroll 1
      for (int at = 0; at < min(blocks_ - word * 4, 4); ++at) use(word * 4 + at, scales >> 8 * at & 0xff);
    }
  }

  // Of a packed row's last word the scales behind the row may be anything.
  __device__ __forceinline__ int largest_of_word(int word, uint32_t scales) {
    int largest = -1;
#pragma unroll
    for (int at = 0; at < 4; ++at) {
      const int scale = static_cast<int>(scales >> 8 * at & 0xff);
      const bool is_inside = word * 4 + at < blocks_, is_nan = scale == static_cast<int>(kE8M0NaN);
      has_nan_ |= is_inside && is_nan;
      largest = is_inside && !is_nan ? max(largest, scale) : largest;
    }
    return largest;
  }

  __device__ __forceinline__ float largest_code(int block) const {
    return load_codes<kBits>(of_.operand, row_, block).largest();
  }
  // Of the word's first block with the row's largest scale.
  __device__ __forceinline__ float largest_code_of_word(int word) const {
    const uint32_t scales = load(word);
    int at = 3;
#pragma unroll
    for (int i = 2; i >= 0; --i) at = static_cast<int>(scales >> 8 * i & 0xff) == largest_ ? i : at;
    return largest_code(word * 4 + at);
  }

  // Any bytes, 0 behind the row.
  __device__ __noinline__ uint32_t any_factors(int word, uint32_t scales, int power) const {
    uint32_t factors = 0;
#pragma unroll 1
    for (int at = 0; at < min(blocks_ - word * 4, 4); ++at) {
      const uint32_t scale = scales >> 8 * at & 0xff;
      const uint32_t byte = kBits == 8 ? e4m3_fold_byte(scale, power) : e2m1_fold_byte(scale, power);
      factors |= byte << 8 * at;
    }
    return factors;
  }

  const FoldedFactors& of_;
  int64_t row_;
  int blocks_;
  const uint8_t* scale_;  // of the lane's first block
  int largest_ = -1;      // scale of the row, once its power is known
  bool has_nan_ = false;
};

template <int kBits>
__device__ __forceinline__ void store_factors(const FoldedFactors& of, int64_t row) {
  FactorsOfRow<kBits> factors(of, row);
  factors.store(factors.power());
}

// ---- kernels ----

// A CTA folds as many rows as its warps make.
template <int kRowWarps, int kHeldBlocks>
__device__ __forceinline__ void fold_group(const FoldOperand& of, int64_t group) {
  const int64_t first_row = group * (kWarps / kRowWarps);
  if (of.operand.dtype == DType::kFloat4E2M1) {
    fold_rows<4, kRowWarps, kHeldBlocks>(of, first_row);
  } else {
    fold_rows<8, kRowWarps, kHeldBlocks>(of, first_row);
  }
}

template <int kRowWarps>
constexpr int64_t fold_groups(int64_t rows) {
  return (rows * kRowWarps + kWarps - 1) / kWarps;
}

constexpr int64_t factor_groups(int64_t rows) {
  constexpr int kRows = kWarps * kRowsOfWarp;
  return (rows + kRows - 1) / kRows;
}

// The rows of a first.
template <int kRowWarps>
__global__ void __launch_bounds__(kThreads, kCtasPerSm) fold(const __grid_constant__ FoldParams params) {
  const int64_t group = blockIdx.x, groups_of_a = fold_groups<kRowWarps>(params.a.rows);
  const bool is_a = group < groups_of_a;
  fold_group<kRowWarps, kHeld>(is_a ? params.a : params.b, is_a ? group : group - groups_of_a);
}

// A row of a has all of a CTA's warps. Hopper's kernels alone fold the other operand.
__global__ void __launch_bounds__(kThreads, kCtasPerSm)
    fold_with_factors(const __grid_constant__ FoldWithFactorsParams params) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  const int64_t group = blockIdx.x;
  if (group < params.a.rows) return fold_group<kWarps, kFewHeld>(params.a, group);
  const int64_t warp = (group - params.a.rows) * kWarps + threadIdx.x / 32;
  const int64_t row = warp * kRowsOfWarp + threadIdx.x % kRowsOfWarp;
  if (params.b.operand.dtype == DType::kFloat4E2M1) {
    store_factors<4>(params.b, row);
  } else {
    store_factors<8>(params.b, row);
  }
#endif
}

template <typename Params>
void launch_folds(void (*kernel)(Params), int64_t ctas, const Params& params, cudaStream_t stream) {
  constexpr int64_t kMaxCtas = 0x7fffffff;
  if (ctas == 0) return;
  if (ctas > kMaxCtas) throw std::runtime_error("tileon: more than 2^31 groups of rows to fold");
  launch_kernel("launching a kernel that folds operands",
                {.grid = dim3(static_cast<unsigned>(ctas)), .threads = kThreads, .stream = stream}, kernel, params);
}

template <int kRowWarps>
void launch(const FoldParams& params, cudaStream_t stream) {
  const int64_t ctas = fold_groups<kRowWarps>(params.a.rows) + fold_groups<kRowWarps>(params.b.rows);
  launch_folds(&fold<kRowWarps>, ctas, params, stream);
}

FoldOperand fold_operand(const OperandFoldProblem& of) {
  return {scaled_kernel_operand(of.operand), of.rows, of.k / kBlock, of.pitch, of.codes, of.scales, of.is_interleaved};
}

// A packed tensor has all of its words' scales, whatever k is.
bool reads_words(const Scale& scale, int64_t blocks) {
  const ScaleStrides& strides = scale.strides;
  const auto address = static_cast<int64_t>(reinterpret_cast<uintptr_t>(scale.data));
  const bool has_words = is_packed(strides) || blocks % 4 == 0;
  return has_words && strides.col == 1 &&
         (address | strides.row_block | strides.col_block | strides.row | strides.quarter) % 4 == 0;
}

FoldedFactors folded_factors(const FoldFactorsProblem& of) {
  const int64_t blocks = of.k / kBlock;
  return {scaled_kernel_operand(of.operand),    of.rows, blocks, (blocks + 3) / 4, of.stride, of.factors, of.scales,
          reads_words(of.operand.scale, blocks)};
}

}  // namespace

void run_operand_folds(const OperandFoldProblem& a, const OperandFoldProblem& b, cudaStream_t stream) {
  const FoldParams params{fold_operand(a), fold_operand(b)};
  const auto holds = [&](int warps) { return params.a.blocks <= int64_t{warps} * 32 * kHeld; };
  if (holds(1)) return launch<1>(params, stream);
  if (holds(2)) return launch<2>(params, stream);
  if (holds(4)) return launch<4>(params, stream);
  launch<8>(params, stream);
}

void run_fold_with_factors(const OperandFoldProblem& a, const FoldFactorsProblem& b, cudaStream_t stream) {
  const FoldWithFactorsParams params{fold_operand(a), folded_factors(b)};
  launch_folds(&fold_with_factors, params.a.rows + factor_groups(params.b.stride), params, stream);
}

}  // namespace tileon
