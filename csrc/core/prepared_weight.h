// A weight of block-scaled products in the form in which Hopper's kernels multiply it, kept beside its codes: one
// buffer of bytes, made by tileon::_prepare_block_scaled.
#pragma once

#include <cstdint>

namespace tileon {

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

}  // namespace tileon
