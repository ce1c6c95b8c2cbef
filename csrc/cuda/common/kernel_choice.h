// From a problem to one kernel: what the choice needs to know of a GPU, how operands and output lie in memory, the
// cheapest config of a table, the choices that are remembered, the template argument that a value at run time stands
// for; and what of the problem the kernel knows. Any C++ compiler takes it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/problem.h"

namespace tileon {

// What the choice of a kernel needs to know of a GPU.
struct Gpu {
  int capability;  // major * 10 + minor
  int sm_count;
  int shared_bytes_per_block;  // at most shared_limit(capability)
  int image = capability;      // what its image of the portable kernels was compiled for: less, where that is PTX
  int device = -1;             // its number; negative where only the choice is asked
  int memory_gb_a_second = 0;  // by its memory's clock and width; 0: not known
};

// Of Hopper's GPUs. An H200's memory has 4.8 TB/s, an H100's up to 3.9; where nothing is known of it the GPU is taken
// for an H200.
constexpr int kH100MemoryAtMost = 4200;
constexpr bool is_like_h100(const Gpu& gpu) {
  return gpu.capability == 90 && gpu.memory_gb_a_second > 0 && gpu.memory_gb_a_second <= kH100MemoryAtMost;
}

// The most shared memory that one CTA may have on a GPU of this capability. Kernels that need more are left empty in
// its image; 8.7 has 163 KB, but runs the image of 8.6.
constexpr int shared_limit(int capability) {
  return (capability == 80 ? 163 : capability >= 90 && capability < 120 ? 227 : 99) * 1024;
}

// Clusters of so many CTAs, each of which takes a whole SM. Clusters of three and more leave some of each GPC's SMs
// over: of an H200's 132, 120 take part in clusters of four or eight, and 110 count for clusters of three, five or
// seven, where 117, 110 and 105 do.
inline int clusters_at_once(int ctas, int sm_count) {
  const int taken = ctas <= 2 ? sm_count : ctas % 2 == 0 ? sm_count * 10 / 11 : sm_count * 5 / 6;
  const int slots = taken / ctas;
  return slots > 1 ? slots : 1;
}

// Sizes that Hopper's kernels take fit 32 bits (why_not), in which a division is several times as fast.
constexpr int ceil_divide(int64_t dividend, int divisor) {
  const auto positive = static_cast<uint32_t>(divisor);
  return static_cast<int>((static_cast<uint32_t>(dividend) + positive - 1) / positive);
}

// ---- how operands and output lie in memory ----

enum class Side : int8_t { kA, kB };  // an operand of the product

// The dimension along which an operand's elements are adjacent.
enum class Major : int8_t {
  kK,   // row-major a, or b as the transposed view of a contiguous (n, k)
  kMn,  // row-major b, or a as the transposed view of a contiguous (k, m)
};

// Whether every output element whose column is a multiple of `columns` is aligned for a store of that many elements.
inline bool takes_vector_stores(const Problem& problem, int columns = 4) {
  const Output& out = problem.out;
  const int64_t element = info(problem.out_dtype).bytes;
  const int64_t steps = (out.stride_m | (problem.batch > 1 ? out.stride_batch : 0)) * element;
  const int64_t places = steps | static_cast<int64_t>(reinterpret_cast<uintptr_t>(out.data));
  return (out.stride_n == 1 || problem.n <= 1) && (places & (columns * element - 1)) == 0;  // a power of two, less one
}

// Whether the sums are finished by one of the formulas that every kernel applies while it stores them, and nothing else
// is stored.
inline bool is_cheap_epilogue(const Problem& problem) {
  return problem.pre_activation == nullptr && is_cheap(problem.epilogue);
}

// Why kernels cannot run a problem of whose operands they can read these; null where that is both.
inline const char* why_not_access(bool reads_a, bool reads_b) {
  if (!reads_a) return "it cannot read the strides or the alignment of `a`";
  return reads_b ? nullptr : "it cannot read the strides or the alignment of `b`";
}

// Why kernels that take one global scale cannot run a problem; null where they can.
inline const char* why_not_global_scale(const Problem& problem) {
  return problem.global_scale_stride == 0 ? nullptr : "it takes one global scale, not one for each row";
}

// As it, of kernels of two operands with block scales.
inline const char* why_not_two_scaled(const Problem& problem) {
  return problem.is_block_scaled() ? nullptr : "it takes two operands with a scale of one byte for each block";
}
inline const char* why_not_block_scaled(const Problem& problem) {
  const char* reason = why_not_two_scaled(problem);
  return reason != nullptr ? reason : why_not_global_scale(problem);
}

// Whether every k of a row has the same scale, and rows have scales a stride apart.
inline bool is_constant_along_k(const Operand& operand, int64_t k) {
  if (operand.scale.vec == 0) return true;
  const ScaleStrides& strides = operand.scale.strides;
  return operand.scale.type == ScaleType::kFloat32 && (strides.col == 0 || k <= operand.scale.vec) &&
         strides.row_block == kScaleBlockRows * strides.row;
}

// Whether the codes of an operand with scales are to be copied into an aligned buffer before kernels read them: where
// not every load of the portable kernels is aligned. The widest have a half or a whole block of 32 elements; of nvfp4,
// a block of 16. Every backend wants these copies.
inline bool wants_copy_of_codes(const Operand& operand, int64_t mn, const Problem& problem) {
  const int64_t row_bytes = problem.k / elements_per_byte(operand.dtype);
  if (mn == 0 || problem.k == 0) return false;  // nothing is read
  if (operand.stride_k != 1 && row_bytes > 1) return true;
  const int load_bytes = problem.b.scale.type == ScaleType::kE8M0 ? 16 : 8;
  const auto address = static_cast<int64_t>(reinterpret_cast<uintptr_t>(operand.data));
  return (address | (mn > 1 ? operand.stride_mn : 0)) % load_bytes != 0;
}

// ---- the choice ----

// What a backend chooses for a problem: a config by its number, negative where it has none, and what that is expected
// to take, in nanoseconds and with its launches, negative where that is not known. `compared_ns` is held against another
// backend's: negative where it cannot be, or need not.
struct Choice {
  int config = -1;
  double expected_ns = -1;
  double compared_ns = -1;
};

// Where results are batch invariant, a product without scales has the order of sums that suits so many rows, or so many
// with scales: more than kernels for few rows take.
constexpr int64_t kRowsOfOrder = 256, kRowsOfOrderWithScales = 512;

// The problem by which the order of sums is chosen where results are batch invariant: neither its rows nor its matrices
// count. k is not sliced: how, the tiles say.
inline Problem with_fixed_rows(const Problem& problem) {
  Problem fixed = problem;
  fixed.may_slice_k = false;
  fixed.m = problem.is_scaled() ? kRowsOfOrderWithScales : kRowsOfOrder;
  fixed.batch = 1;
  return fixed;
}

// The index of the config that is expected to be fastest; -1 where none may run. `ns(config)` is asked only of configs
// for which `runs(config)` holds.
template <typename Config, int kCount, typename Runs, typename Ns>
int cheapest(const Config (&configs)[kCount], const Runs& runs, const Ns& ns) {
  int best = -1;
  double best_ns = 0;
  for (int i = 0; i < kCount; ++i) {
    if (!runs(configs[i])) continue;
    const double expected = ns(configs[i]);
    if (best < 0 || expected < best_ns) {
      best = i;
      best_ns = expected;
    }
  }
  return best;
}

// Where the least of the numbers stands, of equal ones the first; none is NaN. Eight are compared at once, and nothing
// branches at a new least one, which a processor does not foresee and `cheapest` pays for.
template <typename Real, size_t kCount>
int place_of_least(const std::array<Real, kCount>& numbers) {
  constexpr size_t kLanes = 8;
  static_assert(kCount >= kLanes);
  std::array<Real, kLanes> least;
  std::copy_n(numbers.begin(), kLanes, least.begin());
  const auto compare_from = [&](size_t begin) {
    for (size_t lane = 0; lane < kLanes; ++lane)
      least[lane] = numbers[begin + lane] < least[lane] ? numbers[begin + lane] : least[lane];
  };
  for (size_t begin = kLanes; begin + kLanes <= kCount; begin += kLanes) compare_from(begin);
  compare_from(kCount - kLanes);
  const Real least_of_all = *std::min_element(least.begin(), least.end());
  return static_cast<int>(std::find(numbers.begin(), numbers.end(), least_of_all) - numbers.begin());
}

// `cheapest` of a table of configs that say whether they were measured: one that was not is taken only where no
// measured one may run.
template <typename Config, int kCount, typename Runs, typename Ns>
int cheapest_config(const Config (&configs)[kCount], const Runs& runs, const Ns& ns) {
  const int best = cheapest(
      configs, [&](const Config& each) { return each.measured && runs(each); }, ns);
  return best >= 0 ? best : cheapest(configs, runs, ns);
}

// ---- choices that were made lately: a product that comes again, as a model's layers do, is not chosen again. A choice
// takes some tenths of a microsecond, with scales more, which every eager call would pay ----

// Numbers below 1024, up to six of them.
inline int64_t packed(std::initializer_list<int> numbers) {
  uint64_t word = 0;
  for (const int number : numbers) word = word << 10 | static_cast<uint64_t>(number);
  return static_cast<int64_t>(word);
}

// Where data begin in a unit of so many bytes.
inline int begin_in(int unit, const void* data) { return static_cast<int>(reinterpret_cast<uintptr_t>(data) % unit); }

// What every key has: sizes, strides, and the GPU, of which shared memory counts in whole KB. No GPU has the capability
// 0: a key is never all zeros.
inline std::array<int64_t, 11> product_words(const Problem& problem, const Gpu& gpu) {
  const Operand &a = problem.a, &b = problem.b;
  const int rate = gpu.memory_gb_a_second;
  const int64_t of_gpu =
      packed({gpu.capability, gpu.image, gpu.sm_count, gpu.shared_bytes_per_block / 1024, rate / 1024, rate % 1024});
  return {problem.m,      problem.n,   problem.k,  problem.batch,  a.stride_mn, a.stride_k,
          a.stride_batch, b.stride_mn, b.stride_k, b.stride_batch, of_gpu};
}

// All that a choice looks at, in so many words; all of them 0 where there is none yet.
template <size_t kCount>
struct KeyWords {
  std::array<int64_t, kCount> words{};

  // Those of another key, and more.
  template <size_t kFirst>
  void set(const std::array<int64_t, kFirst>& first, const std::array<int64_t, kCount - kFirst>& others) {
    std::ranges::copy(others, std::ranges::copy(first, words.begin()).out);
  }

  bool operator==(const KeyWords&) const = default;

  // The uppermost bits of a sum, which every bit of every word reaches.
  size_t hash(int bits) const {
    uint64_t sum = 0;
    for (size_t i = 0; i < kCount; ++i) sum += static_cast<uint64_t>(words[i]) * kFactors[i];
    return sum >> (64 - bits);
  }

 private:
  // Each word has one of its own, so that no product waits for another one.
  static constexpr std::array<uint64_t, kCount> kFactors = [] {
    std::array<uint64_t, kCount> factors{};
    uint64_t power = 1;
    for (uint64_t& factor : factors) factor = power *= 0x9E3779B97F4A7C15u;
    return factors;
  }();
};

// A key, and a config whose place another one may take.
template <typename Key>
struct WithConfig : KeyWords<Key().words.size() + 1> {
  WithConfig() = default;
  WithConfig(const Problem& problem, const Gpu& gpu, int config) { this->set(Key(problem, gpu).words, {config}); }
};

// What `kChoose` says of the arguments. Each thread remembers its own choices: nothing is shared, nothing waits. Of
// those with the same hash the last four are remembered.
template <typename Key, auto kChoose, typename... Others>
auto choose_once(const Problem& problem, const Gpu& gpu, Others... others) {
  struct Remembered {
    Key key;
    decltype(kChoose(problem, gpu, others...)) choice;
  };
  struct Place {
    std::array<Remembered, 4> choices;
    unsigned count = 0;  // of all that were ever here
  };
  constexpr int kHashBits = 8;
  static thread_local std::vector<Place> recent(size_t{1} << kHashBits);
  const Key key(problem, gpu, others...);
  Place& place = recent[key.hash(kHashBits)];
  for (const Remembered& each : place.choices)
    if (each.key == key) return each.choice;
  Remembered& oldest = place.choices[place.count++ % place.choices.size()];
  oldest = {key, kChoose(problem, gpu, others...)};
  return oldest.choice;
}

// ---- from values to template arguments ----

// Calls `use` with `value` as a std::integral_constant; false, and no call, where `value` is none of kValues.
template <auto... kValues, typename Use>
bool visit(std::common_type_t<decltype(kValues)...> value, const Use& use) {
  return ((value == kValues && (use(std::integral_constant<decltype(kValues), kValues>()), true)) || ...);
}

// `visit` for the numbers below kCount, as values of type Value.
template <typename Value, int kCount, typename Use>
bool visit_below(Value value, const Use& use) {
  return [&]<int... kIndex>(std::integer_sequence<int, kIndex...>) {
    return visit<static_cast<Value>(kIndex)...>(value, use);
  }
  (std::make_integer_sequence<int, kCount>());
}

// ---- what a kernel knows of its product, as one of its parameters: the part of a Problem that it reads, in a layout
// of its own. A Problem may grow; what lies in the constant memory of a kernel stays as it is ----

// A product of operands without scales.
struct KernelProblem {
  int64_t batch = 1;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  DType dtype = DType::kFloat32;  // of both operands; of a where both are fp8
  DType b_dtype = DType::kFloat32;
  DType out_dtype = DType::kFloat32;
  bool allow_tf32 = false;
  bool fast_accum = false;
  Matrix a;
  Matrix b;
  Output out;
  Epilogue epilogue;
  void* pre_activation = nullptr;
  DeviceFlag device_flag;
};

// One operand with block scales: rows of k elements. Strides are in bytes.
struct ScaledKernelOperand {
  const void* data = nullptr;
  int64_t stride_row = 0;
  int64_t stride_k = 0;  // from byte to byte: of e2m1, from pair to pair
  DType dtype = DType::kFloat8E4M3;
  const void* scale = nullptr;
  ScaleStrides scale_strides{};
};

struct ScaledKernelProblem {
  static constexpr int64_t batch = 1;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  ScaleType scale_type = ScaleType::kE8M0;
  int vec = 32;
  DType out_dtype = DType::kFloat16;
  bool fast_accum = false;
  ScaledKernelOperand a;
  ScaledKernelOperand b;
  PreparedWeight prepared_b;
  Output out;
  Epilogue epilogue;
  const float* global_scale = nullptr;
  DeviceFlag device_flag;
};

inline KernelProblem kernel_problem(const Problem& of) {
  return {of.batch,      of.m, of.n, of.k,   of.a.dtype,  of.b.dtype,        of.out_dtype,  of.allow_tf32,
          of.fast_accum, of.a, of.b, of.out, of.epilogue, of.pre_activation, of.device_flag};
}

inline ScaledKernelOperand scaled_kernel_operand(const Operand& of) {
  return {of.data, of.stride_mn, of.stride_k, of.dtype, of.scale.data, of.scale.strides};
}

inline ScaledKernelProblem scaled_kernel_problem(const Problem& of) {
  const ScaledKernelOperand a = scaled_kernel_operand(of.a), b = scaled_kernel_operand(of.b);
  return {of.m, of.n, of.k,          of.b.scale.type, of.b.scale.vec, of.out_dtype,    of.fast_accum,
          a,    b,    of.prepared_b, of.out,          of.epilogue,    of.global_scale, of.device_flag};
}

}  // namespace tileon
