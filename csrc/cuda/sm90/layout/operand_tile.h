// How an operand lies in global memory, where TMA reads it, and its tile in shared memory, where TMA writes it and
// wgmma reads it.
#pragma once

#include <cstdint>

#include "core/host_device.h"
#include "core/problem.h"
#include "cuda/common/kernel_choice.h"

namespace tileon::sm90 {

// ---- in global memory: what TMA can read and write, a pure function of pointer and strides ----

struct TmaAccess {
  bool readable;
  Major major;         // where readable
  int64_t line_bytes;  // from one line along the other dimension to the next

  bool reads_along_k() const { return readable && major == Major::kK; }
};

constexpr int64_t kTmaAlignment = 16;
constexpr int64_t kTmaMaxStride = int64_t{1} << 40;  // bytes, exclusive

constexpr bool tma_stride(int64_t bytes) { return bytes > 0 && bytes < kTmaMaxStride && bytes % kTmaAlignment == 0; }

// `mn` and `k` are the operand's sizes: the stride of a dimension of size 1 (or 0) is never used, so it may be
// anything.
inline TmaAccess tma_access(const Matrix& operand, int64_t batch, int64_t mn, int64_t k, int element_bytes) {
  if (batch == 0 || mn == 0 || k == 0) return {true, Major::kK, kTmaAlignment};  // nothing is read
  if (reinterpret_cast<uintptr_t>(operand.data) % kTmaAlignment != 0) return {false, Major::kK, 0};
  const bool shared = batch == 1 || operand.stride_batch == 0;
  if (!shared && !tma_stride(operand.stride_batch * element_bytes)) return {false, Major::kK, 0};
  if (operand.stride_k == 1 || k == 1) {
    const int64_t line = mn == 1 ? kTmaAlignment : operand.stride_mn * element_bytes;
    if (tma_stride(line)) return {true, Major::kK, line};
  }
  if (operand.stride_mn == 1 || mn == 1) {
    const int64_t line = k == 1 ? kTmaAlignment : operand.stride_k * element_bytes;
    if (tma_stride(line)) return {true, Major::kMn, line};
  }
  return {false, Major::kK, 0};
}

// Of both operands of a product, whose elements have so many bytes.
struct TmaAccesses {
  TmaAccess a, b;

  TmaAccesses(const Problem& problem, int element_bytes)
      : a(tma_access(problem.a, problem.batch, problem.m, problem.k, element_bytes)),
        b(tma_access(problem.b, problem.batch, problem.n, problem.k, element_bytes)) {}
};

// Whether TMA can write the output, rows of n elements. It writes whole 16 bytes: rows that end within some would have
// what lies behind them overwritten.
inline bool tma_can_write(const Output& out, int64_t batch, int64_t m, int64_t n, int element_bytes) {
  return reinterpret_cast<uintptr_t>(out.data) % kTmaAlignment == 0 && n * element_bytes % kTmaAlignment == 0 &&
         out.stride_n == 1 && (m == 1 || tma_stride(out.stride_m * element_bytes)) &&
         (batch == 1 || tma_stride(out.stride_batch * element_bytes));
}

// ---- in shared memory ----

constexpr int kLineBytes = 128;   // a line of the 128-byte swizzle
constexpr int kMmaKBytes = 32;    // k of one wgmma
constexpr int kElementBytes = 2;  // of float16 and bfloat16, in whose elements kPanel and kMmaK count
constexpr int kPanel = kLineBytes / kElementBytes;
constexpr int kMmaK = kMmaKBytes / kElementBytes;

// Of fp8, a's and b's elements are either one of __nv_fp8_e4m3 and __nv_fp8_e5m2.
template <typename A_, typename B_>
struct Float8 {
  using A = A_;
  using B = B_;
};

// Float32 as three bfloat16, whose planes are stages in turn (layout/encoding.h).
struct Bf16x3 {};

// Float32, of which TMA rounds every number to tf32 on its way.
struct Tf32 {};
constexpr int kTf32Bytes = 4;

// The tile is cut into panels, 128 bytes wide along the operand's major dimension: P elements, which are 32 of 32 bits,
// 64 of 16 bits and 128 of 8 bits. A panel is a stack of lines along the other dimension, 128-byte swizzled. One box of
// TMA is one panel, or all of them.
//   k-major:  panel = P of k,  line = one row of a (column of b)     [block_k / P][tile_mn][P]
//   mn-major: panel = P of mn, line = one k                          [ceil(tile_mn / P)][block_k][P]
// An mn-major tile, of 16 or 32 bits, is loaded in whole panels: narrower ones are slow to read.
struct TilePanels {
  int panel;  // elements
  int lines;  // of one panel
  int panels;
  // All panels of a tile can come in one box where tiles begin at whole panels of the tensor.
  bool tiles_begin_at_panels;

  constexpr TilePanels(Major major, int tile_mn, int block_k, int element_bytes = kElementBytes)
      : panel(kLineBytes / element_bytes),
        lines(major == Major::kK ? tile_mn : block_k),
        panels(major == Major::kK ? block_k / panel : (tile_mn + panel - 1) / panel),
        tiles_begin_at_panels(major == Major::kK || tile_mn % panel == 0) {}

  constexpr int bytes() const { return panels * lines * kLineBytes; }

  // One of `parts` parts of a tile: of every panel so many lines less, rows of a k-major tile, k of an mn-major one.
  constexpr TilePanels part(int parts) const {
    TilePanels part = *this;
    part.lines /= parts;
    return part;
  }

  // The panels and lines that are loaded of a tensor that ends within its first tile. TMA would fill the rest with
  // zeros, for which it takes longer than for data; what the rest of the tile holds instead goes to rows and columns
  // that the output does not have.
  constexpr TilePanels loaded(Major major, int64_t mn) const {
    TilePanels part = *this;
    if (major == Major::kK && mn < lines) part.lines = static_cast<int>(mn);
    if (major == Major::kMn && mn < int64_t{panels} * panel) part.panels = static_cast<int>((mn + panel - 1) / panel);
    return part;
  }
};
static_assert(TilePanels(Major::kK, 64, 128).loaded(Major::kK, 3).bytes() == 2 * 3 * kLineBytes);
static_assert(TilePanels(Major::kMn, 176, 64).loaded(Major::kMn, 65).bytes() == 2 * 64 * kLineBytes);
static_assert(TilePanels(Major::kMn, 128, 32, kTf32Bytes).bytes() == 128 * 32 * kTf32Bytes);

template <int kTileMn, int kBlockK, Major kMajor, int kBytes = kElementBytes>
struct OperandTile {
  static constexpr TilePanels in_panels{kMajor, kTileMn, kBlockK, kBytes};
  static constexpr Major major = kMajor;
  static constexpr int panels = in_panels.panels;
  static constexpr int panel = in_panels.panel;  // elements
  static constexpr bool tiles_begin_at_panels = in_panels.tiles_begin_at_panels;
  static constexpr int bytes = in_panels.bytes();
  static constexpr int panel_bytes = bytes / panels;
  static constexpr int steps = kBlockK * kBytes / kMmaKBytes;  // of k, one of wgmma's each
  static constexpr int tile_mn = kTileMn;
  static_assert(kMajor == Major::kK || kBytes > 1, "wgmma reads elements of 8 bits along k alone");
  static_assert(kBlockK % panel == 0 && kTileMn % 8 == 0 && panel_bytes <= 256 * kLineBytes && panel_bytes % 1024 == 0);

  // Bytes from the tile's start to where wgmma finds row (column) `mn`, a multiple of 64 (8 where it is the first), and
  // k-step `step`. wgmma finds no elements of 32 bits that are mn-major: mainloop/mma_tf32.cuh reads those.
  static constexpr int kStepsOfPanel = kLineBytes / kMmaKBytes;
  TILEON_HOST_DEVICE static constexpr int offset(int mn, int step) {
    if (kMajor == Major::kK)
      return step / kStepsOfPanel * panel_bytes + step % kStepsOfPanel * kMmaKBytes + mn * kLineBytes;
    return mn / kPanel * panel_bytes + step * kMmaK * kLineBytes;
  }

  // The matrix descriptor (PTX ISA, "Matrix Descriptor Format") of what starts at `shared`, whose low 14 bits count 16
  // bytes: leading byte offset at bit 16, stride byte offset at bit 32, swizzle mode at bit 62 (1: 128 bytes).
  //   k-major:  the stride leads from 8 lines to the next 8; the leading offset is not used.
  //   mn-major: the stride leads from 8 k to the next 8, the leading offset from one panel to the next.
  TILEON_HOST_DEVICE static constexpr uint64_t descriptor(uint32_t shared) {
    constexpr uint64_t leading = kMajor == Major::kK ? 1 : panel_bytes / 16;
    constexpr uint64_t stride = 8 * kLineBytes / 16;
    return ((shared & 0x3ffff) >> 4) | leading << 16 | stride << 32 | uint64_t{1} << 62;
  }
};

// A tile of codes of 4 or 8 bits: rows of 32, 64 or 128 bytes, swizzled by TMA's mode of as many bytes, which exchanges
// a row's 16-byte chunks by the number of its line of 128 bytes. The consumers read it, not wgmma.
template <int kBits, int kBlockK>
struct CodesTile {
  static constexpr int line_bytes = kBlockK * kBits / 8;
  static_assert(line_bytes == 32 || line_bytes == 64 || line_bytes == kLineBytes);
};
constexpr int codes_bytes(int bits, int rows, int block_k) { return rows * block_k * bits / 8; }

static_assert(OperandTile<128, 64, Major::kK>::bytes == 128 * 64 * 2);
static_assert(OperandTile<128, 128, Major::kK, 1>::bytes == 128 * 128 &&
              OperandTile<128, 128, Major::kK, 1>::steps == 4);
static_assert(OperandTile<128, 128, Major::kK>::offset(64, 5) == 128 * 128 + 32 + 64 * 128);
static_assert(OperandTile<176, 64, Major::kMn>::bytes == 192 * 64 * 2);
static_assert(OperandTile<192, 64, Major::kMn>::offset(128, 1) == 2 * 64 * 128 + 16 * 128);

}  // namespace tileon::sm90
