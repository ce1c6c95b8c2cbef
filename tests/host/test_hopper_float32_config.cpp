// Float32 on Hopper's tensor cores: that three bfloat16 hold a number, where they lie, and when the kernels are chosen.

#include <cmath>
#include <cstdint>
#include <random>
#include <set>

#include "core/small_floats.h"
#include "cuda/sm80/heuristics/choice.h"
#include "cuda/sm90/heuristics/select.h"
#include "expect.h"

namespace {

using namespace tileon;

constexpr Gpu kH200{90, 132, 227 * 1024, 90};
constexpr Gpu kAda{89, 128, 99 * 1024, 89};

// The nearest bfloat16, of two the even one.
float bfloat16(float value) {
  const uint32_t bits = bits_of(value);
  return float_of((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000);
}

// As operand_prep/split_float32.cu has it.
bool is_sum_of_parts(float value) {
  const float high = bfloat16(value), rest = value - high;
  const float middle = bfloat16(rest), last = rest - middle;
  return last - bfloat16(last) == 0.0f;
}

void check_parts() {
  std::mt19937 random(1);
  int lost = 0;
  for (int i = 0; i < 2000000; ++i) {
    const uint32_t bits = random();
    const float value = float_of(bits), magnitude = std::fabs(value);
    if (magnitude >= std::ldexp(1.0f, -110) && magnitude <= 3.38e38f) lost += !is_sum_of_parts(value);
  }
  expect(lost == 0, "every number from 2^-110 to 3.38e38 is the sum of its parts");
  for (const uint32_t fraction :
       {0u, 1u, 0x7fffffu, 0x7fffu, 0x8000u, 0x8001u, 0xffffu, 0x18000u, 0x7f8000u, 0x7f7fffu})
    for (const uint32_t exponent : {17u, 18u, 127u, 253u})
      expect(is_sum_of_parts(float_of(exponent << 23 | fraction)), "ties and the ends of a binade");
  for (const float value : {INFINITY, -INFINITY, NAN, 3.4e38f, -3.4e38f, std::ldexp(1.2345678f, -120)})
    expect(!is_sum_of_parts(value), "what is none of that is found out");
  for (const float value : {0.0f, -0.0f, std::ldexp(1.0f, -130), 3.3895314e38f})
    expect(is_sum_of_parts(value), "numbers of few bits have few parts");
}

void check_layout() {
  expect(sm90::bf16x3_k(1) == 192 && sm90::bf16x3_k(64) == 192 && sm90::bf16x3_k(65) == 384,
         "three panels for 64 of k");
  expect(sm90::bf16x3_k(0) == 192, "zeros where k is 0");
  std::set<int64_t> begins;
  for (int64_t panel = 0; panel < 5; ++panel)
    for (int plane = 0; plane < sm90::kPlanes; ++plane) begins.insert(sm90::panel_begin(panel, plane));
  expect(begins.size() == 15 && *begins.begin() == 0 && *begins.rbegin() == 14 * 64, "panels lie side by side");
}

// NN.
Problem problem_of(int64_t batch, int64_t m, int64_t n, int64_t k) {
  Problem problem;
  problem.batch = batch;
  problem.m = m;
  problem.n = n;
  problem.k = k;
  static_cast<Matrix&>(problem.a) = {reinterpret_cast<const void*>(4), k, 1, batch > 1 ? m * k : 0};
  static_cast<Matrix&>(problem.b) = {reinterpret_cast<const void*>(12), 1, n, 0};
  return problem;
}

void check_decomposed_problem() {
  for (const int64_t k : {1, 63, 64, 1000}) {
    const Problem problem = problem_of(3, 50, 70, k);
    const sm90::Bf16x3Scratch place(problem);
    uint8_t* memory = nullptr;
    const Problem decomposed = sm90::bf16x3_problem(problem, memory + 4096);
    const int64_t row = sm90::bf16x3_k(k) * 2;
    expect(decomposed.a.data == memory + 4096 && decomposed.b.data == memory + 4096 + 3 * 50 * row, "b lies behind a");
    expect(place.words == (3 * 50 + 70) * row && place.bytes == place.words + 4 * sm90::kMaxSplitCtas,
           "the words behind b, of which the batch shares one matrix");
    expect(place.b % 128 == 0 && place.words % 128 == 0, "TMA reads both");
    expect(decomposed.a.stride_mn * 2 == row && decomposed.a.stride_batch == 50 * decomposed.k &&
               decomposed.b.stride_batch == 0,
           "strides");
    expect(sm90::why_not_bf16x6(problem, kH200) == nullptr, "operands at any address, with any strides");
  }
}

void check_configs() {
  for (const sm90::KernelConfig& config : sm90::kBf16x6Configs) {
    const sm90::TileConfig& tile = config.tile;
    const bool one_cta = tile.family == sm90::Family::kCooperative && config.splits == 1;
    expect(one_cta || (tile.family == sm90::Family::kClusterSplitK && config.splits > 1), "a cooperative kernel",
           config.name);
    expect(tile.block_k == 64, "one panel a stage", config.name);
    expect(sm90::pipeline_stages(tile, Major::kK, Major::kK) > 3, "the next k is loaded beside the three planes of one",
           config.name);
    const int sums = tile.consumer_rows() / 64 * tile.tile_n / 2 * 2;  // of each thread: of 64 k, and of all before
    expect(sums <= (tile.takes_registers ? 192 : 128), "both sets of sums fit the registers", config.name);
    expect(!tile.takes_registers || sums * 3 / 2 > 144, "no config asks for registers in vain", config.name);
  }
}

void check_choice() {
  for (const int64_t size : {1024, 2048, 4096, 8192}) {
    expect(sm90::choose_bf16x6(problem_of(1, size, size, size), kH200).config >= 0, "tensor cores for large products");
    expect(sm90::choose_bf16x6(problem_of(1, size, size, size), kAda).config < 0, "on Hopper alone");
  }
  for (const Problem& problem :
       {problem_of(1, 64, 64, 64), problem_of(2, 300, 300, 300), problem_of(1, 333, 1001, 77)}) {
    const double least = sm90::choose_bf16x6(problem, kH200).compared_ns;
    const sm90::SplitProduct product(problem);
    expect(least > sm90::split_ns(problem), "the kernels that split take time, too");
    for (const sm90::KernelConfig& config : sm90::kBf16x6Configs)
      expect(least <= sm90::bf16x6_ns(config, problem, product, kH200), "the choice is the least of what is expected",
             config.name);
  }
  const auto product_ns = [](int64_t k) {
    return sm90::SplitProduct(problem_of(1, 300, 300, k)).ns(sm90::kBf16x6Configs[0], kH200.sm_count);
  };
  expect(product_ns(1) == product_ns(64) && product_ns(64) < product_ns(65), "panels of 64 k are multiplied whole");
  // As Backends::choose holds the two against each other.
  const auto pays = [](const Problem& problem) {
    return sm90::choose_bf16x6(problem, kH200).compared_ns < sm80::choose_dense(problem, kH200).compared_ns;
  };
  expect(!pays(problem_of(1, 64, 64, 64)), "decomposing a small product does not pay");
  expect(!pays(problem_of(1, 1, 8192, 64)), "nor does it for one row and a short k");
  expect(!pays(problem_of(1, 4096, 4096, 4)), "nor for a large output of a few k");
  expect(pays(problem_of(1, 512, 512, 512)) && pays(problem_of(1, 8192, 8192, 256)), "for others it does");
  Problem problem = problem_of(1, 4096, 4096, 4096);
  problem.allow_tf32 = true;
  expect(sm90::choose_bf16x6(problem, kH200).config < 0, "TF32 needs no three parts");
  problem = problem_of(1, 4096, 4096, int64_t{1} << 30);
  expect(sm90::why_not_bf16x6(problem, kH200) != nullptr, "three times as long a k is beyond TMA's coordinates");
}

}  // namespace

int main() {
  check_parts();
  check_layout();
  check_decomposed_problem();
  check_configs();
  check_choice();
  return report("hopper float32 config");
}
