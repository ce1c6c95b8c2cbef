// Whether rows that are quantized for a product are multiplied sooner as the numbers that their codes stand for, by the
// kernels of a weight that alone has scales. Pure functions of the problem and the GPU.
//
// Quantizing to numbers is one launch, as quantizing to codes is. Numbers need no decoding, and none of the passes that
// prepare codes; codes are shorter, and kernels for many rows multiply them faster. Found by 756 products of an H200, 9
// weights by 20 to 24 numbers of rows in bfloat16 (codes_or_numbers.csv.xz): by their times this choice takes 0.3 to
// 0.9 % more than the faster way, by format, and 0.1 to 0.9 % more for 5 other weights; codes alone take 7 to 15 %
// more.
#pragma once

#include <cstdint>

#include "core/formats.h"
#include "cuda/common/kernel_choice.h"
#include "cuda/sm90/heuristics/recent_choices.h"
#include "cuda/sm90/heuristics/select_scaled.h"

namespace tileon::sm90 {

// More rows are not asked about but of nvfp4, whose codes no kernel multiplies as they are.
constexpr int64_t kMaxRoundedRows = 384;

// Up to so many rows by mxfp4, the shortest codes, numbers are faster wherever kernels read the weight straight into
// registers; above, where these take so much less.
constexpr int64_t kAlwaysRoundedRows = 8;
constexpr double kRoundedShare = 0.9;

// What the numbers' quantizing takes longer, 16 bits that are written and read again, and what the two sides' costs are
// apart besides.
constexpr double kRoundedNs = 2000.0, kRoundedBesideDirectNs = 2500.0;

// The same product by codes, as quantizing leaves them.
inline Problem with_codes(const Problem& numbers, Format format) {
  const FormatInfo& of = info(format);
  Problem codes = numbers;
  codes.a = {{nullptr, numbers.k / elements_per_byte(of.dtype), 1, 0},
             of.dtype,
             {nullptr, of.scale, of.vec, packed_scales(numbers.k / of.vec)}};
  return codes;
}

// 1 where the numbers are expected to take less; else 0. `numbers` is a product of 16 bits by a weight that alone has
// scales, none of its sizes 0; `format` is a Format.
inline int numbers_pay(const Problem& numbers, const Gpu& gpu, int format) {
  const bool is_mxfp4 = format == static_cast<int>(Format::kMxfp4);
  const auto codes_ns = [&] { return cheapest_of_two(with_codes(numbers, static_cast<Format>(format)), gpu).ns; };
  const int direct = choose_direct_weight(numbers, gpu);
  if (direct >= 0) {
    if (!is_mxfp4 || numbers.m <= kAlwaysRoundedRows) return 1;
    const double ns = direct_ns(kBlockScaledConfigs[direct].tile, numbers, gpu) + kRoundedBesideDirectNs;
    return ns < kRoundedShare * codes_ns() ? 1 : 0;
  }
  if (is_float16_by_mxfp4(numbers)) return 0;  // in which blocks of small elements are lost, and multiplied anew
  if (weigh_block_scaled(numbers, gpu).config < 0) return 0;    // another backend's, which are slower
  if (numbers.m <= kFewRowsOfOneTile) return is_mxfp4 ? 0 : 1;  // two operands of e2m1 have the faster kernels
  const Cheapest rounded = cheapest_of_blocks(numbers, Operands::kBFloat16, gpu);
  return rounded.config >= 0 && rounded.ns + kRoundedNs < codes_ns() ? 1 : 0;
}

// Whether it is asked at all.
constexpr bool may_numbers_pay(const Problem& numbers, Format format) {
  return format == Format::kNvfp4 || numbers.m <= kMaxRoundedRows;
}

inline constexpr auto numbers_pay_once = &choose_once<WithConfig<ScaledChoiceKey>, numbers_pay, int>;

}  // namespace tileon::sm90
