// The portable configs and the choice of one: every problem has a config, the config can run it, and the choice is the
// cheapest one under the model.
#include <algorithm>
#include <initializer_list>
#include <iterator>

#include "cuda/sm80/heuristics/choice.h"
#include "expect.h"

using namespace tileon;
using namespace tileon::sm80;

namespace {

bool supports(const KernelConfig& config, const Problem& problem, const Gpu& gpu) {
  return why_not(config, kind_of(problem), problem, gpu) == nullptr;
}

double expected_ns(const KernelConfig& config, const Problem& problem, const Gpu& gpu) {
  return expected_ns(config, kind_of(problem), problem, gpu);
}

constexpr Gpu kGpus[] = {{90, 132, 227 * 1024}, {80, 108, 163 * 1024},    {86, 46, 99 * 1024}, {89, 128, 99 * 1024},
                         {120, 1, 99 * 1024},   {110, 20, 227 * 1024, 80}};  // the last: PTX of 8.0
constexpr DType kFloat8s[] = {DType::kFloat8E4M3, DType::kFloat8E5M2};

Problem problem(DType dtype, bool tf32, int64_t batch, int64_t m, int64_t n, int64_t k) {
  Problem result;
  result.batch = batch;
  result.m = m;
  result.n = n;
  result.k = k;
  result.a.dtype = result.b.dtype = result.out_dtype = dtype;
  result.allow_tf32 = tf32;
  static_cast<Matrix&>(result.a) = {reinterpret_cast<void*>(4096), k, 1, m * k};
  static_cast<Matrix&>(result.b) = {reinterpret_cast<void*>(4096), 1, n, k * n};
  return result;
}

void test_table() {
  for (const KernelConfig& config : kDenseConfigs) {
    const TileConfig& tile = config.tile;
    if (tile.family == Family::kNarrow) {
      expect(
          std::ranges::find(kNarrowTiles, tile.tile_m) != std::end(kNarrowTiles) && config.measured == kNarrowMeasured,
          "narrow.h knows the columns, and whether they are measured");
      expect(config.ns_per_k[0] == static_cast<float>(kNarrowStepNs) &&
                 config.ns_fixed == static_cast<float>(kNarrowStartNs),
             "and the numbers");
      expect(tile.threads() == kNarrowThreads && tile.ctas_per_sm == kNarrowCtasPerSm, "and the threads");
      continue;
    }
    if (tile.family == Family::kDirect) {
      expect(tile.tile_m == 16 && tile.tile_n % (tile.warps_n * 16) == 0 && (tile.warps_m == 1 || tile.warps_n == 1),
             "a warp has whole fragments of all rows, and shares k or columns");
      expect(tile.warps_m == 1 || tile.tile_m * tile.tile_n <= tile.threads(),
             "a thread stores a sum that warps share");
    } else if (tile.family == Family::kSkinny) {
      expect(tile.block_k == tile.warps_m * 32 * 4 && tile.warp_n() == 4, "a lane loads 16 bytes of four columns");
    } else {
      expect(tile.tile_m % tile.warps_m == 0 && tile.tile_n % tile.warps_n == 0, "warps split the tile evenly");
      expect(tile.warp_m() % 16 == 0 && tile.warp_n() % 16 == 0, "a warp's tile is made of whole fragments");
    }
    const bool has_pipeline = tile.family != Family::kSkinny && tile.family != Family::kDirect;
    expect((tile.stages >= 2 || !has_pipeline) && tile.threads() <= 1024 && tile.ctas_per_sm >= 1 &&
               config.ns_per_k[0] > 0 && config.share > 0,
           "a config is sound");
    expect(shared_bytes(tile, 2) <= shared_limit(80), "a config fits the PTX, which is for 8.0");
  }
}

// k-major operands of fp8, whose rows are multiples of 16 bytes where k is.
Problem float8_problem(DType a, DType b, int64_t m, int64_t n, int64_t k) {
  Problem result = problem(a, false, 1, m, n, k);
  result.b.dtype = b;
  result.out_dtype = DType::kFloat16;
  static_cast<Matrix&>(result.b) = {reinterpret_cast<void*>(4096), k, 1, k * n};
  return result;
}

void test_every_problem_has_a_config() {
  for (const DTypeInfo& dtype_row : kDTypes) {
    const DType dtype = dtype_row.dtype;
    if (dtype == DType::kFloat4E2M1 || dtype == DType::kInt8) continue;  // which have products with scales alone
    for (bool tf32 : {false, true}) {
      for (int64_t size : {1, 2, 63, 64, 65, 1000, 4096, 100000}) {
        for (const Gpu& gpu : kGpus) {
          Problem whole = problem(dtype, tf32, 3, size, 64, size);
          Problem awkward = whole;
          awkward.b.stride_k += 1;
          for (const Problem& each : {whole, awkward}) {
            const int config = choose(kDenseConfigs, each, gpu);
            expect(config >= 0 && config < kDenseConfigCount && supports(kDenseConfigs[config], each, gpu),
                   "the chosen config runs the problem");
            const double ns = expected_ns(kDenseConfigs[config], each, gpu);
            for (const KernelConfig& other : kDenseConfigs)
              expect(!other.measured || !may_choose(other, each) || !supports(other, each, gpu) ||
                         ns <= expected_ns(other, each, gpu),
                     "the chosen config is the cheapest");
          }
        }
      }
    }
  }
}

int with_tensor_cores(const Problem& problem, const Gpu& gpu) {
  int count = 0;
  for (const KernelConfig& config : kDenseConfigs)
    count += config.tile.family == Family::kMma && supports(config, problem, gpu);
  return count;
}

void test_float8_configs() {
  for (DType a : kFloat8s) {
    for (DType b : kFloat8s) {
      const Problem whole = float8_problem(a, b, 1000, 200, 64);
      for (const Gpu& gpu : kGpus) {
        expect((with_tensor_cores(whole, gpu) > 0) == (gpu.image >= kFloat8Capability), "fp8 MMA from 8.9 on");
        Problem mn_major = whole;
        static_cast<Matrix&>(mn_major.b) = {whole.b.data, 1, 208, 0};
        Problem unaligned = whole;
        unaligned.a.stride_mn = 65;
        Problem offset = whole;
        offset.a.data = reinterpret_cast<void*>(4097);
        for (const Problem& each : {mn_major, unaligned, offset}) {
          expect(with_tensor_cores(each, gpu) == 0, "fp8 MMA reads aligned rows along k");
          expect(reads_as_they_lie(kDenseConfigs[choose(kDenseConfigs, each, gpu)].tile.family),
                 "configs that widen fp8 take what is left");
        }
      }
    }
  }
}

void test_float8_is_widened_where_it_cannot_be_read() {
  const Gpu& ada = kGpus[3];
  const Problem aligned = float8_problem(DType::kFloat8E4M3, DType::kFloat8E5M2, 1024, 1024, 1024);
  Problem mn_major = aligned;
  mn_major.b.stride_mn = 1;
  mn_major.b.stride_k = aligned.n;
  expect(!widens_float8(aligned, ada), "what the fp8 configs read stays fp8");
  expect(widens_float8(mn_major, ada), "the rest becomes float16");
  expect(widens_float8(aligned, kGpus[1]), "without fp8 MMA everything does");
  expect(!widens_float8(problem(DType::kFloat16, false, 1, 1024, 1024, 1024), ada), "float16 is wide");
}

void test_unmeasured_configs_are_chosen_last() {
  KernelConfig configs[] = {kDenseConfigs[0], kDenseConfigs[1]};
  const Problem each = problem(DType::kFloat16, false, 1, 4096, 4096, 4096);
  const int best = choose(configs, each, kGpus[0]);
  configs[best].measured = false;
  expect(choose(configs, each, kGpus[0]) == 1 - best, "another one runs the problem");
  configs[1 - best].measured = false;
  expect(choose(configs, each, kGpus[0]) == best, "no measured one does");
}

void test_float8_is_widened_in_chunks_of_eight_codes() {
  const auto runs = [](const Problem& each) {
    return std::any_of(std::begin(kDenseConfigs), std::end(kDenseConfigs), [&](const KernelConfig& config) {
      return config.tile.family == Family::kMmaWidened && supports(config, each, kGpus[0]);
    });
  };
  const Problem along_k = float8_problem(DType::kFloat8E4M3, DType::kFloat8E5M2, 100, 200, 72);
  expect(runs(along_k), "rows that begin at multiples of 8 bytes");
  Problem changed = along_k;
  static_cast<Matrix&>(changed.b) = {along_k.b.data, 1, 200, 0};
  expect(runs(changed), "and columns");
  changed.b.stride_k = 204;
  expect(!runs(changed), "none at others");
  changed = along_k;
  changed.a.data = reinterpret_cast<void*>(4100);
  expect(!runs(changed), "nor where the operand begins elsewhere");
  expect(!runs(problem(DType::kFloat16, false, 1, 64, 64, 64)), "fp8 alone");
}

void test_elements_take_longer_than_vectors() {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
    const Problem vectors = problem(dtype, false, 1, 512, 512, 4096);
    Problem elements = vectors;
    elements.a.stride_mn += 1;
    for (const KernelConfig& config : kDenseConfigs)
      if ((config.tile.family == Family::kSimt || config.tile.family == Family::kDmma) &&
          supports(config, vectors, kGpus[0]))
        expect(expected_ns(config, elements, kGpus[0]) > expected_ns(config, vectors, kGpus[0]), config.name);
  }
}

// Where results are batch invariant, rows of an operand along m may begin anywhere.
void test_without_slices_the_choice_knows_no_rows() {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat8E4M3})
    for (const int64_t k : {64, 256, 512, 1024, 2048})
      for (const int64_t n : {64, 256, 1024}) {
        Problem whole = problem(dtype, false, 1, 256, n, k);
        whole.may_slice_k = false;
        static_cast<Matrix&>(whole.a) = {reinterpret_cast<void*>(4096), 1, 256, 0};
        Problem others = whole;
        others.a.data = reinterpret_cast<void*>(4096 + info(dtype).bytes);
        others.a.stride_k = 257;
        for (const Gpu& gpu : kGpus)
          expect(choose(kDenseConfigs, whole, gpu) == choose(kDenseConfigs, others, gpu) &&
                     choose_dense(whole, gpu).expected_ns == choose_dense(others, gpu).expected_ns,
                 "the same config, and the same price, wherever the rows begin");
      }
}

void test_gathered_float8_takes_the_room_of_float16() {
  expect(tile_element_bytes(Family::kMmaGather, 1) == 2, "gathered");
  expect(tile_element_bytes(Family::kMma, 1) == 1 && tile_element_bytes(Family::kMmaGather, 4) == 4, "as they are");
}

void test_more_work_never_costs_less() {
  for (const KernelConfig& config : kDenseConfigs) {
    if (config.tile.family == Family::kNarrow) continue;  // more rows may be spread over more SMs: test_narrow.cpp
    double last = 0;
    for (int64_t m = 1; m < 4096; m += 37) {
      const double now = expected_ns(config, problem(DType::kFloat16, false, 2, m, 777, 64), kGpus[0]);
      expect(now >= last, "time grows with m");
      last = now;
    }
  }
}

void test_slices_of_k() {
  const KernelConfig& config = kDenseConfigs[std::size(kDenseConfigs) - 3];
  expect(config.tile.family == Family::kDmma, "a config of float64");
  const auto slices = [&](const Problem& of) { return slices_of(config, of, kGpus[0]); };
  const KSlices few_tiles = slices(problem(DType::kFloat64, false, 1, 43, 14, 16182));
  expect(few_tiles.count > 16 && few_tiles.count <= kMaxSlices, "few tiles and a long k");
  expect(few_tiles.k % config.tile.block_k == 0 && few_tiles.k * few_tiles.count >= 16182 &&
             few_tiles.k * (few_tiles.count - 1) < 16182,
         "whole k-blocks, and no slice is empty");
  expect(slices(problem(DType::kFloat64, false, 1, 4096, 4096, 16182)).count == 1, "tiles for every SM");
  expect(slices(problem(DType::kFloat64, false, 200, 43, 14, 16182)).count == 1, "of a batch, too");
  expect(slices(problem(DType::kFloat64, false, 1, 43, 14, 2 * kMinSliceK - 1)).count == 1, "a short k");
  Problem whole = problem(DType::kFloat64, false, 3, 43, 14, 16182);
  const KSlices of_three = slices(whole);
  expect(slices_bytes(whole, of_three) == int64_t{3} * of_three.count * 43 * 16 * 8, "rows of whole four sums");
  whole.may_slice_k = false;
  expect(slices(whole).count == 1 && slices_bytes(whole, {}) == 0, "where they are not allowed");
  for (const int64_t k : {256, 257, 300, 1000, 4097, 100000})
    for (const int64_t count : {1, 2, 3, 7, 64, 1000}) {
      const KSlices each = slices_of(k, count, 32);
      expect(each.count == 1 || (each.k * each.count >= k && each.k * (each.count - 1) < k), "all of k, none empty");
    }
}

void test_operand_access() {
  const auto access = [](uintptr_t data, int64_t stride_mn, int64_t stride_k, int64_t stride_batch, int64_t batch,
                         int64_t mn, int64_t k, int bytes) {
    const Problem of = problem(bytes == 2 ? DType::kFloat16 : DType::kFloat32, false, batch, mn, 1, k);
    return operand_access({reinterpret_cast<void*>(data), stride_mn, stride_k, stride_batch}, of, mn);
  };
  expect(access(4096, 64, 1, 0, 1, 100, 64, 2).vectors, "row-major");
  expect(access(4096, 64, 1, 0, 1, 100, 64, 2).major == Major::kK, "row-major is k-major");
  expect(access(4096, 1, 64, 0, 1, 64, 100, 2).major == Major::kMn, "a transposed view is mn-major");
  expect(!access(4098, 64, 1, 0, 1, 100, 64, 2).vectors, "an odd storage offset");
  expect(!access(4096, 63, 1, 0, 1, 100, 63, 2).vectors, "an odd row length");
  expect(!access(4096, 128, 2, 0, 1, 100, 64, 2).vectors, "every other column");
  expect(!access(4096, 64, 1, 6401, 2, 100, 64, 2).vectors, "an odd batch stride");
  expect(access(4096, 64, 1, 6401, 1, 100, 64, 2).vectors, "a batch of one has no batch stride");
  expect(access(4096, 0, 1, 0, 5, 100, 64, 2).vectors, "an expanded row");
  expect(!access(4096, 0, 0, 0, 5, 100, 64, 2).vectors, "an expanded scalar");
  expect(access(4096, 77, 1, 0, 1, 1, 64, 2).vectors, "one row has no row stride");
  expect(access(4096, 1, 77, 0, 1, 64, 1, 4).vectors, "one k has no k stride");
}

// ---- what is held against other backends' expectations ----

void test_what_is_compared() {
  const Gpu& hopper = kGpus[0];
  const auto chosen = [&](DType dtype, bool may_slice_k, int64_t m, int64_t n, int64_t k) {
    Problem each = problem(dtype, false, 1, m, n, k);
    each.may_slice_k = may_slice_k;
    return choose_dense(each, hopper);
  };
  const auto is_direct = [](const Choice& choice) {
    return kDenseConfigs[choice.config].tile.family == Family::kDirect;
  };
  const Choice of_16_bits = chosen(DType::kBFloat16, true, 512, 512, 512);
  expect(!is_direct(of_16_bits) && of_16_bits.compared_ns > 1.05 * of_16_bits.expected_ns, "16 bits with a margin");
  expect(chosen(DType::kBFloat16, false, 512, 512, 512).compared_ns < 0, "not where results may be batch invariant");
  const Choice small = chosen(DType::kBFloat16, false, 16, 64, 64);
  expect(is_direct(small) && small.compared_ns > 0, "but direct kernels, which read anything");
  const Choice of_fp8 = chosen(DType::kFloat8E4M3, true, 512, 512, 512);
  expect(of_fp8.expected_ns > 0 && (is_direct(of_fp8) || of_fp8.compared_ns < 0), "of fp8 direct kernels alone");
  for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
    const Choice others = chosen(dtype, false, 512, 512, 512);
    expect(others.compared_ns == others.expected_ns, "of others every config, as it is");
  }
}

void test_what_an_activation_adds() {
  Problem each = problem(DType::kBFloat16, false, 1, 2048, 8192, 5);
  const Choice plain = choose_dense(each, kGpus[0]);
  each.epilogue.activation = Activation::kLeakyRelu;
  expect(choose_dense(each, kGpus[0]).expected_ns == plain.expected_ns, "a cheap formula nothing");
  each.epilogue.activation = Activation::kGelu;
  const Choice curved = choose_dense(each, kGpus[0]);
  expect(curved.config == plain.config && curved.expected_ns > 1.2 * plain.expected_ns, "gelu a time of its own");
}

// Few rows by a weight whose rows lie along k: the direct kernels ask for its sectors again and again.
void test_the_least_time_to_read() {
  const KernelConfig& direct = *std::find_if(std::begin(kDenseConfigs), std::end(kDenseConfigs), [](const auto& each) {
    return each.tile.family == Family::kDirect && each.bytes_per_ns > 0;
  });
  Problem along_k = problem(DType::kBFloat16, false, 23, 17, 1968, 3625);
  static_cast<Matrix&>(along_k.b) = {reinterpret_cast<void*>(4096), 3625, 1, 1968 * 3625};
  const double bytes = 23.0 * (17 + 1968) * 3625 * 2;
  expect(read_ns(direct, along_k) == bytes / direct.bytes_per_ns, "each byte once");
  expect(expected_ns(direct, along_k, kGpus[0]) > read_ns(direct, along_k), "no product takes less");
  static_cast<Matrix&>(along_k.b) = {reinterpret_cast<void*>(4096), 1, 1968, 1968 * 3625};
  expect(read_ns(direct, along_k) < 0.02 * bytes / direct.bytes_per_ns, "of a weight across k nothing");
  static_cast<Matrix&>(along_k.b) = {reinterpret_cast<void*>(4096), 3625, 1, 0};
  expect(read_ns(direct, along_k) < 0.06 * bytes / direct.bytes_per_ns, "a weight that the batch shares once");
}

void test_gathering_starts_sooner_on_an_h100() {
  Gpu h100 = kGpus[0], h200 = kGpus[0];
  h100.memory_gb_a_second = 3350, h200.memory_gb_a_second = 4800;
  for (const KernelConfig& config : kDenseConfigs) {
    const Problem each = problem(DType::kBFloat16, false, 1, 64, 512, 64);
    if (!supports(config, each, h100) || config.tile.family == Family::kNarrow) continue;
    const double sooner = expected_ns(config, each, h200) - expected_ns(config, each, h100);
    expect(sooner == (gathers(config.tile.family) ? kH100StartsSoonerNs : 0), config.name);
  }
}

}  // namespace

int main() {
  test_what_is_compared();
  test_what_an_activation_adds();
  test_the_least_time_to_read();
  test_gathering_starts_sooner_on_an_h100();
  test_table();
  test_every_problem_has_a_config();
  test_float8_configs();
  test_float8_is_widened_where_it_cannot_be_read();
  test_unmeasured_configs_are_chosen_last();
  test_float8_is_widened_in_chunks_of_eight_codes();
  test_elements_take_longer_than_vectors();
  test_without_slices_the_choice_knows_no_rows();
  test_gathered_float8_takes_the_room_of_float16();
  test_more_work_never_costs_less();
  test_slices_of_k();
  test_operand_access();
  return report("config");
}
