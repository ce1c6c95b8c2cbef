// The main loop of products whose weight alone has scales, codes of 8 bits under float32 scales of its rows or of the
// whole: the consumers convert the codes into registers, which are the rows of wgmma's first operand, while the tensor
// core multiplies what they converted before; `a`, of 16 bits, is the second operand and holds every code exactly. The
// scales multiply the sums (epilogue/weight_scale.cuh).
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/common/pipeline.cuh"
#include "cuda/common/swizzle.h"
#include "cuda/ptx/convert.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/ptx/wgmma.cuh"
#include "cuda/sm90/layout/codes_of_8_bits.cuh"
#include "cuda/sm90/layout/operand_tile.h"
#include "cuda/sm90/mainloop/kernel.cuh"

namespace tileon::sm90 {

// Whether codes of e4m3 that were converted to bfloat16 were NaN, which becomes a number there.
template <bool kMayMeet>
struct MetNaN {
  uint32_t carried = 0;  // a magnitude of 0x7f, NaN, alone reaches the top bit of its byte

  __device__ __forceinline__ void look_at(uint32_t codes) {
    if constexpr (kMayMeet) carried |= (codes & 0x7f7f7f7f) + 0x01010101;
  }
  // Of a row, whose codes the four lanes have that hold its sums.
  __device__ __forceinline__ bool in_row() const {
    uint32_t all = carried;
    all |= __shfl_xor_sync(0xffffffffu, all, 1);
    all |= __shfl_xor_sync(0xffffffffu, all, 2);
    return (all & 0x80808080) != 0;
  }
};

template <typename Kernel>
class WeightCodesMainLoop {
  using TileA = typename Kernel::TileA;
  using TileB = typename Kernel::TileB;
  using Element = typename Kernel::Element;
  static constexpr DType kCode = Kernel::AccumulatorScale::code;
  static constexpr int kSteps = TileA::steps, kStepsAtOnce = kSteps / 2;
  static constexpr bool kMayMeetNaN = kCode == DType::kFloat8E4M3 && !std::is_same_v<Element, __half>;
  using RowNaN = MetNaN<kMayMeetNaN>;
  static_assert(Kernel::swapped && Kernel::row_blocks == 1 && !Kernel::ping_pong && kSteps % kStepsAtOnce == 0);
  static_assert(TileB::line_bytes == kSteps * kChunkBytes, "a chunk is a step's codes of a row");

 public:
  // As PlainMainLoop's. A stage is multiplied in two parts, and the codes of a part are read while the part before is
  // multiplied.
  template <typename Scale, typename DuringLastProduct>
  static __device__ __forceinline__ void multiply(const Pipeline& pipeline, PipelineState& at, int blocks,
                                                  int first_row, const Scale&, typename Kernel::Sums& sums,
                                                  const DuringLastProduct& during_last_product) {
    const bool elected = threadIdx.x % 128 == 0;
    const uint32_t place = Kernel::rows_offset + place_of(first_row);
    RowNaN nan[2];
    Codes codes;
    pipeline.wait_until_full(at);
    load(pipeline.data(at.stage), place, 0, codes);
    int previous = -1;
#pragma unroll 1
    for (int block = 0; block < blocks; ++block) {
      const int stage = at.stage;
      at.advance(pipeline.stages());
#pragma unroll
      for (int first = 0; first < kSteps; first += kStepsAtOnce) {
        issue(pipeline.data(stage), first, codes, first > 0 || block > 0, nan, sums);
        if (first + kStepsAtOnce < kSteps) {
          load(pipeline.data(stage), place, first + kStepsAtOnce, codes);
        } else if (block + 1 < blocks) {
          pipeline.wait_until_full(at);
          load(pipeline.data(at.stage), place, 0, codes);
        }
        ptx::wgmma_wait<1>();  // the part before this one is done: its fragments are free, and so is a stage before
        if (first == 0 && elected && previous >= 0) pipeline.release(previous);
      }
      previous = stage;
    }
    during_last_product();
    ptx::wgmma_wait<0>();
    if (elected) pipeline.release(previous);
    if constexpr (kMayMeetNaN) put_nan(nan, sums);
  }

 private:
  // This thread's codes of a part, four of a row and a step each: as wgmma's fragments want them, k and k + 1, k + 8
  // and k + 9.
  struct Codes {
    uint32_t low[kStepsAtOnce];   // of row lane / 4 of the warp's
    uint32_t high[kStepsAtOnce];  // and of the eighth row behind it
  };

  // Where this thread's first pair of codes lies in a stage: k 2 (lane % 4). TMA exchanges the chunks of a row by the
  // number of its line of 128 bytes.
  static __device__ __forceinline__ uint32_t place_of(int first_row) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int row = first_row + static_cast<int>(threadIdx.x) % 128 / 32 * 16 + lane / 4;
    constexpr int rows_of_line = kLineBytes / TileB::line_bytes;
    return row * TileB::line_bytes + row / rows_of_line % kSteps * kChunkBytes + lane % 4 * 2;
  }

  // Of steps from `first` on.
  static __device__ __forceinline__ void load(uint32_t stage, uint32_t place, int first, Codes& codes) {
    constexpr uint32_t kEighthRow = 8 * TileB::line_bytes;
    const auto load_four = [](uint32_t from) {
      return ptx::prmt(ptx::load_shared_2(from), ptx::load_shared_2(from + 8), 0x5410);
    };
#pragma unroll
    for (int i = 0; i < kStepsAtOnce; ++i) {
      const uint32_t from = stage + (place ^ (first + i) * kChunkBytes);
      codes.low[i] = load_four(from);
      codes.high[i] = load_four(from + kEighthRow);
    }
  }

  static __device__ __forceinline__ void issue(uint32_t stage, int first, const Codes& codes, int accumulate,
                                               RowNaN (&nan)[2], typename Kernel::Sums& sums) {
    const uint64_t a = TileA::descriptor(stage + Kernel::columns_offset);
    uint32_t fragments[kStepsAtOnce][4];
#pragma unroll
    for (int i = 0; i < kStepsAtOnce; ++i) {
      nan[0].look_at(codes.low[i]);
      nan[1].look_at(codes.high[i]);
      convert_codes<Element, kCode>(codes.low[i], fragments[i][0], fragments[i][2]);
      convert_codes<Element, kCode>(codes.high[i], fragments[i][1], fragments[i][3]);
    }
    ptx::wgmma_fence();
#pragma unroll
    for (int i = 0; i < kStepsAtOnce; ++i)
      ptx::wgmma_m64k16<Element, Kernel::columns>(sums[0], fragments[i], a + TileA::offset(0, first + i) / 16,
                                                  i > 0 ? 1 : accumulate);
    ptx::wgmma_commit();
  }

  static __device__ __forceinline__ void put_nan(const RowNaN (&nan)[2], typename Kernel::Sums& sums) {
    const bool in_rows[2] = {nan[0].in_row(), nan[1].in_row()};
    if (!in_rows[0] && !in_rows[1]) return;
#pragma unroll
    for (int i = 0; i < Kernel::columns / 2; ++i)
      if (in_rows[i / 2 % 2]) sums[0][i] = __int_as_float(0x7fffffff);
  }
};

}  // namespace tileon::sm90
