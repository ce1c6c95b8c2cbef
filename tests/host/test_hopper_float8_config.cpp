// Hopper's fp8 table: what the kernels read, and the choice of a config.

#include "cuda/sm90/heuristics/select.h"
#include "expect.h"

namespace {

using namespace tileon;

constexpr Gpu kH200{90, 132, 227 * 1024, 90};
constexpr Gpu kAda{89, 128, 99 * 1024, 89};

// NT: both operands lie along k.
Problem problem_of(int64_t m, int64_t n, int64_t k, bool fast_accum = false) {
  Problem problem;
  problem.m = m;
  problem.n = n;
  problem.k = k;
  problem.a.dtype = DType::kFloat8E4M3;
  problem.b.dtype = DType::kFloat8E5M2;
  problem.out_dtype = DType::kFloat16;
  problem.fast_accum = fast_accum;
  const int64_t pitch = (k + 15) / 16 * 16;
  static_cast<Matrix&>(problem.a) = {reinterpret_cast<const void*>(256), pitch, 1, m * pitch};
  static_cast<Matrix&>(problem.b) = {reinterpret_cast<const void*>(512), pitch, 1, n * pitch};
  return problem;
}

void check_access() {
  const auto refused = [](auto change) {
    Problem problem = problem_of(64, 64, 256);
    change(problem);
    return sm90::why_not_fp8(problem, kH200) != nullptr;
  };
  expect(!refused([](Problem&) {}), "rows along k");
  expect(!refused([](Problem& p) { p.k = 255; }), "an odd k");
  expect(refused([](Problem& p) { p.a.data = reinterpret_cast<const void*>(8); }), "an address of 8");
  expect(refused([](Problem& p) { p.b.stride_mn = 264; }), "rows 264 bytes apart");
  expect(refused([](Problem& p) { p.b.stride_mn = 1, p.b.stride_k = 64; }), "a row-major b");
  expect(refused([](Problem& p) { p.a.dtype = p.b.dtype = DType::kFloat16; }), "float16");
  expect(sm90::why_not_fp8(problem_of(64, 64, 256), kAda) != nullptr, "another GPU");
}

// An odd k costs what one more costs: the numbers are of words of 16 bits.
void check_work() {
  const sm90::Work odd(problem_of(64, 96, 255), 1), even(problem_of(64, 96, 256), 1);
  expect(odd.k == 256 && odd.bytes == even.bytes, "whole words");
  expect(even.bytes == (64 + 96) * 256 + 64 * 96 * 2, "a byte for each element of an operand");
}

void check_choice() {
  for (const int64_t size : {1, 64, 512, 1024, 4096, 8192})
    for (const bool fast_accum : {false, true}) {
      const int config = sm90::choose_fp8(problem_of(size, size, 1024, fast_accum), kH200);
      expect(config >= 0 && (sm90::kFp8Configs[config].operands == sm90::Operands::kFp8) == fast_accum,
             "fast_accum decides what is promoted");
    }
  for (const sm90::KernelConfig& config : sm90::kFp8Configs) {
    const sm90::TileConfig& tile = config.tile;
    const bool promoted = config.operands == sm90::Operands::kFp8Promoted;
    const bool ping_pong = tile.family == sm90::Family::kPingpong;
    expect(sm90::persistent(tile) && !tile.swapped() && config.splits == 1, "a persistent kernel", config.name);
    expect(!promoted || !ping_pong, "promoted sums leave the tensor core while it works for the other consumer",
           config.name);
    expect(!promoted || tile.block_k == 128, "promoted every 128 k");
    expect(tile.element_bytes == 1, "elements of 8 bits", config.name);
    const int sets = !promoted ? 1 : tile.promotes_behind ? 3 : 2;
    const int sums = tile.consumer_rows() / 64 * tile.tile_n / 2 * sets;  // of each thread
    expect(sums <= (tile.takes_registers ? 192 : 128), "all sets of sums fit the registers", config.name);
    expect(!tile.takes_registers || (tile.consumers == 2 && sums > 128), "no config asks for registers in vain",
           config.name);
  }
}

}  // namespace

// What sends the sums through shared memory costs a consumer the more, the more sums it has.
void check_staged_stores() {
  const auto sums_of_consumer = [](int64_t m, int64_t n, int64_t k, int64_t pitch) {
    Problem problem = problem_of(m, n, k);
    problem.out = {reinterpret_cast<void*>(4096), pitch, 1, 0};
    const sm90::TileConfig& tile = sm90::kFp8Configs[sm90::choose_fp8(problem, kH200)].tile;
    return tile.tile_m * tile.tile_n / tile.consumers;
  };
  expect(sums_of_consumer(1000, 1000, 128, 1001) < sums_of_consumer(1000, 1000, 128, 1000),
         "rows that begin anywhere, which TMA does not write");
  expect(sums_of_consumer(1216, 182, 144, 183) == 64 * 64, "few tiles are small");
  expect(sums_of_consumer(2048, 1024, 256, 1025) >= 64 * 128, "many cost the same a row");
}

int main() {
  check_access();
  check_work();
  check_choice();
  check_staged_stores();
  return report("hopper fp8 config");
}
