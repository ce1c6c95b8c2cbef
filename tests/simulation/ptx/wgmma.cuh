// PTX ISA: "wgmma.mma_async", "wgmma.fence", "wgmma.commit_group", "wgmma.wait_group".
#pragma once

#include <cstdint>

#include "machine.h"

namespace tileon::ptx {

using simulation::Site;

inline void pin(uint32_t&) {}  // the fragments are worked out where they stand
inline void wgmma_fence(Site where = Site::here()) { simulation::wgmma_fence(where); }
inline void wgmma_commit(Site where = Site::here()) { simulation::wgmma_commit(where); }
template <int kPending>
inline void wgmma_wait(Site where = Site::here()) {
  simulation::wgmma_wait(kPending, where);
}

template <typename Element>
inline constexpr simulation::Type type_of_half =
    std::is_same_v<Element, __half> ? simulation::Type::kFloat16 : simulation::Type::kBFloat16;

template <typename Element, int kColumns, int kTransposeA, int kTransposeB>
inline void wgmma_m64k16(float (&sums)[kColumns / 2], uint64_t a, uint64_t b, int accumulate,
                         Site where = Site::here()) {
  simulation::wgmma(reinterpret_cast<uint32_t*>(sums),
                    {type_of_half<Element>, type_of_half<Element>, kColumns, kTransposeA != 0, kTransposeB != 0,
                     accumulate != 0, a, b, nullptr},
                    where);
}
template <typename Element, int kColumns>
inline void wgmma_m64k16(float (&sums)[kColumns / 2], const uint32_t (&a)[4], uint64_t b, int accumulate,
                         Site where = Site::here()) {
  simulation::wgmma(reinterpret_cast<uint32_t*>(sums),
                    {type_of_half<Element>, type_of_half<Element>, kColumns, false, false, accumulate != 0, 0, b, a},
                    where);
}
template <int kColumns>
inline void wgmma_m64k8(float (&sums)[kColumns / 2], uint64_t a, uint64_t b, int accumulate,
                        Site where = Site::here()) {
  simulation::wgmma(
      reinterpret_cast<uint32_t*>(sums),
      {simulation::Type::kTf32, simulation::Type::kTf32, kColumns, false, false, accumulate != 0, a, b, nullptr},
      where);
}
template <int kColumns>
inline void wgmma_m64k8(float (&sums)[kColumns / 2], const uint32_t (&a)[4], uint64_t b, int accumulate,
                        Site where = Site::here()) {
  simulation::wgmma(
      reinterpret_cast<uint32_t*>(sums),
      {simulation::Type::kTf32, simulation::Type::kTf32, kColumns, false, false, accumulate != 0, 0, b, a}, where);
}
template <int kColumns>
inline void wgmma_m64k32_e5m2(float (&sums)[kColumns / 2], const uint32_t (&a)[4], uint64_t b,
                              Site where = Site::here()) {
  simulation::wgmma(reinterpret_cast<uint32_t*>(sums),
                    {simulation::Type::kE5M2, simulation::Type::kE5M2, kColumns, false, false, false, 0, b, a}, where);
}
template <int kColumns>
inline void wgmma_m64k32_e4m3(float (&sums)[kColumns / 2], const uint32_t (&a)[4], uint64_t b, int accumulate,
                              Site where = Site::here()) {
  simulation::wgmma(
      reinterpret_cast<uint32_t*>(sums),
      {simulation::Type::kE4M3, simulation::Type::kE4M3, kColumns, false, false, accumulate != 0, 0, b, a}, where);
}
template <int kColumns>
inline void wgmma_m64k32(int32_t (&sums)[kColumns / 2], uint64_t a, uint64_t b, int accumulate,
                         Site where = Site::here()) {
  simulation::wgmma(
      reinterpret_cast<uint32_t*>(sums),
      {simulation::Type::kInt8, simulation::Type::kInt8, kColumns, false, false, accumulate != 0, a, b, nullptr},
      where);
}
template <bool kAIsE4M3, bool kBIsE4M3, int kColumns>
inline void wgmma_m64k32(float (&sums)[kColumns / 2], uint64_t a, uint64_t b, int accumulate,
                         Site where = Site::here()) {
  simulation::wgmma(reinterpret_cast<uint32_t*>(sums),
                    {kAIsE4M3 ? simulation::Type::kE4M3 : simulation::Type::kE5M2,
                     kBIsE4M3 ? simulation::Type::kE4M3 : simulation::Type::kE5M2, kColumns, false, false,
                     accumulate != 0, a, b, nullptr},
                    where);
}

}  // namespace tileon::ptx
