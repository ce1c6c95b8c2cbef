"""The mistakes that tests/mutations.py makes, one line each, and the tests that must notice them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutation:
    """A mistake: in `file`, `old`, which is there once, becomes `new`. One of `tests`, files of the suite or names of
    tests as pytest takes them, must fail."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def applied(self, text: str) -> str:
        """Raises ValueError where the text is not there, or more than once."""
        count = text.count(self.old)
        if count != 1:
            raise ValueError(f"{self.name}: {self.old!r} is {count} times in {self.file}, and must be there once")
        return text.replace(self.old, self.new)


def host(*programs: str) -> tuple[str, ...]:
    return tuple(f"tests/test_host.py::test_host_program[test_{program}]" for program in programs)


IN_PYTHON = (
    Mutation(
        "negative-slope-read-as-positive",
        "tileon_ops/_rules/activations.py",
        "output_tells_from=0.0",
        "output_tells_from=-1.0",
        ("tests/test_autograd.py::TestDifferenceQuotients",),
    ),
    Mutation(
        "sign-in-silus-derivative",
        "tileon_ops/_rules/activations.py",
        "(1 + z * (1 - sigmoid))",
        "(1 - z * (1 - sigmoid))",
        ("tests/test_transforms.py::TestNested",),
    ),
    Mutation(
        "gradient-of-a-shared-operand",
        "tileon_ops/_rules/autograd/gradients.py",
        "rows = grad.transpose(0, 1).reshape(m, batch * n)",
        "rows = grad.reshape(m, batch * n)",
        ("tests/test_autograd.py::TestDifferenceQuotients",),
    ),
    Mutation(
        "sign-of-a-tangent",
        "tileon_ops/_rules/autograd/kernel.py",
        "tangent = tangent + term",
        "tangent = tangent - term",
        ("tests/test_transforms.py::TestOneTransform",),
    ),
    Mutation(
        "dimensions-that-do-not-merge",
        "tileon_ops/_rules/shapes.py",
        "same(outer[1], inner[0] * inner[1])",
        "same(outer[1], inner[0])",
        ("tests/test_wrapper.py", "tests/test_properties.py"),
    ),
    Mutation(
        "batch-of-one-taken-for-shared",
        "tileon_ops/_rules/shapes.py",
        "if all(size == 1 for size in own):",
        "if any(size == 1 for size in own):",
        ("tests/test_wrapper.py",),
    ),
    Mutation(
        "autocast-without-a-say-in-a-layer",
        "tileon_ops/_rules/autograd/shortcut.py",
        "and not is_any_autocast_enabled()",
        "",
        ("tests/test_layer_ops.py::TestWhatHasASay",),
    ),
    Mutation(
        "vmap-rows-of-packed-scales",
        "tileon_ops/_rules/vmap/samples.py",
        "if scale.dim() == 6 and rows % BLOCK_ROWS != 0:",
        "if scale.dim() == 6 and rows % 64 != 0:",
        ("tests/test_vmap_quantized.py",),
    ),
    Mutation(
        "vmap-dtype-of-a-mapped-bias",
        "tileon_ops/_rules/vmap/matmul.py",
        "z = product + bias[:, None, None].to(product.dtype)",
        "z = product + bias[:, None, None].to(dtype)",
        ("tests/test_vmap.py",),
    ),
    Mutation(
        "partial-sums-activated",
        "tileon_ops/_rules/sharding/placements.py",
        'if activation == "none":',
        'if activation != "gelu":',
        ("tests/test_sharding.py",),
    ),
    Mutation(
        "scales-cut-inside-a-block",
        "tileon_ops/_rules/sharding/placements.py",
        "operand.shape[0] % (BLOCK_ROWS * devices) == 0",
        "operand.shape[0] % BLOCK_ROWS == 0",
        ("tests/test_sharding.py",),
    ),
    Mutation(
        "fake-length-of-a-bias",
        "tileon_ops/_rules/fake/checks.py",
        "check(bias.shape[0] == n,",
        "check(bias.shape[0] >= n,",
        ("tests/test_errors.py::TestArguments",),
    ),
    Mutation(
        "fake-default-output-of-fp8",
        "tileon_ops/_rules/fake/matmul.py",
        "torch.float8_e5m2: (torch.float16, torch.bfloat16,",
        "torch.float8_e5m2: (torch.bfloat16, torch.float16,",
        ("tests/test_fp8_errors.py::TestTransformations",),
    ),
    Mutation(
        "fake-blocks-of-packed-scales",
        "tileon_ops/_rules/fake/scales.py",
        "(rows + BLOCK_ROWS - 1) // BLOCK_ROWS",
        "rows // BLOCK_ROWS + 1",
        ("tests/test_quantize_compile.py::TestFake",),
    ),
    Mutation(
        "autocast-which-bias-is-cast",
        "tileon_ops/_rules/autocast.py",
        "return _cast(bias, dtype, device_type)",
        "return bias",
        ("tests/test_autocast.py",),
    ),
)

# Of what the GPU's kernels and their choice are made of: functions that any compiler takes.
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
        "csrc/cpu/tiles/amx_fill.h",
        "twice_rest == step && whole % 2 == 1",
        "twice_rest == step && whole % 2 == 0",
        host("amx_block_by_tables"),
    ),
    Mutation(
        "subnormal-words-called-usual",
        "csrc/cpu/tiles/amx_fill.h",
        "return _mm512_mask_cmpgt_epu16_mask(is_number, above_least, _mm512_set1_epi16(kMost - kLeast));",
        "return is_number & 0;",
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
        "csrc/cuda/sm80/heuristics/choice.h",
        "gathered > copied",
        "gathered < copied",
        host("config"),
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
        "tf32-taken-for-float32",
        "csrc/cuda/sm90/heuristics/select.h",
        "problem.a.dtype != DType::kFloat32 || problem.allow_tf32",
        "problem.a.dtype != DType::kFloat32",
        host("hopper_float32_config"),
    ),
)

# Of what the library has on the CPU: each takes a build.
IN_LIBRARY = (
    Mutation(
        "relus-derivative-at-zero",
        "csrc/core/epilogue.h",
        "return x <= T(0) ? T(0) : grad;",
        "return x < T(0) ? T(0) : grad;",
        ("tests/test_epilogue_backward.py", "tests/test_autograd.py::TestAgainstTorch"),
    ),
    Mutation(
        "a-digit-of-gelu_tanh",
        "csrc/core/epilogue.h",
        "kGeluTanhCube = 0.044715;",
        "kGeluTanhCube = 0.044175;",
        ("tests/test_epilogue.py::TestActivations",),
    ),
    Mutation(
        "tie-of-an-fp4-code",
        "csrc/core/small_floats.h",
        "bits_of(magnitude + 4194304.0f)",
        "bits_of(magnitude * 1.0000002f + 4194304.0f)",
        ("tests/test_quantize.py::TestElements",),
    ),
    Mutation(
        "tie-of-an-fp8-code",
        "csrc/core/small_floats.h",
        "bits_of(float_of(bits) + float_of(power))",
        "bits_of(float_of(bits + 1) + float_of(power))",
        ("tests/test_quantize.py::TestElements",),
    ),
    Mutation(
        "smallest-float32-scale",
        "csrc/core/block_quantize.h",
        "if (scale < kMinFloat32Scale) scale = kMinFloat32Scale;",
        "",
        ("tests/test_quantize_float32.py::TestQuantize",),
    ),
    Mutation(
        "codes-of-a-block-that-is-not-finite",
        "csrc/cpu/quantize_rows.cpp",
        "if (scales[tile].inverse == 0.0f)",
        "if (scales[tile].inverse != scales[tile].inverse)",
        ("tests/test_quantize_float32.py::TestQuantize",),
    ),
    Mutation(
        "global-scale-of-another-row",
        "csrc/cpu/quantize_rows.cpp",
        "problem.global_scale[row * problem.global_scale_stride]",
        "problem.global_scale[0]",
        ("tests/test_quantize.py::TestGlobalScale",),
    ),
    Mutation(
        "infinity-among-the-magnitudes-of-a-row",
        "csrc/cpu/number_rows.h",
        "magnitude < 0x7f800000u ? magnitude : 0",
        "magnitude",
        ("tests/test_quantize_nvfp4_rows.py::TestBits",),
    ),
    Mutation(
        "global-scale-of-a-row-of-zeros",
        "csrc/core/block_quantize.h",
        "return scale == 0.0f ? 1.0f : scale;",
        "return scale;",
        ("tests/test_quantize_nvfp4_rows.py::TestBits",),
    ),
    Mutation(
        "rounding-up-of-a-scale",
        "csrc/core/block_quantize.h",
        "static_cast<int>(bits >> 23) + ((bits & 0x007fffffu) != 0)",
        "static_cast<int>(bits >> 23)",
        ("tests/test_quantize.py::TestScales",),
    ),
    Mutation(
        "views-side-by-side-taken-to-overlap",
        "csrc/checks/overlap.h",
        "x.first < y.last && y.first < x.last",
        "x.first <= y.last && y.first <= x.last",
        ("tests/test_errors.py::TestBoundaries",),
    ),
    Mutation(
        "a-view-that-overlaps-itself-by-a-step-back",
        "csrc/checks/overlap.h",
        "int64_t y = 1 - size[second]; y < size[second]; ++y",
        "int64_t y = 0; y < size[second]; ++y",
        ("tests/test_errors.py", "tests/test_strides.py", "tests/test_out.py"),
    ),
    Mutation(
        "length-of-a-bias",
        "csrc/checks/operands.h",
        "if (bias.sizes[0] != n) fail(",
        "if (bias.sizes[0] < n) fail(",
        ("tests/test_errors.py::TestArguments",),
    ),
    Mutation(
        "overlap-with-b-not-looked-for",
        "csrc/checks/products.h",
        'check("b", arguments.b, info(problem.b.dtype).bytes);',
        "",
        ("tests/test_errors.py::TestOut",),
    ),
    Mutation(
        "stride-of-an-outputs-batch",
        "csrc/cpu/sums.cpp",
        "batch * out.stride_batch + m * out.stride_m",
        "batch * finished.m * out.stride_m + m * out.stride_m",
        ("tests/test_out.py::TestOut",),
    ),
    Mutation(
        "bias-behind-the-activation",
        "csrc/cpu/sums.cpp",
        "static_cast<Out>(function(sums[i] * factor + bias[i]));",
        "static_cast<Out>(function(sums[i] * factor) + bias[i]);",
        ("tests/test_epilogue.py::TestTogether",),
    ),
    Mutation(
        "one-factor-rounded-before-the-other",
        "csrc/cpu/dequantize_row.h",
        "static_cast<Out>(value * scale * factor)",
        "static_cast<Out>(value * (scale * factor))",
        ("tests/test_dequantize.py",),
    ),
    Mutation(
        "codes-that-are-no-numbers-decoded-as-numbers",
        "csrc/cpu/tiles/fill.h",
        "return !Element::kHasNaN || !has_byte(largest, kE4M3NaN);",
        "return true;",
        ("tests/test_scaled_cpu.py::test_numbers_that_are_none_stay_in_their_rows_and_columns",),
    ),
    Mutation(
        "odd-elements-of-a-row-for-even-ones",
        "csrc/cpu/tiles/row.h",
        "fused(at[kParts], second.part[p], lanes[c][p])",
        "fused(at[0], second.part[p], lanes[c][p])",
        ("tests/test_scaled_cpu.py::test_a_row_does_not_depend_on_the_others",),
    ),
    Mutation(
        "padding-of-packed-scales",
        "csrc/cpu/quantize.cpp",
        "scales[strides.of_col(col)] = 0;",
        "scales[strides.of_col(col)] = 1;",
        ("tests/test_quantize_operands.py::TestSizes", "tests/test_scale_packing.py"),
    ),
    Mutation(
        "rows-of-an-incoming-gradient",
        "csrc/cpu/epilogue_backward.cpp",
        "row % problem.m * problem.stride_m",
        "row * problem.stride_m",
        ("tests/test_epilogue_backward.py::TestEpilogueBackward",),
    ),
    Mutation(
        "first-matrix-of-a-batch-for-all",
        "csrc/cpu/products.cpp",
        "operand.dim() == 3 && operand.size(0) == 1",
        "operand.dim() == 3 && operand.size(0) >= 1",
        ("tests/test_matmul.py::TestBatches",),
    ),
)

# In this order: a mistake in the library is out of it with the next build, which only the last ones make.
MUTATIONS = (*IN_PYTHON, *IN_HOST_CODE, *IN_LIBRARY)
