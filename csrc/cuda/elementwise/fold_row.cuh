// The fold of a row (core/fold.h) by some warps, which hold it in registers while its largest element is found; their
// lanes take blocks of 32 k in turn. Of longer rows what does not fit is read again, from a cache.
#pragma once

#include <cstdint>

#include "cuda/elementwise/fold_codes.cuh"
#include "cuda/ptx/shared.cuh"

namespace tileon {

struct FoldOperand {
  ScaledKernelOperand operand;
  int64_t rows, blocks, pitch;
  uint8_t* codes;
  float* scales;
  bool is_interleaved;
};

__device__ __forceinline__ uint32_t load_scale(const ScaledKernelOperand& operand, int64_t row, int block) {
  return static_cast<const uint8_t*>(operand.scale)[operand.scale_strides.offset(row, block)];
}

__device__ __forceinline__ int largest_of_warp(int value) {
#pragma unroll
  for (int lane = 16; lane > 0; lane /= 2) value = max(value, __shfl_xor_sync(0xffffffff, value, lane));
  return value;
}

// A row of some warps, `part` of which this one is. Its lanes walk over blocks that are theirs.
template <int kBits, int kRowWarps, int kHeldBlocks>
class FoldedRow {
  using Codes = BlockCodes<kBits>;

 public:
  __device__ __forceinline__ FoldedRow(const FoldOperand& of, int64_t row, int part)
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
    for_each_other([&](int, const Codes& codes, uint32_t scale) {  // blocks behind the row are zeros
      largest = max(largest, fold_magnitude(codes.largest(), scale));
    });
    return largest_of_warp(largest);
  }

  // With the largest of the whole row.
  __device__ __forceinline__ void store_folded(int magnitude) const {
    const int power = fold_power(magnitude);
    if (part_ == 0 && lane() == 0) of_.scales[row_] = fold_scale(power);
#pragma unroll
    for (int i = 0; i < kHeldBlocks; ++i)
      if (first_block(i) < blocks_) store(block(i), held_[i], fold_factor(scales_[i], power));
    for_each_other([&](int at, const Codes& codes, uint32_t scale) { store(at, codes, fold_factor(scale, power)); });
  }

 private:
  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ __forceinline__ int first_block(int i) const { return 32 * (part_ + kRowWarps * i); }  // of the warp
  __device__ __forceinline__ int block(int i) const { return first_block(i) + lane(); }

  __device__ __forceinline__ void load(int block, Codes& codes, uint32_t& scale) const {
    codes = load_codes<kBits>(of_.operand, row_, block);
    scale = load_scale(of_.operand, row_, block);
  }

  // By all of a warp's lanes. Two neighbours store the block of the first one, then that of the second: whole sectors
  // of memory at a time.
  __device__ __forceinline__ void store(int block, const Codes& codes, float factor) const {
    uint4 out[2];
    codes.folded(factor, out);
    const auto [first, second] = out;
    const uint4 low = of_.is_interleaved ? uint4{first.x, first.z, second.x, second.z} : first;
    const uint4 high = of_.is_interleaved ? uint4{first.y, first.w, second.y, second.w} : second;
    const bool is_second = block % 2 != 0;
    const uint4 of_neighbour = exchanged(is_second ? low : high);
    auto* to = reinterpret_cast<uint4*>(of_.codes + row_ * of_.pitch + int64_t{block - is_second} * kFoldBlock);
    if (block - is_second < blocks_) to[is_second] = is_second ? of_neighbour : low;
    if (block - is_second + 1 < blocks_) to[2 + is_second] = is_second ? high : of_neighbour;
  }

  static __device__ __forceinline__ uint4 exchanged(const uint4& of_lane) {
    const auto of_neighbour = [](uint32_t word) { return __shfl_xor_sync(0xffffffff, word, 1); };
    return {of_neighbour(of_lane.x), of_neighbour(of_lane.y), of_neighbour(of_lane.z), of_neighbour(of_lane.w)};
  }

  // Calls use(block, codes, scale) for the lane's blocks that it does not hold, and those behind the row beside them.
  template <typename Use>
  __device__ __forceinline__ void for_each_other(const Use& use) const {
#pragma unroll 1
    for (int i = kHeldBlocks; first_block(i) < blocks_; ++i) {
      Codes codes{};
      uint32_t scale = 0;
      if (block(i) < blocks_) load(block(i), codes, scale);
      use(block(i), codes, scale);
    }
  }

  const FoldOperand& of_;
  int64_t row_;
  int blocks_;  // of k
  int part_;
  Codes held_[kHeldBlocks] = {};
  uint32_t scales_[kHeldBlocks] = {};
};

// The largest magnitude of each warp's part of a row.
struct Magnitudes {
  int of_warp[kFoldWarps];
};

// All warps of the CTA take part; those whose row is beyond the operand's read nothing.
template <int kBits, int kRowWarps, int kHeldBlocks>
__device__ __forceinline__ void fold_rows(const FoldOperand& of, int64_t first_row) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int64_t row = first_row + warp / kRowWarps;
  if constexpr (kRowWarps == 1) {
    if (row >= of.rows) return;
    const FoldedRow<kBits, 1, kHeldBlocks> mine(of, row, 0);
    mine.store_folded(mine.magnitude());
  } else {
    Magnitudes& magnitudes = ptx::static_shared<Magnitudes>();
    const FoldedRow<kBits, kRowWarps, kHeldBlocks> mine(of, row, warp % kRowWarps);
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

}  // namespace tileon
