// What an operand of any encoding holds, as float32: four neighbours along k at a time, whatever the strides.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "core/small_floats.h"
#include "cuda/common/kernel_choice.h"

namespace tileon {

// Four neighbours along k, as they lie in memory: the first in the lowest bits.
template <int kBits>
struct FourCodes {
  static_assert(kBits == 4 || kBits == 8);
  using Word = std::conditional_t<kBits == 8, uint32_t, uint16_t>;
  Word word = 0;

  __device__ __forceinline__ uint32_t code(int i) const { return word >> (i * kBits) & ((1 << kBits) - 1); }
};

template <>
struct FourCodes<16> {
  using Word = uint2;
  Word word = {0, 0};

  __device__ __forceinline__ uint32_t code(int i) const { return (i < 2 ? word.x : word.y) >> (i % 2 * 16) & 0xffff; }
};

// A code of kBits bits; `dtype` is the same for all threads.
template <int kBits>
__device__ __forceinline__ float number_of(uint32_t code, DType dtype) {
  if constexpr (kBits == 4) {
    return e2m1_value(code);
  } else if constexpr (kBits == 8) {
    if (dtype == DType::kInt8) return static_cast<float>(static_cast<int8_t>(code));
    return dtype == DType::kFloat8E4M3 ? e4m3_value(code) : e5m2_value(code);
  } else {
    return dtype == DType::kBFloat16 ? __uint_as_float(code << 16) : __half2float(__ushort_as_half(code));
  }
}

// Scale number `at`, of a byte; 1 where the operand has none of those.
__device__ __forceinline__ float byte_scale(const ScaledKernelOperand& operand, ScaleType type, int64_t at) {
  if (operand.scale == nullptr || type == ScaleType::kFloat32) return 1.0f;
  const uint8_t byte = static_cast<const uint8_t*>(operand.scale)[at];
  return type == ScaleType::kE8M0 ? e8m0_value(byte) : e4m3_value(byte);
}

// The four elements of a row from k on, of which `inside` lie in the row. `vectors`: one load reads all.
template <int kBits>
__device__ __forceinline__ FourCodes<kBits> load_four(const ScaledKernelOperand& operand, int64_t row, int64_t k,
                                                      int inside, bool vectors) {
  using Codes = FourCodes<kBits>;
  Codes codes;
  if (inside <= 0) return codes;
  const auto* bytes = static_cast<const uint8_t*>(operand.data);
  if constexpr (kBits == 16) {
    const auto* first = reinterpret_cast<const uint16_t*>(bytes) + row * operand.stride_row + k * operand.stride_k;
    if (vectors && inside >= 4) return {*reinterpret_cast<const uint2*>(first)};
    const auto element = [&](int i) -> uint32_t { return i < inside ? first[i * operand.stride_k] : 0; };
    return {{element(0) | element(1) << 16, element(2) | element(3) << 16}};
  } else {
    constexpr int kPerByte = 8 / kBits;
    const uint8_t* first = bytes + row * operand.stride_row + k / kPerByte * operand.stride_k;
    if (vectors && inside >= 4) return {*reinterpret_cast<const typename Codes::Word*>(first)};
    uint32_t word = 0;
#pragma unroll
    for (int i = 0; i < 4 / kPerByte; ++i)
      if (i * kPerByte < inside) word |= static_cast<uint32_t>(first[i * operand.stride_k]) << 8 * i;
    return {static_cast<typename Codes::Word>(word)};
  }
}

// ---- on the host ----

inline int bits_of_element(DType dtype) { return info(dtype).bytes * 8 / elements_per_byte(dtype); }

// Whether four neighbours along k lie together at a multiple of their bytes.
inline bool reads_four(const Operand& operand, int64_t rows) {
  const int64_t element = info(operand.dtype).bytes, four = 4 * element / elements_per_byte(operand.dtype);
  const auto address = static_cast<int64_t>(reinterpret_cast<uintptr_t>(operand.data));
  return operand.stride_k == 1 && (address | (rows > 1 ? operand.stride_mn * element : 0)) % four == 0;
}

}  // namespace tileon
