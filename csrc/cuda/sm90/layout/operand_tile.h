// How an operand's tile lies in shared memory: as TMA writes it and as wgmma reads it.
#pragma once

#include <cstdint>

#include "cuda/common/kernel_choice.h"

#ifdef __CUDACC__
#define TILEON_OPERAND_FUNCTION __host__ __device__ __forceinline__ constexpr
#else
#define TILEON_OPERAND_FUNCTION inline constexpr
#endif

namespace tileon::sm90 {

constexpr int kElementBytes = 2;  // float16, bfloat16, a pair of int8
constexpr int kPanel = 64;        // elements along the major dimension: one line of the 128-byte swizzle
constexpr int kLineBytes = kPanel * kElementBytes;
constexpr int kMmaK = 16;  // k of one wgmma

// Elements of 8 bits, as multiplied: two take the place of one of 16 bits in all sizes and offsets.
struct Int8Pair {};

// Of fp8, a's and b's are either one of __nv_fp8_e4m3 and __nv_fp8_e5m2. The tensor core cuts their sums
// (docs/fp8_error.md): `kPromoted` adds those of each stage to float32 outside of it.
template <typename A, typename B, bool kPromoted>
struct Float8Pair {};

// Float32 as three bfloat16, whose planes are stages in turn (layout/bf16x3.h).
struct Bf16x3 {};

// The tile is cut into panels, 64 elements wide along the operand's major dimension; a panel is a stack of lines along
// the other one, 128-byte swizzled. One box of TMA is one panel, or all of them.
//   k-major:  panel = 64 of k,  line = one row of a (column of b)     [block_k / 64][tile_mn][64]
//   mn-major: panel = 64 of mn, line = one k                          [ceil(tile_mn / 64)][block_k][64]
// An mn-major tile is loaded in whole panels: narrower ones are slow to read.
struct TilePanels {
  int lines;  // of one panel
  int panels;
  // All panels of a tile can come in one box where tiles begin at whole panels of the tensor.
  bool tiles_begin_at_panels;

  constexpr TilePanels(Major major, int tile_mn, int block_k)
      : lines(major == Major::kK ? tile_mn : block_k),
        panels(major == Major::kK ? block_k / kPanel : (tile_mn + kPanel - 1) / kPanel),
        tiles_begin_at_panels(major == Major::kK || tile_mn % kPanel == 0) {}

  constexpr int bytes() const { return panels * lines * kLineBytes; }

  // What is loaded of a tensor that ends within its first tile. TMA would fill the rest with zeros, for which it takes
  // longer than for data; what lies there instead goes to rows and columns of the output that there are not.
  constexpr TilePanels loaded(Major major, int64_t mn) const {
    TilePanels part = *this;
    if (major == Major::kK && mn < lines) part.lines = static_cast<int>(mn);
    if (major == Major::kMn && mn < int64_t{panels} * kPanel)
      part.panels = static_cast<int>((mn + kPanel - 1) / kPanel);
    return part;
  }
};
static_assert(TilePanels(Major::kK, 64, 128).loaded(Major::kK, 3).bytes() == 2 * 3 * kLineBytes);
static_assert(TilePanels(Major::kMn, 176, 64).loaded(Major::kMn, 65).bytes() == 2 * 64 * kLineBytes);

template <int kTileMn, int kBlockK, Major kMajor>
struct OperandTile {
  static constexpr Major major = kMajor;
  static constexpr int panels = TilePanels(kMajor, kTileMn, kBlockK).panels;
  static constexpr bool tiles_begin_at_panels = TilePanels(kMajor, kTileMn, kBlockK).tiles_begin_at_panels;
  static constexpr int bytes = TilePanels(kMajor, kTileMn, kBlockK).bytes();
  static constexpr int panel_bytes = bytes / panels;
  static_assert(kBlockK % kPanel == 0 && kTileMn % 8 == 0 && panel_bytes <= 256 * kLineBytes &&
                panel_bytes % 1024 == 0);

  // Bytes from the tile's start to where wgmma finds row (column) `mn`, a multiple of 64 (8 where it is the first), and
  // k-step `step` of 16.
  TILEON_OPERAND_FUNCTION static int offset(int mn, int step) {
    if (kMajor == Major::kK)
      return step / (kPanel / kMmaK) * panel_bytes + step % (kPanel / kMmaK) * kMmaK * kElementBytes + mn * kLineBytes;
    return mn / kPanel * panel_bytes + step * kMmaK * kLineBytes;
  }

  // The matrix descriptor (PTX ISA, "Matrix Descriptor Format") of what starts at `shared`, whose low 14 bits count 16
  // bytes: leading byte offset at bit 16, stride byte offset at bit 32, swizzle mode at bit 62 (1: 128 bytes).
  //   k-major:  the stride leads from 8 lines to the next 8; the leading offset is not used.
  //   mn-major: the stride leads from 8 k to the next 8, the leading offset from one panel to the next.
  TILEON_OPERAND_FUNCTION static uint64_t descriptor(uint32_t shared) {
    constexpr uint64_t leading = kMajor == Major::kK ? 1 : panel_bytes / 16;
    constexpr uint64_t stride = 8 * kLineBytes / 16;
    return ((shared & 0x3ffff) >> 4) | leading << 16 | stride << 32 | uint64_t{1} << 62;
  }
};

static_assert(OperandTile<128, 64, Major::kK>::bytes == 128 * 64 * 2);
static_assert(OperandTile<128, 128, Major::kK>::offset(64, 5) == 128 * 128 + 32 + 64 * 128);
static_assert(OperandTile<176, 64, Major::kMn>::bytes == 192 * 64 * 2);
static_assert(OperandTile<192, 64, Major::kMn>::offset(128, 1) == 2 * 64 * 128 + 16 * 128);

}  // namespace tileon::sm90
