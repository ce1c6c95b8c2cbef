// Epilogues that kernels may finish by a formula of their own: it must give what epilogue.h gives.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>

#include "core/epilogue.h"
#include "expect.h"

namespace {

using namespace tileon;

bool leaky_relu_is_cheap(double slope) {
  Epilogue epilogue;
  epilogue.activation = Activation::kLeakyRelu;
  epilogue.slope = slope;
  return is_cheap(epilogue);
}

bool same(float x, float y) {
  return (std::isnan(x) && std::isnan(y)) || std::memcmp(&x, &y, sizeof x) == 0;  // -0 is not 0
}

// What sm90/epilogue/ops.cuh computes for cheap slopes: fmaxf leaves out a NaN, as std::fmax does.
bool maximum_is_leaky_relu(double slope) {
  const auto held = static_cast<float>(slope);
  const float largest = std::numeric_limits<float>::max(), least = std::numeric_limits<float>::denorm_min();
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float x : {0.0f, least, 0.75f, largest, infinity, std::numeric_limits<float>::quiet_NaN()})
    for (const float signed_x : {x, -x})
      if (!same(std::fmax(signed_x, held * signed_x), activate(signed_x, Activation::kLeakyRelu, held))) return false;
  return true;
}

void check_leaky_relu() {
  // 2^-150 is halfway between 0 and the least of float32 above it, and rounds to 0.
  for (const double slope : {1.0, 0.5, 0.01, 1e-30, 0x1p-126, 0x1p-149, std::nextafter(0x1p-150, 1.0)}) {
    expect(leaky_relu_is_cheap(slope), "a slope above 0 and up to 1 is cheap");
    expect(maximum_is_leaky_relu(slope), "the larger one of x and slope x is leaky_relu");
  }
  for (const double slope : {0x1p-150, 7e-46, 1e-300, 0.0, -0.0, -7e-46, -0.5, 1.5, 1e300})
    expect(!leaky_relu_is_cheap(slope), "a slope that is 0 in float32, or below, or above 1, is not cheap");
  expect(!maximum_is_leaky_relu(7e-46), "with slope 0 the larger one keeps -inf, of which leaky_relu makes NaN");
  expect(!leaky_relu_is_cheap(std::numeric_limits<double>::quiet_NaN()), "a slope of NaN is not cheap");
}

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();

// Of float: as the CPU computes them, and as a GPU does, by exact exp2 and division: the functions' own errors.
template <typename Functions>
void check_special_functions(const char* where) {
  const auto distribution = [](float x) { return normal_distribution<float, Functions>(x); };
  const auto logistic_of = [](float x) { return sigmoid<float, Functions>(x); };
  for (int i = -14000; i <= 14000; ++i) {
    const float x = static_cast<float>(i) / 1000.0f;
    const double exact = 0.5 * std::erfc(-x / std::sqrt(2.0)), found = distribution(x);
    expect(std::abs(found - exact) <= 2.5e-7, "the normal distribution within 2.5e-7", where);
    if (x >= -8) expect(std::abs(found - exact) <= (x >= -5 ? 2e-6 : 2e-5) * exact, "and near to it left of 0", where);
    const double logistic = 1 / (1 + std::exp(-static_cast<double>(x)));
    expect(std::abs(logistic_of(x) - logistic) <= 2e-6 * logistic, "the sigmoid", where);
  }
  expect(distribution(kInfinity) == 1 && distribution(-kInfinity) == 0, "the limits", where);
  expect(logistic_of(kInfinity) == 1 && logistic_of(-kInfinity) == 0, "those of the sigmoid", where);
  expect(std::isnan(distribution(kNaN)) && std::isnan(logistic_of(kNaN)), "NaN stays", where);
}

void check_functions_of_double() {
  for (int i = -14000; i <= 14000; ++i) {
    const double x = i / 1000.0;
    expect(sigmoid(x) == 1 / (1 + std::exp(-x)), "the sigmoid of double by exp");
    expect(std::abs(normal_distribution(x) - 0.5 * std::erfc(-x / std::sqrt(2.0))) <= 1e-15, "and erf");
  }
}

void check_vector_exp2() {
  for (int i = -149 * 64; i < 128 * 64; ++i) {
    const float x = static_cast<float>(i) / 64 + static_cast<float>(i % 7) * 0x1p-12f;
    const double exact = std::exp2(static_cast<double>(x));
    const double unit = std::max(std::exp2(std::floor(static_cast<double>(x)) - 23), 0x1p-149);
    expect(std::abs(vector_exp2(x) - exact) <= unit, "2^x within a unit in the last place");
  }
  for (const int whole : {-149, -126, -1, 0, 1, 127}) expect(vector_exp2(whole) == std::ldexp(1.0f, whole), "exactly");
  expect(vector_exp2(-151) == 0 && vector_exp2(-1e30f) == 0 && vector_exp2(-kInfinity) == 0, "0 far out");
  expect(vector_exp2(128) == kInfinity && vector_exp2(1e30f) == kInfinity && vector_exp2(kInfinity) == kInfinity,
         "and infinity");
  expect(std::isnan(vector_exp2(kNaN)), "of NaN");
}

}  // namespace

int main() {
  check_leaky_relu();
  check_special_functions<SpecialFunctionUnit<float>>("on a GPU");
  check_special_functions<FunctionsOf<float>>("on the CPU");
  check_functions_of_double();
  check_vector_exp2();
  return report("test_epilogue");
}
