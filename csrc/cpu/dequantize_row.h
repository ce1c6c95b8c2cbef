// A row of a scaled operand decoded: each element times its scale.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/fold.h"
#include "core/problem.h"
#include "core/small_floats.h"

namespace tileon {

// Decoding by table: one load a byte. Of e2m1 a byte holds two elements, and so does a row of the table.
template <int kPerByte, typename Decode>
std::array<std::array<float, kPerByte>, 256> decoding_table(const Decode& decode) {
  std::array<std::array<float, kPerByte>, 256> table;
  for (uint32_t byte = 0; byte < table.size(); ++byte)
    for (int i = 0; i < kPerByte; ++i) table[byte][i] = decode(byte, i);
  return table;
}

inline const auto& e4m3_values() {
  static const auto table = decoding_table<1>([](uint32_t byte, int) { return e4m3_value(byte); });
  return table;
}

inline const auto& int8_values() {
  static const auto table =
      decoding_table<1>([](uint32_t byte, int) { return static_cast<float>(static_cast<int8_t>(byte)); });
  return table;
}

inline const auto& e2m1_pairs() {
  static const auto table = decoding_table<2>([](uint32_t byte, int i) { return e2m1_value(byte >> 4 * i & 15); });
  return table;
}

inline const auto& e5m2_values() {
  static const auto table = decoding_table<1>([](uint32_t byte, int) { return e5m2_value(byte); });
  return table;
}

// Scale number `offset` of an operand, in row `row`; where that is folded what is left of it.
inline float scale_value(const Scale& scale, int64_t row, int64_t offset) {
  const uint8_t byte = scale.type == ScaleType::kFloat32 ? 0 : static_cast<const uint8_t*>(scale.data)[offset];
  switch (scale.type) {
    case ScaleType::kE8M0:
      return scale.fold_powers == nullptr ? e8m0_value(byte) : fold_factor(byte, scale.fold_powers[row]);
    case ScaleType::kE4M3:
      return e4m3_values()[byte][0];
    default:
      return static_cast<const float*>(scale.data)[offset];
  }
}

template <typename Out, int kPerByte>
void dequantize_row_with(const std::array<std::array<float, kPerByte>, 256>& values, const Operand& operand,
                         int64_t row, int64_t first, int64_t k, float factor, Out* to) {
  const auto* bytes =
      static_cast<const uint8_t*>(operand.data) + row * operand.stride_mn + first / kPerByte * operand.stride_k;
  const ScaleStrides& strides = operand.scale.strides;
  const int64_t row_offset = strides.of_row(row);
  const int64_t row_bytes = k / kPerByte, vec = operand.scale.vec;
  const int64_t bytes_per_scale = vec == 0 ? row_bytes : vec / kPerByte;
  for (int64_t begin = 0, block = vec == 0 ? 0 : first / vec; begin < row_bytes; begin += bytes_per_scale, ++block) {
    const float scale = vec == 0 ? 1.0f : scale_value(operand.scale, row, row_offset + strides.of_col(block));
    const int64_t count = std::min(bytes_per_scale, row_bytes - begin);  // a block of float32 scales may be short
    for (int64_t i = 0; i < count; ++i, bytes += operand.stride_k)
      for (const float value : values[*bytes]) *to++ = static_cast<Out>(value * scale * factor);
  }
}

// Of row `row` k elements from `first`, with which a scale begins: element times scale (if any) in float32, times
// `factor` in float32, rounded into to[k].
template <typename Out>
void dequantize_row(const Operand& operand, int64_t row, int64_t first, int64_t k, float factor, Out* to) {
  switch (operand.dtype) {
    case DType::kFloat8E4M3:
      return dequantize_row_with<Out, 1>(e4m3_values(), operand, row, first, k, factor, to);
    case DType::kFloat8E5M2:
      return dequantize_row_with<Out, 1>(e5m2_values(), operand, row, first, k, factor, to);
    case DType::kInt8:
      return dequantize_row_with<Out, 1>(int8_values(), operand, row, first, k, factor, to);
    default:
      return dequantize_row_with<Out, 2>(e2m1_pairs(), operand, row, first, k, factor, to);
  }
}

}  // namespace tileon
