// The Hopper tile table, and the choice of a config. How operands lie in shared memory: test_operand_tile.cpp.
#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "cuda/sm90/heuristics/select.h"
#include "expect.h"

using namespace tileon;
using namespace tileon::sm90;

namespace {

constexpr Gpu kH200 = {90, 132, 227 * 1024};
constexpr Gpu kH100 = {90, 132, 227 * 1024, 90, 0, 3352};

// Contiguous operands: a is (m, k) or the transposed view of (k, m), b is (k, n) or the transposed view of (n, k).
Problem problem(int64_t batch, int64_t m, int64_t n, int64_t k, bool a_transposed = false, bool b_transposed = false) {
  Problem result;
  result.batch = batch;
  result.m = m;
  result.n = n;
  result.k = k;
  result.a.dtype = result.out_dtype = DType::kBFloat16;
  void* data = reinterpret_cast<void*>(4096);
  static_cast<Matrix&>(result.a) = a_transposed ? Matrix{data, 1, m, m * k} : Matrix{data, k, 1, m * k};
  static_cast<Matrix&>(result.b) = b_transposed ? Matrix{data, k, 1, k * n} : Matrix{data, 1, n, k * n};
  result.out = {data, n, 1, m * n};
  return result;
}

int number_of(const std::string& name) {
  for (int config = 0; config < kDenseConfigCount; ++config)
    if (name == kDenseConfigs[config].name) return config;
  expect(false, "there is a config of this name", name.c_str());
  return 0;
}

void test_table() {
  std::set<std::string> names;
  for (const KernelConfig& config : kDenseConfigs) {
    const TileConfig& tile = config.tile;
    names.insert(config.name);
    const std::string size =
        std::to_string(tile.tile_m) + "x" + std::to_string(tile.tile_n) + "x" + std::to_string(tile.block_k);
    expect(std::string(config.name).find(size) != std::string::npos, "a config's name holds its tile", config.name);
    expect(tile.consumer_rows() % 64 == 0 && tile.mma_columns() % 8 == 0 && tile.mma_columns() <= kMaxColumns,
           "a consumer has whole rows of wgmma", config.name);
    const int sums = tile.consumer_rows() / 64 * tile.mma_columns() / 2;  // of each thread
    expect(sums <= (tile.takes_registers ? 192 : 128), "the sums fit into registers", config.name);
    expect(!tile.takes_registers || sums > 128, "no config asks for registers in vain", config.name);
    expect(tile.block_k % kPanel == 0 && tile.consumers <= 3, "a config is sound", config.name);
    expect(config.splits == 1 || !persistent(tile), "persistent kernels do not split k", config.name);
    for (Major a : {Major::kK, Major::kMn}) {
      for (Major b : {Major::kK, Major::kMn}) {
        const int stages = pipeline_stages(tile, a, b);
        constexpr int per_sm = 228 * 1024, reserved_per_cta = 1024;
        const int used = shared_bytes(tile, a, b, stages) + reserved_per_cta;
        if (a == Major::kK && b == Major::kK)
          expect(config.ctas_per_sm == per_sm / used, "the table says how many CTAs an SM holds", config.name);
        expect(stages >= 3 && stages <= 16, "the pipeline has its stages", config.name);
        expect(shared_bytes(tile, a, b, stages) <= kSmemLimit, "a kernel fits into shared memory", config.name);
        expect(stage_bytes(tile, a, b) % 1024 == 0 && pipeline_begin(tile) % 1024 == 0 &&
                   staging_begin(tile) % 1024 == 0 && warp_store_bytes(tile) % 1024 == 0,
               "swizzled tiles begin at multiples of 1024", config.name);
      }
    }
  }
  expect(names.size() == static_cast<size_t>(kDenseConfigCount), "names are distinct");
}

void test_every_readable_problem_has_a_config() {
  for (int64_t m : {1, 8, 63, 64, 1000, 4096})
    for (int64_t n : {8, 64, 1000, 4096})
      for (int64_t k : {0, 8, 64, 1000, 28672})
        for (bool a_transposed : {false, true})
          for (bool b_transposed : {false, true}) {
            const Problem each = problem(3, m, n, k, a_transposed, b_transposed);
            const bool readable = !a_transposed || m % 8 == 0;
            const int config = choose_dense(each, kH200);
            if (config < 0 && narrow_pays(each, kH200, 1e9)) continue;  // left to the portable kernels
            expect((config >= 0) == (readable || m == 1 || k == 0), "readable problems have a config, others none");
            if (config < 0) continue;
            expect(why_not_dense(each, kH200) == nullptr, "only what can run is chosen", kDenseConfigs[config].name);
            const std::vector<Candidate> candidates = explain(each, kH200);
            expect(candidates.size() == static_cast<size_t>(kDenseConfigCount), "all rows are weighed");
            for (const Candidate& other : candidates)
              expect(candidates[config].ns <= other.ns, "the cheapest one is chosen", other.name);
          }
}

// One that has not run on hardware is the last resort, however fast it should be.
void test_unmeasured_configs_are_chosen_last() {
  KernelConfig configs[] = {kDenseConfigs[0], kDenseConfigs[1], kDenseConfigs[2]};
  const auto choose_of = [&](const auto& runs) {
    return cheapest_config(
        configs, [&](const KernelConfig& each) { return runs(&each - configs); },
        [&](const KernelConfig& each) { return 3.0 - static_cast<double>(&each - configs); });
  };
  const auto all = [](auto) { return true; };
  expect(choose_of(all) == 2, "the cheapest one");
  configs[2].measured = false;
  expect(choose_of(all) == 1, "of the measured ones");
  expect(choose_of([](auto config) { return config == 2; }) == 2, "another one where no measured one can serve");
  expect(choose_of([](auto) { return false; }) == -1, "none where none can");
  for (const KernelConfig& config : kDenseConfigs) expect(config.measured, "every config has run", config.name);
}

// Eight are compared at once, and what is left of a whole eight after them.
void test_place_of_least() {
  for (int place = 0; place < 21; ++place) {
    std::array<float, 21> numbers;
    numbers.fill(3);
    numbers[place] = 1;
    expect(place_of_least(numbers) == place, "the least one");
    numbers[20] = 1;
    expect(place_of_least(numbers) == place, "the first of two");
  }
}

// gelu takes longer than what the tiles of a large square leave to hide, but in ping-pong.
void test_curved_activations_go_by_ping_pong() {
  for (int64_t size : {3072, 4096, 6144, 8192}) {
    Problem each = problem(1, size, size, size);
    const int plain = choose_dense(each, kH200);
    each.epilogue.activation = Activation::kLeakyRelu;
    expect(choose_dense(each, kH200) == plain, "leaky_relu goes by the plain product's config",
           kDenseConfigs[plain].name);
    each.epilogue.activation = Activation::kGelu;
    const int curved = choose_dense(each, kH200);
    expect(kDenseConfigs[curved].tile.family == Family::kPingpong, "behind products", kDenseConfigs[curved].name);
    each.pre_activation = const_cast<void*>(each.out.data);
    expect(choose_dense(each, kH200) == curved, "and with the argument beside the output", kDenseConfigs[curved].name);
  }
}

void test_which_kernels_finish_any_activation() {
  const auto has = [](const KernelConfig& config) {
    return has_activated_store(stored_sums(config.operands), config.tile);
  };
  const auto crowded = [](const KernelConfig& config) { return is_crowded(stored_sums(config.operands), config.tile); };
  const auto named = [](const auto& configs, const std::string& name) {
    return *std::find_if(std::begin(configs), std::end(configs), [&](const auto& each) { return each.name == name; });
  };
  for (const KernelConfig& config : kDenseConfigs)
    expect(has(config) == persistent(config.tile), "of 16 bits every persistent kernel", config.name);
  for (const KernelConfig& config : kFp8Configs) expect(has(config), "of fp8 every kernel", config.name);
  for (const KernelConfig& config : kBf16x6Configs) expect(!has(config), "of float32 none", config.name);
  for (const KernelConfig& config : kTf32Configs) expect(!has(config), "nor of tf32", config.name);
  for (const KernelConfig& config : kBlockScaledConfigs)
    if (persistent(config.tile))
      expect(has(config) == (sums_of_thread(config.tile) < 192), "scaled sums leave room for it", config.name);
  expect(!has(named(kBlockScaledConfigs, "sm90_scaled_int8_pingpong_128x192x128")), "but not 192 of them");

  expect(!crowded(named(kDenseConfigs, "sm90_gemm_128x224x64")), "112 sums leave registers");
  expect(crowded(named(kDenseConfigs, "sm90_gemm_128x240x64")), "120 leave few");
  expect(!crowded(named(kDenseConfigs, "sm90_pingpong_128x192x64")), "unless more registers are taken");
  expect(crowded(named(kBlockScaledConfigs, "sm90_scaled_int8_pingpong_128x160x128")), "which scaled sums need");
}

void test_refusals() {
  Problem plain = problem(1, 64, 64, 64);
  expect(choose_dense(plain, {80, 108, 163 * 1024}) < 0 && choose_dense(plain, {100, 148, 227 * 1024}) < 0,
         "only on Hopper");
  plain.a.dtype = DType::kFloat32;
  expect(choose_dense(plain, kH200) < 0, "16-bit operands alone");
  expect(choose_dense(problem(1, int64_t{1} << 31, 8, 8), kH200) < 0, "sizes that TMA cannot count");
  expect(choose_dense(problem(1 << 20, 1 << 12, 1 << 12, 8), kH200) < 0, "more tiles than an int counts");
}

void test_tma_access() {
  const auto access = [](uintptr_t data, int64_t stride_mn, int64_t stride_k, int64_t stride_batch, int64_t batch,
                         int64_t mn, int64_t k) {
    return tma_access({reinterpret_cast<void*>(data), stride_mn, stride_k, stride_batch}, batch, mn, k, 2);
  };
  expect(access(4096, 64, 1, 0, 1, 100, 64).readable && access(4096, 64, 1, 0, 1, 100, 64).major == Major::kK,
         "row-major");
  expect(access(4096, 1, 64, 0, 1, 64, 100).major == Major::kMn, "a transposed view");
  expect(!access(4098, 64, 1, 0, 1, 100, 64).readable, "an odd storage offset");
  expect(!access(4096, 63, 1, 0, 1, 100, 63).readable, "an odd row length");
  expect(!access(4096, 128, 2, 0, 1, 100, 64).readable, "every other column");
  expect(!access(4096, 64, 1, 6401, 2, 100, 64).readable, "an odd batch stride");
  expect(access(4096, 64, 1, 6401, 1, 100, 64).readable, "a batch of one has no batch stride");
  expect(access(4096, 64, 1, 0, 5, 100, 64).readable, "one matrix for the whole batch");
  expect(!access(4096, 0, 1, 0, 1, 100, 64).readable, "an expanded row");
  expect(access(4096, 77, 1, 0, 1, 1, 64).line_bytes == kTmaAlignment, "one row has no row stride");
  expect(access(4096, 1, 77, 0, 1, 64, 1).readable, "one k has no k stride");
  expect(!access(4096, int64_t{1} << 40, 1, 0, 1, 2, 8).readable, "a stride that TMA cannot count");
  expect(access(4097, 3, 5, 7, 0, 100, 64).readable && access(4097, 3, 5, 7, 2, 100, 0).readable, "nothing is read");
}

void test_outputs_that_tma_can_write() {
  const auto can = [](uintptr_t data, int64_t stride_m, int64_t stride_n, int64_t stride_batch, int64_t batch,
                      int64_t m, int64_t n) {
    return tma_can_write({reinterpret_cast<void*>(data), stride_m, stride_n, stride_batch}, batch, m, n, 2);
  };
  expect(can(4096, 72, 1, 7200, 2, 100, 72), "rows of whole 16 bytes");
  expect(!can(4096, 72, 1, 0, 1, 100, 68), "rows that end within 16 bytes: what lies behind them would be overwritten");
  expect(!can(4096, 72, 1, 0, 1, 1, 68), "a single row that does");
  expect(!can(4096, 76, 1, 0, 1, 100, 72), "rows that begin within 16 bytes");
  expect(!can(4096 + 8, 72, 1, 0, 1, 100, 72), "an address within 16 bytes");
  expect(!can(4096, 1, 104, 0, 1, 100, 72), "columns");
  expect(!can(4096, 72, 1, 7204, 2, 100, 72), "matrices that begin within 16 bytes");
  expect(can(4096, 77, 1, 7204, 1, 1, 72), "one row of one matrix has no strides");
}

void test_lines_of_l2() {
  const auto lines = [](uintptr_t data, int64_t stride_mn, int64_t stride_k, int64_t mn, int64_t k) {
    const Matrix operand{reinterpret_cast<void*>(data), stride_mn, stride_k, 0};
    return lines_of_l2(operand, tma_access(operand, 1, mn, k, kElementBytes), mn, k);
  };
  expect(lines(4096, 640, 1, 100, 640) == 1 && lines(4096, 1, 640, 640, 100) == 1, "whole lines");
  expect(lines(4096, 648, 1, 100, 648) == 2 && lines(4096, 1, 648, 648, 100) == 2, "rows that are no whole lines");
  expect(lines(4096 + 16, 640, 1, 100, 640) == 2, "an address within a line");
  expect(lines(4096, 648, 1, 1, 648) == 1, "one row has no row stride");
}

// A straddling operand makes the tiles dearer that read it more often.
void test_delivery_counts() {
  const int config = number_of("sm90_gemm_64x64x128");
  const Problem aligned = problem(1, 4096, 4096, 8192), straddling = problem(1, 4096, 4096, 8192 + 8);
  const auto loads = [&](const Problem& each) {
    const Candidate found = explain(each, kH200)[config];
    return found.delivery + found.l2;
  };
  expect(loads(straddling) > 1.2 * loads(aligned), "rows that straddle L2's lines cost more");
}

// Of an mn-major operand whose lines begin with L2's, most tiles of 104 columns begin within sectors, every other one
// of 96 within a line, and none of 128.
void test_tiles_that_begin_within_lines() {
  const auto bytes_of_tile = [](const char* name, const Problem& each) {
    const Candidate found = explain(each, kH200)[number_of(name)];
    return found.delivery / found.waves * kDenseConfigs[number_of(name)].cost.l2_bytes_a_tile;
  };
  const Problem wide = problem(1, 128, 4096, 4096), narrow = problem(1, 128, 64, 4096);
  const double of_128 = bytes_of_tile("sm90_gemm_128x128x64", wide);
  const double of_96 = bytes_of_tile("sm90_gemm_128x96x64", wide);
  const double of_104 = bytes_of_tile("sm90_gemm_128x104x64", wide);
  expect(of_104 > 1.2 * of_96 && of_96 > 1.2 * of_128, "the tile's width decides where its lines begin");
  expect(
      std::abs(bytes_of_tile("sm90_gemm_128x104x64", narrow) / bytes_of_tile("sm90_gemm_128x96x64", narrow) - 1) < 1e-3,
      "the first tile begins with the operand");
  const Problem k_major = problem(1, 128, 104 * 96, 4096, false, true);
  expect(bytes_of_tile("sm90_gemm_128x104x64", k_major) < of_128, "and every tile of a k-major operand with a line");
}

// Tiles that CTAs share: of few tiles with a long k.
void test_streamed() {
  const auto chosen = [](const Problem& of, const Gpu& gpu) { return weigh_dense(of, gpu); };
  Problem gradient = problem(1, 768, 768, 8192, true, false);
  const Choice streamed = chosen(gradient, kH200);
  expect(streamed.config >= kDenseConfigCount, "CTAs share the 36 tiles of a weight's gradient");
  expect(streamed.config - kDenseConfigCount < kStreamedConfigCount, "by a row of the table");
  expect(chosen(gradient, kH100).config == choose_dense(gradient, kH100) && explain_streamed(gradient, kH100).empty(),
         "not where none was measured");
  const std::vector<Candidate> candidates = explain_streamed(gradient, kH200);
  expect(std::any_of(candidates.begin(), candidates.end(),
                     [&](const Candidate& each) {
                       return each.name == kStreamedConfigs[streamed.config - kDenseConfigCount].name &&
                              std::abs(each.ns - streamed.expected_ns) < 1;
                     }),
         "and its costs are explained");
  Problem curved = gradient;
  curved.epilogue.activation = Activation::kGelu;
  expect(chosen(curved, kH200).expected_ns > streamed.expected_ns, "an activation takes time");
  gradient.may_slice_k = false;
  expect(chosen(gradient, kH200).config == choose_dense(gradient, kH200), "nor where k may not be shared");
  for (const int64_t size : {512, 2048, 4096, 8192})
    expect(chosen(problem(1, size, size, size), kH200).config < kDenseConfigCount, "squares fill the GPU");
  for (const KernelConfig& config : kStreamedConfigs) {
    const TileConfig &tile = config.tile, &like = kDenseConfigs[config.like].tile;
    expect(config.streams && tile.tile_m == like.tile_m && tile.tile_n == like.tile_n && tile.block_k == like.block_k &&
               tile.cluster_m == like.cluster_m && tile.cluster_n == like.cluster_n,
           "the tile of the row that it is like", config.name);
  }
}

// What is printed of a choice: every config that may be chosen, and terms that make up its time.
void test_explain() {
  Problem each = problem(2, 1000, 520, 4096, false, true);
  for (const Candidate& candidate : explain(each, kH200)) {
    const Candidate& cost = candidate;
    const double parts[] = {cost.compute, cost.memory, cost.delivery, cost.l2};
    const double longest = *std::max_element(std::begin(parts), std::end(parts));
    const double sum = cost.compute + cost.memory + cost.delivery + cost.l2;
    for (const double part : parts) expect(part > 0, "every part takes its time", candidate.name);
    expect(cost.start > 0 && cost.waves >= 1, "so does the start", candidate.name);
    const double one_wave = cost.start + longest + kH200Numbers.not_hidden * (sum - longest);
    expect(candidate.ns > (1 - 1e-6) * one_wave && candidate.ns < (1 + 1e-6) * (cost.start + sum),
           "the longest term hides the others at most", candidate.name);
    expect(cost.waves > 1 || candidate.ns < (1 + 1e-6) * one_wave, "of one wave the terms make up the time",
           candidate.name);
    expect(candidate.ns < 1e9 && candidate.name == kDenseConfigs[number_of(candidate.name)].name, "it is a config's");
  }
  each.a.dtype = DType::kFloat32;
  expect(explain(each, kH200).empty(), "nothing where the kernels cannot run it");
}

// Four CTAs a cluster leave some SMs over; those of the same SM are one wave.
void test_waves() {
  const auto waves = [](const char* name, int64_t m, int64_t n) {
    return explain(problem(1, m, n, 1024, false, true), kH200)[number_of(name)].waves;
  };
  expect(waves("sm90_gemm_128x128x64", 128, 132 * 128) == 1 && waves("sm90_gemm_128x128x64", 128, 133 * 128) == 2,
         "a tile for each SM");
  expect(waves("sm90_split4_128x128x64", 128, 30 * 128) == 1 && waves("sm90_split4_128x128x64", 128, 31 * 128) == 2,
         "30 clusters of four");
  expect(std::abs(waves("sm90_few_rows_8x64x128", 8, 198 * 64) - 1.5 - 0.5 * kH200Numbers.uneven_waves) < 1e-6,
         "two CTAs of an SM");
  expect(waves("sm90_few_rows_8x64x128", 8, 264 * 64) == 2, "two CTAs of every SM");
}

// A last wave of a single tile takes its products' time, and hides little of it behind what the full one waits for.
void test_a_last_wave_of_one_tile() {
  const auto ns = [](int64_t tiles) {
    return explain(problem(1, 128, tiles * 128, 64, false, true), kH200)[number_of("sm90_gemm_128x128x64")];
  };
  const Candidate full = ns(132), one_more = ns(133);
  const double parts[] = {full.compute, full.memory, full.delivery, full.l2};
  expect(full.compute < *std::max_element(std::begin(parts), std::end(parts)),
         "the products are hidden in a full wave");
  expect(one_more.ns - full.ns > full.compute * 0.9, "but not in the last one");
}

// Clusters whose CTAs load for each other are for operands whose lines begin within L2's sectors.
void test_clusters_that_load_together() {
  for (const Gpu& gpu : {kH200, kH100}) {
    const auto is_cluster = [&](const Problem& each) {
      return kDenseConfigs[choose_dense(each, gpu)].tile.cluster_ctas() > 1;
    };
    for (const int size : {2048, 4096, 8192}) {
      expect(is_cluster(problem(1, size, size, size + 8, false, true)), "rows of k begin within sectors");
      expect(is_cluster(problem(1, size + 8, size + 8, size, true, false)), "and rows of m and of n");
      expect(!is_cluster(problem(1, size, size, size, false, true)), "rows begin with L2's lines");
      expect(!is_cluster(problem(1, size, size, size, true, false)), "of mn-major operands, too");
    }
  }
  const auto waves = [](const char* name, int64_t m, int64_t n) {
    return explain(problem(1, m, n, 1024, false, true), kH200)[number_of(name)].waves;
  };
  expect(waves("sm90_cluster2x1_128x256x64", 256, 66 * 256) == 1 && waves("sm90_cluster2x1_128x256x64", 257, 8448) == 1,
         "66 clusters of two, each 256 rows");
  expect(waves("sm90_cluster2x2_128x128x64", 256, 30 * 256) == 1 && waves("sm90_cluster2x2_128x128x64", 256, 7681) == 2,
         "30 clusters of four");
  expect(explain(problem(1, 512, 512, 512), kH100)[0].ns != explain(problem(1, 512, 512, 512), kH200)[0].ns,
         "an H100 has numbers of its own");
}

}  // namespace

int main() {
  test_table();
  test_every_readable_problem_has_a_config();
  test_unmeasured_configs_are_chosen_last();
  test_place_of_least();
  test_curved_activations_go_by_ping_pong();
  test_which_kernels_finish_any_activation();
  test_refusals();
  test_tma_access();
  test_outputs_that_tma_can_write();
  test_lines_of_l2();
  test_delivery_counts();
  test_tiles_that_begin_within_lines();
  test_streamed();
  test_explain();
  test_waves();
  test_a_last_wave_of_one_tile();
  test_clusters_that_load_together();
  return report("hopper config");
}
