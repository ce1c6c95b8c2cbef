// Warpgroup-wide matrix products (sm_90a): sums[64][n] (+)= a[64][k] b[k][n], operands in shared memory, k of 32 bytes:
// 8 elements of tf32, 16 of 16 bits, 32 of 8.
//
// Asynchronous: the operands and the sums belong to the tensor core from the first product until a wait for its group.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace tileon::ptx {

// Orders the registers of the sums before the products that follow: needed before the first one, and whenever other
// instructions have touched them.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// Has the compiler work out a fragment here and not where it is used.
__device__ __forceinline__ void pin(uint32_t& word) { asm volatile("" : "+r"(word)); }

// Closes the group of products issued since the last commit.
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Returns when at most kPending groups, the newest, are still under way.
template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// The sums of n columns are n / 2 registers of each thread. TILEON_BEHIND_<count>(item) is item(1) to item(count - 1),
// of which lists of these registers are made, as the assembler and as the compiler want them.
#define TILEON_BEHIND_4(item) item(1) item(2) item(3)
#define TILEON_BEHIND_8(item) TILEON_BEHIND_4(item) item(4) item(5) item(6) item(7)
#define TILEON_BEHIND_16(item) \
  TILEON_BEHIND_8(item) item(8) item(9) item(10) item(11) item(12) item(13) item(14) item(15)
#define TILEON_BEHIND_32(item)                                                                                         \
  TILEON_BEHIND_16(item)                                                                                               \
  item(16) item(17) item(18) item(19) item(20) item(21) item(22) item(23) item(24) item(25) item(26) item(27) item(28) \
      item(29) item(30) item(31)
#define TILEON_BEHIND_48(item)                                                                                         \
  TILEON_BEHIND_32(item)                                                                                               \
  item(32) item(33) item(34) item(35) item(36) item(37) item(38) item(39) item(40) item(41) item(42) item(43) item(44) \
      item(45) item(46) item(47)
#define TILEON_BEHIND_52(item) TILEON_BEHIND_48(item) item(48) item(49) item(50) item(51)
#define TILEON_BEHIND_64(item) \
  TILEON_BEHIND_52(item)       \
  item(52) item(53) item(54) item(55) item(56) item(57) item(58) item(59) item(60) item(61) item(62) item(63)
#define TILEON_BEHIND_72(item) \
  TILEON_BEHIND_64(item) item(64) item(65) item(66) item(67) item(68) item(69) item(70) item(71)
#define TILEON_BEHIND_80(item) \
  TILEON_BEHIND_72(item) item(72) item(73) item(74) item(75) item(76) item(77) item(78) item(79)
#define TILEON_BEHIND_88(item) \
  TILEON_BEHIND_80(item) item(80) item(81) item(82) item(83) item(84) item(85) item(86) item(87)
#define TILEON_BEHIND_96(item) \
  TILEON_BEHIND_88(item) item(88) item(89) item(90) item(91) item(92) item(93) item(94) item(95)
#define TILEON_BEHIND_104(item) \
  TILEON_BEHIND_96(item) item(96) item(97) item(98) item(99) item(100) item(101) item(102) item(103)
#define TILEON_BEHIND_112(item) \
  TILEON_BEHIND_104(item) item(104) item(105) item(106) item(107) item(108) item(109) item(110) item(111)
#define TILEON_BEHIND_120(item) \
  TILEON_BEHIND_112(item) item(112) item(113) item(114) item(115) item(116) item(117) item(118) item(119)
#define TILEON_BEHIND_128(item) \
  TILEON_BEHIND_120(item) item(120) item(121) item(122) item(123) item(124) item(125) item(126) item(127)
#define TILEON_NAME(i) ", %" #i
#define TILEON_FLOAT_SUM(i) , "+f"(sums[i])
#define TILEON_INT_SUM(i) , "+r"(sums[i])
#define TILEON_FLOAT_SUMS(count) "+f"(sums[0])TILEON_BEHIND_##count(TILEON_FLOAT_SUM)
#define TILEON_INT_SUMS(count) "+r"(sums[0])TILEON_BEHIND_##count(TILEON_INT_SUM)

// For every n: the count of sums, which is the number of the operand behind them, and the numbers of five operands
// more.
// clang-format off
#define TILEON_FOR_WIDTHS(product) \
  product(8, 4, 5, 6, 7, 8, 9) \
  product(16, 8, 9, 10, 11, 12, 13) \
  product(32, 16, 17, 18, 19, 20, 21) \
  product(64, 32, 33, 34, 35, 36, 37) \
  product(96, 48, 49, 50, 51, 52, 53) \
  product(104, 52, 53, 54, 55, 56, 57) \
  product(128, 64, 65, 66, 67, 68, 69) \
  product(144, 72, 73, 74, 75, 76, 77) \
  product(160, 80, 81, 82, 83, 84, 85) \
  product(176, 88, 89, 90, 91, 92, 93) \
  product(192, 96, 97, 98, 99, 100, 101) \
  product(208, 104, 105, 106, 107, 108, 109) \
  product(224, 112, 113, 114, 115, 116, 117) \
  product(240, 120, 121, 122, 123, 124, 125) \
  product(256, 128, 129, 130, 131, 132, 133)
// clang-format on

// One product with n columns. `kind` is its k and dtypes; `a`, `b`, `accumulates` and `rest` are the operands behind
// the sums as the assembler wants them, and what follows is the same for the compiler.
#define TILEON_WGMMA(n, count, kind, sum_list, a, b, accumulates, rest, ...)                       \
  asm volatile("{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, " accumulates                   \
               ", 0;\n"                                                                            \
               "wgmma.mma_async.sync.aligned.m64n" #n kind                                         \
               " {%0" TILEON_BEHIND_##count(TILEON_NAME) "}, " a ", " b ", accumulate" rest ";\n}" \
               : sum_list(count)                                                                   \
               : __VA_ARGS__                                                                       \
               : "memory")

#define TILEON_16_BITS(type, n, i0, i1, i2, i3, i4)                                           \
  TILEON_WGMMA(n, i0, "k16.f32." type "." type, TILEON_FLOAT_SUMS, "%" #i0, "%" #i1, "%" #i2, \
               ", 1, 1, %" #i3 ", %" #i4, "l"(a), "l"(b), "r"(accumulate), "n"(kTransposeA), "n"(kTransposeB))
#define TILEON_PRODUCT(n, i0, i1, i2, i3, i4, i5)    \
  if constexpr (kColumns == n) {                     \
    if constexpr (std::is_same_v<Element, __half>)   \
      TILEON_16_BITS("f16", n, i0, i1, i2, i3, i4);  \
    else                                             \
      TILEON_16_BITS("bf16", n, i0, i1, i2, i3, i4); \
  } else

// `a` and `b` are shared-memory descriptors (sm90/layout/operand_tile.h). An operand is transposed where its m or n,
// not its k, runs along the rows in shared memory. `accumulate` of 0 overwrites the sums.
template <typename Element, int kColumns, int kTransposeA, int kTransposeB>
__device__ __forceinline__ void wgmma_m64k16(float (&sums)[kColumns / 2], uint64_t a, uint64_t b, int accumulate) {
  TILEON_FOR_WIDTHS(TILEON_PRODUCT)
  static_assert(kColumns == 0, "wgmma with as many columns is not listed here");
}
#undef TILEON_PRODUCT

#define TILEON_16_BITS_OF_REGISTERS(type, n, i0, i1, i2, i3, i4, i5)                                           \
  TILEON_WGMMA(n, i0, "k16.f32." type "." type, TILEON_FLOAT_SUMS, "{%" #i0 ", %" #i1 ", %" #i2 ", %" #i3 "}", \
               "%" #i4, "%" #i5, ", 1, 1, 0", "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate))
#define TILEON_PRODUCT(n, ...)                             \
  if constexpr (kColumns == n) {                           \
    if constexpr (std::is_same_v<Element, __half>)         \
      TILEON_16_BITS_OF_REGISTERS("f16", n, __VA_ARGS__);  \
    else                                                   \
      TILEON_16_BITS_OF_REGISTERS("bf16", n, __VA_ARGS__); \
  } else

// One product of 16 bits with a's 64 rows in registers: a warp's sixteen rows are mma's (mma.cuh), and so are its
// fragments. b's k runs along the rows.
template <typename Element, int kColumns>
__device__ __forceinline__ void wgmma_m64k16(float (&sums)[kColumns / 2], const uint32_t (&a)[4], uint64_t b,
                                             int accumulate) {
  TILEON_FOR_WIDTHS(TILEON_PRODUCT)
  static_assert(kColumns == 0, "wgmma with as many columns is not listed here");
}
#undef TILEON_PRODUCT

#define TILEON_PRODUCT(n, i0, i1, i2, i3, i4, i5)                                                                    \
  if constexpr (kColumns == n)                                                                                       \
    TILEON_WGMMA(n, i0, "k32.f32.e5m2.e5m2", TILEON_FLOAT_SUMS, "{%" #i0 ", %" #i1 ", %" #i2 ", %" #i3 "}", "%" #i4, \
                 "0", ", 1, 1", "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                 \
  else

// One product of e5m2 with a's rows in registers; it overwrites the sums.
template <int kColumns>
__device__ __forceinline__ void wgmma_m64k32_e5m2(float (&sums)[kColumns / 2], const uint32_t (&a)[4], uint64_t b) {
  TILEON_FOR_WIDTHS(TILEON_PRODUCT)
  static_assert(kColumns == 0, "wgmma with as many columns is not listed here");
}
#undef TILEON_PRODUCT

#define TILEON_PRODUCT(n, i0, i1, i2, i3, i4, i5)                                                                    \
  if constexpr (kColumns == n)                                                                                       \
    TILEON_WGMMA(n, i0, "k32.f32.e4m3.e4m3", TILEON_FLOAT_SUMS, "{%" #i0 ", %" #i1 ", %" #i2 ", %" #i3 "}", "%" #i4, \
                 "%" #i5, ", 1, 1", "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));            \
  else

// The same of e4m3, which adds to the sums or overwrites them.
template <int kColumns>
__device__ __forceinline__ void wgmma_m64k32_e4m3(float (&sums)[kColumns / 2], const uint32_t (&a)[4], uint64_t b,
                                                  int accumulate) {
  TILEON_FOR_WIDTHS(TILEON_PRODUCT)
  static_assert(kColumns == 0, "wgmma with as many columns is not listed here");
}
#undef TILEON_PRODUCT

#define TILEON_PRODUCT(n, i0, i1, i2, ...)                                                                          \
  if constexpr (kColumns == n)                                                                                      \
    TILEON_WGMMA(n, i0, "k8.f32.tf32.tf32", TILEON_FLOAT_SUMS, "%" #i0, "%" #i1, "%" #i2, ", 1, 1", "l"(a), "l"(b), \
                 "r"(accumulate));                                                                                  \
  else

// One product of tf32, float32 whose lower 13 bits are not read, whose k runs along the rows of both operands.
template <int kColumns>
__device__ __forceinline__ void wgmma_m64k8(float (&sums)[kColumns / 2], uint64_t a, uint64_t b, int accumulate) {
  TILEON_FOR_WIDTHS(TILEON_PRODUCT)
  static_assert(kColumns == 0, "wgmma with as many columns is not listed here");
}
#undef TILEON_PRODUCT

#define TILEON_PRODUCT(n, i0, i1, i2, i3, i4, i5)                                                                   \
  if constexpr (kColumns == n)                                                                                      \
    TILEON_WGMMA(n, i0, "k8.f32.tf32.tf32", TILEON_FLOAT_SUMS, "{%" #i0 ", %" #i1 ", %" #i2 ", %" #i3 "}", "%" #i4, \
                 "%" #i5, ", 1, 1", "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));           \
  else

// As it, with a's 64 rows in registers, where the fragments of a warp's sixteen rows are mma's (mma.cuh).
template <int kColumns>
__device__ __forceinline__ void wgmma_m64k8(float (&sums)[kColumns / 2], const uint32_t (&a)[4], uint64_t b,
                                            int accumulate) {
  TILEON_FOR_WIDTHS(TILEON_PRODUCT)
  static_assert(kColumns == 0, "wgmma with as many columns is not listed here");
}
#undef TILEON_PRODUCT

#define TILEON_8_BITS(n, i0, i1, i2, kind, sum_list, rest) \
  TILEON_WGMMA(n, i0, "k32." kind, sum_list, "%" #i0, "%" #i1, "%" #i2, rest, "l"(a), "l"(b), "r"(accumulate))
#define TILEON_PRODUCT(n, i0, i1, i2, ...)                          \
  if constexpr (kColumns == n)                                      \
    TILEON_8_BITS(n, i0, i1, i2, "s32.s8.s8", TILEON_INT_SUMS, ""); \
  else

// One product of int8, whose k runs along the rows of both operands, summed as int32 without any rounding.
template <int kColumns>
__device__ __forceinline__ void wgmma_m64k32(int32_t (&sums)[kColumns / 2], uint64_t a, uint64_t b, int accumulate) {
  TILEON_FOR_WIDTHS(TILEON_PRODUCT)
  static_assert(kColumns == 0, "wgmma of int8 with as many columns is not listed here");
}
#undef TILEON_PRODUCT

#define TILEON_FLOAT8(n, i0, i1, i2, types) TILEON_8_BITS(n, i0, i1, i2, "f32." types, TILEON_FLOAT_SUMS, ", 1, 1")
#define TILEON_PRODUCT(n, i0, i1, i2, ...)       \
  if constexpr (kColumns == n) {                 \
    if constexpr (kAIsE4M3 && kBIsE4M3)          \
      TILEON_FLOAT8(n, i0, i1, i2, "e4m3.e4m3"); \
    else if constexpr (kAIsE4M3)                 \
      TILEON_FLOAT8(n, i0, i1, i2, "e4m3.e5m2"); \
    else if constexpr (kBIsE4M3)                 \
      TILEON_FLOAT8(n, i0, i1, i2, "e5m2.e4m3"); \
    else                                         \
      TILEON_FLOAT8(n, i0, i1, i2, "e5m2.e5m2"); \
  } else

// One product of fp8, e4m3 or e5m2 each, whose k runs along the rows of both operands.
template <bool kAIsE4M3, bool kBIsE4M3, int kColumns>
__device__ __forceinline__ void wgmma_m64k32(float (&sums)[kColumns / 2], uint64_t a, uint64_t b, int accumulate) {
  TILEON_FOR_WIDTHS(TILEON_PRODUCT)
  static_assert(kColumns == 0, "wgmma of fp8 with as many columns is not listed here");
}

}  // namespace tileon::ptx
