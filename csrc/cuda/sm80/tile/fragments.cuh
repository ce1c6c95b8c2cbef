// From a k-block in shared memory to the register fragments of mma.m16n8.
#pragma once

#include <cstdint>

#include "cuda/ptx/matrix_copy.cuh"
#include "cuda/ptx/mma.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/sm80/loaders/operand_tile.cuh"

namespace tileon::sm80 {

enum class Side : int8_t { kA, kB };

constexpr int kBytesPerKStep = 32;  // of k that one mma takes: two chunks

// Loads a warp's fragments, sixteen rows (columns, for b) at a time: four registers each. Where lo and hi are the
// halves of those sixteen and of the k-step, their order is
//   a: (mn lo, k lo), (mn hi, k lo), (mn lo, k hi), (mn hi, k hi): one m16 fragment
//   b: (mn lo, k lo), (mn lo, k hi), (mn hi, k lo), (mn hi, k hi): two n8 fragments
// Offsets are kept as exclusive-or of a part that depends on the lane and a part that does not (see swizzled_chunk).
template <typename Element, typename Tile, Side kSide, int kWarpMn>
class FragmentLoader {
 public:
  static constexpr int kCount = kWarpMn / 16;
  static constexpr int kElementsPerKStep = kBytesPerKStep / int(sizeof(Element));

  __device__ FragmentLoader(int warp_begin, int lane) {
    const int matrix = lane / 8;
    const int mn_half = kSide == Side::kA ? matrix % 2 : matrix / 2;
    const int k_half = kSide == Side::kA ? matrix / 2 : matrix % 2;
    if constexpr (Tile::major == Major::kK) {
      lane_offset_ = Tile::offset(warp_begin + mn_half * 8 + lane % 8, k_half);
    } else if constexpr (sizeof(Element) == 2) {
      lane_offset_ = Tile::offset(k_half * 8 + lane % 8, warp_begin / Tile::elements_per_chunk + mn_half);
    } else {
      const int mn = warp_begin + lane / 4;
      lane_offset_ = Tile::offset(lane % 4, mn / Tile::elements_per_chunk) + mn % Tile::elements_per_chunk * 4;
    }
  }

  __device__ __forceinline__ void load(uint32_t shared, int k_step, uint32_t (&fragments)[kCount][4]) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) load_one(shared, k_step, i, fragments[i]);
  }

  __device__ __forceinline__ void load_one(uint32_t shared, int k_step, int i, uint32_t (&fragment)[4]) const {
    if constexpr (Tile::major == Major::kK) {
      ptx::ldmatrix_x4(fragment, shared + (lane_offset_ ^ (k_step * kBytesPerKStep)) + i * 16 * Tile::row_bytes);
    } else if constexpr (sizeof(Element) == 2) {
      ptx::ldmatrix_x4_trans(fragment,
                             shared + (lane_offset_ ^ (i * 16 * 2)) + k_step * kElementsPerKStep * Tile::row_bytes);
    } else {
      load_words(shared + k_step * kElementsPerKStep * Tile::row_bytes, i, fragment);
    }
    if constexpr (sizeof(Element) == 4) {
#pragma unroll
      for (uint32_t& word : fragment) word = ptx::float_to_tf32(word);
    }
  }

 private:
  // 32-bit elements along mn: no ldmatrix transposes those.
  __device__ __forceinline__ void load_words(uint32_t shared, int i, uint32_t (&fragment)[4]) const {
#pragma unroll
    for (int matrix = 0; matrix < 4; ++matrix) {
      const int mn_half = kSide == Side::kA ? matrix % 2 : matrix / 2;
      const int k_half = kSide == Side::kA ? matrix / 2 : matrix % 2;
      const uint32_t address = shared + (lane_offset_ ^ ((i * 16 + mn_half * 8) * 4)) + k_half * 4 * Tile::row_bytes;
      fragment[matrix] = ptx::load_shared_4(address);
    }
  }

  uint32_t lane_offset_;
};

}  // namespace tileon::sm80
