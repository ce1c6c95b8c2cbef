// What the choice of a kernel needs to know of a GPU.
#pragma once

namespace tileon {

struct Gpu {
  int capability;  // major * 10 + minor
  int sm_count;
  int shared_bytes_per_block;  // the most that one CTA may ask for: 99 KB on sm_86, sm_89, sm_120; 163 sm_80; 227 sm_90
};

}  // namespace tileon
