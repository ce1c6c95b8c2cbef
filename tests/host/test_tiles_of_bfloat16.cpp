// Blocks of products by pairs of bfloat16, as processors with AVX512_BF16 multiply them, against the same blocks by
// lanes of float32: the same bits, or a refusal. The pairs' instruction is replaced by the two fused multiply-adds that
// it is.
#include <array>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "cpu/tiles/decode_exactly.cpp"
#include "cpu/tiles/variant.h"
#include "expect.h"

#define TILEON_CPU_VARIANT emulated
#define TILEON_CPU_BFLOAT16
#define TILEON_CPU_WIDTH 4
#define TILEON_CPU_REGISTERS 16
#include "cpu/tiles/kernel.h"

namespace {

using namespace tileon;

std::mt19937 random_numbers(7);

uint32_t below(uint32_t count) { return random_numbers() % count; }

// Codes, or words of bfloat16 around 2^exponent, with a scale for each block where the format has them.
struct TestOperand {
  std::vector<uint8_t> codes, scales;
  Operand operand;

  TestOperand(DType dtype, int vec, ScaleType type, int64_t rows, int64_t k, int exponent) {
    const int64_t per_byte = elements_per_byte(dtype), bytes = dtype == DType::kBFloat16 ? 2 : 1;
    codes.resize(rows * (k / per_byte) * bytes);
    for (uint8_t& byte : codes) byte = static_cast<uint8_t>(below(256));
    for (size_t i = 0; dtype == DType::kBFloat16 && i < codes.size(); i += 2) {
      const uint32_t word =
          below(2) << 15 | static_cast<uint32_t>(127 + exponent + static_cast<int>(below(7))) << 7 | below(128);
      codes[i] = static_cast<uint8_t>(word), codes[i + 1] = static_cast<uint8_t>(word >> 8);
    }
    if (dtype == DType::kFloat8E4M3)
      for (uint8_t& byte : codes) byte = (byte & 0x7f) == 0x7f ? 0 : byte;
    operand.dtype = dtype;
    operand.data = codes.data();
    operand.stride_k = 1;
    operand.stride_mn = k / per_byte;
    if (vec == 0) return;
    const int64_t cols = k / vec;
    scales.resize(rows * cols);
    for (uint8_t& byte : scales)
      byte =
          static_cast<uint8_t>(type == ScaleType::kE8M0 ? 127 + exponent + static_cast<int>(below(9)) : 32 + below(80));
    operand.scale.data = scales.data();
    operand.scale.type = type;
    operand.scale.vec = vec;
    operand.scale.strides = flat_scales(cols, 1);
  }
};

struct Kind {
  const char* name;
  DType dtype;
  int vec;
  ScaleType type;
};

constexpr Kind kKinds[] = {
    {"bfloat16", DType::kBFloat16, 0, ScaleType::kE8M0},
    {"mxfp8", DType::kFloat8E4M3, 32, ScaleType::kE8M0},
    {"e5m2", DType::kFloat8E5M2, 32, ScaleType::kE8M0},
    {"mxfp4", DType::kFloat4E2M1, 32, ScaleType::kE8M0},
    {"nvfp4", DType::kFloat4E2M1, 16, ScaleType::kE4M3},
    {"e4m3 without scales", DType::kFloat8E4M3, 0, ScaleType::kE8M0},
};

template <typename T>
T* aligned(std::vector<uint8_t>& memory, size_t bytes) {
  memory.assign(bytes + kTileAlignment, 0xff);
  void* at = memory.data();
  size_t space = memory.size();
  return static_cast<T*>(std::align(kTileAlignment, bytes, at, space));
}

struct Sums {
  bool is_taken;
  std::vector<float> of;
};

template <typename Lanes>
Sums sums_by(const Problem& problem) {
  const int cols = static_cast<int>((problem.n + kTileCols - 1) / kTileCols * kTileCols);
  std::vector<uint8_t> a_memory, b_memory;
  const TileBlock block{0,
                        0,
                        static_cast<int>(problem.m),
                        static_cast<int>(problem.n),
                        cols,
                        aligned<uint8_t>(a_memory, (kTileRows + kTileCols) * tile_row_bytes(sizeof(float))),
                        aligned<uint8_t>(b_memory, kTileCols * tile_row_bytes(sizeof(float)))};
  Sums sums{false, std::vector<float>(problem.m * cols)};
  sums.is_taken = emulated::multiply_block<Lanes>(problem, block, sums.of.data());
  return sums;
}

Problem problem_of(const TestOperand& a, const TestOperand& b, int64_t m, int64_t n, int64_t k) {
  Problem problem;
  problem.m = m, problem.n = n, problem.k = k;
  problem.a = a.operand, problem.b = b.operand;
  return problem;
}

void same_bits(const Kind& of_a, const Kind& of_b, int64_t m, int64_t n, int64_t k) {
  const TestOperand a(of_a.dtype, of_a.vec, of_a.type, m, k, -3), b(of_b.dtype, of_b.vec, of_b.type, n, k, -3);
  const Problem problem = problem_of(a, b, m, n, k);
  const Sums pairs = sums_by<emulated::Bfloat16Lanes>(problem), floats = sums_by<emulated::FloatLanes>(problem);
  expect(pairs.is_taken && floats.is_taken, "numbers of usual sizes are taken", of_b.name);
  bool are_same = true;
  for (size_t i = 0; i < floats.of.size(); ++i)  // a NaN's own bits are anybody's
    are_same &=
        bits_of(pairs.of[i]) == bits_of(floats.of[i]) || (pairs.of[i] != pairs.of[i] && floats.of[i] != floats.of[i]);
  expect(are_same, "the same bits", of_b.name);
}

// Products below float32's normal numbers, for which the instruction has 0, and beyond its range.
void unusual_sizes_are_refused() {
  for (const int exponent : {-75, 62}) {
    const TestOperand a(DType::kBFloat16, 0, ScaleType::kE8M0, 4, 64, exponent);
    const TestOperand b(DType::kBFloat16, 0, ScaleType::kE8M0, 4, 64, exponent);
    expect(!sums_by<emulated::Bfloat16Lanes>(problem_of(a, b, 4, 4, 64)).is_taken, "refused by size");
  }
  const TestOperand a(DType::kBFloat16, 0, ScaleType::kE8M0, 4, 64, 0);
  TestOperand b(DType::kFloat8E4M3, 32, ScaleType::kE8M0, 4, 64, 0);
  b.codes[70] = kE4M3NaN;
  expect(!sums_by<emulated::Bfloat16Lanes>(problem_of(a, b, 4, 4, 64)).is_taken, "a NaN is refused");
}

// A subnormal factor, which the instruction takes for 0.
void subnormal_words_are_refused() {
  TestOperand a(DType::kBFloat16, 0, ScaleType::kE8M0, 4, 64, 0);
  a.codes[8] = 1, a.codes[9] = 0;
  const TestOperand b(DType::kBFloat16, 0, ScaleType::kE8M0, 4, 64, 0);
  expect(!sums_by<emulated::Bfloat16Lanes>(problem_of(a, b, 4, 4, 64)).is_taken, "a subnormal word is refused");
}

// Elements that are subnormal under their scale, though their products with large ones are not.
void subnormal_elements_beside_large_ones_are_refused() {
  TestOperand a(DType::kFloat8E4M3, 32, ScaleType::kE8M0, 4, 64, 0),
      b(DType::kFloat8E4M3, 32, ScaleType::kE8M0, 4, 64, 0);
  for (uint8_t& byte : a.scales) byte = 0;    // 2^-127
  for (uint8_t& byte : b.scales) byte = 227;  // 2^100
  expect(!sums_by<emulated::Bfloat16Lanes>(problem_of(a, b, 4, 4, 64)).is_taken, "subnormal elements are refused");
  expect(!sums_by<emulated::Bfloat16Lanes>(problem_of(b, a, 4, 4, 64)).is_taken, "of b, too");
}

// float32 scales of a usual size wait for the sums. One that does not makes elements of more bits than bfloat16 has.
void float32_scales_beside_elements_are_refused() {
  const TestOperand a(DType::kFloat8E4M3, 0, ScaleType::kFloat32, 4, 64, 0);
  TestOperand b(DType::kFloat8E4M3, 0, ScaleType::kFloat32, 4, 64, 0);
  std::array<float, 4> scales = {1.1f, 0.7f, -3.3f, 1.9f};
  b.operand.scale.data = scales.data();
  b.operand.scale.type = ScaleType::kFloat32;
  b.operand.scale.vec = kFloat32ScaleBlock;
  b.operand.scale.strides = flat_scales(1, 0);
  b.operand.scale.may_wait = true;
  const auto is_taken = [&] { return sums_by<emulated::Bfloat16Lanes>(problem_of(a, b, 4, 4, 64)).is_taken; };
  expect(is_taken(), "scales of usual sizes wait");
  for (const float far : {1.1e15f, 0x1.9p-50f, 0.0f}) {
    scales[3] = far;
    expect(!is_taken(), "a scale that goes with its elements is refused");
  }
}

}  // namespace

int main() {
  for (const Kind& of_a : kKinds)
    for (const Kind& of_b : kKinds)
      for (const auto& [m, n, k] : {std::array{4, 9, 64}, std::array{7, 16, 544}, std::array{13, 5, 1088}})
        same_bits(of_a, of_b, m, n, k);
  const Kind& bfloat16 = kKinds[0];
  same_bits(bfloat16, bfloat16, 5, 11, 77);  // a last group that is not full
  unusual_sizes_are_refused();
  subnormal_words_are_refused();
  subnormal_elements_beside_large_ones_are_refused();
  float32_scales_beside_elements_are_refused();
  return report("tiles_of_bfloat16");
}
