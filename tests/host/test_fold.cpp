// The factors of a fold in a byte (core/fold.h): of every scale beside every power that its codes may have, each code
// is folded by the byte as by the factor itself. Codes become numbers and are rounded by the formulas of fold.h alone.
#include <cmath>
#include <cstdint>

#include "core/fold.h"
#include "expect.h"

namespace {

using namespace tileon;

// To a multiple of 2^-9, of which e4m3 has as many as these numbers need.
float rounded(float number) { return std::nearbyint(number * 512) / 512; }

bool same(float x, float y) { return std::isnan(x) ? std::isnan(y) : x == y; }

struct Kind {
  const char* name;
  int codes;
  float (*value)(uint32_t);
  uint32_t (*byte)(uint32_t, int);
  float (*factor)(uint32_t);
  bool (*has_rare)(uint32_t);
};

void check(const Kind& kind) {
  int differences = 0, rare = 0;
  for (int code = 0; code < kind.codes; ++code) {
    const float value = kind.value(static_cast<uint32_t>(code));
    for (uint32_t scale = 0; scale < 256; ++scale) {
      // The row's power is that of this element, or a larger one.
      const int own = fold_power(fold_magnitude(std::isnan(value) ? 0 : value, scale));
      for (int power = value == 0 || std::isnan(value) ? -300 : own; power < 200; ++power) {
        const uint32_t byte = kind.byte(scale, power);
        rare += kind.has_rare(byte << 16);
        const float wanted = value * fold_factor(scale, power);
        differences += byte > 255 || !same(rounded(value * kind.factor(byte)), rounded(wanted));
      }
    }
  }
  expect(differences == 0, "a byte folds as the factor does:", kind.name);
  expect(rare > 0, "some bytes are rare:", kind.name);
}

// The quick bytes as kernels use them (cuda/sm90/mainloop/fold_decoder.cuh).
void check_quick_bytes() {
  for (uint32_t byte = 0; byte < 256; ++byte) {
    if (!has_rare_e4m3_fold_byte(byte) && byte < 0x7c) {
      const int exponent = static_cast<int>(byte >> 2), mantissa = static_cast<int>(byte & 3);
      const float half = exponent == 0 ? std::ldexp(mantissa, -16) : std::ldexp(1.0f + mantissa / 4.0f, exponent - 15);
      const bool is_made = exponent == 0 || mantissa == 0;
      expect(!is_made || half == e4m3_fold_factor(byte), "the upper byte of float16");
    }
    if (has_rare_e2m1_fold_byte(byte) || byte % 8 != 0 || byte > 11 << 3) continue;
    const uint32_t low = byte * 0x01010100 + 0x14100800, high = byte * 0x01010101 + 0x24201c18;
    for (uint32_t code = 0; code < 8; ++code) {
      const uint32_t folded = (code < 4 ? low : high) >> 8 * (code % 4) & 0xff;
      expect(e4m3_value(folded) == e2m1_value(code) * e2m1_fold_factor(byte), "a table of e2m1");
    }
  }
}

}  // namespace

int main() {
  check({"e4m3", 128, e4m3_value, e4m3_fold_byte, e4m3_fold_factor, has_rare_e4m3_fold_byte});
  check({"e2m1", 8, e2m1_value, e2m1_fold_byte, e2m1_fold_factor, has_rare_e2m1_fold_byte});
  check_quick_bytes();
  return report("test_fold");
}
