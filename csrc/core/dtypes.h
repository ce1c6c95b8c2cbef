// One row per dtype that a kernel can read or write.
#pragma once

#include <cstdint>

namespace tileon {

enum class DType : int8_t { kFloat16, kBFloat16, kFloat32, kFloat64, kFloat8E4M3, kFloat8E5M2, kFloat4E2M1 };

struct DTypeInfo {
  DType dtype;
  const char* name;  // torch's name
  int bytes;         // of e2m1, those of a pair: the even k in the low half
};

constexpr DTypeInfo kDTypes[] = {
    {DType::kFloat16, "float16", 2},
    {DType::kBFloat16, "bfloat16", 2},
    {DType::kFloat32, "float32", 4},
    {DType::kFloat64, "float64", 8},
    {DType::kFloat8E4M3, "float8_e4m3fn", 1},
    {DType::kFloat8E5M2, "float8_e5m2", 1},
    {DType::kFloat4E2M1, "float4_e2m1fn_x2", 1},
};

constexpr const DTypeInfo& info(DType dtype) { return kDTypes[static_cast<int>(dtype)]; }

constexpr bool is_float8(DType dtype) { return dtype == DType::kFloat8E4M3 || dtype == DType::kFloat8E5M2; }

constexpr bool in_order_of_enum() {
  for (int i = 0; i < int(sizeof(kDTypes) / sizeof(kDTypes[0])); ++i)
    if (static_cast<int>(kDTypes[i].dtype) != i) return false;
  return true;
}
static_assert(in_order_of_enum());

}  // namespace tileon
