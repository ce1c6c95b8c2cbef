// The small floats by their definitions: every code's value, and encoding at every value, at every midpoint between two
// values and at the float32 neighbours of both.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <limits>

#include "core/small_floats.h"

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// The magnitude of a code by the general formula of a format without infinity or NaN.
double magnitude(int code, int mantissa_bits, int bias) {
  const int exponent = code >> mantissa_bits;
  const double fraction = std::ldexp(code & ((1 << mantissa_bits) - 1), -mantissa_bits);
  return exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
}

bool same(float x, double y) {
  if (std::isnan(y)) return std::isnan(x);
  return x == y && std::signbit(x) == std::signbit(y);
}

// A format with its sign at bit `sign_bit`, whose codes from 0 to `largest` are its magnitudes in order.
struct Format {
  const char* name;
  float (*value)(uint32_t);
  uint32_t (*code)(float);
  int largest;
  int sign_bit;
  int mantissa_bits;
  int bias;
};

int check_codes(const Format& format) {
  int failures = 0;
  for (int code = 0; code <= format.largest; ++code) {
    const double wanted = magnitude(code, format.mantissa_bits, format.bias);
    const uint32_t negative = code | 1 << format.sign_bit;
    failures += !same(format.value(code), wanted) + !same(format.value(negative), -wanted);
    if (format.code == nullptr) continue;
    failures += format.code(static_cast<float>(wanted)) != static_cast<uint32_t>(code);
    failures += format.code(static_cast<float>(-wanted)) != negative;
  }
  return failures;
}

// A number and its negative both become `code`, but for the sign.
int check_number(const Format& format, float number, int code) {
  return (format.code(number) != static_cast<uint32_t>(code)) +
         (format.code(-number) != static_cast<uint32_t>(code | 1 << format.sign_bit));
}

int check_encoding(const Format& format) {
  int failures = 0;
  for (int code = 0; code < format.largest; ++code) {
    const float low = format.value(code), high = format.value(code + 1);
    const float middle = low + (high - low) / 2;  // exact
    failures += check_number(format, middle, code % 2 == 0 ? code : code + 1);
    failures += check_number(format, std::nextafter(middle, 0.0f), code);
    failures += check_number(format, std::nextafter(middle, kInfinity), code + 1);
    failures += check_number(format, std::nextafter(low, kInfinity), code);
    failures += check_number(format, std::nextafter(high, 0.0f), code + 1);
  }
  const float largest = format.value(format.largest);
  for (const float beyond :
       {std::nextafter(largest, kInfinity), 2 * largest, std::numeric_limits<float>::max(), kInfinity})
    failures += check_number(format, beyond, format.largest);
  failures += check_number(format, std::numeric_limits<float>::denorm_min(), 0);
  return failures;
}

int check_e8m0() {
  int failures = 0;
  for (int byte = 0; byte < 255; ++byte) failures += !same(tileon::e8m0_value(byte), std::ldexp(1.0, byte - 127));
  return failures + !std::isnan(tileon::e8m0_value(255));
}

// Every multiple of an eighth around the 255 codes, against the processor's own rounding to even.
int check_int8() {
  int failures = 0;
  for (int eighths = -8 * 127 - 3; eighths <= 8 * 127 + 3; ++eighths) {
    const float number = static_cast<float>(eighths) / 8;
    const auto code = static_cast<int8_t>(tileon::int8_in_low_byte(number));
    failures += code != static_cast<int>(std::nearbyint(number));
  }
  return failures;
}

int check_nan() {
  int failures = 0;
  for (const float nan : {kNaN, -kNaN}) {
    const uint32_t sign = std::signbit(nan) ? 0x80 : 0;
    failures += tileon::e4m3_code(nan) != (0x7f | sign);
    failures += tileon::e2m1_code(nan) != 7;
  }
  failures += !std::isnan(tileon::e4m3_value(0x7f)) + !std::isnan(tileon::e4m3_value(0xff));
  for (const uint32_t code : {0x7d, 0x7e, 0x7f, 0xfd, 0xfe, 0xff}) failures += !std::isnan(tileon::e5m2_value(code));
  return failures + !same(tileon::e5m2_value(0x7c), kInfinity) + !same(tileon::e5m2_value(0xfc), -kInfinity);
}

}  // namespace

int main() {
  const Format e2m1{"e2m1", tileon::e2m1_value, tileon::e2m1_code, 7, 3, 1, 1};
  const Format e4m3{"e4m3", tileon::e4m3_value, tileon::e4m3_code, 0x7e, 7, 3, 7};
  const Format e5m2{"e5m2", tileon::e5m2_value, nullptr, 0x7b, 7, 2, 15};  // nothing encodes it
  int failures = check_e8m0() + check_nan() + check_int8();
  for (const Format& format : {e2m1, e4m3, e5m2}) {
    int here = check_codes(format);
    if (format.code != nullptr) here += check_encoding(format);
    if (here != 0) std::printf("%s: %d failures\n", format.name, here);
    failures += here;
  }
  std::printf("small floats: %d failures\n", failures);
  return failures != 0;
}
