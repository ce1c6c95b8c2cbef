// What a call says whose memory did not fit, where torch does not tell its own words. Plain C++: no torch header here.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace tileon {

constexpr int kMaxDims = 5;

struct Shape {
  int64_t dims;
  int64_t sizes[kMaxDims];
};

constexpr const char* kReasonIsOnStderr = "torch before 2.13 writes the reason to stderr";

// Begins as torch's message does, which programs look for that make their batches smaller until they fit.
inline std::string memory_text(const char* op, const Shape& shape, int element_bytes, bool on_gpu) {
  double bytes = element_bytes;
  for (int64_t i = 0; i < shape.dims; ++i) bytes *= static_cast<double>(shape.sizes[i]);
  char text[160];
  if (on_gpu)
    std::snprintf(text, sizeof(text), "CUDA out of memory. Tried to allocate %.2f GiB for %s", bytes / (1 << 30), op);
  else
    std::snprintf(text, sizeof(text),
                  "DefaultCPUAllocator: can't allocate memory: you tried to allocate %.0f bytes for %s", bytes, op);
  return std::string(text) + "; " + kReasonIsOnStderr;
}

}  // namespace tileon
