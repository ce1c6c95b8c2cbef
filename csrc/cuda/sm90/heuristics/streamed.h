// What a dense product of 16 bits is expected to take where CTAs share its last tiles (kStreamedConfigs): the numbers
// of the dense config that loads the same tiles, for as many tiles a CTA as there are, not whole ones; and the exchange
// of sums. Pure functions, compiled by any C++ compiler.
#pragma once

#include <cstdint>
#include <limits>

#include "cuda/common/kernel_choice.h"
#include "cuda/sm90/heuristics/cost_numbers.h"
#include "cuda/sm90/heuristics/shared_tiles.h"
#include "cuda/sm90/heuristics/tables.h"

namespace tileon::sm90 {

// As GpuNumbers::not_hidden: fitted, with the exchange's numbers (shared_tiles.h), to some 900 times of products whose
// operands' lines mostly begin within L2's, on an H200 (sweep_rectangles_5.csv.xz).
constexpr float kStreamedNotHidden = 0.37f;

// The exchange of sums takes some microseconds: of products that are expected to take less than this without it no
// streamed config is weighed.
constexpr float kLeastStreamedNs = 14000.0f;

// The times expected of dense configs that split k are more above the measured ones than those of other configs, by so
// much.
constexpr float kMarginOfSplits = 1.03f;

// What a config's time is made of, as the parts of Costs; `waves` are of a CTA's tiles, and the exchange, and what the
// stores take longer, are in `start`. All of it is infinite where no tile would be shared.
struct StreamedCost {
  float ns = std::numeric_limits<float>::infinity();
  float start = ns, compute = ns, memory = ns, delivery = ns, l2 = ns, waves = ns;

  // `costs` are those of all dense configs.
  StreamedCost(const KernelConfig& config, const Costs<float, kDenseConfigCount>& costs, const Problem& problem,
               const Gpu& gpu) {
    const StreamK stream = share_tiles(config, problem, gpu.sm_count).stream;
    if (stream.ctas == 0) return;
    const TileConfig& tile = config.tile;
    const CostNumbers& numbers = config.cost;
    const int like = config.like, cluster_ctas = tile.cluster_ctas();
    const int64_t tiles = tile_order(tile, problem.m, problem.n).count() * problem.batch;
    const auto whole = static_cast<float>(stream.first_tile / clusters_at_once(cluster_ctas, gpu.sm_count));
    const float stored = whole + (stream.blocks >= stream.k_blocks ? 2 : 1);  // tiles, by a CTA
    waves = whole + static_cast<float>(stream.blocks + (stream.rest > 0)) / static_cast<float>(stream.k_blocks);

    const TmaAccesses access(problem, kElementBytes);
    const bool k_major = (tile.swapped() ? access.a : access.b).major == Major::kK;
    const float per_k = k_major ? numbers.per_k : numbers.per_k_mn;
    compute = waves * per_k * static_cast<float>(stream.k_blocks * tile.block_k) + stored * numbers.per_tile;
    // Of a tile's operands, to the CTAs of a cluster: a CTA waits for what it has asked for.
    const float tile_bytes = operand_bytes<float>(problem, tile.element_bytes) / static_cast<float>(tiles);
    const float own_ns = tile_bytes / (numbers.memory_bytes_a_cta * static_cast<float>(cluster_ctas));
    memory = costs.memory[like] + (waves - costs.waves[like]) * own_ns;
    delivery = costs.delivery[like] * waves / costs.waves[like], l2 = costs.l2[like];

    const float sms_used = static_cast<float>(stream.ctas * cluster_ctas) / static_cast<float>(gpu.sm_count);
    const double activation =
        is_cheap_epilogue(problem) ? 0 : any_activation_ns(config, Operands::k16Bits, problem, stored);
    start = numbers.start + kH200Numbers.full_gpu_ns * sms_used +
            stored * numbers.unaligned_tile * unaligned_stores<float>(Operands::k16Bits, problem, kH200Numbers) +
            static_cast<float>(activation + exchange_ns(config, others_of(stream, tiles - stream.first_tile)) +
                               scattered_loads_ns(config, stream, tiles, problem));
    const float longest = longest_of(compute, memory, delivery, l2);
    ns = start + longest + kStreamedNotHidden * (compute + memory + delivery + l2 - longest);
  }
};

// Whether streamed configs are weighed for the problem: not on GPUs like an H100, where none of them was measured.
inline bool may_stream(const Problem& problem, const Gpu& gpu) { return problem.may_slice_k && !is_like_h100(gpu); }

// The streamed config that is expected to take less than dense config `best`, by its number in kStreamedConfigs, the
// fastest of them, and in `ns` what is expected of it; -1 where there is none.
inline int find_streamed(const Costs<float, kDenseConfigCount>& costs, const Problem& problem, const Gpu& gpu, int best,
                         float& ns) {
  if (ns < kLeastStreamedNs || !may_stream(problem, gpu)) return -1;
  float least = kDenseConfigs[best].splits > 1 ? ns / kMarginOfSplits : ns;
  int found = -1;
  for (int i = 0; i < kStreamedConfigCount; ++i) {
    if (!kStreamedConfigs[i].measured) continue;
    const float expected = StreamedCost(kStreamedConfigs[i], costs, problem, gpu).ns;
    if (expected < least) found = i, ns = least = expected;
  }
  return found;
}

}  // namespace tileon::sm90
