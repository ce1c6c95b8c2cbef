// Whether rows that are quantized for a product are multiplied faster as the numbers that their codes stand for.
#pragma once

#include <cstdint>

#include "core/formats.h"
#include "core/problem.h"

namespace tileon::sm90 {

inline bool are_numbers_faster(Format format, const Problem& problem) {
  return format == Format::kNvfp4 || problem.m <= 256;
}

}  // namespace tileon::sm90
