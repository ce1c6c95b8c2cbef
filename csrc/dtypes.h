// One row per dtype that a kernel can read or write.
#pragma once

#include <cstdint>

namespace tileon {

enum class DType : int8_t { kFloat16, kBFloat16, kFloat32, kFloat64 };

struct DTypeInfo {
  DType dtype;
  const char* name;  // torch's name
  int bytes;
};

constexpr DTypeInfo kDTypes[] = {
    {DType::kFloat16, "float16", 2},
    {DType::kBFloat16, "bfloat16", 2},
    {DType::kFloat32, "float32", 4},
    {DType::kFloat64, "float64", 8},
};

constexpr const DTypeInfo& info(DType dtype) { return kDTypes[static_cast<int>(dtype)]; }

static_assert(info(DType::kFloat16).dtype == DType::kFloat16 && info(DType::kBFloat16).dtype == DType::kBFloat16 &&
                  info(DType::kFloat32).dtype == DType::kFloat32 && info(DType::kFloat64).dtype == DType::kFloat64,
              "rows stand in the order of the enum");

}  // namespace tileon
