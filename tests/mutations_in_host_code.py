"""Mistakes in C++ that host tests compile themselves."""

from __future__ import annotations

from mutation import Mutation, host

IN_HOST_CODE = (
    Mutation(
        "registers-begun-anew-at-each-chunk",
        "csrc/cpu/tiles/amx_block.h",
        "const bool is_first = k % kAmxRun == 0,",
        "const bool is_first = true,",
        host("amx_block", "amx_block_by_tables"),
    ),
    Mutation(
        "ties-of-a-fold-rounded-to-odd",
        "csrc/cpu/tiles/amx_tables.h",
        "twice_rest == step && whole % 2 == 1",
        "twice_rest == step && whole % 2 == 0",
        host("amx_block_by_tables"),
    ),
    Mutation(
        "subnormal-words-called-usual",
        "csrc/cpu/tiles/amx_fill.h",
        "_mm512_mask_cmpgt_epu16_mask(is_number, above_least,",
        "_mm512_mask_cmpgt_epu16_mask(is_number & 0, above_least,",
        host("amx_block_by_tables"),
    ),
    Mutation(
        "lower-last-group-of-tiles",
        "csrc/cuda/common/tile_order.h",
        "last_rows_(order.tiles_m % order.group_m == 0 ? order.group_m : order.tiles_m % order.group_m) {}",
        "last_rows_(order.group_m) {}",
        host("tile_order"),
    ),
    Mutation(
        "rounding-of-a-prepared-division",
        "csrc/cuda/common/tile_order.h",
        "(excess << 32) / static_cast<uint64_t>(divisor) + 1)",
        "(excess << 32) / static_cast<uint64_t>(divisor))",
        host("tile_order"),
    ),
    Mutation(
        "mask-of-a-swizzle",
        "csrc/cuda/common/swizzle.h",
        "chunk ^ ((row / rows_per_line) & mask)",
        "chunk ^ ((row / rows_per_line) & (mask >> 1))",
        host("swizzle"),
    ),
    Mutation(
        "columns-of-a-packed-scale",
        "csrc/core/formats.h",
        "kScaleBlockBytes, kScaleBlockBytes, 16, 4, 1}",
        "kScaleBlockBytes, kScaleBlockBytes, 4, 16, 1}",
        host("scale_layout"),
    ),
    Mutation(
        "rows-of-TMAs-output",
        "csrc/cuda/sm90/layout/operand_tile.h",
        "n * element_bytes % kTmaAlignment == 0 &&",
        "n % kTmaAlignment == 0 &&",
        host("hopper_config"),
    ),
    Mutation(
        "clusters-at-once",
        "csrc/cuda/common/kernel_choice.h",
        "sm_count * 10 / 11",
        "sm_count",
        (*host("hopper_config"), "tests/test_cost_model.py"),
    ),
    Mutation(
        "key-of-a-remembered-choice",
        "csrc/cuda/sm90/heuristics/recent_choices.h",
        "is_cheap_epilogue(problem), by_tma,",
        "is_cheap_epilogue(problem),",
        host("recent_choices"),
    ),
    Mutation(
        "dearest-instead-of-cheapest",
        "csrc/cuda/common/kernel_choice.h",
        "expected < best_ns",
        "expected > best_ns",
        host("config"),
    ),
    Mutation(
        "where-a-copy-pays",
        "csrc/cuda/dispatch/plan.h",
        "ns >= best_ns",
        "ns < best_ns",
        host("plan"),
    ),
    Mutation(
        "stride-of-a-single-row",
        "csrc/tuning/problem_key.h",
        "return size <= 1 ||",
        "return size <= 0 ||",
        host("problem_text"),
    ),
    Mutation(
        "alignment-of-a-prepared-weight",
        "csrc/core/problem.h",
        "(bytes + kAlignment - 1) / kAlignment * kAlignment",
        "bytes / kAlignment * kAlignment",
        host("prepared_weight"),
    ),
    Mutation(
        "stages-of-a-CTA-that-shares-k",
        "csrc/cuda/sm90/heuristics/small_m.h",
        "static_cast<double>((work.stages + splits - 1) / splits)",
        "static_cast<double>(work.stages / splits)",
        host("hopper_few_rows_config"),
    ),
    Mutation(
        "rows-that-are-few-under-float32-scales",
        "csrc/cuda/sm90/heuristics/select_scaled.h",
        "problem.m <= kMaxRowsOfCodes || !is_constant",
        "problem.m <= kMaxSmallM || !is_constant",
        host("hopper_few_rows_config"),
    ),
    Mutation(
        "no-room-for-the-stages-of-a-warp",
        "csrc/cuda/sm90/heuristics/direct_weight.h",
        "return stages > sums ? stages : sums;",
        "return stages < sums ? stages : sums;",
        host("hopper_direct_weight_config"),
    ),
    Mutation(
        "few-rows-not-weighed-beside-direct-weights",
        "csrc/cuda/sm90/heuristics/select_scaled.h",
        "return are_few_rows_faster(problem, ns(direct), is_one_round, gpu) ? -1 : best;",
        "return best;",
        host("hopper_direct_weight_config"),
    ),
    Mutation(
        "direct-weights-of-three-tiles-an-sm",
        "csrc/cuda/sm90/heuristics/direct_weight.h",
        "return tiles <= 2 * int64_t{gpu.sm_count} && problem.k <= kDirectKOfTwoTiles;",
        "return tiles <= 3 * int64_t{gpu.sm_count} && problem.k <= kDirectKOfTwoTiles;",
        host("hopper_direct_weight_config"),
    ),
    Mutation(
        "sums-cut-without-fast-accum",
        "csrc/cuda/sm90/heuristics/select_scaled.h",
        "(operands == Operands::kFp8Rows && !problem.fast_accum)",
        "false",
        host("hopper_block_scaled_config"),
    ),
    Mutation(
        "promoted-configs-not-weighed-with-fast-accum",
        "csrc/cuda/sm90/heuristics/select_scaled.h",
        "const bool weighs_promoted = operands == Operands::kFp8Rows;",
        "const bool weighs_promoted = false;",
        host("hopper_block_scaled_config"),
    ),
    Mutation(
        "tf32-taken-for-float32",
        "csrc/cuda/sm90/heuristics/select.h",
        "problem.a.dtype != DType::kFloat32 || problem.allow_tf32",
        "problem.a.dtype != DType::kFloat32",
        host("hopper_float32_config"),
    ),
)

# Of what the library has on the CPU: each takes a build.
