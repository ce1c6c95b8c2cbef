// Choices that are remembered are those that would be made again.
#include "cuda/sm90/heuristics/recent_choices.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <utility>
#include <vector>

#include "cuda/sm80/heuristics/recent_choices.h"
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

// Each differs from it in one thing that some choice looks at.
std::vector<Gpu> other_gpus() {
  std::vector<Gpu> gpus(6, kH200);
  gpus[0].capability = 89;
  gpus[1].sm_count = 114;
  gpus[2].shared_bytes_per_block = 99 * 1024;
  gpus[3].image = 80;
  gpus[4].memory_gb_a_second = 1000;
  gpus[5].memory_gb_a_second = 1024;
  return gpus;
}

bool same(const Choice& choice, const Choice& other) {
  return choice.config == other.config && choice.expected_ns == other.expected_ns &&
         choice.compared_ns == other.compared_ns;
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
        expect(choose_dense_once(each, kH200).config == weigh_dense(each, kH200).config,
               "what is remembered is what is chosen");
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
  Problem across = others[13];
  across.out = {others[13].out.data, 1, 4097, 0};
  expect(!(ChoiceKey(across, kH200) == ChoiceKey(others[13], kH200)), "and by whether columns are adjacent");
  for (const Gpu& gpu : other_gpus()) expect(!(ChoiceKey(plain, gpu) == ChoiceKey(plain, kH200)), "another GPU too");
  Problem elsewhere = plain;
  elsewhere.a.data = reinterpret_cast<void*>(4096 + 1024);
  expect(ChoiceKey(elsewhere, kH200) == ChoiceKey(plain, kH200), "another tensor has not");
}

// The same of the portable choice, which does not look at where the output lies.
void test_all_that_counts_for_portable_kernels_is_told_apart() {
  Problem plain = problem(64, 4096, 4096, true);
  plain.a.dtype = plain.b.dtype = plain.out_dtype = DType::kFloat32;
  std::vector<Problem> others(17, plain);
  others[0].m = 128;
  others[1].n = 128;
  others[2].k = 128;
  others[3].batch = 2;
  others[4].a.stride_mn = 4104;
  others[5].b.stride_mn = 4104;
  others[6].a.stride_k = 2;
  others[7].b.stride_k = 2;
  others[8].a.stride_batch = 8;
  others[9].b.stride_batch = 8;
  others[10].a.data = reinterpret_cast<void*>(4096 + 4);
  others[11].b.data = reinterpret_cast<void*>(4096 + 4);
  others[12].a.dtype = DType::kFloat64;
  others[13].allow_tf32 = true;
  others[14].may_slice_k = false;
  others[15].b.dtype = DType::kFloat64;
  others[16].epilogue.activation = Activation::kGelu;
  const auto is_plain = [&](const Problem& other, const Gpu& gpu) {
    return sm80::ChoiceKey(other, gpu) == sm80::ChoiceKey(plain, kH200);
  };
  for (const Problem& other : others) expect(!is_plain(other, kH200), "another problem has another key");
  for (const Gpu& gpu : other_gpus()) expect(!is_plain(plain, gpu), "another GPU too");
  Problem elsewhere = plain;
  elsewhere.a.data = reinterpret_cast<void*>(4096 + 16);
  elsewhere.out.stride_m = 4097;
  expect(is_plain(elsewhere, kH200), "another tensor has not, nor another output");
}

// ---- a walk from problem to problem, of which each differs from the one before in a single thing: what a key lacks
// shows as the choice of another problem ----

class Walk {
 public:
  explicit Walk(bool is_scaled) : is_scaled_(is_scaled) {
    problem.m = 64, problem.n = 256, problem.k = 1024;
    kind(), matrices(), scales();
  }

  void step() {
    Problem& p = problem;
    switch (draw_() % (is_scaled_ ? 17 : 13)) {
      case 0:
        return p.m = any({1, 16, 64, 100, 200, 300, 4096}), matrices();
      case 1:
        return p.n = any({1, 8, 100, 256, 4096}), matrices();
      case 2:
        return p.k = any({0, 64, 1024, 4096}), matrices(), scales();
      case 3:
        return p.batch = is_scaled_ ? 1 : any({1, 2, 9}), matrices();
      case 4:
        return kind(), matrices(), scales();
      case 5:
        return matrices();
      case 6:
        return p.out.data = at(any({0, 2, 4, 8})), void();
      case 7:
        return p.out.stride_m = p.n + any({0, 1, 2, 4, 8}), void();
      case 8:
        p.out_dtype = any({DType::kFloat16, DType::kBFloat16, DType::kFloat32});
        return;
      case 9:
        p.epilogue.activation = any({Activation::kNone, Activation::kRelu, Activation::kGelu});
        return;
      case 10:
        p.fast_accum = !p.fast_accum;
        return;
      case 11:
        p.allow_tf32 = !is_scaled_ && !p.allow_tf32;
        return;
      case 12:
        p.may_slice_k = !p.may_slice_k;
        return;
      case 13:
        return scales();
      case 14:
        p.global_scale_stride = any({0, 1});
        return;
      case 15:
        p.prepared_b.data = p.is_block_scaled() ? at(any({0, 1}) * 256) : nullptr;
        return;
      default:
        p.prepared_b = {nullptr, any({PreparedForm::kInt8, PreparedForm::kBFloat16})};
    }
  }

  Problem problem;

 private:
  template <typename T>
  T any(std::initializer_list<T> values) {
    return values.begin()[draw_() % values.size()];
  }
  static void* at(int offset) { return reinterpret_cast<void*>(4096 + static_cast<uintptr_t>(offset)); }

  void kind() {
    constexpr DType kE4M3 = DType::kFloat8E4M3, kE2M1 = DType::kFloat4E2M1, kBF16 = DType::kBFloat16;
    using Pair = std::pair<DType, DType>;
    const auto [a, b] = is_scaled_ ? any<Pair>({{kE4M3, kE4M3},
                                                {kE2M1, kE2M1},
                                                {kE4M3, kE2M1},
                                                {DType::kInt8, DType::kInt8},
                                                {kBF16, kE2M1},
                                                {kBF16, kE4M3},
                                                {DType::kFloat16, kE2M1},
                                                {kBF16, DType::kInt8}})
                                   : any<Pair>({{kBF16, kBF16},
                                                {DType::kFloat16, DType::kFloat16},
                                                {kE4M3, kE4M3},
                                                {kE4M3, DType::kFloat8E5M2},
                                                {DType::kFloat32, DType::kFloat32},
                                                {DType::kFloat64, DType::kFloat64}});
    problem.a.dtype = a, problem.b.dtype = b;
    problem.prepared_b = {};
  }

  void matrices() {
    const auto matrix = [&](Operand& operand, int64_t mn) {
      const int64_t columns = problem.k / elements_per_byte(operand.dtype);
      const int64_t pitch = columns + any({0, 0, 8, 16, 1});
      const bool is_transposed = !is_scaled_ && draw_() % 3 == 0;
      static_cast<Matrix&>(operand) = {at(any({0, 0, 16, 64, 1})), is_transposed ? 1 : pitch, is_transposed ? mn : 1,
                                       any({int64_t{0}, mn * pitch})};
      if (problem.batch == 1) operand.stride_batch = 0;
    };
    matrix(problem.a, problem.m);
    matrix(problem.b, problem.n);
    problem.out = {at(0), problem.n, 1, problem.m * problem.n};
  }

  void scales() {
    problem.a.scale = problem.b.scale = {};
    if (!is_scaled_) return;
    const bool is_weight_only = info(problem.a.dtype).bytes == 2;
    const bool is_fp4 = problem.b.dtype == DType::kFloat4E2M1;
    const ScaleType type = problem.b.dtype == DType::kInt8                   ? ScaleType::kFloat32
                           : is_fp4 && problem.a.dtype != DType::kFloat8E4M3 ? any({ScaleType::kE8M0, ScaleType::kE4M3})
                           : is_fp4                                          ? ScaleType::kE8M0
                                    : any({ScaleType::kE8M0, ScaleType::kFloat32});
    const int64_t columns = problem.k / vec_of(type);
    const auto scale = [&](bool is_b) -> Scale {
      const ScaleStrides strides =
          type != ScaleType::kFloat32
              ? any({packed_scales(columns), packed_scales(columns + 8), flat_scales(columns, 1)})
              : any({flat_scales(0, 0), flat_scales(1, 0), flat_scales(columns, 1),
                     is_b ? row_block_scales(columns, 1) : flat_scales(1, 0)});
      return {at(any({0, 16, 4})), type, vec_of(type), strides};
    };
    if (!is_weight_only) problem.a.scale = scale(false);
    problem.b.scale = scale(true);
    if (!problem.is_block_scaled()) problem.prepared_b = {};
  }

  std::mt19937 draw_{0};
  bool is_scaled_;
};

// What was chosen once for a problem, held against what is chosen anew: whether a config takes it.
template <auto kOnce, auto kAnew>
bool is_chosen(const Problem& problem, const Gpu& gpu) {
  const auto anew = kAnew(problem, gpu);
  expect(same(kOnce(problem, gpu), anew), "what is remembered of a walk is what is chosen");
  return anew.config >= 0;
}

bool is_chosen_of_dense(const Problem& problem, const Gpu& gpu) {
  if (is_float8(problem.a.dtype)) return is_chosen<choose_fp8_once, weigh_fp8>(problem, gpu);
  if (problem.a.dtype != DType::kFloat32) return is_chosen<choose_dense_once, weigh_dense>(problem, gpu);
  return problem.allow_tf32 ? is_chosen<choose_tf32_once, weigh_tf32>(problem, gpu)
                            : is_chosen<choose_bf16x6_once, choose_bf16x6>(problem, gpu);
}

void test_walks() {
  std::vector<Gpu> gpus = other_gpus();
  gpus.insert(gpus.begin(), 3, kH200);
  int of_hopper = 0, portable[2] = {0, 0};  // without and with scales
  for (const bool is_scaled : {false, true}) {
    Walk walk(is_scaled);
    for (int i = 0; i < 40000; ++i) {
      walk.step();
      const Problem& p = walk.problem;
      const Gpu& gpu = gpus[i / 3 % gpus.size()];
      of_hopper +=
          is_scaled ? is_chosen<choose_block_scaled_once, weigh_block_scaled>(p, gpu) : is_chosen_of_dense(p, gpu);
      portable[is_scaled] += is_scaled ? is_chosen<sm80::choose_block_scaled_once, sm80::choose_block_scaled>(p, gpu)
                                       : is_chosen<sm80::choose_dense_once, sm80::choose_dense>(p, gpu);
    }
  }
  expect(of_hopper > 10000, "enough of the problems are Hopper's");
  expect(portable[false] == 40000, "and portable kernels take every one without scales");
  expect(portable[true] > 5000, "and many with them");
}

}  // namespace

int main() {
  test_remembered_as_chosen();
  test_walks();
  test_all_that_counts_is_told_apart();
  test_all_that_counts_for_portable_kernels_is_told_apart();
  return report("recent choices");
}
