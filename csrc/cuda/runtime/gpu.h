// What the choice of a kernel needs to know of a GPU.
#pragma once

namespace tileon {

struct Gpu {
  int capability;  // major * 10 + minor
  int sm_count;
  int shared_bytes_per_block;  // at most shared_limit(capability)
  int image = capability;      // what its image of the portable kernels was compiled for: less, where that is PTX
};

// The most shared memory that one CTA may have on a GPU of this capability. Kernels that need more are left empty in
// its image; 8.7 has 163 KB, but runs the image of 8.6.
constexpr int shared_limit(int capability) {
  return (capability == 80 ? 163 : capability >= 90 && capability < 120 ? 227 : 99) * 1024;
}

}  // namespace tileon
