#include "cuda/sm80/sm80.h"

#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>

#include "cuda/common/kernel_choice.h"
#include "cuda/sm80/heuristics/choice.h"
#include "cuda/sm80/heuristics/config.h"
#include "cuda/sm80/registry/registry.h"

namespace tileon::sm80 {
namespace {

constexpr const char* kFamilyNames[] = {"mma",    "mma_gather", "simt",  "dmma",
                                        "skinny", "decoded",    "narrow"};  // in the order of Family
static_assert(std::size(kFamilyNames) == static_cast<int>(Family::kNarrow) + 1);

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
  static int choose(const Problem& problem, const Gpu& gpu) { return sm80::choose(kConfigs, problem, gpu); }

  static DeviceFlag run(int config, const Problem& problem, const Gpu&, void*, cudaStream_t stream) {
    bool is_launched = false;
    visit_below<Kind, kKindCount>(kind_of(problem),
                                  [&](auto kind) { is_launched = launch_config<kind()>(config, problem, stream); });
    if (!is_launched) throw std::runtime_error("tileon: this row has no kernel for this dtype");
    return {};
  }
};

// Whether the kernels read an operand faster once it lies in an aligned buffer.
bool wants_copy(const Operand& operand, int64_t mn, const Problem& problem) {
  const Kind kind = kind_of(problem);
  if (kind == Kind::kFloat32 || kind == Kind::kFloat64) return false;  // the SIMT kernels read any stride at full rate
  return !is_float8(problem.a.dtype) && !reads_vectors(operand, problem, mn);  // of fp8, wants_widening decides
}

// The functions over kDecodedConfigs, of which every config takes every product with scales.
struct DecodedTable : Table<kDecodedConfigs> {
  static const char* why_not(int config, const Problem&, const Gpu& gpu) {
    return shared_bytes(kDecodedConfigs[config].tile, sizeof(float)) > gpu.shared_bytes_per_block
               ? "this GPU has too little shared memory for it"
               : nullptr;
  }
  static int choose(const Problem& problem, const Gpu&) {
    return problem.m <= 2 * kDecodedConfigs[0].tile.tile_m ? 0 : 1;
  }

  static DeviceFlag run(int config, const Problem& problem, const Gpu&, void*, cudaStream_t stream) {
    launch_decoded(config, problem, stream);
    return {};
  }
};

template <typename Table>
constexpr Backend backend_of(decltype(Backend::wants_copy) wants_copy) {
  return {80,      999,           Table::count, Table::name, Table::fields, Table::why_not,
          nullptr, Table::choose, wants_copy,   nullptr,     Table::run};
}

}  // namespace

const Backend kDenseBackend = backend_of<Table<kDenseConfigs>>(wants_copy);
const Backend kBlockScaledBackend = backend_of<Table<kBlockScaledConfigs>>(nullptr);
const Backend kDecodedBackend = backend_of<DecodedTable>(nullptr);

bool pays_for_copies(const Problem& problem, const Gpu& gpu) { return copies_pay(problem, gpu); }
bool wants_widening(const Problem& problem, const Gpu& gpu) { return widens_float8(problem, gpu); }

}  // namespace tileon::sm80
