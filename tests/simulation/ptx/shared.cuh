// PTX ISA: "State Spaces" (.shared), "ld", "st", "ldmatrix", "stmatrix".
#pragma once

#include <cstdint>

#include "machine.h"

namespace tileon::ptx {

using simulation::Site;

template <int kAlignment>
struct DynamicShared {
  unsigned char* begin = simulation::dynamic_shared(kAlignment);
};
// An object of each type, told apart by the address of what is one for each type.
template <typename T>
inline T& static_shared() {
  static constexpr char type = 0;
  return *static_cast<T*>(simulation::static_shared(&type, sizeof(T), alignof(T)));
}

inline uint32_t load_shared_4(uint32_t shared, Site where = Site::here()) {
  return simulation::load_shared<uint32_t>(shared, where);
}
inline uint32_t load_shared_1(uint32_t shared, Site where = Site::here()) {
  return simulation::load_shared<uint8_t>(shared, where);
}
template <int kWords>
inline void load_shared_words(uint32_t (&words)[kWords], uint32_t shared, Site where = Site::here()) {
  static_assert(kWords == 2 || kWords % 4 == 0);
  std::memcpy(words, simulation::shared_for_load(shared, kWords * 4, kWords == 2 ? 8 : 16, where), kWords * 4);
}
inline float4 load_shared_float4(uint32_t shared, Site where = Site::here()) {
  return simulation::load_shared<float4>(shared, where);
}
inline double load_shared_double(uint32_t shared, Site where = Site::here()) {
  return simulation::load_shared<double>(shared, where);
}
inline void store_shared_1(uint32_t shared, uint32_t byte, Site where = Site::here()) {
  simulation::store_shared(shared, static_cast<uint8_t>(byte), where);
}
inline void store_shared_4(uint32_t shared, uint32_t word, Site where = Site::here()) {
  simulation::store_shared(shared, word, where);
}
inline void store_shared(uint32_t shared, float value, Site where = Site::here()) {
  simulation::store_shared(shared, value, where);
}
inline void store_shared(uint32_t shared, double value, Site where = Site::here()) {
  simulation::store_shared(shared, value, where);
}
inline void store_shared_16(uint32_t shared, const uint4& words, Site where = Site::here()) {
  simulation::store_shared(shared, words, where);
}

inline void ldmatrix_x4(uint32_t (&registers)[4], uint32_t shared, Site where = Site::here()) {
  simulation::load_matrices(registers, shared, false, where);
}
inline void ldmatrix_x4_trans(uint32_t (&registers)[4], uint32_t shared, Site where = Site::here()) {
  simulation::load_matrices(registers, shared, true, where);
}

inline void stmatrix_x4(uint32_t shared, uint32_t m0, uint32_t m1, uint32_t m2, uint32_t m3,
                        Site where = Site::here()) {
  const uint32_t words[] = {m0, m1, m2, m3};
  simulation::store_matrices(shared, words, 4, false, where);
}
inline void stmatrix_x4_transposed(uint32_t shared, uint32_t m0, uint32_t m1, uint32_t m2, uint32_t m3,
                                   Site where = Site::here()) {
  const uint32_t words[] = {m0, m1, m2, m3};
  simulation::store_matrices(shared, words, 4, true, where);
}
inline void stmatrix_x2_transposed(uint32_t shared, uint32_t m0, uint32_t m1, Site where = Site::here()) {
  const uint32_t words[] = {m0, m1};
  simulation::store_matrices(shared, words, 2, true, where);
}
inline void stmatrix_x2(uint32_t shared, uint32_t m0, uint32_t m1, Site where = Site::here()) {
  const uint32_t words[] = {m0, m1};
  simulation::store_matrices(shared, words, 2, false, where);
}

}  // namespace tileon::ptx
