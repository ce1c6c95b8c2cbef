// What a warp of the kernels of direct.cuh does with the codes of a chunk of k: decodes them in registers, under the
// scales of their blocks, and multiplies them by `a`.
#pragma once

#include <cstdint>

#include "cuda/ptx/convert.cuh"
#include "cuda/ptx/mma.cuh"
#include "cuda/sm90/layout/codes_of_8_bits.cuh"
#include "cuda/sm90/small_m/direct_loads.cuh"
#include "cuda/sm90/small_m/elements.cuh"

namespace tileon::sm90 {

__device__ __forceinline__ uint32_t word_of(const uint4& words, int i) {
  return i == 0 ? words.x : i == 1 ? words.y : i == 2 ? words.z : words.w;
}

// Eight codes of sixteen bytes, times their scale where a block has one. `kOrdinary`: MovedScale says what that is.
template <typename Kernel, bool kOrdinary>
__device__ __forceinline__ uint4 decode_eight(const uint4& codes, uint32_t scale_byte, int eight) {
  using Element = typename Kernel::Element;
  if constexpr (!Kernel::has_block_scales) {
    return converted_codes<Element, Kernel::b>(word_of(codes, 2 * eight), word_of(codes, 2 * eight + 1));
  } else {
    using Scale = typename Kernel::Scale;
    uint4 moved;
    if constexpr (Kernel::is_e2m1) {
      moved = move_e2m1<Element>(word_of(codes, eight));
    } else {
      move_e4m3(word_of(codes, 2 * eight), moved.x, moved.y);
      move_e4m3(word_of(codes, 2 * eight + 1), moved.z, moved.w);
    }
    if constexpr (!Kernel::has_large_scales) {
      return multiply(Scale(scale_byte), moved);
    } else if constexpr (kOrdinary) {
      const uint32_t factor = Scale::ordinary(scale_byte * 0x00010001);
      return {multiply_pair<Element>(moved.x, factor), multiply_pair<Element>(moved.y, factor),
              multiply_pair<Element>(moved.z, factor), multiply_pair<Element>(moved.w, factor)};
    } else {
      const Scale scale(scale_byte);
      return multiply_rest(scale, multiply(scale, moved));
    }
  }
}

// Whether a multiplication in one step holds all block scales of the warp.
template <typename Kernel>
__device__ __forceinline__ bool are_ordinary(const uint32_t (&scales)[Kernel::panels_n][2]) {
  if constexpr (!Kernel::has_large_scales) {
    return true;
  } else {
    bool all = true;
#pragma unroll
    for (int panel = 0; panel < Kernel::panels_n; ++panel) {
      const uint32_t own = ptx::prmt(scales[panel][0], scales[panel][1], Kernel::own_scales);
      all &= Kernel::Scale::are_ordinary(own, 0xffffffffu);
    }
    return __all_sync(0xffffffffu, all) != 0;
  }
}

// Of the lane's rows, two bits a panel, those whose codes have a NaN that is lost.
template <typename Kernel>
__device__ __forceinline__ uint32_t lost_rows(const DirectCodes<Kernel>& codes) {
  uint32_t lost = 0;
  if constexpr (Kernel::loses_nan) {
#pragma unroll
    for (int panel = 0; panel < Kernel::panels_n; ++panel)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        uint32_t words[Kernel::pieces * 4];
#pragma unroll
        for (int i = 0; i < Kernel::pieces * 4; ++i) words[i] = word_of(codes.of_row[panel][half][i / 4], i % 4);
        lost |= (is_beyond_bfloat16(words, kE8M0One) ? 1u : 0u) << (2 * panel + half);
      }
  }
  return lost;
}

// Eight k of each lane, of a panel's low rows and of its high ones.
template <typename Kernel>
__device__ __forceinline__ void multiply_eight(const uint4& low, const uint4& high, const uint4 (&a)[Kernel::panels_m],
                                               float (&sums)[Kernel::panels_m][4]) {
  const uint32_t first[4] = {low.x, high.x, low.y, high.y}, second[4] = {low.z, high.z, low.w, high.w};
#pragma unroll
  for (int column = 0; column < Kernel::panels_m; ++column) {
    ptx::mma_m16n8<typename Kernel::Element>(sums[column], first, a[column].x, a[column].y);
    ptx::mma_m16n8<typename Kernel::Element>(sums[column], second, a[column].z, a[column].w);
  }
}

// A pair of elements without what is not finite.
template <typename Element>
__device__ __forceinline__ uint32_t finite_of(uint32_t pair) {
  constexpr uint32_t infinity = std::is_same_v<Element, __half> ? 0x7c00 : 0x7f80;
  const auto finite = [](uint32_t half, uint32_t exponent) { return (half & exponent) == exponent ? 0u : half; };
  return finite(pair & 0xffff, infinity) | finite(pair & 0xffff0000, infinity << 16);
}

template <typename Element, int kPanels>
__device__ __forceinline__ void split_finite(const uint4 (&a)[kPanels], uint4 (&finite)[kPanels],
                                             uint4 (&rest)[kPanels]) {
#pragma unroll
  for (int column = 0; column < kPanels; ++column) {
    const uint4& all = a[column];
    finite[column] = {finite_of<Element>(all.x), finite_of<Element>(all.y), finite_of<Element>(all.z),
                      finite_of<Element>(all.w)};
    rest[column] = {all.x ^ finite[column].x, all.y ^ finite[column].y, all.z ^ finite[column].z,
                    all.w ^ finite[column].w};
  }
}

// Of a scale that only what is not finite is multiplied under: NaN or 1.
__device__ __forceinline__ uint32_t nan_or_one(uint32_t byte) { return byte == kE8M0NaN ? byte : uint32_t{kE8M0One}; }

// Eight k under scales of e8m0 of which some are so small that bfloat16 does not hold every code of e4m3: those are
// taken 2^24 times, and their sums by themselves. Elements under other scales are 0 there, as small ones are among the
// others; so of `a` what is not finite is left out of both, and multiplied by codes without their scales.
template <typename Kernel>
__device__ __forceinline__ void multiply_small(const uint4 (&codes)[2], const uint32_t (&bytes)[2], int eight,
                                               const uint4 (&a)[Kernel::panels_m], float (&sums)[Kernel::panels_m][4]) {
  constexpr uint32_t kRaised = 24;
  uint4 finite[Kernel::panels_m], rest[Kernel::panels_m];
  split_finite<typename Kernel::Element>(a, finite, rest);
  const auto decoded = [&](int half, bool is_wanted, uint32_t byte) {
    const uint4 elements = decode_eight<Kernel, false>(codes[half], byte, eight);
    return is_wanted ? elements : uint4{};
  };
  const bool is_small[2] = {bytes[0] < kFirstBFloat16Scale, bytes[1] < kFirstBFloat16Scale};
  multiply_eight<Kernel>(decoded(0, !is_small[0], bytes[0]), decoded(1, !is_small[1], bytes[1]), finite, sums);
  float small[Kernel::panels_m][4] = {};
  multiply_eight<Kernel>(decoded(0, is_small[0], bytes[0] + kRaised), decoded(1, is_small[1], bytes[1] + kRaised),
                         finite, small);
#pragma unroll
  for (int column = 0; column < Kernel::panels_m; ++column)
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[column][i] += small[column][i] * 0x1p-24f;
  static_assert(kRaised == 24);
  multiply_eight<Kernel>(decoded(0, true, nan_or_one(bytes[0])), decoded(1, true, nan_or_one(bytes[1])), rest, sums);
}

// Eight k under scales of e8m0 of which float16 does not hold all: those of a window are moved, together, to where it
// holds them, and their sums taken by themselves, a window at a time. The first window ends with the largest scales, of
// which float16 makes infinity where float32 does. What is not finite in `a`: as above.
template <typename Kernel>
__device__ __forceinline__ void multiply_in_windows(const uint4 (&codes)[2], const uint32_t (&bytes)[2], int eight,
                                                    const uint4 (&a)[Kernel::panels_m],
                                                    float (&sums)[Kernel::panels_m][4]) {
  using Scale = typename Kernel::Scale;
  static_assert(Scale::kLackedFactor == 1.0f, "sums are float32's up to the largest");
  constexpr int kLast = Scale::kLast, kLargest = kLast + 2;  // the first window's
  constexpr int kWindow = 29, kFirstMoved = 254 - kLargest, kLastMoved = kFirstMoved - 8 * kWindow;
  static_assert(kLast - kWindow + 1 >= int{Scale::kFirst} && kLast - kWindow + 1 + kLastMoved <= 0 && kLastMoved > -127,
                "every scale is in a window, and each window's factor a float32");
  uint4 finite[Kernel::panels_m], rest[Kernel::panels_m];
  split_finite<typename Kernel::Element>(a, finite, rest);
  const auto decoded = [&](int half, bool is_wanted, uint32_t byte) {
    const uint4 elements = decode_eight<Kernel, false>(codes[half], byte, eight);
    return is_wanted ? elements : uint4{};
  };
#pragma unroll 1
  for (int moved = kFirstMoved; moved >= kLastMoved; moved -= kWindow) {
    const int held[2] = {static_cast<int>(bytes[0]) - moved, static_cast<int>(bytes[1]) - moved};
    const int last = moved == kFirstMoved ? kLargest : kLast;
    const auto is_in = [&](int half) {
      return bytes[half] != kE8M0NaN && held[half] > kLast - kWindow && held[half] <= last;
    };
    if (!__any_sync(0xffffffffu, is_in(0) || is_in(1))) continue;
    float of_window[Kernel::panels_m][4] = {};
    multiply_eight<Kernel>(decoded(0, is_in(0), static_cast<uint32_t>(held[0])),
                           decoded(1, is_in(1), static_cast<uint32_t>(held[1])), finite, of_window);
    const float factor = __uint_as_float(static_cast<uint32_t>(moved + 127) << 23);
#pragma unroll
    for (int column = 0; column < Kernel::panels_m; ++column)
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[column][i] += of_window[column][i] * factor;
  }
  multiply_eight<Kernel>(decoded(0, true, nan_or_one(bytes[0])), decoded(1, true, nan_or_one(bytes[1])), rest, sums);
}

// Eight k of each lane, of a panel, under any scales.
template <typename Kernel>
__device__ __forceinline__ void multiply_any(const DirectCodes<Kernel>& codes, int panel, int piece, int eight,
                                             const uint4 (&a)[Kernel::panels_m], float (&sums)[Kernel::panels_m][4]) {
  const auto byte = [&](int half) { return codes.scales[panel][half] >> 8 * Kernel::scale_byte(piece, eight) & 0xff; };
  const uint4 words[2] = {codes.of_row[panel][0][piece], codes.of_row[panel][1][piece]};
  const uint32_t bytes[2] = {byte(0), byte(1)};
  if constexpr (Kernel::is_mxfp8) {
    if (__any_sync(0xffffffffu, min(bytes[0], bytes[1]) < kFirstBFloat16Scale))
      return multiply_small<Kernel>(words, bytes, eight, a, sums);
  }
  if constexpr (Kernel::has_windows) {
    const auto is_held = [&](int half) { return bytes[half] == kE8M0NaN || Kernel::Scale::holds(bytes[half]); };
    if (__any_sync(0xffffffffu, !is_held(0) || !is_held(1)))
      return multiply_in_windows<Kernel>(words, bytes, eight, a, sums);
  }
  multiply_eight<Kernel>(decode_eight<Kernel, false>(words[0], bytes[0], eight),
                         decode_eight<Kernel, false>(words[1], bytes[1], eight), a, sums);
}

// A chunk whose scales are all ordinary.
template <typename Kernel>
__device__ __forceinline__ void multiply_ordinary(const DirectCodes<Kernel>& codes,
                                                  const DirectColumns<Kernel>& columns, int stage,
                                                  typename Kernel::Sums& sums) {
#pragma unroll
  for (int piece = 0; piece < Kernel::pieces; ++piece)
#pragma unroll
    for (int eight = 0; eight < Kernel::eights; ++eight) {
      uint4 a[Kernel::panels_m];
      columns.load(stage, piece, eight, a);
#pragma unroll
      for (int panel = 0; panel < Kernel::panels_n; ++panel) {
        const auto decoded = [&](int half) {
          const uint32_t byte = codes.scales[panel][half] >> 8 * Kernel::scale_byte(piece, eight) & 0xff;
          return decode_eight<Kernel, true>(codes.of_row[panel][half][piece], byte, eight);
        };
        multiply_eight<Kernel>(decoded(0), decoded(1), a, sums[panel]);
      }
    }
}

// A chunk under any scales: little code rather than little time.
template <typename Kernel>
__device__ __forceinline__ void multiply_others(const DirectCodes<Kernel>& codes, const DirectColumns<Kernel>& columns,
                                                int stage, typename Kernel::Sums& sums) {
#pragma unroll
  for (int piece = 0; piece < Kernel::pieces; ++piece)
#pragma unroll 1
    for (int eight = 0; eight < Kernel::eights; ++eight) {
      uint4 a[Kernel::panels_m];
      columns.load(stage, piece, eight, a);
#pragma unroll
      for (int panel = 0; panel < Kernel::panels_n; ++panel)
        multiply_any<Kernel>(codes, panel, piece, eight, a, sums[panel]);
    }
}

// Whether the next chunk is to be loaded: where there is one, or, which does no harm, where the first word of this
// one's codes is kRare. So the loads have to follow this chunk's arrival. ptxas counts loads of both chunks on one
// scoreboard: behind the next one's loads, a wait for this one's codes would be a wait for those too.
template <typename Kernel>
__device__ __forceinline__ bool is_next_wanted(const DirectCodes<Kernel>& codes, bool is_there) {
  constexpr uint32_t kRare = 0x5a3c96e1;  // any that few weights have: there a chunk is loaded once more
  return is_there || codes.of_row[0][0][0].x == kRare;
}

// A warp's sums over its chunks of k: from `first` on every `step`-th. The next one's codes and `a` are under way
// meanwhile. Returns lost_rows of all.
template <typename Kernel>
__device__ __forceinline__ uint32_t multiply_chunks(const DirectRows<Kernel>& rows,
                                                    const DirectColumns<Kernel>& columns, int first, int step,
                                                    int chunks, typename Kernel::Sums& sums) {
  static_assert(kDirectStages == 2);
  uint32_t lost = 0;
  DirectCodes<Kernel> codes[kDirectStages];
  columns.copy(first, 0);
  rows.load(first, first < chunks, codes[0]);
#pragma unroll 1
  for (int chunk = first; chunk < chunks;) {
#pragma unroll
    for (int stage = 0; stage < kDirectStages && chunk < chunks; ++stage, chunk += step) {
      const int next = 1 - stage;
      const auto load_next = [&] {  // behind the branch on this chunk's scales: ptxas moves no loads ahead of that
        columns.copy(chunk + step, next);
        rows.load(chunk + step, is_next_wanted<Kernel>(codes[stage], chunk + step < chunks), codes[next]);
      };
      ptx::cp_async_wait<0>();
      __syncwarp();  // `a` is there for all lanes, and none reads the other stage any more
      rows.move_scales(chunk, codes[stage]);
      lost |= lost_rows<Kernel>(codes[stage]);
      if (are_ordinary<Kernel>(codes[stage].scales)) {
        load_next();
        multiply_ordinary<Kernel>(codes[stage], columns, stage, sums);
      } else {
        load_next();
        multiply_others<Kernel>(codes[stage], columns, stage, sums);
      }
    }
  }
  ptx::cp_async_wait<0>();  // for zeros of a chunk that is not there: sums take their place
  return lost;
}

}  // namespace tileon::sm90
