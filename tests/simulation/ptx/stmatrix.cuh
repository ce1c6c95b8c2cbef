// PTX ISA: "stmatrix".
#pragma once

#include <cstdint>

#include "machine.h"

namespace tileon::ptx {

using simulation::Site;

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
