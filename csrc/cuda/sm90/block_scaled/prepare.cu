// Codes and scales to rows of numbers: a warp a row, or a strip of one.
#include "prepare.h"

#include "../../block_scaled/condition.cuh"
#include "../../block_scaled/decode.cuh"
#include "../../ptx/grid_dependency.cuh"
#include "../launch.h"

namespace tileon::sm90 {
namespace {

constexpr int kThreads = kRowsPerCta * 32;
constexpr int kSpans = 4;  // loads of a lane that are under way at a time

// Some codes of a lane.
template <int kWords>
struct alignas(kWords * 4) CodeWords {
  uint32_t words[kWords];
};

// ---- bfloat16 ----

// Eight codes times their scale. Returns whether bfloat16 loses something of them.
template <ElementType kElement, ScaleType kScale, int kWords>
__device__ __forceinline__ bool to_bfloat16(const uint32_t (&codes)[kWords], uint32_t scale_byte, uint4& elements) {
  if constexpr (kElement == ElementType::kE2M1) {
    uint4 eight[1];
    decode_e2m1<kScale>(codes, scale_byte, eight);
    elements = eight[0];
    return false;
  } else {
    if (!is_beyond_bfloat16(codes, scale_byte)) {
      uint4 eight[1];
      decode_e4m3<kScale>(codes, scale_byte, eight);
      elements = eight[0];
      return false;
    }
    const float scale = e8m0_value(scale_byte);
    uint32_t pairs[4];
    bool lost = false;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t pair = codes[i / 2] >> (i % 2 * 16);
      const float low = e4m3_value(pair & 0xff) * scale, high = e4m3_value(pair >> 8 & 0xff) * scale;
      const __nv_bfloat162 rounded = __floats2bfloat162_rn(low, high);
      const float2 back = __bfloat1622float2(rounded);
      lost |= (back.x != low && low == low) || (back.y != high && high == high);
      pairs[i] = *reinterpret_cast<const uint32_t*>(&rounded);
    }
    elements = {pairs[0], pairs[1], pairs[2], pairs[3]};
    return lost;
  }
}

// One strip of a row.
template <ElementType kElement, ScaleType kScale>
__device__ __forceinline__ bool strip_to_bfloat16(const BlockScaledOperand& operand, int64_t row, int begin, int k,
                                                  void* rows) {
  constexpr int bits = kElement == ElementType::kE4M3 ? 8 : 4;
  constexpr int vec = vec_of(kScale);
  constexpr int kLaneElements = kStripElements / 32 / kSpans, kSpanElements = 32 * kLaneElements;
  static_assert(kLaneElements == 8 && kSpanElements / vec % kScaleBlockCols == 0);
  using Codes = CodeWords<kLaneElements * bits / 32>;
  const ScaleStrides& strides = operand.scale_strides;
  begin += static_cast<int>(threadIdx.x) % 32 * kLaneElements;
  const auto* codes =
      static_cast<const uint8_t*>(operand.data) + row * operand.stride_row + static_cast<int64_t>(begin) * bits / 8;
  const auto* scales = static_cast<const uint8_t*>(operand.scale) + strides.offset(row, begin / vec);
  auto* out = static_cast<__nv_bfloat16*>(rows) + row * k + begin;
  Codes loaded[kSpans];
  uint8_t bytes[kSpans];
  bool lost = false;
#pragma unroll
  for (int span = 0; span < kSpans; ++span) {
    const int at = span * kSpanElements;
    if (begin + at >= k) continue;
    loaded[span] = *reinterpret_cast<const Codes*>(codes + at * bits / 8);
    bytes[span] = scales[strides.of_col(at / vec)];
  }
#pragma unroll
  for (int span = 0; span < kSpans; ++span) {
    const int at = span * kSpanElements;
    if (begin + at >= k) continue;
    uint4 elements;
    lost |= to_bfloat16<kElement, kScale>(loaded[span].words, bytes[span], elements);
    *reinterpret_cast<uint4*>(out + at) = elements;
  }
  return lost;
}

// ---- int8 ----

// The magnitudes of e2m1 in halves, times 2^shift for a shift of 0 to 3, looked up by their codes; and their negatives.
class Int8Table {
 public:
  __device__ __forceinline__ explicit Int8Table(int shift) {
    const uint32_t clean = (0xffu << shift & 0xff) * 0x01010101u;  // of what a byte's neighbour left in it
    positive_[0] = 0x03020100u << shift;
    positive_[1] = 0x0c080604u << shift;
    negative_[0] = 0xfdfeff00u << shift & clean;
    negative_[1] = 0xf4f8fafcu << shift & clean;
  }

  // Eight codes, the first in the lowest bits.
  __device__ __forceinline__ uint2 decode(uint32_t codes) const {
    const uint32_t magnitudes = codes & 0x77777777;
    const uint32_t raised = codes << 4;  // the signs of even codes, too, on top of a byte
    return {decode_four(magnitudes, ptx::prmt(raised, codes, 0xd9c8)),
            decode_four(magnitudes >> 16, ptx::prmt(raised, codes, 0xfbea))};
  }

 private:
  __device__ __forceinline__ uint32_t decode_four(uint32_t magnitudes, uint32_t is_negative) const {
    const uint32_t positive = ptx::prmt(positive_[0], positive_[1], magnitudes);
    const uint32_t negative = ptx::prmt(negative_[0], negative_[1], magnitudes);
    return (positive & ~is_negative) | (negative & is_negative);
  }

  uint32_t positive_[2], negative_[2];
};

// A row of one operand, by one warp.
class Int8Row {
 public:
  __device__ __forceinline__ Int8Row(const BlockScaledOperand& operand, int64_t row, int k)
      : codes_(static_cast<const uint8_t*>(operand.data) + row * operand.stride_row),
        scales_(static_cast<const uint8_t*>(operand.scale) + operand.scale_strides.of_row(row)),
        strides_(operand.scale_strides),
        k_(k) {
    int largest = 0;
    for (int col = lane(); col < k / kVec; col += 32) largest = max(largest, scale(col));
    largest_ = __reduce_max_sync(0xffffffffu, largest);
  }

  // Reads no more of the row than its scales and the codes of blocks whose scale does not fit.
  __device__ __forceinline__ bool fits() const {
    const bool has_exponent = largest_ >= kLeastExponent && largest_ <= kMostExponent;
    bool lost = false;
    for (int begin = 0; begin < k_ / kVec && !__any_sync(0xffffffffu, lost); begin += 32) {
      const int col = begin + lane();
      if (col >= k_ / kVec) continue;
      const int byte = scale(col);
      lost = byte == kE8M0NaN || ((!has_exponent || byte < largest_ - 3) && has_numbers(col));
    }
    return !__any_sync(0xffffffffu, lost);
  }

  // Where it fits.
  __device__ __forceinline__ void convert(uint8_t* out, uint8_t& exponent) const {
    constexpr int kLaneElements = 16, kSpanElements = 32 * kLaneElements;
    // 2^(largest - 127) is the scale of the row's largest elements, which are eight times as large here, and in halves
    constexpr int kFieldLessByte = -127 - 3 - 1 + 127;
    if (lane() == 0)
      exponent = static_cast<uint8_t>(min(max(largest_, kLeastExponent), kMostExponent) + kFieldLessByte);
    for (int begin = lane() * kLaneElements; begin < k_; begin += kSpans * kSpanElements) {
      CodeWords<2> loaded[kSpans];
      int bytes[kSpans];
#pragma unroll
      for (int span = 0; span < kSpans; ++span) {
        const int at = begin + span * kSpanElements;
        if (at >= k_) continue;
        loaded[span] = *reinterpret_cast<const CodeWords<2>*>(codes_ + at / 2);
        bytes[span] = scale(at / kVec);
      }
#pragma unroll
      for (int span = 0; span < kSpans; ++span) {
        const int at = begin + span * kSpanElements;
        if (at >= k_) continue;
        const Int8Table table(max(bytes[span] - (largest_ - 3), 0));
        const uint2 first = table.decode(loaded[span].words[0]), second = table.decode(loaded[span].words[1]);
        *reinterpret_cast<uint4*>(out + at) = {first.x, first.y, second.x, second.y};
      }
    }
  }

 private:
  static constexpr int kVec = 32;

  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ __forceinline__ int scale(int col) const { return scales_[strides_.of_col(col)]; }
  // Whether a block is more than zeros.
  __device__ __forceinline__ bool has_numbers(int col) const {
    const auto block = *reinterpret_cast<const CodeWords<4>*>(codes_ + col * (kVec / 2));
    return ((block.words[0] | block.words[1] | block.words[2] | block.words[3]) & 0x77777777) != 0;
  }

  const uint8_t* codes_;
  const uint8_t* scales_;
  const ScaleStrides& strides_;
  int k_;
  int largest_;  // of its scales, as their bytes
};

// ---- kernels ----

// The row of this warp, in a CTA that has group `group` of kRowsPerCta rows: first come those of a.
struct WarpRow {
  bool is_b;
  int64_t row;
  bool exists;

  __device__ __forceinline__ WarpRow(const BlockScaledProblem& problem, unsigned group) {
    const int64_t groups_a = row_groups(problem.m);
    is_b = group >= groups_a;
    row = (group - (is_b ? groups_a : 0)) * kRowsPerCta + threadIdx.x / 32;
    exists = row < (is_b ? problem.n : problem.m);
  }
};

// Leaves the CTA's word, and returns it.
__device__ __forceinline__ bool leave_word(const PrepareParams& params, bool lost) {
  const int any = __syncthreads_or(lost);
  if (threadIdx.x == 0) params.words[blockIdx.x] = static_cast<uint32_t>(any);
  return any != 0;
}

template <ElementType kA, ElementType kB, ScaleType kScale>
__global__ void __launch_bounds__(kThreads) prepare_bfloat16(const __grid_constant__ PrepareParams params) {
  ptx::grid_dependency_wait();
  if (!holds(params.problem.condition)) return;
  const BlockScaledProblem& problem = params.problem;
  const int k = static_cast<int>(problem.k);
  const auto strips = static_cast<unsigned>(params.strips);
  const WarpRow warp(problem, blockIdx.x / strips);
  bool lost = false;
  if (warp.exists)
    for (int begin = static_cast<int>(blockIdx.x % strips) * kStripElements; begin < k;
         begin += params.strips * kStripElements)
      lost |= warp.is_b ? strip_to_bfloat16<kB, kScale>(problem.b, warp.row, begin, k, params.b.rows)
                        : strip_to_bfloat16<kA, kScale>(problem.a, warp.row, begin, k, params.a.rows);
  leave_word(params, lost);
}

// A CTA one of whose rows does not fit leaves the others, too: nobody will multiply them.
__global__ void __launch_bounds__(kThreads) prepare_int8(const __grid_constant__ PrepareParams params) {
  ptx::grid_dependency_wait();
  const int k = static_cast<int>(params.problem.k);
  const WarpRow warp(params.problem, blockIdx.x);
  const PreparedOperand& prepared = warp.is_b ? params.b : params.a;
  const Int8Row row(warp.is_b ? params.problem.b : params.problem.a, warp.exists ? warp.row : 0, k);
  if (leave_word(params, warp.exists && !row.fits())) return;
  if (warp.exists) row.convert(static_cast<uint8_t*>(prepared.rows) + warp.row * k, prepared.exponents[warp.row]);
}

void launch_prepare(const void* kernel, const PrepareParams& params, cudaStream_t stream) {
  PrepareParams copy = params;
  const int64_t ctas = prepare_ctas(params.problem, params.strips);
  launch(kernel, dim3(static_cast<unsigned>(ctas)), kThreads, &copy, stream);
}

}  // namespace

void run_prepare_bfloat16(const PrepareParams& params, cudaStream_t stream) {
  constexpr auto e4m3 = ElementType::kE4M3, e2m1 = ElementType::kE2M1;
  constexpr auto e8m0 = ScaleType::kE8M0;
  const auto kernel = [&] {
    if (params.problem.scale_type == ScaleType::kE4M3) return prepare_bfloat16<e2m1, e2m1, ScaleType::kE4M3>;
    const bool a_is_e4m3 = params.problem.a.element == e4m3, b_is_e4m3 = params.problem.b.element == e4m3;
    if (a_is_e4m3) return b_is_e4m3 ? prepare_bfloat16<e4m3, e4m3, e8m0> : prepare_bfloat16<e4m3, e2m1, e8m0>;
    return b_is_e4m3 ? prepare_bfloat16<e2m1, e4m3, e8m0> : prepare_bfloat16<e2m1, e2m1, e8m0>;
  }();
  launch_prepare(reinterpret_cast<const void*>(kernel), params, stream);
}

void run_prepare_int8(const PrepareParams& params, cudaStream_t stream) {
  launch_prepare(reinterpret_cast<const void*>(&prepare_int8), params, stream);
}

}  // namespace tileon::sm90
