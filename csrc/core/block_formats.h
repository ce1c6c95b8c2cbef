// The block-scaled formats: what an element is, what a scale is, and how many elements share one.
#pragma once

#include <cstdint>

#include "core/dtypes.h"
#include "core/host_device.h"

namespace tileon {

enum class ScaleType : int8_t { kE8M0, kE4M3 };

// Of one operand; a product of two different mx operands is called mixed.
enum class Format : int8_t { kMxfp8, kMxfp4, kNvfp4 };

struct FormatInfo {
  Format format;
  const char* name;  // as the ops take it
  DType dtype;       // of its elements: kFloat8E4M3 or kFloat4E2M1
  ScaleType scale;
  int vec;  // elements along k that share a scale
};

constexpr FormatInfo kFormats[] = {
    {Format::kMxfp8, "mxfp8", DType::kFloat8E4M3, ScaleType::kE8M0, 32},
    {Format::kMxfp4, "mxfp4", DType::kFloat4E2M1, ScaleType::kE8M0, 32},
    {Format::kNvfp4, "nvfp4", DType::kFloat4E2M1, ScaleType::kE4M3, 16},
};

constexpr const FormatInfo& info(Format format) { return kFormats[static_cast<int>(format)]; }
static_assert(info(Format::kMxfp8).format == Format::kMxfp8 && info(Format::kMxfp4).format == Format::kMxfp4 &&
                  info(Format::kNvfp4).format == Format::kNvfp4,
              "rows stand in the order of the enum");

// Of a product; both of its operands have scales of one type.
constexpr int vec_of(ScaleType scale) { return info(scale == ScaleType::kE8M0 ? Format::kMxfp8 : Format::kNvfp4).vec; }
static_assert(info(Format::kMxfp8).vec == info(Format::kMxfp4).vec, "mixed products read both with one vec");

constexpr const char* product_name(DType a, DType b, ScaleType scale) {
  if (a != b) return "mixed";
  if (scale == ScaleType::kE4M3) return info(Format::kNvfp4).name;
  return info(a == DType::kFloat8E4M3 ? Format::kMxfp8 : Format::kMxfp4).name;
}

TILEON_HOST_DEVICE constexpr int elements_per_byte(DType element) { return element == DType::kFloat4E2M1 ? 2 : 1; }

}  // namespace tileon
