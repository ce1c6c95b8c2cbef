// PTX ISA: "State Spaces" (.shared), "ld", "st", "ldmatrix", "stmatrix"; "mbarrier",
// "cp.async.bulk", "cp.async.bulk.tensor", "cp.async.bulk.wait_group", "prefetch"; "elect.sync", "bar",
// "fence", "griddepcontrol".
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
inline uint32_t load_shared_2(uint32_t shared, Site where = Site::here()) {
  return simulation::load_shared<uint16_t>(shared, where);
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

// ---- copies, and barriers in shared memory ----

inline void mbarrier_init(uint32_t barrier, uint32_t arrivals, Site where = Site::here()) {
  simulation::mbarrier_init(barrier, arrivals, where);
}
inline void fence_mbarrier_init(Site where = Site::here()) { simulation::fence_mbarrier_init(where); }
inline void mbarrier_arrive_expect_tx(uint32_t barrier, uint32_t bytes, Site where = Site::here()) {
  simulation::mbarrier_arrive_expect_tx(barrier, bytes, where);
}
inline void mbarrier_arrive(uint32_t barrier, Site where = Site::here()) {
  simulation::mbarrier_arrive(barrier, where);
}
inline bool mbarrier_try_wait(uint32_t barrier, uint32_t parity, Site where = Site::here()) {
  return simulation::mbarrier_try_wait(barrier, parity, where);
}

inline void tma_load_4d(uint32_t shared, const CUtensorMap& map, uint32_t barrier, int x, int y, int z, int w,
                        Site where = Site::here()) {
  const int at[] = {x, y, z, w};
  simulation::load_box(shared, map, barrier, at, 4, where);
}
inline void tma_load_4d_multicast(uint32_t shared, const CUtensorMap& map, uint32_t barrier, uint16_t ctas, int x,
                                  int y, int z, int w, Site where = Site::here()) {
  const int at[] = {x, y, z, w};
  simulation::load_box_multicast(shared, map, barrier, ctas, at, 4, where);
}
inline void bulk_load(uint32_t shared, const void* global, uint32_t barrier, int bytes, Site where = Site::here()) {
  simulation::load_bytes(shared, global, barrier, bytes, where);
}
inline void tma_store_3d_by_warp(const CUtensorMap& map, uint32_t shared, int x, int y, int z,
                                 Site where = Site::here()) {
  const int at[] = {x, y, z};
  simulation::store_box_by_warp(map, shared, at, 3, where);
}
template <int kPending>
inline void tma_wait_read(Site where = Site::here()) {
  simulation::wait_for_store_reads(kPending, where);
}
inline void prefetch_l2(const void*) {}
inline void prefetch_tensor_map(const CUtensorMap& map, Site where = Site::here()) {
  simulation::prefetch_tensor_map(map, where);
}

// ---- how threads meet ----

inline bool elect_one(Site where = Site::here()) { return simulation::elect_one(where); }

inline void barrier_sync(int id, int threads, Site where = Site::here()) { simulation::sync_named(id, threads, where); }
inline void barrier_arrive(int id, int threads, Site where = Site::here()) {
  simulation::arrive_named(id, threads, where);
}

inline void fence_proxy_async(Site where = Site::here()) { simulation::fence_proxy_async(where); }

inline void grid_dependency_wait(Site where = Site::here()) { simulation::wait_for_grid(where); }
inline void grid_dependency_launch(Site where = Site::here()) { simulation::launch_dependents(where); }

inline void fault() { simulation::fault("the kernel's own fault"); }

// PTX ISA, "ld.acquire", "st.release".
inline void store_release(uint64_t* word, uint64_t value, Site where = Site::here()) {
  simulation::store_release(word, value, where);
}
inline uint64_t load_acquire(const uint64_t* word, Site where = Site::here()) {
  return simulation::load_acquire(word, where);
}

template <int kCount>
inline void release_registers(Site where = Site::here()) {
  static_assert(kCount >= 24 && kCount <= 256 && kCount % 8 == 0);
  simulation::set_registers(kCount, false, where);
}
template <int kCount>
inline void acquire_registers(Site where = Site::here()) {
  static_assert(kCount >= 24 && kCount <= 256 && kCount % 8 == 0);
  simulation::set_registers(kCount, true, where);
}

inline uint32_t opaque(uint32_t value) { return value; }
inline void pin(float&) {}

}  // namespace tileon::ptx
