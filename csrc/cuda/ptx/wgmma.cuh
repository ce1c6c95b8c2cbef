// Warpgroup-wide matrix products (sm_90a): sums[64][n] (+)= a[64][16] b[16][n], 16-bit operands in shared memory.
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
// want them (TILEON_NAMES_<count>, TILEON_SUMS_<count>), each the shorter one and the rest:
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
#define TILEON_SUMS_4 "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
#define TILEON_SUMS_8 TILEON_SUMS_4, "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7])
#define TILEON_SUMS_16                                                                                         \
  TILEON_SUMS_8, "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]), "+f"(sums[12]), "+f"(sums[13]), \
      "+f"(sums[14]), "+f"(sums[15])
#define TILEON_SUMS_32                                                                                                \
  TILEON_SUMS_16, "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]),     \
      "+f"(sums[22]), "+f"(sums[23]), "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), \
      "+f"(sums[29]), "+f"(sums[30]), "+f"(sums[31])
#define TILEON_SUMS_48                                                                                                \
  TILEON_SUMS_32, "+f"(sums[32]), "+f"(sums[33]), "+f"(sums[34]), "+f"(sums[35]), "+f"(sums[36]), "+f"(sums[37]),     \
      "+f"(sums[38]), "+f"(sums[39]), "+f"(sums[40]), "+f"(sums[41]), "+f"(sums[42]), "+f"(sums[43]), "+f"(sums[44]), \
      "+f"(sums[45]), "+f"(sums[46]), "+f"(sums[47])
#define TILEON_SUMS_52 TILEON_SUMS_48, "+f"(sums[48]), "+f"(sums[49]), "+f"(sums[50]), "+f"(sums[51])
#define TILEON_SUMS_64                                                                                            \
  TILEON_SUMS_52, "+f"(sums[52]), "+f"(sums[53]), "+f"(sums[54]), "+f"(sums[55]), "+f"(sums[56]), "+f"(sums[57]), \
      "+f"(sums[58]), "+f"(sums[59]), "+f"(sums[60]), "+f"(sums[61]), "+f"(sums[62]), "+f"(sums[63])
#define TILEON_SUMS_72                                                                                            \
  TILEON_SUMS_64, "+f"(sums[64]), "+f"(sums[65]), "+f"(sums[66]), "+f"(sums[67]), "+f"(sums[68]), "+f"(sums[69]), \
      "+f"(sums[70]), "+f"(sums[71])
#define TILEON_SUMS_80                                                                                            \
  TILEON_SUMS_72, "+f"(sums[72]), "+f"(sums[73]), "+f"(sums[74]), "+f"(sums[75]), "+f"(sums[76]), "+f"(sums[77]), \
      "+f"(sums[78]), "+f"(sums[79])
#define TILEON_SUMS_88                                                                                            \
  TILEON_SUMS_80, "+f"(sums[80]), "+f"(sums[81]), "+f"(sums[82]), "+f"(sums[83]), "+f"(sums[84]), "+f"(sums[85]), \
      "+f"(sums[86]), "+f"(sums[87])
#define TILEON_SUMS_96                                                                                            \
  TILEON_SUMS_88, "+f"(sums[88]), "+f"(sums[89]), "+f"(sums[90]), "+f"(sums[91]), "+f"(sums[92]), "+f"(sums[93]), \
      "+f"(sums[94]), "+f"(sums[95])
#define TILEON_SUMS_104                                                                                             \
  TILEON_SUMS_96, "+f"(sums[96]), "+f"(sums[97]), "+f"(sums[98]), "+f"(sums[99]), "+f"(sums[100]), "+f"(sums[101]), \
      "+f"(sums[102]), "+f"(sums[103])
#define TILEON_SUMS_112                                                                                 \
  TILEON_SUMS_104, "+f"(sums[104]), "+f"(sums[105]), "+f"(sums[106]), "+f"(sums[107]), "+f"(sums[108]), \
      "+f"(sums[109]), "+f"(sums[110]), "+f"(sums[111])
#define TILEON_SUMS_120                                                                                 \
  TILEON_SUMS_112, "+f"(sums[112]), "+f"(sums[113]), "+f"(sums[114]), "+f"(sums[115]), "+f"(sums[116]), \
      "+f"(sums[117]), "+f"(sums[118]), "+f"(sums[119])
#define TILEON_SUMS_128                                                                                 \
  TILEON_SUMS_120, "+f"(sums[120]), "+f"(sums[121]), "+f"(sums[122]), "+f"(sums[123]), "+f"(sums[124]), \
      "+f"(sums[125]), "+f"(sums[126]), "+f"(sums[127])

// One product with n columns: `count` sums, then the names of the operands behind them.
#define TILEON_WGMMA_TYPED(n, count, type, a_name, b_name, accumulate_name, transpose_a_name, transpose_b_name) \
  asm volatile("{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, " accumulate_name                            \
               ", 0;\n"                                                                                         \
               "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" TILEON_NAMES_##count        \
               "}, " a_name ", " b_name ", accumulate, 1, 1, " transpose_a_name ", " transpose_b_name ";\n}"    \
               : TILEON_SUMS_##count                                                                            \
               : "l"(a), "l"(b), "r"(accumulate), "n"(kTransposeA), "n"(kTransposeB)                            \
               : "memory")

#define TILEON_WGMMA(n, count, ...)                      \
  if constexpr (kColumns == n) {                         \
    if constexpr (std::is_same_v<Element, __half>)       \
      TILEON_WGMMA_TYPED(n, count, "f16", __VA_ARGS__);  \
    else                                                 \
      TILEON_WGMMA_TYPED(n, count, "bf16", __VA_ARGS__); \
  } else

// `a` and `b` are shared-memory descriptors (sm90/operand_tile.h). An operand is transposed where its m or n, not its
// k, runs along the rows in shared memory. `accumulate` of 0 overwrites the sums.
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

#undef TILEON_WGMMA
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
