// Rows to nvfp4, or to the numbers that it stands for, each with a global scale of its own, in one launch: warps that
// share a row read it, find its largest finite magnitude, and encode what they hold of it in registers. The rest of a
// long row is read twice, and the second time mostly from a cache.
#include <algorithm>
#include <cstdint>

#include "core/block_quantize.h"
#include "cuda/common/convert.cuh"
#include "cuda/elementwise/elementwise.h"
#include "cuda/elementwise/lane_codes.cuh"
#include "cuda/elementwise/lane_numbers.cuh"
#include "cuda/elementwise/row_walk.cuh"
#include "cuda/ptx/shared.cuh"

namespace tileon {
namespace {

constexpr FormatInfo kNvfp4 = info(Format::kNvfp4);
static_assert(kNvfp4.vec == kLaneElements, "a lane has whole blocks");

// kRowWarps warps go over a row in segments, of which each lane has kBlocks blocks.
template <typename Element_, bool kVectors_, bool kToNumbers_, int kRowWarps_, int kBlocks_>
struct RowConfig {
  using Element = Element_;
  static constexpr bool kVectors = kVectors_;      // rows are vectors from end to end
  static constexpr bool kToNumbers = kToNumbers_;  // what codes and scales of blocks stand for is written, not these
  static constexpr int kRowWarps = kRowWarps_;
  static constexpr int kBlocks = kBlocks_;
  static constexpr int kRowThreads = 32 * kRowWarps;
  static constexpr int kStep = kRowThreads * kLaneElements;  // from a lane's block to its next one
  static constexpr int kSegment = kBlocks * kStep;           // numbers, of which a lane holds at most 64 bytes
  static constexpr int kResident = kVectors ? 4 : 1;         // CTAs that one SM shall hold, which bounds the registers
  static_assert(kStep / kNvfp4.vec % kScaleBlockCols == 0, "a step is of whole blocks of packed scales");
};

// The magnitudes of a lane's numbers, found anew at each use: kept, they would take as many registers again.
template <typename Element>
struct Magnitudes {
  const LaneNumbers<Element>& lane;

  __device__ __forceinline__ float2 two(int i) const {
    const float2 numbers = lane.two(i);
    return {fabsf(numbers.x), fabsf(numbers.y)};
  }
};

// The largest finite magnitude of a lane's, of which `amax` is the largest.
template <typename Element>
__device__ __forceinline__ float finite_amax(const LaneNumbers<Element>& lane, float amax) {
  if (is_finite_amax(bits_of(amax))) return amax;
  float largest = 0;
#pragma unroll
  for (int i = 0; i < kLaneElements / 2; ++i) {
    const float2 two = Magnitudes<Element>{lane}.two(i);
    if (is_finite_amax(bits_of(two.x))) largest = fmaxf(largest, two.x);
    if (is_finite_amax(bits_of(two.y))) largest = fmaxf(largest, two.y);
  }
  return largest;
}

// A row's own global scale, and the scales of its blocks: the bits of nvfp4_scale (block_quantize.h).
struct RowScale {
  float global, inverse;
  bool is_usual;  // no quotient below that matters is subnormal or infinite

  __device__ __forceinline__ explicit RowScale(float own)
      : global(own), inverse(1.0f / own), is_usual(own > 0x1p-60f && own < 0x1p60f) {}

  __device__ __forceinline__ BlockScale of(float amax) const {
    if (!is_usual) return fast_nvfp4_scale(amax, global, inverse);
    const auto [byte, scale] = e4m3_scale(divide(sixth_of(amax), global, inverse));
    return {byte, divide(inverse, scale, inverse_of_scale(scale))};
  }

 private:
  // x / y as IEEE rounds it, by the inverse of y, itself rounded so: once corrected, the quotient is one of the two
  // float32 beside the true one, and then its exact error decides which (Markstein).
  static __device__ __forceinline__ float divide(float x, float y, float inverse_of_y) {
    float quotient = x * inverse_of_y;
    quotient = fmaf(fmaf(-y, quotient, x), inverse_of_y, quotient);
    return fmaf(fmaf(-y, quotient, x), inverse_of_y, quotient);
  }
};

// A lane's blocks in a segment, and the largest magnitude of each; NaN where one of them is.
template <typename Config>
struct Segment {
  LaneNumbers<typename Config::Element> blocks[Config::kBlocks];
  float amax[Config::kBlocks];

  // Of all the numbers that are finite.
  __device__ __forceinline__ float largest() const {
    float largest = 0;
#pragma unroll
    for (int i = 0; i < Config::kBlocks; ++i) largest = fmaxf(largest, finite_amax(blocks[i], amax[i]));
    return largest;
  }
};

// A row as a lane sees it: x, and what is written of it. `k` is a lane's first number in a segment.
template <typename Config>
struct LaneRow {
  using Element = typename Config::Element;

  const QuantizeProblem& problem;
  int64_t row;
  int64_t end;  // of its numbers; 0 where the row is padding of the scales

  // Where the scales' padding ends, in numbers.
  __device__ __forceinline__ int64_t padded_end() const {
    return scale_col_blocks(problem.k / kNvfp4.vec) * kScaleBlockCols * kNvfp4.vec;
  }

  // Zeros behind the end.
  __device__ __forceinline__ Segment<Config> load(int64_t k) const {
    Segment<Config> segment;
    const Element* from = static_cast<const Element*>(problem.x) + row * problem.stride_row + k * problem.stride_k;
#pragma unroll
    for (int i = 0; i < Config::kBlocks; ++i) {
      segment.blocks[i] = {};
      if (k + i * Config::kStep >= end) continue;
      if constexpr (Config::kVectors) {
        segment.blocks[i] = *reinterpret_cast<const LaneNumbers<Element>*>(from + i * Config::kStep);
      } else {
        segment.blocks[i].gather(from + i * Config::kStep * problem.stride_k, problem.stride_k);
      }
    }
#pragma unroll
    for (int i = 0; i < Config::kBlocks; ++i) segment.amax[i] = lane_amax(segment.blocks[i].magnitudes());
    return segment;
  }

  // Codes up to the end, and scales up to that of their padding.
  __device__ __forceinline__ void store(const Segment<Config>& segment, int64_t k, const RowScale& row_scale) const {
    if constexpr (Config::kToNumbers) return store_numbers(segment, k, row_scale);
    const ScaleStrides packed = packed_scales(problem.k / kNvfp4.vec);
    const int64_t padded = padded_end();
    uint8_t* data = problem.data + (row * problem.k + k) / elements_per_byte(kNvfp4.dtype);
    uint8_t* scales = static_cast<uint8_t*>(problem.scale) + packed.offset(row, k / kNvfp4.vec);
#pragma unroll
    for (int i = 0; i < Config::kBlocks; ++i) {
      const int64_t block_k = k + i * Config::kStep;
      if (block_k >= padded) continue;
      uint8_t byte = 0;
      if (block_k < end) {
        const EncodedBlock block(segment.blocks[i], segment.amax[i], row_scale);
        block.codes.store(data + i * Config::kStep / 2);
        byte = block.scale;
      }
      scales[packed.of_col(i * Config::kStep / kNvfp4.vec)] = byte;
    }
  }

 private:
  struct EncodedBlock {
    LaneCodes<kNvfp4.dtype> codes;
    uint8_t scale;

    __device__ __forceinline__ EncodedBlock(const LaneNumbers<Element>& block, float amax, const RowScale& row_scale) {
      const BlockScale of_block = row_scale.of(amax);
      const bool is_finite = is_finite_amax(bits_of(amax));
      scale = is_finite ? of_block.byte : kE4M3NaN;
      if (is_finite) codes.template encode<false>(block, Magnitudes<Element>{block}, of_block.factor);
    }
  };

  __device__ __forceinline__ void store_numbers(const Segment<Config>& segment, int64_t k,
                                                const RowScale& row_scale) const {
    Element* numbers = static_cast<Element*>(problem.numbers) + row * problem.k + k;
#pragma unroll
    for (int i = 0; i < Config::kBlocks; ++i) {
      if (k + i * Config::kStep >= end) continue;
      const EncodedBlock block(segment.blocks[i], segment.amax[i], row_scale);
      *reinterpret_cast<LaneNumbers<Element>*>(numbers + i * Config::kStep) =
          block.codes.template numbers<Element>(scale_value<kNvfp4.scale>(block.scale));
    }
  }
};

template <typename Config>
__global__ void __launch_bounds__(kWalkWarps * 32, Config::kResident)
    quantize_nvfp4_rows(const __grid_constant__ Nvfp4RowsProblem problem) {
  ptx::grid_dependency_wait();
  ptx::grid_dependency_launch();
  constexpr int rows_at_once = kWalkWarps / Config::kRowWarps;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * rows_at_once + threadIdx.x / Config::kRowThreads;
  const int64_t first = threadIdx.x % Config::kRowThreads * kLaneElements;
  const bool is_row = row < problem.quantize.rows;
  const LaneRow<Config> lane{problem.quantize, row, is_row ? problem.quantize.k : 0};

  const Segment<Config> held = lane.load(first);
  float amax = held.largest();
  for (int64_t k = first + Config::kSegment; k < lane.end; k += Config::kSegment)
    amax = fmaxf(amax, lane.load(k).largest());
  const RowScale scale(nvfp4_global_scale(warps_amax<Config::kRowWarps>(amax)));
  if (first == 0 && is_row) problem.store_row_scale(row, scale.global);

  lane.store(held, first, scale);
  for (int64_t k = first + Config::kSegment; k < lane.padded_end(); k += Config::kSegment)
    lane.store(lane.load(k), k, scale);
}

template <typename Element, bool kVectors, bool kToNumbers>
void launch_rows(const Nvfp4RowsProblem& problem, cudaStream_t stream) {
  const QuantizeProblem& x = problem.quantize;
  const int64_t rows = kToNumbers ? x.rows : scale_row_blocks(x.rows) * kScaleBlockRows, k = x.k;
  if (rows == 0) return;
  const auto launch = [&]<int kRowWarps, int kBlocks>() {
    constexpr int rows_at_once = kWalkWarps / kRowWarps;
    launch_kernel("launching a kernel that quantizes rows",
                  one_cta_for_each((rows + rows_at_once - 1) / rows_at_once, x.may_overlap, stream),
                  &quantize_nvfp4_rows<RowConfig<Element, kVectors, kToNumbers, kRowWarps, kBlocks>>, problem);
  };
  // As many warps as have the row in their registers, of two sizes and one for all longer rows.
  constexpr int span = 32 * kLaneElements;
  if (k <= span) return launch.template operator()<1, 1>();
  if (k <= 4 * span) return launch.template operator()<4, 1>();
  launch.template operator()<kWalkWarps, 4 / sizeof(Element)>();
}

}  // namespace

void run_quantize_nvfp4_rows(const Nvfp4RowsProblem& problem, cudaStream_t stream) {
  visit_elements(problem.quantize.dtype, [&](auto number) {
    using Element = decltype(number);
    const QuantizeProblem& x = problem.quantize;
    const bool vectors = has_vectors(x.x, x.stride_row * int64_t{sizeof(Element)}, x.stride_k, kVectorBytes);
    if constexpr (sizeof(Element) == 2) {
      if (x.numbers != nullptr)
        return vectors ? launch_rows<Element, true, true>(problem, stream)
                       : launch_rows<Element, false, true>(problem, stream);
    }
    vectors ? launch_rows<Element, true, false>(problem, stream) : launch_rows<Element, false, false>(problem, stream);
  });
}

}  // namespace tileon
