// Where results are batch invariant: which config takes a product, in the place of the one that other rows would have.
// Pure functions, compiled by any C++ compiler.
#pragma once

#include "cuda/common/kernel_choice.h"
#include "cuda/sm90/heuristics/block_scaled.h"
#include "cuda/sm90/heuristics/scaled_cost.h"
#include "cuda/sm90/heuristics/select.h"
#include "cuda/sm90/heuristics/select_scaled.h"

namespace tileon::sm90 {

// Whether two configs add the products of each sum in the same order: kernels of the same operands walk k in the same
// steps of wgmma, whatever their tile. CTAs that split k begin at whole stages. tests/test_recorded_bits.py holds the
// bits of alike configs against each other.
constexpr bool add_alike(const KernelConfig& one, const KernelConfig& other) {
  return one.operands == other.operands && one.splits == other.splits &&
         (one.splits == 1 || one.tile.block_k == other.tile.block_k);
}

// All numbers of rows have the order that suits kRowsOfOrder. A split k is a loss for many rows: it has to gain so much
// for these.
constexpr double kLeastGainOfSplit = 1.25;

// The config that is expected to be fastest of those that add as `config` does; of those that do not split k, where
// `config` does and gains little by it. `ns_of(problem)` says what each config takes.
template <int kCount, typename Runs, typename NsOf>
int cheapest_alike(const KernelConfig (&configs)[kCount], int config, const Problem& problem, const Runs& runs,
                   const NsOf& ns_of) {
  const KernelConfig* order = &configs[config];
  if (order->splits > 1) {
    const auto ns = ns_of(with_fixed_rows(problem));
    const auto has_all_of_k = [&](const KernelConfig& each) {
      return each.operands == order->operands && each.splits == 1 && runs(each);
    };
    const int whole = cheapest_config(configs, has_all_of_k, ns);
    if (whole >= 0 && ns(configs[whole]) < kLeastGainOfSplit * ns(*order)) order = &configs[whole];
  }
  const auto is_wanted = [&](const KernelConfig& each) { return add_alike(each, *order) && runs(each); };
  return cheapest_config(configs, is_wanted, ns_of(problem));
}

constexpr bool runs_any(const KernelConfig&) { return true; }

// ---- of products without scales, by table ----

inline int choose_dense_alike(const Problem& problem, const Gpu& gpu, int config) {
  return cheapest_alike(kDenseConfigs, config, problem, runs_any, [&](const Problem& of) {
    return [costs = costs_with_activation(Operands::k16Bits, of, gpu)](const KernelConfig& each) {
      return costs.ns[&each - kDenseConfigs];
    };
  });
}

inline int choose_fp8_alike(const Problem& problem, const Gpu& gpu, int config) {
  return cheapest_alike(kFp8Configs, config, problem, runs_any, [&](const Problem& of) {
    return [&gpu, of, work = Work(of, 1)](const KernelConfig& each) { return fp8_ns(each, of, work, gpu); };
  });
}

inline int choose_bf16x6_alike(const Problem& problem, const Gpu& gpu, int config) {
  return cheapest_alike(kBf16x6Configs, config, problem, runs_any, [&](const Problem& of) {
    return [&gpu, product = SplitProduct(of)](const KernelConfig& each) { return product.ns(each, gpu.sm_count); };
  });
}

inline int choose_tf32_alike(const Problem& problem, const Gpu& gpu, int config) {
  const auto runs = [&](const KernelConfig& each) { return why_not_tf32(each.tile, problem, gpu) == nullptr; };
  return cheapest_alike(kTf32Configs, config, problem, runs, [&](const Problem& of) {
    return [&gpu, of, work = Work(of, kTf32Bytes)](const KernelConfig& each) { return tf32_ns(each, of, work, gpu); };
  });
}

// ---- of products with scales: kernels that share no tile, whatever the rows, and not those for few ----

inline int choose_block_scaled_alike(const Problem& problem, const Gpu& gpu, int config) {
  const Operands operands = kBlockScaledConfigs[config].operands;
  const bool is_prepared = operands == Operands::kBFloat16 || is_by_encoding(operands);
  if (is_prepared) return choose_prepared(operands, problem, gpu);
  const bool has_codes = has_float32_scales(operands);
  return cheapest_alike(kBlockScaledConfigs, config, problem, runs_any, [&](const Problem& of) {
    return [&gpu, of, has_codes, work = Work(of, 1)](const KernelConfig& each) {
      return has_codes ? scaled_codes_ns(each, of, work, gpu) : shared_tiles_ns(each, of, gpu.sm_count);
    };
  });
}

}  // namespace tileon::sm90
