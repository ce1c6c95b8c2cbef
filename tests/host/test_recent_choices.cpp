// Choices that are remembered are those that would be made again.
#include "cuda/sm90/heuristics/select.h"

#include <cstdint>
#include <random>
#include <vector>

#include "expect.h"

using namespace tileon;
using namespace tileon::sm90;

namespace {

constexpr Gpu kH200 = {90, 132, 227 * 1024};

Problem problem(int64_t m, int64_t n, int64_t k, bool b_transposed) {
  Problem result;
  result.m = m;
  result.n = n;
  result.k = k;
  result.a.dtype = result.b.dtype = result.out_dtype = DType::kBFloat16;
  void* data = reinterpret_cast<void*>(4096);
  static_cast<Matrix&>(result.a) = {data, k, 1, 0};
  static_cast<Matrix&>(result.b) = b_transposed ? Matrix{data, k, 1, 0} : Matrix{data, 1, n, 0};
  result.out = {data, n, 1, 0};
  return result;
}

// Many more than are remembered, and the same again.
void test_remembered_as_chosen() {
  std::mt19937 draw(0);
  std::vector<Problem> problems;
  for (int i = 0; i < 2000; ++i)
    problems.push_back(problem(8 * (1 + draw() % 500), 8 * (1 + draw() % 500), 8 * (1 + draw() % 500), draw() % 2));
  for (int round = 0; round < 2; ++round)
    for (const Problem& each : problems)
      for (int again = 0; again < 2; ++again)
        expect(choose_dense_once(each, kH200) == choose_dense(each, kH200), "what is remembered is what is chosen");
}

// What differs in one thing that the choice looks at is another problem.
void test_all_that_counts_is_told_apart() {
  const Problem plain = problem(64, 4096, 4096, true);
  std::vector<Problem> others(16, plain);
  others[0].m = 128;
  others[1].n = 128;
  others[2].k = 128;
  others[3].batch = 2;
  others[4].a.stride_mn = 4104;
  others[5].b.stride_mn = 4104;
  others[6].a.data = reinterpret_cast<void*>(4096 + 16);
  others[7].b.data = reinterpret_cast<void*>(4096 + 16);
  others[8].a.dtype = DType::kFloat16;
  others[9].out_dtype = DType::kFloat32;
  others[10].epilogue.activation = Activation::kGelu;
  others[11].a.stride_batch = 8;
  others[12].b.stride_batch = 8;
  others[13].out.stride_m = 4097;  // which TMA cannot write
  others[14].out.stride_m = 4098;  // nor this, but pairs of columns are aligned
  others[15].out.stride_m = 4100;  // and here fours
  for (const Problem& other : others)
    expect(!(ChoiceKey(other, kH200) == ChoiceKey(plain, kH200)), "another problem has another key");
  for (int i = 13; i < 15; ++i)
    expect(!(ChoiceKey(others[i], kH200) == ChoiceKey(others[i + 1], kH200)),
           "outputs are told apart by what fits them");
  expect(!(ChoiceKey(plain, {90, 114, 227 * 1024}) == ChoiceKey(plain, kH200)), "another GPU too");
  Problem elsewhere = plain;
  elsewhere.a.data = reinterpret_cast<void*>(4096 + 1024);
  expect(ChoiceKey(elsewhere, kH200) == ChoiceKey(plain, kH200), "another tensor has not");
}

}  // namespace

int main() {
  test_remembered_as_chosen();
  test_all_that_counts_is_told_apart();
  return report("recent choices");
}
