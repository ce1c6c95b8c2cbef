// One row per dtype that a kernel can read or write.
#pragma once

#include <cstdint>

namespace tileon {

enum class DType : int8_t { kFloat16, kBFloat16, kFloat32, kFloat64, kFloat8E4M3, kFloat8E5M2 };

struct DTypeInfo {
  DType dtype;
  const char* name;  // torch's name
  int bytes;
};

constexpr DTypeInfo kDTypes[] = {
    {DType::kFloat16, "float16", 2}, {DType::kBFloat16, "bfloat16", 2},        {DType::kFloat32, "float32", 4},
    {DType::kFloat64, "float64", 8}, {DType::kFloat8E4M3, "float8_e4m3fn", 1}, {DType::kFloat8E5M2, "float8_e5m2", 1},
};

constexpr const DTypeInfo& info(DType dtype) { return kDTypes[static_cast<int>(dtype)]; }

constexpr bool is_float8(DType dtype) { return info(dtype).bytes == 1; }

constexpr bool in_order_of_enum() {
  for (int i = 0; i < int(sizeof(kDTypes) / sizeof(kDTypes[0])); ++i)
    if (static_cast<int>(kDTypes[i].dtype) != i) return false;
  return true;
}
static_assert(in_order_of_enum());

}  // namespace tileon
