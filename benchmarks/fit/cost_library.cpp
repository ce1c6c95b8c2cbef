// The Hopper choice and its cost model as a shared library, for cost_model.py: without CUDA or torch.
#include <array>
#include <cstring>
#include <vector>

#include "cuda/sm80/heuristics/choice.h"
#include "cuda/sm90/heuristics/select_scaled.h"

using namespace tileon;
using namespace tileon::sm90;

extern "C" {

// A contiguous product of 16 bits, as a sweep has it, on the GPU of that number.
struct Case {
  int64_t m, n, k;
  int32_t a_mn_major, b_mn_major, gpu;
};

constexpr GpuNumbers kGpus[] = {kH200Numbers, kH100Numbers};
constexpr int kGpuCount = sizeof(kGpus) / sizeof(kGpus[0]);
constexpr int kMemory[] = {4800, 3350};  // GB a second

static Problem problem_of(const Case& each) {
  Problem problem;
  problem.m = each.m;
  problem.n = each.n;
  problem.k = each.k;
  problem.a.dtype = problem.b.dtype = problem.out_dtype = DType::kBFloat16;
  void* data = reinterpret_cast<void*>(4096);
  static_cast<Matrix&>(problem.a) = each.a_mn_major ? Matrix{data, 1, each.m, 0} : Matrix{data, each.k, 1, 0};
  static_cast<Matrix&>(problem.b) = each.b_mn_major ? Matrix{data, 1, each.n, 0} : Matrix{data, each.k, 1, 0};
  problem.out = {data, each.n, 1, 0};
  return problem;
}

int config_count() { return kDenseConfigCount; }
int config_number_count() { return sizeof(CostNumbers) / sizeof(float); }
int gpu_number_count() { return sizeof(GpuNumbers) / sizeof(float); }
const char* config_name(int config) { return kDenseConfigs[config].name; }

// Its family, tile_m, tile_n, splits, whether it is for a few rows, and the CTAs that load together.
void config_tile(int config, int32_t* values) {
  const TileConfig& tile = kDenseConfigs[config].tile;
  const int32_t found[] = {
      static_cast<int32_t>(tile.family),    tile.tile_m,        tile.tile_n, kDenseConfigs[config].splits,
      tile.family == Family::kSwapAbSplitK, tile.cluster_ctas()};
  std::memcpy(values, found, sizeof(found));
}

int gpu_count() { return kGpuCount; }

// The numbers in the tree: [configs][numbers], and [gpus][numbers].
void read_numbers(CostNumbers* of_configs, GpuNumbers* of_gpus) {
  for (int config = 0; config < kDenseConfigCount; ++config) of_configs[config] = kDenseConfigs[config].cost;
  for (int gpu = 0; gpu < kGpuCount; ++gpu) of_gpus[gpu] = kGpus[gpu];
}

// Nanoseconds that the model expects of `count` pairs of a config and a case, with these numbers.
void expected_ns(int count, const int32_t* config, const int32_t* case_of, int case_count, const Case* cases,
                 int sm_count, const CostNumbers* of_configs, const GpuNumbers* of_gpus, double* ns) {
  KernelConfig configs[kDenseConfigCount];
  for (int i = 0; i < kDenseConfigCount; ++i) (configs[i] = kDenseConfigs[i]).cost = of_configs[i];
  std::vector<CostTable<double, kDenseConfigCount>> tables;
  for (int gpu = 0; gpu < kGpuCount; ++gpu) tables.emplace_back(configs, of_gpus[gpu]);
  std::vector<std::array<double, kDenseConfigCount>> costs;
  costs.reserve(case_count);
  for (int i = 0; i < case_count; ++i) {
    const int gpu = cases[i].gpu;
    const DenseWork<double> work(Operands::k16Bits, problem_of(cases[i]), sm_count, of_gpus[gpu]);
    costs.push_back(Costs(tables[gpu], work).ns);
  }
  for (int i = 0; i < count; ++i) ns[i] = costs[case_of[i]][config[i]];
}

// What the library chooses of kDenseConfigs, which the fit is of.
void choose_all(int count, const Case* cases, int sm_count, int32_t* chosen) {
  for (int i = 0; i < count; ++i)
    chosen[i] = choose_dense(problem_of(cases[i]), {90, sm_count, 227 * 1024, 90, -1, kMemory[cases[i].gpu]});
}

// ---- two operands with block scales, packed, on an H200 ----

static Operand scaled_operand(DType dtype, ScaleType type, int64_t k) {
  void* data = reinterpret_cast<void*>(4096);
  const ScaleStrides strides = packed_scales(k / vec_of(type));
  return {{data, k / elements_per_byte(dtype), 1, 0}, dtype, {data, type, vec_of(type), strides}};
}

// The name of the config that the library chooses: Hopper's, or a portable one that is expected to take less.
const char* choose_block_scaled(int64_t m, int64_t n, int64_t k, int32_t a_is_e4m3, int32_t b_is_e4m3,
                                int32_t is_nvfp4) {
  const ScaleType type = is_nvfp4 ? ScaleType::kE4M3 : ScaleType::kE8M0;
  Problem problem;
  problem.m = m;
  problem.n = n;
  problem.k = k;
  problem.a = scaled_operand(a_is_e4m3 ? DType::kFloat8E4M3 : DType::kFloat4E2M1, type, k);
  problem.b = scaled_operand(b_is_e4m3 ? DType::kFloat8E4M3 : DType::kFloat4E2M1, type, k);
  problem.out_dtype = DType::kBFloat16;
  problem.out = {reinterpret_cast<void*>(4096), n, 1, 0};
  const Gpu gpu{90, 132, 227 * 1024, 90, -1, kMemory[0]};
  const Choice hopper = weigh_block_scaled(problem, gpu), portable = sm80::choose_block_scaled(problem, gpu);
  const bool is_hopper = hopper.config >= 0 && hopper.compared_ns <= portable.compared_ns;
  return is_hopper ? kBlockScaledConfigs[hopper.config].name : sm80::kBlockScaledConfigs[portable.config].name;
}
}
