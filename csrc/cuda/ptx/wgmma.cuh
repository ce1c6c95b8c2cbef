// Warpgroup-wide matrix products (sm_90a): sums[64][n] (+)= a[64][k] b[k][n], operands in shared memory, k of 32 bytes:
// 16 elements of 16 bits, 32 of 8.
//
// Asynchronous: the operands and the sums belong to the tensor core from the first product until a wait for its group.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace tileon::ptx {

// Orders the registers of the sums before the products that follow: needed before the first one, and whenever other
// instructions have touched them.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// Closes the group of products issued since the last commit.
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Returns when at most kPending groups, the newest, are still under way.
template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// The sums of n columns are n / 2 registers of each thread. Lists of registers, as the assembler and as the compiler
// want them (TILEON_NAMES_<count>, TILEON_SUMS_<count>; `type` is "+f" or "+r"), each the shorter one and the rest:
#define TILEON_NAMES_4 "%0, %1, %2, %3"
#define TILEON_NAMES_8 \
  TILEON_NAMES_4       \
  ", %4, %5, %6, %7"
#define TILEON_NAMES_16 \
  TILEON_NAMES_8        \
  ", %8, %9, %10, %11, %12, %13, %14, %15"
#define TILEON_NAMES_32 \
  TILEON_NAMES_16       \
  ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define TILEON_NAMES_48 \
  TILEON_NAMES_32       \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define TILEON_NAMES_52 \
  TILEON_NAMES_48       \
  ", %48, %49, %50, %51"
#define TILEON_NAMES_64 \
  TILEON_NAMES_52       \
  ", %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define TILEON_NAMES_72 \
  TILEON_NAMES_64       \
  ", %64, %65, %66, %67, %68, %69, %70, %71"
#define TILEON_NAMES_80 \
  TILEON_NAMES_72       \
  ", %72, %73, %74, %75, %76, %77, %78, %79"
#define TILEON_NAMES_88 \
  TILEON_NAMES_80       \
  ", %80, %81, %82, %83, %84, %85, %86, %87"
#define TILEON_NAMES_96 \
  TILEON_NAMES_88       \
  ", %88, %89, %90, %91, %92, %93, %94, %95"
#define TILEON_NAMES_104 \
  TILEON_NAMES_96        \
  ", %96, %97, %98, %99, %100, %101, %102, %103"
#define TILEON_NAMES_112 \
  TILEON_NAMES_104       \
  ", %104, %105, %106, %107, %108, %109, %110, %111"
#define TILEON_NAMES_120 \
  TILEON_NAMES_112       \
  ", %112, %113, %114, %115, %116, %117, %118, %119"
#define TILEON_NAMES_128 \
  TILEON_NAMES_120       \
  ", %120, %121, %122, %123, %124, %125, %126, %127"
#define TILEON_SUMS_4(type) type(sums[0]), type(sums[1]), type(sums[2]), type(sums[3])
#define TILEON_SUMS_8(type) TILEON_SUMS_4(type), type(sums[4]), type(sums[5]), type(sums[6]), type(sums[7])
#define TILEON_SUMS_16(type)                                                                                         \
  TILEON_SUMS_8(type), type(sums[8]), type(sums[9]), type(sums[10]), type(sums[11]), type(sums[12]), type(sums[13]), \
      type(sums[14]), type(sums[15])
#define TILEON_SUMS_32(type)                                                                                          \
  TILEON_SUMS_16(type), type(sums[16]), type(sums[17]), type(sums[18]), type(sums[19]), type(sums[20]),               \
      type(sums[21]), type(sums[22]), type(sums[23]), type(sums[24]), type(sums[25]), type(sums[26]), type(sums[27]), \
      type(sums[28]), type(sums[29]), type(sums[30]), type(sums[31])
#define TILEON_SUMS_48(type)                                                                                          \
  TILEON_SUMS_32(type), type(sums[32]), type(sums[33]), type(sums[34]), type(sums[35]), type(sums[36]),               \
      type(sums[37]), type(sums[38]), type(sums[39]), type(sums[40]), type(sums[41]), type(sums[42]), type(sums[43]), \
      type(sums[44]), type(sums[45]), type(sums[46]), type(sums[47])
#define TILEON_SUMS_52(type) TILEON_SUMS_48(type), type(sums[48]), type(sums[49]), type(sums[50]), type(sums[51])
#define TILEON_SUMS_64(type)                                                                            \
  TILEON_SUMS_52(type), type(sums[52]), type(sums[53]), type(sums[54]), type(sums[55]), type(sums[56]), \
      type(sums[57]), type(sums[58]), type(sums[59]), type(sums[60]), type(sums[61]), type(sums[62]), type(sums[63])
#define TILEON_SUMS_72(type)                                                                            \
  TILEON_SUMS_64(type), type(sums[64]), type(sums[65]), type(sums[66]), type(sums[67]), type(sums[68]), \
      type(sums[69]), type(sums[70]), type(sums[71])
#define TILEON_SUMS_80(type)                                                                            \
  TILEON_SUMS_72(type), type(sums[72]), type(sums[73]), type(sums[74]), type(sums[75]), type(sums[76]), \
      type(sums[77]), type(sums[78]), type(sums[79])
#define TILEON_SUMS_88(type)                                                                            \
  TILEON_SUMS_80(type), type(sums[80]), type(sums[81]), type(sums[82]), type(sums[83]), type(sums[84]), \
      type(sums[85]), type(sums[86]), type(sums[87])
#define TILEON_SUMS_96(type)                                                                            \
  TILEON_SUMS_88(type), type(sums[88]), type(sums[89]), type(sums[90]), type(sums[91]), type(sums[92]), \
      type(sums[93]), type(sums[94]), type(sums[95])
#define TILEON_SUMS_104(type)                                                                            \
  TILEON_SUMS_96(type), type(sums[96]), type(sums[97]), type(sums[98]), type(sums[99]), type(sums[100]), \
      type(sums[101]), type(sums[102]), type(sums[103])
#define TILEON_SUMS_112(type)                                                                                 \
  TILEON_SUMS_104(type), type(sums[104]), type(sums[105]), type(sums[106]), type(sums[107]), type(sums[108]), \
      type(sums[109]), type(sums[110]), type(sums[111])
#define TILEON_SUMS_120(type)                                                                                 \
  TILEON_SUMS_112(type), type(sums[112]), type(sums[113]), type(sums[114]), type(sums[115]), type(sums[116]), \
      type(sums[117]), type(sums[118]), type(sums[119])
#define TILEON_SUMS_128(type)                                                                                 \
  TILEON_SUMS_120(type), type(sums[120]), type(sums[121]), type(sums[122]), type(sums[123]), type(sums[124]), \
      type(sums[125]), type(sums[126]), type(sums[127])

// One product with n columns: `count` sums, then the names of the operands behind them.
#define TILEON_WGMMA_TYPED(n, count, type, a_name, b_name, accumulate_name, transpose_a_name, transpose_b_name) \
  asm volatile("{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, " accumulate_name                            \
               ", 0;\n"                                                                                         \
               "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" TILEON_NAMES_##count        \
               "}, " a_name ", " b_name ", accumulate, 1, 1, " transpose_a_name ", " transpose_b_name ";\n}"    \
               : TILEON_SUMS_##count("+f")                                                                      \
               : "l"(a), "l"(b), "r"(accumulate), "n"(kTransposeA), "n"(kTransposeB)                            \
               : "memory")

#define TILEON_WGMMA(n, count, ...)                      \
  if constexpr (kColumns == n) {                         \
    if constexpr (std::is_same_v<Element, __half>)       \
      TILEON_WGMMA_TYPED(n, count, "f16", __VA_ARGS__);  \
    else                                                 \
      TILEON_WGMMA_TYPED(n, count, "bf16", __VA_ARGS__); \
  } else

// `a` and `b` are shared-memory descriptors (sm90/layout/operand_tile.h). An operand is transposed where its m or n,
// not its k, runs along the rows in shared memory. `accumulate` of 0 overwrites the sums.
template <typename Element, int kColumns, int kTransposeA, int kTransposeB>
__device__ __forceinline__ void wgmma_m64k16(float (&sums)[kColumns / 2], uint64_t a, uint64_t b, int accumulate) {
  TILEON_WGMMA(8, 4, "%4", "%5", "%6", "%7", "%8")
  TILEON_WGMMA(16, 8, "%8", "%9", "%10", "%11", "%12")
  TILEON_WGMMA(32, 16, "%16", "%17", "%18", "%19", "%20")
  TILEON_WGMMA(64, 32, "%32", "%33", "%34", "%35", "%36")
  TILEON_WGMMA(96, 48, "%48", "%49", "%50", "%51", "%52")
  TILEON_WGMMA(104, 52, "%52", "%53", "%54", "%55", "%56")
  TILEON_WGMMA(128, 64, "%64", "%65", "%66", "%67", "%68")
  TILEON_WGMMA(144, 72, "%72", "%73", "%74", "%75", "%76")
  TILEON_WGMMA(160, 80, "%80", "%81", "%82", "%83", "%84")
  TILEON_WGMMA(176, 88, "%88", "%89", "%90", "%91", "%92")
  TILEON_WGMMA(192, 96, "%96", "%97", "%98", "%99", "%100")
  TILEON_WGMMA(208, 104, "%104", "%105", "%106", "%107", "%108")
  TILEON_WGMMA(224, 112, "%112", "%113", "%114", "%115", "%116")
  TILEON_WGMMA(240, 120, "%120", "%121", "%122", "%123", "%124")
  TILEON_WGMMA(256, 128, "%128", "%129", "%130", "%131", "%132")
  static_assert(kColumns == 0, "wgmma with as many columns is not listed here");
}

// One product with n columns whose `a` is in registers.
#define TILEON_WGMMA_REGISTERS_TYPED(n, count, type, a_names, b_name, accumulate_name)                   \
  asm volatile("{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, " accumulate_name                     \
               ", 0;\n"                                                                                  \
               "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" TILEON_NAMES_##count \
               "}, {" a_names "}, " b_name ", accumulate, 1, 1, 0;\n}"                                   \
               : TILEON_SUMS_##count("+f")                                                               \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate)                     \
               : "memory")

#define TILEON_WGMMA_REGISTERS(n, count, ...)                      \
  if constexpr (kColumns == n) {                                   \
    if constexpr (std::is_same_v<Element, __half>)                 \
      TILEON_WGMMA_REGISTERS_TYPED(n, count, "f16", __VA_ARGS__);  \
    else                                                           \
      TILEON_WGMMA_REGISTERS_TYPED(n, count, "bf16", __VA_ARGS__); \
  } else

// One product of 16 bits with a's 64 rows in registers: a warp's sixteen rows are mma's (mma.cuh), and so are its
// fragments. b's k runs along the rows.
template <typename Element, int kColumns>
__device__ __forceinline__ void wgmma_m64k16(float (&sums)[kColumns / 2], const uint32_t (&a)[4], uint64_t b,
                                             int accumulate) {
  TILEON_WGMMA_REGISTERS(8, 4, "%4, %5, %6, %7", "%8", "%9")
  TILEON_WGMMA_REGISTERS(16, 8, "%8, %9, %10, %11", "%12", "%13")
  TILEON_WGMMA_REGISTERS(32, 16, "%16, %17, %18, %19", "%20", "%21")
  TILEON_WGMMA_REGISTERS(64, 32, "%32, %33, %34, %35", "%36", "%37")
  static_assert(kColumns == 0, "wgmma with as many columns is not listed here");
}

#define TILEON_WGMMA_E5M2_REGISTERS(n, count, a_names, b_name)                                                        \
  if constexpr (kColumns == n) {                                                                                      \
    asm volatile(                                                                                                     \
        "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, 0, 0;\n"                                                  \
        "wgmma.mma_async.sync.aligned.m64n" #n "k32.f32.e5m2.e5m2 {" TILEON_NAMES_##count "}, {" a_names "}, " b_name \
                                                                                          ", accumulate, 1, 1;\n}"    \
        : TILEON_SUMS_##count("+f")                                                                                   \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b)                                                          \
        : "memory");                                                                                                  \
  } else

// One product of e5m2 with a's rows in registers; it overwrites the sums.
template <int kColumns>
__device__ __forceinline__ void wgmma_m64k32_e5m2(float (&sums)[kColumns / 2], const uint32_t (&a)[4], uint64_t b) {
  TILEON_WGMMA_E5M2_REGISTERS(8, 4, "%4, %5, %6, %7", "%8")
  TILEON_WGMMA_E5M2_REGISTERS(16, 8, "%8, %9, %10, %11", "%12")
  TILEON_WGMMA_E5M2_REGISTERS(32, 16, "%16, %17, %18, %19", "%20")
  TILEON_WGMMA_E5M2_REGISTERS(64, 32, "%32, %33, %34, %35", "%36")
  static_assert(kColumns == 0, "wgmma with as many columns is not listed here");
}

#define TILEON_WGMMA_INT8(n, count, a_name, b_name, accumulate_name)                           \
  if constexpr (kColumns == n) {                                                               \
    asm volatile("{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, " accumulate_name         \
                 ", 0;\n"                                                                      \
                 "wgmma.mma_async.sync.aligned.m64n" #n "k32.s32.s8.s8 {" TILEON_NAMES_##count \
                 "}, " a_name ", " b_name ", accumulate;\n}"                                   \
                 : TILEON_SUMS_##count("+r")                                                   \
                 : "l"(a), "l"(b), "r"(accumulate)                                             \
                 : "memory");                                                                  \
  } else

// One product of int8, whose k runs along the rows of both operands, summed as int32 without any rounding.
template <int kColumns>
__device__ __forceinline__ void wgmma_m64k32(int32_t (&sums)[kColumns / 2], uint64_t a, uint64_t b, int accumulate) {
  TILEON_WGMMA_INT8(64, 32, "%32", "%33", "%34")
  TILEON_WGMMA_INT8(128, 64, "%64", "%65", "%66")
  TILEON_WGMMA_INT8(176, 88, "%88", "%89", "%90")
  TILEON_WGMMA_INT8(192, 96, "%96", "%97", "%98")
  static_assert(kColumns == 0, "wgmma of int8 with as many columns is not listed here");
}

#define TILEON_WGMMA_FLOAT8_TYPED(n, count, types, a_name, b_name, accumulate_name)              \
  asm volatile("{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, " accumulate_name             \
               ", 0;\n"                                                                          \
               "wgmma.mma_async.sync.aligned.m64n" #n "k32.f32." types " {" TILEON_NAMES_##count \
               "}, " a_name ", " b_name ", accumulate, 1, 1;\n}"                                 \
               : TILEON_SUMS_##count("+f")                                                       \
               : "l"(a), "l"(b), "r"(accumulate)                                                 \
               : "memory")

#define TILEON_WGMMA_FLOAT8(n, count, ...)                           \
  if constexpr (kColumns == n) {                                     \
    if constexpr (kAIsE4M3 && kBIsE4M3)                              \
      TILEON_WGMMA_FLOAT8_TYPED(n, count, "e4m3.e4m3", __VA_ARGS__); \
    else if constexpr (kAIsE4M3)                                     \
      TILEON_WGMMA_FLOAT8_TYPED(n, count, "e4m3.e5m2", __VA_ARGS__); \
    else if constexpr (kBIsE4M3)                                     \
      TILEON_WGMMA_FLOAT8_TYPED(n, count, "e5m2.e4m3", __VA_ARGS__); \
    else                                                             \
      TILEON_WGMMA_FLOAT8_TYPED(n, count, "e5m2.e5m2", __VA_ARGS__); \
  } else

// One product of fp8, e4m3 or e5m2 each, whose k runs along the rows of both operands.
template <bool kAIsE4M3, bool kBIsE4M3, int kColumns>
__device__ __forceinline__ void wgmma_m64k32(float (&sums)[kColumns / 2], uint64_t a, uint64_t b, int accumulate) {
  TILEON_WGMMA_FLOAT8(64, 32, "%32", "%33", "%34")
  TILEON_WGMMA_FLOAT8(96, 48, "%48", "%49", "%50")
  TILEON_WGMMA_FLOAT8(128, 64, "%64", "%65", "%66")
  TILEON_WGMMA_FLOAT8(160, 80, "%80", "%81", "%82")
  TILEON_WGMMA_FLOAT8(176, 88, "%88", "%89", "%90")
  TILEON_WGMMA_FLOAT8(192, 96, "%96", "%97", "%98")
  TILEON_WGMMA_FLOAT8(208, 104, "%104", "%105", "%106")
  TILEON_WGMMA_FLOAT8(224, 112, "%112", "%113", "%114")
  TILEON_WGMMA_FLOAT8(256, 128, "%128", "%129", "%130")
  static_assert(kColumns == 0, "wgmma of fp8 with as many columns is not listed here");
}

#undef TILEON_WGMMA
#undef TILEON_WGMMA_E5M2_REGISTERS
#undef TILEON_WGMMA_FLOAT8
#undef TILEON_WGMMA_FLOAT8_TYPED
#undef TILEON_WGMMA_INT8
#undef TILEON_WGMMA_REGISTERS
#undef TILEON_WGMMA_REGISTERS_TYPED
#undef TILEON_WGMMA_TYPED
#undef TILEON_NAMES_4
#undef TILEON_SUMS_4
#undef TILEON_NAMES_8
#undef TILEON_SUMS_8
#undef TILEON_NAMES_16
#undef TILEON_SUMS_16
#undef TILEON_NAMES_32
#undef TILEON_SUMS_32
#undef TILEON_NAMES_48
#undef TILEON_SUMS_48
#undef TILEON_NAMES_52
#undef TILEON_SUMS_52
#undef TILEON_NAMES_64
#undef TILEON_SUMS_64
#undef TILEON_NAMES_72
#undef TILEON_SUMS_72
#undef TILEON_NAMES_80
#undef TILEON_SUMS_80
#undef TILEON_NAMES_88
#undef TILEON_SUMS_88
#undef TILEON_NAMES_96
#undef TILEON_SUMS_96
#undef TILEON_NAMES_104
#undef TILEON_SUMS_104
#undef TILEON_NAMES_112
#undef TILEON_SUMS_112
#undef TILEON_NAMES_120
#undef TILEON_SUMS_120
#undef TILEON_NAMES_128
#undef TILEON_SUMS_128

}  // namespace tileon::ptx
