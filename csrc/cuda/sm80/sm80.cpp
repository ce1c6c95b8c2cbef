#include "cuda/sm80/sm80.h"

#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>

#include "cuda/common/kernel_choice.h"
#include "cuda/sm80/heuristics/choice.h"
#include "cuda/sm80/heuristics/config.h"
#include "cuda/sm80/heuristics/recent_choices.h"
#include "cuda/sm80/registry/registry.h"

namespace tileon::sm80 {
namespace {

constexpr const char* kFamilyNames[] = {"mma",    "mma_gather", "mma_widened", "simt",  "dmma",
                                        "skinny", "decoded",    "direct",      "narrow"};  // in the order of Family
static_assert(std::size(kFamilyNames) == static_cast<int>(Family::kNarrow) + 1);

// The problem whose output is the sums of the slices of k, which are finished later.
Problem sums_of_slices(const Problem& problem, void* sums) {
  Problem slices = problem;
  slices.out_dtype = problem.a.dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  slices.out = {sums, slices_pitch(problem), 1, problem.m * slices_pitch(problem)};
  slices.epilogue = {};
  slices.pre_activation = nullptr;
  slices.global_scale = nullptr;
  return slices;
}

// The functions of a Backend over one table of configs.
template <const auto& kConfigs>
struct Table {
  static int count() { return std::size(kConfigs); }
  static const char* name(int config) { return kConfigs[config].name; }

  static ConfigFields fields(int config) {
    const KernelConfig& chosen = kConfigs[config];
    std::string operands = chosen.kinds == 0 ? "scaled" : "";
    const char* last = "";  // the two mixed pairs are one name
    for (const KindInfo& kind : kKinds) {
      if (!(chosen.kinds & bit(kind.kind)) || std::string_view(last) == kind.name) continue;
      operands += (operands.empty() ? "" : ",") + std::string(kind.name);
      last = kind.name;
    }
    const TileConfig& tile = chosen.tile;
    const char* route = (chosen.kinds & kDense) != 0 ? "plain" : "decoded";
    return {operands,     "sm80",      kFamilyNames[static_cast<int>(tile.family)],
            route,        tile.tile_m, tile.tile_n,
            tile.block_k, 1,           chosen.measured};
  }

  static const char* why_not(int config, const Problem& problem, const Gpu& gpu) {
    return sm80::why_not(kConfigs[config], kind_of(problem), problem, gpu);
  }

  static int64_t scratch_bytes(int config, const Problem& problem, const Gpu& gpu) {
    return slices_bytes(problem, slices_of(kConfigs[config], problem, gpu));
  }

  static DeviceFlag run(int config, const Problem& problem, const Gpu& gpu, void* scratch, cudaStream_t stream) {
    const KSlices slices = slices_of(kConfigs[config], problem, gpu);
    if (slices.count == 1) {
      launch(config, problem, slices, stream);
    } else {
      launch(config, sums_of_slices(problem, scratch), slices, stream);
      launch_add_slices(problem, scratch, slices.count, gpu, stream);
    }
    return {};
  }

 private:
  static void launch(int config, const Problem& problem, const KSlices& slices, cudaStream_t stream) {
    bool is_launched = false;
    visit_below<Kind, kKindCount>(
        kind_of(problem), [&](auto kind) { is_launched = launch_config<kind()>(config, problem, slices, stream); });
    if (!is_launched) throw std::runtime_error("tileon: this row has no kernel for this dtype");
  }
};

// Whether the kernels read an operand faster once it lies in an aligned buffer. Operands of float32 and float64 are
// read as they lie, which takes up to twice as long; of fp8 wants_widening decides.
WantedCopy wants_copy(Side side, const Problem& problem) {
  const Kind kind = kind_of(problem);
  if (kind == Kind::kFloat32 || kind == Kind::kFloat64 || is_float8(problem.a.dtype)) return WantedCopy::kNone;
  const bool reads =
      side == Side::kA ? reads_vectors(problem.a, problem, problem.m) : reads_vectors(problem.b, problem, problem.n);
  return reads ? WantedCopy::kNone : WantedCopy::kAsItLies;
}

// The functions over kDecodedConfigs, of which every config takes every product with scales.
struct DecodedTable : Table<kDecodedConfigs> {
  static const char* why_not(int config, const Problem&, const Gpu& gpu) {
    return shared_bytes(kDecodedConfigs[config].tile, sizeof(float)) > gpu.shared_bytes_per_block
               ? "this GPU has too little shared memory for it"
               : nullptr;
  }
  static int64_t scratch_bytes(int, const Problem&, const Gpu&) { return 0; }
  static Choice choose(const Problem& problem, const Gpu&) {
    return {problem.m <= 2 * kDecodedConfigs[0].tile.tile_m ? 0 : 1};
  }
  static constexpr decltype(Backend::choose_alike) choose_alike = nullptr;

  static DeviceFlag run(int config, const Problem& problem, const Gpu&, void*, cudaStream_t stream) {
    launch_decoded(config, problem, stream);
    return {};
  }
};

// The functions over kDenseConfigs and over kBlockScaledConfigs, whose choices are remembered.
struct DenseTable : Table<kDenseConfigs> {
  static Choice choose(const Problem& problem, const Gpu& gpu) { return choose_dense_once(problem, gpu); }
  static constexpr auto choose_alike = choose_dense_alike_once;
};
struct BlockScaledTable : Table<kBlockScaledConfigs> {
  static Choice choose(const Problem& problem, const Gpu& gpu) { return choose_block_scaled_once(problem, gpu); }
  static constexpr auto choose_alike = choose_block_scaled_alike_once;
};

template <typename Table>
constexpr Backend backend_of(decltype(Backend::wants_copy) wants_copy) {
  return {.min_capability = 80,
          .max_capability = 999,
          .config_count = Table::count,
          .config_name = Table::name,
          .config_fields = Table::fields,
          .why_not = Table::why_not,
          .may_choose = nullptr,
          .choose_config = Table::choose,
          .wants_copy = wants_copy,
          .scratch_bytes = Table::scratch_bytes,
          .run = Table::run,
          .choose_alike = Table::choose_alike,
          .heeds_device_flag = true};
}

}  // namespace

const Backend kDenseBackend = backend_of<DenseTable>(wants_copy);
const Backend kBlockScaledBackend = backend_of<BlockScaledTable>(nullptr);
const Backend kDecodedBackend = backend_of<DecodedTable>(nullptr);

bool wants_widening(const Problem& problem, const Gpu& gpu) { return widens_float8(problem, gpu); }

}  // namespace tileon::sm80
