// Products with few rows or few columns, by the portable kernels of sm80/kernels/narrow.cuh: how such a kernel reads
// the long operand, and how long that is expected to take. Here, since Hopper's choice weighs it too. Pure functions of
// the problem and the GPU, which any C++ compiler takes.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "core/host_device.h"
#include "core/problem.h"
#include "cuda/common/kernel_choice.h"

namespace tileon {

// ---- the measures of a kernel ----

// The long operand is the one with more rows (columns, of b). A thread loads vectors of it: `vector` elements of a
// line, which is a row, or a column where those are adjacent in memory. Strands are vectors of several lines, whose
// loads are under way at once. The short operand is kept in shared memory, a chunk of k at a time.
constexpr int kNarrowThreads = 256;            // of a CTA, at most
constexpr int kNarrowSharedBytes = 32 * 1024;  // a chunk of the short operand, then the sums
constexpr int kNarrowCtasPerSm = 2;            // at least, by their registers
constexpr bool kNarrowMeasured = true;         // whether they have run on hardware; the configs say so too
constexpr int kSectorBytesOfLoads = 32;        // what one load should take from L2 at once

// Elements of a vector, 16 bytes. Across k a thread has a sum for every one of them and every column: with eight
// columns it has four elements.
TILEON_HOST_DEVICE constexpr int narrow_vector(int element_bytes, bool along_k, int columns) {
  return !along_k && element_bytes <= 2 && columns > 2 ? 4 : 16 / element_bytes;
}

// As many as the registers take beside the sums.
TILEON_HOST_DEVICE constexpr int narrow_strands(int element_bytes, bool along_k, int columns) {
  return columns == 2 ? 4 : element_bytes == 8 ? 2 : !along_k && element_bytes <= 2 ? 8 : 4;
}

// Elements of k in a chunk of the short operand, all of them accumulators.
TILEON_HOST_DEVICE constexpr int narrow_chunk(int accumulator_bytes, int columns) {
  return kNarrowSharedBytes / accumulator_bytes / columns;
}

// Where elements of a line lie when the threads along it have loaded them: a thread has every threads-th unit of the
// line, and reads or writes its elements of them in groups of 16 bytes. Groups of neighbouring threads are adjacent, so
// that shared memory serves them without a conflict, however wide a unit is.
struct NarrowOrder {
  int log_threads;  // along the line
  int log_unit;     // elements of a load
  int log_vector;   // elements of a thread
  int log_group;    // elements of 16 bytes of accumulators

  TILEON_HOST_DEVICE constexpr int place(int element) const {
    const int line = log_threads + log_vector;  // elements of all threads
    const int within = element & ((1 << line) - 1);
    const int unit = within >> log_unit;
    const int of_thread = (unit >> log_threads << log_unit) | (within & ((1 << log_unit) - 1));
    const int group = (of_thread >> log_group << log_threads) | (unit & ((1 << log_threads) - 1));
    return (element >> line << line) | group << log_group | (of_thread & ((1 << log_group) - 1));
  }
};

static_assert(NarrowOrder{0, 3, 3, 2}.place(5) == 5, "one thread: as they are");
static_assert(NarrowOrder{1, 3, 3, 2}.place(3) == 3 && NarrowOrder{1, 3, 3, 2}.place(4) == 8 &&
                  NarrowOrder{1, 3, 3, 2}.place(8) == 4 && NarrowOrder{1, 3, 3, 2}.place(16) == 16,
              "two threads with eight adjacent elements each");
static_assert(NarrowOrder{1, 0, 3, 2}.place(1) == 4 && NarrowOrder{1, 0, 3, 2}.place(2) == 1,
              "two threads with every other element");

// ---- the plan ----

struct NarrowPlan {
  bool long_is_b;   // else a
  bool along_k;     // lines are rows (of b: columns), else columns (of b: rows)
  int log_threads;  // of a CTA
  int log_line;     // of these, along a line; the others are side by side across the lines
  int log_unit;     // elements of a load
  int log_rows;     // of the long operand that a CTA has
  int strands;      // that a thread uses along k; across k it uses all
  int chunk;        // elements of k of the short operand in shared memory: whole steps, no more than there are

  int threads() const { return 1 << log_threads; }
  int rows() const { return 1 << log_rows; }
};

constexpr int log2_floor(int64_t positive) { return std::bit_width(static_cast<uint64_t>(positive)) - 1; }
constexpr int log2_ceil(int64_t positive) {
  return positive <= 1 ? 0 : std::bit_width(static_cast<uint64_t>(positive - 1));
}

inline bool narrow_long_is_b(const Problem& problem) { return problem.n > problem.m; }
inline int64_t narrow_rows(const Problem& problem) { return std::max(problem.m, problem.n); }
inline int64_t narrow_columns(const Problem& problem) { return std::min(problem.m, problem.n); }
inline const Operand& narrow_long(const Problem& problem) { return narrow_long_is_b(problem) ? problem.b : problem.a; }

// The widest load whose places in every line are aligned, and of which every line holds a whole number: its log2 of
// elements. `across` and `batch` are the strides, in elements, of what has more than one.
inline int narrow_log_unit(const Matrix& operand, int element_bytes, int vector, int64_t line, int64_t stride,
                           int64_t across, int64_t batch) {
  if (line > 1 && stride != 1) return 0;
  const auto address = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(operand.data));
  const uint64_t places = address | static_cast<uint64_t>((across | batch | line) * element_bytes);
  int log_unit = log2_floor(vector);
  while (log_unit > 0 && (places & ((uint64_t{1} << log_unit) * element_bytes - 1)) != 0) --log_unit;
  const int bytes = element_bytes << log_unit;
  return bytes < 4 ? 0 : log_unit;  // loads of two bytes of fp8 are no better than two
}

// Threads that fill an H200. On other GPUs the same, so that a product has the same bits everywhere.
constexpr int64_t kNarrowEnoughThreads = int64_t{132} * kNarrowCtasPerSm * kNarrowThreads;

// Works out a plan: first the lines, then how threads are spread over them. As many as read whole sectors of a line,
// and more of them, or fewer rows a thread, where the CTAs would not fill the GPU.
class NarrowPlanner {
 public:
  NarrowPlanner(const Problem& problem, int columns) {
    const Operand& operand = narrow_long(problem);
    element_bytes_ = info(problem.a.dtype).bytes;
    accumulator_bytes_ = element_bytes_ == 8 ? 8 : 4;
    columns_ = columns;
    rows_ = narrow_rows(problem);
    k_ = std::max<int64_t>(problem.k, 1);
    matrices_ = problem.batch * ((narrow_columns(problem) + columns - 1) / columns);
    const int64_t stride_k = k_ > 1 ? operand.stride_k : 0, stride_rows = rows_ > 1 ? operand.stride_mn : 0;
    const int64_t stride_batch = problem.batch > 1 ? operand.stride_batch : 0;
    plan_.long_is_b = narrow_long_is_b(problem);
    plan_.along_k = rows_ == 1 || (k_ > 1 && stride_k <= stride_rows);
    vector_ = narrow_vector(element_bytes_, plan_.along_k, columns);
    plan_.log_unit =
        plan_.along_k ? narrow_log_unit(operand, element_bytes_, vector_, k_, stride_k, stride_rows, stride_batch)
                      : narrow_log_unit(operand, element_bytes_, vector_, rows_, stride_rows, stride_k, stride_batch);
    plan_.log_threads = log2_floor(kNarrowThreads);
    plan_.strands = all_strands_ = narrow_strands(element_bytes_, plan_.along_k, columns);
  }

  NarrowPlan plan() {
    plan_.along_k ? spread_along_k() : spread_across_k();
    plan_.log_rows = log2_floor(rows());
    const int64_t step = plan_.along_k ? line() * vector_ : int64_t{threads() / line()} * all_strands_;
    const int64_t chunk = narrow_chunk(accumulator_bytes_, columns_);
    plan_.chunk = static_cast<int>(std::min(chunk, (k_ + step - 1) / step * step));
    return plan_;
  }

 private:
  int threads() const { return 1 << plan_.log_threads; }
  int line() const { return 1 << plan_.log_line; }
  int64_t rows() const { return plan_.along_k ? int64_t{threads() / line()} * plan_.strands : line() * vector_; }
  int64_t ctas() const { return (rows_ + rows() - 1) / rows() * matrices_; }
  bool is_few() const { return ctas() * threads() < kNarrowEnoughThreads; }  // the GPU could hold more
  bool is_wide() const { return rows() >= 2 * rows_; }                       // half of the CTA's rows are none
  bool has_steps(int64_t count) const { return int64_t{2} * line() * vector_ * count <= k_; }  // with two line()s
  bool fits() const { return rows() * columns_ * accumulator_bytes_ <= kNarrowSharedBytes; }

  // Lines' sectors are read whole by so many threads.
  int log_of_sector() const { return log2_ceil(kSectorBytesOfLoads / (element_bytes_ << plan_.log_unit)); }

  void spread_along_k() {
    const int chunk = narrow_chunk(accumulator_bytes_, columns_);
    const int log_max = std::min(plan_.log_threads, log2_floor(chunk / vector_));
    const int log_steps = log2_floor((k_ + vector_ - 1) / vector_);
    plan_.log_line = std::min({log_max, log_steps, std::max(3, log_of_sector())});
    while (!fits()) plan_.strands > 1 ? plan_.strands /= 2 : ++plan_.log_line;
    while (rows() > 1 && (is_few() || is_wide())) {
      const bool may_lengthen = plan_.log_line < log_max;
      const bool may_shrink = plan_.log_threads > std::max(5, plan_.log_line);
      const bool may_halve = may_shrink && (ctas() * threads() >= 2 * kNarrowEnoughThreads || !has_steps(1));
      if (is_few() && may_lengthen && has_steps(2)) {
        ++plan_.log_line;
      } else if (plan_.strands > 1) {
        plan_.strands /= 2;
      } else if (may_halve) {
        --plan_.log_threads;
      } else if (may_lengthen && has_steps(1)) {
        ++plan_.log_line;
      } else {
        return;
      }
    }
  }

  void spread_across_k() {
    const int chunk = narrow_chunk(accumulator_bytes_, columns_);
    const int log_of_rows = log2_ceil((rows_ + vector_ - 1) / vector_);
    const auto groups = [&] { return int64_t{threads() / line()}; };  // that share k
    plan_.log_line = std::max(3, log_of_sector());
    while (groups() >= 2 * k_ && plan_.log_line < plan_.log_threads) ++plan_.log_line;
    while (plan_.log_line > log_of_rows && groups() < k_) --plan_.log_line;
    while (plan_.log_line > log_of_rows && plan_.log_threads > 5) --plan_.log_line, --plan_.log_threads;
    while (groups() * all_strands_ > chunk) --plan_.log_threads;
    while (!fits()) --plan_.log_line;
    const int log_least = std::max(0, log_of_sector() - 1);  // half a sector, where that makes more CTAs
    while (is_few() && plan_.log_line > log_least) {
      if (groups() * 2 * all_strands_ <= std::min<int64_t>(k_, chunk)) {
        --plan_.log_line;
      } else if (plan_.log_threads > 5) {
        --plan_.log_line, --plan_.log_threads;
      } else {
        return;
      }
    }
  }

  int element_bytes_, accumulator_bytes_, columns_, vector_, all_strands_;
  int64_t rows_, k_, matrices_;
  NarrowPlan plan_{};
};

inline NarrowPlan narrow_plan(const Problem& problem, int columns) { return NarrowPlanner(problem, columns).plan(); }

// Of a chunk, or of the sums that take its place.
inline int narrow_shared_bytes(const NarrowPlan& plan, int accumulator_bytes, int columns) {
  return std::max(plan.chunk, plan.rows()) * columns * accumulator_bytes;
}

// Bytes of the long operand from one of a thread's loads to the next: from unit to unit of a vector, from strand to
// strand, from step to step. With them, what the kernel reads of the operand as the host has prepared it.
struct NarrowSteps {
  int64_t unit, strand, step;
  int units;       // of a vector
  int unit_bytes;  // of a load
};

inline NarrowSteps narrow_steps(const Problem& problem, const NarrowPlan& plan, int columns) {
  const Operand& operand = narrow_long(problem);
  const int element_bytes = info(problem.a.dtype).bytes;
  const int64_t along = (plan.along_k ? operand.stride_k : operand.stride_mn) * element_bytes;
  const int64_t across = (plan.along_k ? operand.stride_mn : operand.stride_k) * element_bytes;
  const int units = narrow_vector(element_bytes, plan.along_k, columns) >> plan.log_unit;
  const int64_t unit = along << (plan.log_line + plan.log_unit);
  const int64_t strand = across << (plan.log_threads - plan.log_line);
  const int64_t step = plan.along_k ? unit * units : strand * narrow_strands(element_bytes, plan.along_k, columns);
  return {unit, strand, step, units, element_bytes << plan.log_unit};
}

// ---- the cost ----

// Columns of the short side that a kernel has: those of the configs.
constexpr int kNarrowTiles[] = {2, 8};

// Fitted to 1,938 products of an H200, half of them to fit and half to judge: half of the times lie within a third of
// what is expected, nine of ten within a factor of 1.7. The two rates of bytes are the memory's own. The starts are
// from 309 small products of any shape on an H100, and were judged on products of the H200.
constexpr double kNarrowStartNs = 800.0;       // a launch
constexpr double kNarrowConvertedNs = 1400.0;  // more, of elements of 16 and of 8 bits
constexpr double kPortableLaunchNs = 4000.0;   // what other portable kernels' costs leave out
constexpr double kNarrowWaveNs = 2440.0;       // of CTAs: the first loads, the sums of the threads added up, the store
constexpr double kNarrowStepNs = 830.0;        // of a CTA
// More, for each of the first steps, which nothing hides, by the columns that a kernel has. From 949 products on an
// H100 that take some 10 us, and judged on those of the H200.
constexpr double kNarrowFirstSteps = 3.0, kNarrowFirstStepNs[] = {400.0, 1600.0};
constexpr double kNarrowChunkNs = 2550.0;        // of the short operand, by every CTA
constexpr double kNarrowStoredNs = 0.003;        // for an element of the output, one by one: of float32 on an H100
constexpr double kNarrowBytesPerNs = 3300.0;     // of the long operand, from memory to all SMs
constexpr double kNarrowShareOfMemory = 0.85;    // at most, of the rate of a Hopper GPU's memory; the costs of other
                                                 // GPUs' kernels are all an H200's
constexpr double kNarrowSmBytesPerNs = 40.0;     // and to one of them
constexpr double kNarrowSmProductsPerNs = 48.0;  // multiplications of an SM, beside the conversions and the loads

inline double narrow_ns(const Problem& problem, const Gpu& gpu, int columns) {
  const NarrowPlan plan = narrow_plan(problem, columns);
  const auto rounded_up = [](double count, double of) { return std::ceil(count / of); };
  const int element_bytes = info(problem.a.dtype).bytes;
  const double vector = narrow_vector(element_bytes, plan.along_k, columns);
  const double k = static_cast<double>(problem.k), rows = static_cast<double>(narrow_rows(problem));
  const double tiles = rounded_up(static_cast<double>(narrow_columns(problem)), columns);
  const double matrices = static_cast<double>(problem.batch) * tiles;
  const double ctas = rounded_up(rows, plan.rows()) * matrices;
  const double k_of_step = plan.along_k ? vector * (1 << plan.log_line)
                                        : 1.0 * narrow_strands(element_bytes, plan.along_k, columns) *
                                              (1 << (plan.log_threads - plan.log_line));
  const double steps = rounded_up(k, k_of_step);
  const double chunks = rounded_up(k, narrow_chunk(element_bytes == 8 ? 8 : 4, columns));
  const double at_once = double{kNarrowCtasPerSm} * gpu.sm_count * kNarrowThreads / plan.threads();
  const double first_steps = std::min(steps, kNarrowFirstSteps) * kNarrowFirstStepNs[columns != kNarrowTiles[0]];
  const double walk =
      first_steps + rounded_up(ctas, at_once) * (kNarrowWaveNs + steps * kNarrowStepNs + chunks * kNarrowChunkNs);
  const double bytes = matrices * rows * k * element_bytes;
  const double busy_sms = std::min(ctas, static_cast<double>(gpu.sm_count));
  const bool knows_rate = gpu.capability == 90 && gpu.memory_gb_a_second > 0;
  const double rate = knows_rate ? kNarrowShareOfMemory * gpu.memory_gb_a_second : kNarrowBytesPerNs;
  const double memory = bytes / std::min({kNarrowBytesPerNs, rate, busy_sms * kNarrowSmBytesPerNs});
  const double products = matrices * rows * steps * k_of_step * columns / (busy_sms * kNarrowSmProductsPerNs);
  const double start = kNarrowStartNs + (element_bytes <= 2 ? kNarrowConvertedNs : 0);
  const double stored = kNarrowStoredNs * static_cast<double>(problem.batch * problem.m * problem.n);
  return start + std::max({walk, memory, products}) + stored;
}

// By the best of the configs.
inline double narrow_ns(const Problem& problem, const Gpu& gpu) {
  double best = narrow_ns(problem, gpu, kNarrowTiles[0]);
  for (const int columns : kNarrowTiles) best = std::min(best, narrow_ns(problem, gpu, columns));
  return best;
}

// The factor by which these kernels must be faster than Hopper's of 16 and of 8 bits, whose costs are better known:
// half as many choices are wrong so.
constexpr double kNarrowMargin = 1.25;

// The choice weighs these kernels up to so many columns of the short side, and at any number of columns up to so many
// products (m * n * k): beyond, many columns read the long operand too often. Elements of 16 and of 8 bits are
// converted at every reading, so of them up to this k alone; and other kernels of 16 bits are fast, so there up to
// fewer products.
constexpr int64_t kNarrowColumns = 8;
constexpr double kNarrowProducts = 8e6;
constexpr int64_t kNarrowConvertedK = 512;
constexpr int64_t kNarrowConvertedRows = 1024;  // of the long side: as many as those small products had
constexpr double kNarrow16BitProducts = 2e6;

// Whether these kernels are weighed at all. How they share k hangs on the number of rows, so never where results are
// batch invariant.
inline bool may_be_narrow(const Problem& problem) {
  if (!problem.may_slice_k) return false;
  if (narrow_columns(problem) <= kNarrowColumns) return true;
  const int bytes = info(problem.a.dtype).bytes;
  if (bytes <= 2 && (problem.k > kNarrowConvertedK || narrow_rows(problem) > kNarrowConvertedRows)) return false;
  return problem.products() <= (bytes == 2 ? kNarrow16BitProducts : kNarrowProducts);
}

// Whether these kernels are expected to take less than `ns`. Of ordinary products a few comparisons say that they do
// not.
inline bool narrow_pays(const Problem& problem, const Gpu& gpu, double ns, bool measured = kNarrowMeasured) {
  return measured && may_be_narrow(problem) && narrow_ns(problem, gpu) < ns;
}

}  // namespace tileon
