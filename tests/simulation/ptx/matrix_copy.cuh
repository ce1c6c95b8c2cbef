// 8x8 matrices of 16-bit elements between shared memory and registers.
#pragma once

#include <cstdint>

#include "machine.h"

namespace tileon::ptx {

using simulation::Site;

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
