#include "cpu/tiles/versions.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#ifdef __x86_64__
#include <cpuid.h>
#endif
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "checks/operands.h"

namespace tileon {
namespace {

enum Version { kBaseline, kAvx2, kAvx512, kAvx512Bfloat16, kAmx };
constexpr const char* kVersions[] = {"baseline", "avx2", "avx512", "avx512_bf16", "amx"};

#ifdef __x86_64__
// AMD's processors from Zen 5 on: they multiply vectors of 512 bits at once, and MKL, which is ATen's product, has the
// code for AVX2 for whatever is not Intel's.
bool is_zen_5_or_later() {
  constexpr uint32_t kZen5 = 0x1a;  // the family
  uint32_t a, b, c, d;
  if (__get_cpuid(0, &a, &b, &c, &d) == 0 || b != signature_AMD_ebx || c != signature_AMD_ecx) return false;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (a >> 8 & 0xf) + (a >> 20 & 0xff) >= kZen5;
}

// Bits of CPUID for what not every compiler's __builtin_cpu_supports knows by name.
bool has_f16c() {
  uint32_t a, b, c, d;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c >> 29 & 1) != 0;
}

// AMX's parts BF16, TILE and INT8.
[[maybe_unused]] bool has_amx() {
  constexpr uint32_t kParts = 1u << 22 | 1u << 24 | 1u << 25;
  uint32_t a, b, c, d;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kParts) == kParts;
}
#endif

// Whether the processor has the tile registers, and Linux lets this process use them, which has to be asked for.
bool may_use_amx() {
#ifdef TILEON_HAS_AMX
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return __builtin_cpu_supports("avx512vbmi") && has_amx() &&
         syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

// The widest version that this processor runs, up to the wanted one: Linux is asked for nothing that is not wanted.
Version widest_version(Version wanted) {
#ifdef __x86_64__
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !has_f16c()) return kBaseline;
  const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (!has_avx512) return kAvx2;
  if (!__builtin_cpu_supports("avx512bf16")) return kAvx512;
  return wanted == kAmx && may_use_amx() ? kAmx : kAvx512Bfloat16;
#else
  static_cast<void>(wanted);
  return kBaseline;
#endif
}

Version wanted_version() {
  const char* name = std::getenv("TILEON_CPU_VECTORS");
  if (name == nullptr || *name == '\0') return kAmx;
  for (int i = 0; i < static_cast<int>(std::size(kVersions)); ++i)
    if (strcmp(name, kVersions[i]) == 0) return static_cast<Version>(i);
  fail("tileon: TILEON_CPU_VECTORS must be baseline, avx2, avx512, avx512_bf16 or amx, got ", name);
}

// Read once, at the first product.
Version version_in_use() {
  static const Version version = [] {
    const Version wanted = wanted_version();
    return std::min(widest_version(wanted), wanted);
  }();
  return version;
}

}  // namespace

bool has_fast_tiles() {
#ifdef __x86_64__
  static const bool has = is_zen_5_or_later() && version_in_use() >= kAvx512;
  return has;
#else
  return false;
#endif
}

bool multiplies_pairs_of_bfloat16() { return version_in_use() == kAvx512Bfloat16; }

// Beside AMX the lanes of float32: there they take 0.7 of the time that pairs of bfloat16 take, measured at 256 rows by
// 2048 x 2048 on Sapphire Rapids.
const TileKernels& vector_kernels() {
#ifdef __x86_64__
  if (version_in_use() == kAvx512Bfloat16) return kAvx512Bfloat16Kernels;
  if (version_in_use() >= kAvx512) return kAvx512Kernels;
  if (version_in_use() == kAvx2) return kAvx2Kernels;
#endif
  return kBaselineKernels;
}

// Few rows of bfloat16 are multiplied sooner by the vector code, unless the order must not hang on m: 2 rows by 2048 x
// 2048 in 467 us for 601, 6 in 637 for 638, 8 in 751 for 644, on Sapphire Rapids.
const TileKernels& kernels_of(const Problem& problem, bool is_batch_invariant) {
#ifdef TILEON_HAS_AMX
  const auto fits = [](const Operand& operand) { return fits_bfloat16(operand) || changes_along_k(operand.scale); };
  constexpr int64_t kFewRows = 6;
  const bool are_few =
      problem.m <= kFewRows && problem.a.dtype == DType::kBFloat16 && !problem.is_scaled() && !is_batch_invariant;
  if (version_in_use() == kAmx && !are_few && (is_int8_product(problem) || (fits(problem.a) && fits(problem.b))))
    return kAmxKernels;
#endif
  static_cast<void>(problem), static_cast<void>(is_batch_invariant);
  return vector_kernels();
}

}  // namespace tileon
