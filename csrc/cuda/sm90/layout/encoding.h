// What the operands of mxfp4 become before they are multiplied, as their scales decide on the device.
//
// A row of codes times the scales of its blocks is a row of narrow numbers times one power of two, as long as the
// scales do not lie too far below the largest of them. Blocks of zeros fit under any scale.
#pragma once

#include <cstdint>

#include "core/host_device.h"

namespace tileon::sm90 {

enum class Encoding : int8_t {
  kInt8,      // in halves e2m1 is 0, 1, 2, 3, 4, 6, 8, 12; three powers of two more are at most 96
  kFloat8,    // e5m2: 27 powers of two of every code; summed with fast_accum's error
  kBFloat16,  // elements times their own scales: whatever these are
};

// How many powers of two below a row's largest scale the others may lie.
constexpr int kInt8Binades = 3, kFloat8Binades = 26;

// The largest elements of a row are as large as they can be. So rows lack these powers of two, the largest scale aside.
constexpr int kInt8LackedExponent = -kInt8Binades - 1;  // and halves
constexpr int kFloat8LackedExponent = -kFloat8Binades / 2;

// The largest scale of a row in a narrow encoding, as a byte of e8m0: 2^-60 to 2^60. So no factor of a row and a column
// is infinite or 0: the smallest, 2^-146, is subnormal, which these kernels do not flush.
constexpr int kMinExponent = 67, kMaxExponent = 187;

// What does not fit, as bits of the words that the inspection leaves.
constexpr uint32_t kBeyondInt8 = 1, kBeyondFloat8 = 2;

struct EncodingChoice {
  const uint32_t* words;  // of the inspection
  int count;
  bool fast_accum;  // kFloat8 may be chosen
};

TILEON_HOST_DEVICE constexpr Encoding encoding_of(uint32_t beyond, bool fast_accum) {
  if ((beyond & kBeyondInt8) == 0) return Encoding::kInt8;
  return fast_accum && (beyond & kBeyondFloat8) == 0 ? Encoding::kFloat8 : Encoding::kBFloat16;
}

}  // namespace tileon::sm90
