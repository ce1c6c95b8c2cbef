// PTX ISA: "State Spaces" (.shared), "ld", "st".
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

}  // namespace tileon::ptx
