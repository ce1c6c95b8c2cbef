// A product: activation(global_scale * decode(a) @ decode(b) + bias), whatever the operands hold. Plain structs, which
// cross from torch to the kernels. No torch header and no CUDA header here.
#pragma once

#include <cstdint>

#include "core/epilogue.h"
#include "core/formats.h"

namespace tileon {

// Memory and strides, counted in elements; of e2m1 in bytes, which hold a pair along k. `mn` is an operand's own free
// dimension: m for a, n for b. A stride may be 0 (expanded views).
struct Matrix {
  const void* data = nullptr;
  int64_t stride_mn = 0;
  int64_t stride_k = 0;
  int64_t stride_batch = 0;  // 0 where one matrix is shared by the whole batch
};

// The scales of an operand: one for every `vec` elements along k. Strides are counted in scales; a float32 scale of a
// whole row has a stride of 0 along k, that of a whole operand along the rows too.
struct Scale {
  const void* data = nullptr;
  ScaleType type = ScaleType::kE8M0;
  int vec = 0;  // 0: the operand has no scales
  ScaleStrides strides{};
  const int16_t* fold_powers = nullptr;  // on the CPU: the rows' powers of two where the operand is folded (fold.h)
  bool may_wait = false;  // on the CPU: whether scales of rows may be applied to the sums (cpu/tiles/block.h)
};

struct Operand : Matrix {
  DType dtype = DType::kFloat32;
  Scale scale;
};

struct Output {
  void* data = nullptr;
  int64_t stride_m = 0;
  int64_t stride_n = 0;
  int64_t stride_batch = 0;
};

// A weight of block-scaled products in the form in which Hopper's kernels multiply it, kept beside its codes: one
// buffer of bytes, made by tileon::_prepare_block_scaled.
enum class PreparedForm : int8_t { kInt8, kBFloat16 };

// Where the parts of a buffer begin: rows of `k` numbers, a byte for each row (of int8: its largest scale), a word that
// is not 0 where rows have lost something. No two forms of a weight have as many bytes.
struct PreparedLayout {
  int64_t exponents, word, bytes;

  constexpr PreparedLayout(PreparedForm form, int64_t rows, int64_t k)
      : exponents(aligned(rows * k * (form == PreparedForm::kInt8 ? 1 : 2))),
        word(exponents + aligned(rows)),
        bytes(word + kAlignment * (form == PreparedForm::kInt8 ? 1 : 2)) {}

  static constexpr int64_t kAlignment = 256;  // of each part, and of the buffer

 private:
  static constexpr int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }
};

struct PreparedWeight {
  void* data = nullptr;  // null: there is none
  PreparedForm form = PreparedForm::kInt8;
};

// For kernels that run only where the data need them, without the host: the kernels that prepare the operands leave
// words, and the kernels behind them look whether a word is set (cuda/sm80/tile/cta_tile.cuh).
struct DeviceFlag {
  const uint32_t* words = nullptr;  // null: the flag always holds
  int count = 0;
  bool when_set = false;  // the flag holds where a word is set; false: where none is
};

// Of every product: for i < batch, out[i] from a[i] and b[i].
struct Problem {
  int64_t batch = 1;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;  // in elements; a multiple of the scales' vec
  DType out_dtype = DType::kFloat32;
  bool has_batch = false;   // the result has a dimension for it, whatever its size
  bool allow_tf32 = false;  // only read where the operands are float32
  // Only read of fp8, whose sums may stay in the tensor core (docs/fp8_error.md); of operands with e8m0 scales, which
  // may be folded (core/fold.h), and of mxfp4, which may be multiplied as e5m2.
  bool fast_accum = false;
  // Whether CTAs may share k where there are few tiles (cuda/sm80/heuristics/k_slices.h, and shared_tiles.h of sm90).
  // The order of the sums then depends on the sizes, and sums that are handed over through memory take scratch.
  bool may_slice_k = true;
  Operand a;
  Operand b;
  PreparedWeight prepared_b;  // of the same weight, besides; only where the operands are scaled
  Output out;
  Epilogue epilogue;
  const float* global_scale = nullptr;  // null: 1
  int64_t global_scale_stride = 0;      // from row to row of a; 0: one element for all
  void* pre_activation = nullptr;       // null, or where sums plus bias are kept: laid out and rounded as the output
  DeviceFlag device_flag;               // the product is computed only where the flag holds

  bool is_scaled() const { return b.scale.vec != 0; }
  bool is_weight_only() const { return is_scaled() && a.scale.vec == 0; }
  // Both operands with a scale of one byte a block: the products of mxfp8, mxfp4, mixed and nvfp4.
  bool is_block_scaled() const { return is_scaled() && a.scale.vec != 0 && b.scale.type != ScaleType::kFloat32; }
  bool is_mxfp4() const {
    return a.dtype == DType::kFloat4E2M1 && b.dtype == DType::kFloat4E2M1 && b.scale.type == ScaleType::kE8M0;
  }

  // Two operands with e8m0 scales, of which fast_accum allows the fold.
  bool may_be_folded() const { return fast_accum && is_block_scaled() && b.scale.type == ScaleType::kE8M0; }

  // Multiplications; a double, since they may be more than an integer holds.
  double products() const {
    return static_cast<double>(batch) * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
};

}  // namespace tileon
