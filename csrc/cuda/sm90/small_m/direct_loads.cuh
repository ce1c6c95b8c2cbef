// What a warp of the kernels of direct.cuh reads: codes and scales of its rows of the weight, straight into registers;
// its rows of `a`, through shared memory.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <type_traits>

#include "cuda/common/swizzle.h"
#include "cuda/ptx/convert.cuh"
#include "cuda/ptx/cp_async.cuh"
#include "cuda/ptx/load_once.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/sm90/heuristics/direct_weight.h"
#include "cuda/sm90/layout/codes_of_8_bits.cuh"
#include "cuda/sm90/layout/kernel_params.h"
#include "cuda/sm90/small_m/elements.cuh"

namespace tileon::sm90 {

// The types and sizes of one kernel. A panel is what mma.sync takes at once: 16 rows of the weight, 8 of `a`.
template <int kTileM, int kTileN, DType kA, DType kB, ScaleType kScale>
struct DirectWeightTypes {
  static constexpr SmallMFormat format{kA, kB, kScale};
  static_assert(format.is_weight_only() && kTileM % kPanelRowsOfA == 0 && kTileN % kPanelRowsOfB == 0);
  static constexpr DType b = kB;
  static constexpr int tile_m = kTileM, tile_n = kTileN;
  static constexpr int panels_m = kTileM / kPanelRowsOfA, panels_n = kTileN / kPanelRowsOfB;
  using Element = ElementOf<kA, kB, kScale>;            // as multiplied
  static constexpr int pieces = direct_pieces(format);  // of a lane, in a chunk of k: sixteen bytes of a row each
  static constexpr int piece_k = format.chunk();        // of a piece; that of the next lane follows
  static constexpr int eights = piece_k / 8;
  static constexpr bool is_e2m1 = kB == DType::kFloat4E2M1;
  static constexpr bool has_block_scales = !format.has_float32_scales();
  static constexpr bool is_mxfp8 = has_block_scales && !is_e2m1;
  // NaN of e4m3 becomes a number of bfloat16: rows that had one are NaN in the end.
  static constexpr bool loses_nan = kB == DType::kFloat8E4M3 && std::is_same_v<Element, __nv_bfloat16>;
  // Of a row's scales in a chunk: columns, and of a lane's word of them the byte that is for these eight codes.
  static constexpr int chunk_scales = has_block_scales ? kDirectChunkK / format.vec() : 0;
  static constexpr int scale_byte(int piece, int eight) {
    return is_mxfp8 ? 2 * piece : eight * (chunk_scales / 4) / eights;
  }
  // Bytes of two rows' words that are a lane's own (prmt).
  static constexpr uint32_t own_scales = is_mxfp8 ? 0x6420 : chunk_scales == 8 ? 0x5410 : 0x4040;
  // Whether float16 has to hold elements under scales of e8m0, which span more than it does.
  static constexpr bool has_windows = std::is_same_v<Element, __half> && kScale == ScaleType::kE8M0;
  // Whether scales are not loaded either where the chunk is not wanted. Of float16 by nvfp4 ptxas moves loads that are
  // always done to where the scales are needed, and waits for memory there: 2 to 4 % of the time. The others lose 1 %
  // by the condition.
  static constexpr bool loads_wanted_scales = std::is_same_v<Element, __half> && kScale == ScaleType::kE4M3;
  // Whether two multiplications by a scale may be needed.
  static constexpr bool has_large_scales = has_block_scales && (std::is_same_v<Element, __nv_bfloat16> || has_windows);
  using Scale = std::conditional_t<is_mxfp8, MovedE4M3Scale,
                                   std::conditional_t<has_windows, RaisedFloat16Scale<0>, MovedScale<Element, kScale>>>;

  static constexpr float lacked_factor() {
    if constexpr (is_e2m1) return Scale::kLackedFactor;
    return 1.0f;
  }
  using Sums = float[panels_n][panels_m][4];
};

// A lane's part of a chunk: of each panel the row lane / 4, and the eighth row behind it. Of a row's scales a word of
// four, then the lane's own in the lowest bytes.
template <typename Kernel>
struct DirectCodes {
  uint4 of_row[Kernel::panels_n][2][Kernel::pieces];
  uint32_t scales[Kernel::panels_n][2];
};

// Where the rows of a lane's panels begin. Rows of a tile beyond the last one repeat its codes, under scales of the
// padding; their sums are not stored. Beyond the end of k a lane repeats codes and scales of its own, for `a` is 0
// there: no load is in a branch, and what is not finite makes its row so in any case.
template <typename Kernel>
class DirectRows {
 public:
  __device__ __forceinline__ DirectRows(const ScaledKernelProblem& problem, int first_row, int lane)
      : k_(static_cast<int>(problem.k)), lane_begin_(lane % 4 * Kernel::piece_k) {
    if (lane_begin_ >= k_) lane_begin_ = 0;
    last_chunk_ = (k_ - 1 - lane_begin_) / kDirectChunkK;
    const ScaledKernelOperand& b = problem.b;
#pragma unroll
    for (int panel = 0; panel < Kernel::panels_n; ++panel)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int64_t row = min(int64_t{first_row} + panel * kPanelRowsApart + half * 8 + lane / 4, problem.n - 1);
        codes_[panel][half] = static_cast<const uint8_t*>(b.data) + row * b.stride_row + bytes_of(lane_begin_);
        ptx::pin(codes_[panel][half]);
        const int at = first_row + panel * kPanelRowsApart + half * 8 + lane / 4;
        if (Kernel::has_windows && at >= problem.n) missing_ |= 1u << (2 * panel + half);
      }
    if constexpr (Kernel::has_block_scales) {
      static_assert(kPanelRowsApart == kScaleRowsApart);
      const int column = lane_begin_ / Kernel::format.vec();  // of the chunk's scales, the lane's first
      scales_ = static_cast<const uint8_t*>(b.scale) + b.scale_strides.of_row(first_row + lane / 4) +
                column / kScaleBlockCols * kScaleBlockBytes;
      shift_ = column % kScaleBlockCols * 8;
    }
  }

  // No codes where the chunk is not wanted. Not a branch: behind one ptxas may let this chunk's products go ahead of
  // the loads.
  __device__ __forceinline__ void load(int chunk, bool is_wanted, DirectCodes<Kernel>& codes) const {
    const int held = min(chunk, last_chunk_);
    const uint32_t begin = static_cast<uint32_t>(held) * bytes_of(kDirectChunkK);
    constexpr uint32_t kChunkScales = Kernel::chunk_scales / kScaleBlockCols * kScaleBlockBytes;
    const uint64_t scales = uint64_t{static_cast<uint32_t>(held)} * kChunkScales;
#pragma unroll
    for (int panel = 0; panel < Kernel::panels_n; ++panel)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int piece = 0; piece < Kernel::pieces; ++piece) {
          const uint32_t of_piece = is_held(held, piece) ? piece * bytes_of(4 * Kernel::piece_k) : 0;
          codes.of_row[panel][half][piece] = ptx::load_once_16(codes_[panel][half] + begin + of_piece, is_wanted);
        }
        if constexpr (Kernel::has_block_scales) {
          const auto* word = reinterpret_cast<const uint32_t*>(scales_ + scales) + kEightRows * half + panel;
          codes.scales[panel][half] = Kernel::loads_wanted_scales ? ptx::load_4(word, is_wanted) : __ldg(word);
        }
      }
  }

  // What `load` has brought of scales, the lane's own first. Not on their way here, where the lane would wait for them.
  __device__ __forceinline__ void move_scales(int chunk, DirectCodes<Kernel>& codes) const {
    if constexpr (Kernel::has_block_scales) {
      constexpr int kLast = Kernel::pieces - 1;
      const bool repeats_first = !is_held(min(chunk, last_chunk_), kLast);
#pragma unroll
      for (int panel = 0; panel < Kernel::panels_n; ++panel)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          uint32_t& word = codes.scales[panel][half];
          word >>= shift_;
          if (Kernel::has_windows && (missing_ >> (2 * panel + half) & 1) != 0) word = kE8M0One * 0x01010101;
          if (kLast > 0 && repeats_first) word = ptx::prmt(word, 0, 0x1010);
        }
    }
  }

 private:
  static constexpr int kEightRows = static_cast<int>(packed_scales(0).of_row(8)) / 4;  // words
  static constexpr uint32_t bytes_of(int k) { return static_cast<uint32_t>(k) / Kernel::format.chunk() * kChunkBytes; }

  // Whether the piece is not beyond the end of k; the first one of a chunk never is.
  __device__ __forceinline__ bool is_held(int held, int piece) const {
    return piece == 0 || held * kDirectChunkK + piece * 4 * Kernel::piece_k + lane_begin_ < k_;
  }

  const uint8_t* codes_[Kernel::panels_n][2];
  const uint8_t* scales_;  // of the first panel's low row; in packed blocks the other panels' words follow it
  int k_, lane_begin_, last_chunk_, shift_;
  // Of panels' rows, two bits a panel, those that are not there, where the padding's scales may ask for a slower way.
  uint32_t missing_ = 0;
};

// A warp's rows of `a`, by chunks of k, in stages of shared memory that no other warp has. A row of a chunk is sixteen
// slots of sixteen bytes. They are copied along the row, two rows at once, and read by each lane at its own codes' k.
// Loads into registers would touch sixteen lines of L1 at once beside fp4, eight beside 8 bits, where copies touch
// four.
template <typename Kernel>
class DirectColumns {
 public:
  // `stages`: an address in shared memory, a multiple of 128.
  __device__ __forceinline__ DirectColumns(const ScaledKernelProblem& problem, int m_begin, uint32_t stages, int lane)
      : two_rows_(2 * problem.a.stride_row) {
    const int copied_row = lane / kSlots, copied_slot = lane % kSlots;
    from_ = static_cast<const uint16_t*>(problem.a.data) + (m_begin + copied_row) * problem.a.stride_row +
            copied_slot * kSlotK;
    ptx::pin(from_);
    to_ = stages + at(copied_row, copied_slot);
    rows_ = static_cast<int>(problem.m) - m_begin - copied_row;
    k_ = static_cast<int>(problem.k) - copied_slot * kSlotK;
    first_ = stages + at(lane / 4, lane % 4 * Kernel::eights);
  }

  // Starts copies of a chunk, as one group: zeros beyond the end of k. Rows that are not there keep what they have, and
  // only sums of theirs see it.
  __device__ __forceinline__ void copy(int chunk, int stage) const {
    const int begin = chunk * kDirectChunkK;
    const uint16_t* from = from_ + begin;
#pragma unroll
    for (int row = 0; row < Kernel::tile_m; row += 2, from += two_rows_)
      if (row < rows_) ptx::cp_async_16(to_ + stage * kStageBytes + row * kRowBytes, from, begin < k_ ? 16 : 0);
    ptx::cp_async_commit();
  }

  // Of the k of a lane's piece, eight elements of each row, from the 8 `eight`-th on, in the order that decoded codes
  // have.
  __device__ __forceinline__ void load(int stage, int piece, int eight, uint4 (&pairs)[Kernel::panels_m]) const {
#pragma unroll
    for (int panel = 0; panel < Kernel::panels_m; ++panel) {
      const int row_and_piece = panel * kPanelRowsOfA * kRowBytes + piece * (4 * Kernel::eights * kSlotBytes);
      uint32_t words[4];
      ptx::load_shared_words(words, (first_ ^ (eight * kSlotBytes)) + stage * kStageBytes + row_and_piece);
      pairs[panel] = in_pairs<typename Kernel::Element, Kernel::is_e2m1>(words);
    }
  }

 private:
  static constexpr int kSlotBytes = 16, kSlotK = kSlotBytes / 2, kSlots = kDirectChunkK / kSlotK;
  static constexpr int kRowBytes = kDirectChunkK * 2, kStageBytes = Kernel::tile_m * kRowBytes;

  // Where a slot of a row lies in a stage. Eight lanes read at once, four of each of two rows. Slots of a lane trade
  // places, by the row and by the half of the row, so that the eight meet all banks. Slot i of a lane lies at the place
  // of its slot 0, ^ i.
  static __device__ __forceinline__ uint32_t at(int row, int slot) {
    const int turned = Kernel::eights == 4 ? slot ^ (row % 2 * 2) ^ (slot / (kSlots / 2)) : slot ^ (row % 2);
    return row * kRowBytes + turned * kSlotBytes;
  }

  const uint16_t* from_;
  int64_t two_rows_;
  uint32_t to_, first_;
  int rows_, k_;  // from the lane's copies on
};

}  // namespace tileon::sm90
