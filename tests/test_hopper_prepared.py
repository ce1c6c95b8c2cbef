"""Products by prepared weights have the bits of those by codes, whatever the weight became and the activations fit."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from block_scaled_operands import (
    FORMATS,
    MIXED,
    MIXED_REVERSED,
    MXFP4,
    MXFP8,
    NVFP4,
    SCALE_FORMS,
    Format,
    Operand,
    elements_of,
    in_poison,
    quantized_normal,
    random_codes,
    small_integers,
)
from block_scaled_reference import assert_exact_product, assert_product, dequantize, expected, product
from block_scaled_table import HAS_HOPPER_GPU, NO_HOPPER_GPU, TABLE, BlockScaledRow
from test_block_scaled_compile import OPCHECK_TESTS, OUT_DTYPES
from test_block_scaled_gpu import SPIN_CYCLES, Buffers
from test_hopper_block_scaled import (
    FLOAT8_BINADES,
    INT8_ROWS,
    LEAST,
    MOST,
    bfloat16_row,
    exact_product,
    portable_row,
    spread,
    with_scales,
)
from tile_table import last_config
from torch import Tensor

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not HAS_HOPPER_GPU, reason=NO_HOPPER_GPU)]

F32 = torch.float32
PREPARED = [(MXFP4, "int8"), *((fmt, "bfloat16") for fmt in FORMATS)]
BEYOND_INT8, BEYOND_FLOAT8 = 1, 2  # bits of an int8 weight's word (sm90/layout/encoding.h)
INT8_MAX_K = 232960  # sm90/heuristics/block_scaled.h
op = torch.ops.tileon._block_scaled_matmul_prepared

each_prepared = pytest.mark.parametrize(("fmt", "form"), PREPARED, ids=[f"{fmt}-{form}" for fmt, form in PREPARED])


def prepare(b: Operand, form: str, scales: str = "packed") -> Tensor:
    prepared: Tensor = torch.ops.tileon._prepare_block_scaled(b.data(), b.scale_tensor(scales), form=form)
    return prepared


def word_of(prepared: Tensor, form: str) -> int:
    """What the weight lost (csrc/core/problem.h)."""
    return int(prepared[-256 if form == "int8" else -512 :][:4].view(torch.int32))


def numbers_of(prepared: Tensor, form: str, b: Operand) -> Tensor:
    return prepared[: b.codes.numel() * (1 if form == "int8" else 2)]


def multiply_prepared(
    a: Operand,
    b: Operand,
    prepared: Tensor,
    *tail: Tensor | None,
    forms: tuple[str, str] = ("packed", "packed"),
    **options: object,
) -> Tensor:
    scales = a.scale_tensor(forms[0]), b.scale_tensor(forms[1])
    result: Tensor = op(a.data(), b.data(), *scales, prepared, *tail, **options)
    return result


def row_that_ran(fmt: Format) -> BlockScaledRow:
    return next(row for row in TABLE if (row.config, row.fmt) == (last_config(), fmt))


def normal_pair(m: int, n: int, k: int, fmt: Format = MXFP4) -> tuple[Operand, Operand]:
    return quantized_normal(fmt, "a", m, k).to("cuda"), quantized_normal(fmt, "b", n, k).to("cuda")


def too_wide(operand: Operand, what: str) -> Operand:
    """One row does not fit int8."""
    scales, codes = operand.scales.cpu().clone(), operand.codes.clone()
    scales[41] = {"below": LEAST - 1, "above": MOST + 1}.get(what, 127)
    if what.endswith("binades"):
        scales[41, 3] = 127 - int(what.split()[0])
        codes[41, 96:128] = 7
    if what == "nan":
        scales[41, 3] = 255
    return with_scales(replace(operand, codes=codes), scales).to("cuda")


class TestInt8:
    @pytest.mark.parametrize("k", [32, 544, 2080])
    @pytest.mark.parametrize("m", [65, 130, 512])
    def test_rounds_once(self, m: int, k: int) -> None:
        a, b = normal_pair(m, 330, k)
        for form_b in SCALE_FORMS:
            prepared = prepare(b, "int8", form_b)
            assert word_of(prepared, "int8") == 0
            for form_a in SCALE_FORMS:
                actual = multiply_prepared(a, b, prepared, forms=(form_a, form_b), out_dtype=F32)
                assert last_config().route == "int8"
                assert torch.equal(actual, exact_product(a, b)), f"{form_a}, {form_b}"

    @pytest.mark.parametrize(("m", "n", "k"), [(65, 330, 544), (512, 330, 2080), (130, 2101, 2080)], ids=str)
    def test_activations_that_do_not_fit_are_multiplied_as_bfloat16(self, m: int, n: int, k: int) -> None:
        """b is decoded from its codes then; the last size has many groups of b's rows."""
        a, b = normal_pair(m, n, k)
        a = spread(a.to("cpu"), 130, 9).to("cuda")
        for forms in (("2d", "2d"), ("packed", "packed")):
            actual = multiply_prepared(a, b, prepare(b, "int8"), forms=forms, out_dtype=F32)
            row = row_that_ran(MXFP4)
            assert row in INT8_ROWS
            assert torch.equal(actual, bfloat16_row(row).run(a, b, forms=forms, out_dtype=F32))

    @pytest.mark.parametrize("what", ["4 binades", "below", "above"])
    def test_a_weight_that_does_not_fit_is_right_as_well(self, what: str) -> None:
        a, b = normal_pair(130, 330, 544)
        b = too_wide(b, what)
        prepared = prepare(b, "int8")
        assert word_of(prepared, "int8") & BEYOND_INT8
        actual = multiply_prepared(a, b, prepared, out_dtype=F32)
        assert torch.equal(actual, bfloat16_row(row_that_ran(MXFP4)).run(a, b, out_dtype=F32))

    def test_a_nan_scale_makes_its_column_nan(self) -> None:
        a, b = small_integers(MXFP4, "a", 150, 256).to("cuda"), small_integers(MXFP4, "b", 160, 256, seed=1)
        b.scales[140, 7] = 255
        b = b.to("cuda")
        prepared = prepare(b, "int8")
        assert word_of(prepared, "int8") == BEYOND_INT8 | BEYOND_FLOAT8
        for fast_accum in (False, True):
            actual = multiply_prepared(a, b, prepared, out_dtype=F32, fast_accum=fast_accum)
            wanted = torch.zeros(150, 160, dtype=torch.bool, device="cuda")
            wanted[:, 140] = True
            assert torch.equal(actual.isnan(), wanted)
            assert_exact_product(actual, a, b)

    def test_sums_that_int32_cannot_hold_are_those_of_bfloat16(self) -> None:
        k = INT8_MAX_K + 32
        a, b = (random_codes(MXFP4, side, 66, k).to("cuda") for side in "ab")
        actual = multiply_prepared(a, b, prepare(b, "int8"), out_dtype=F32)
        row = row_that_ran(MXFP4)
        assert row.config.route == "bfloat16"
        assert torch.equal(actual, row.run(a, b, out_dtype=F32))


class TestFastAccum:
    def test_int8_where_it_fits(self) -> None:
        a, b = normal_pair(200, 330, 1056)
        actual = multiply_prepared(a, b, prepare(b, "int8"), out_dtype=F32, fast_accum=True)
        assert last_config().route == "float8"
        assert torch.equal(actual, exact_product(a, b))

    @pytest.mark.parametrize("side", ["a", "b"])
    @pytest.mark.parametrize("k", [1056, 8192])
    def test_e5m2_where_that_fits(self, k: int, side: str) -> None:
        binades = {"a": 3, "b": 3, side: 9}
        operands = {name: random_codes(MXFP4, name, rows, k) for name, rows in (("a", 200), ("b", 330))}
        a, b = (spread(operands[name], 127, binades[name]).to("cuda") for name in "ab")
        prepared = prepare(b, "int8")
        assert word_of(prepared, "int8") == (BEYOND_INT8 if side == "b" else 0)
        actual = multiply_prepared(a, b, prepared, out_dtype=F32, fast_accum=True)
        assert torch.equal(actual, row_that_ran(MXFP4).run(a, b, out_dtype=F32))
        bound = (dequantize(a).abs() @ dequantize(b).abs().T).float() * 2.0**-12
        assert ((actual - exact_product(a, b)).abs() <= bound).all()

    @pytest.mark.parametrize("what", [f"{FLOAT8_BINADES + 1} binades", "below", "nan"])
    @pytest.mark.parametrize("side", ["a", "b"])
    def test_bfloat16_where_it_does_not(self, side: str, what: str) -> None:
        a, b = normal_pair(200, 330, 1056)
        a, b = (too_wide(a, what), b) if side == "a" else (a, too_wide(b, what))
        prepared = prepare(b, "int8")
        actual = multiply_prepared(a, b, prepared, out_dtype=F32, fast_accum=True)
        wanted = bfloat16_row(INT8_ROWS[0]).run(a, b, out_dtype=F32)
        torch.testing.assert_close(actual, wanted, rtol=0, atol=0, equal_nan=True)


class TestBFloat16:
    @pytest.mark.parametrize("blocks", [10, 17, 65])
    @pytest.mark.parametrize("fmt", FORMATS, ids=str)
    def test_has_the_bits_of_its_config(self, fmt: Format, blocks: int) -> None:
        for m, n in ((130, 330), (512, 67)):
            k = blocks * (32 if fmt != NVFP4 else 16)
            a, b = random_codes(fmt, "a", m, k).to("cuda"), random_codes(fmt, "b", n, k).to("cuda")
            for form in SCALE_FORMS:
                prepared = prepare(b, "bfloat16", form)
                assert word_of(prepared, "bfloat16") == 0
                for fast_accum in (False, True):
                    actual = multiply_prepared(a, b, prepared, out_dtype=F32, fast_accum=fast_accum)
                    row = row_that_ran(fmt)
                    assert row.config.route == "bfloat16"
                    assert torch.equal(actual, row.run(a, b, out_dtype=F32)), f"{m}x{n}x{k}, {form}"

    def test_of_mxfp4_it_stays_bfloat16_at_any_size(self) -> None:
        a, b = normal_pair(1536, 1536, 1536)
        actual = multiply_prepared(a, b, prepare(b, "bfloat16"), out_dtype=F32)
        row = row_that_ran(MXFP4)
        assert row.config.route == "bfloat16"
        assert torch.equal(actual, row.run(a, b, out_dtype=F32))

    @pytest.mark.parametrize("side", ["a", "b"])
    @pytest.mark.parametrize("fmt", [MXFP8, MIXED, MIXED_REVERSED], ids=str)
    def test_e4m3_beyond_it_is_computed_anew(self, fmt: Format, side: str) -> None:
        """As test_e4m3_beyond_bfloat16_is_computed_anew has it, on either side; e2m1 loses nothing there."""
        pair = {"a": random_codes(fmt, "a", 150, 224), "b": random_codes(fmt, "b", 160, 224)}
        other = "b" if side == "a" else "a"
        pair[side] = with_scales(pair[side], torch.arange(7).expand(len(pair[side].codes), 7) % 4)
        pair[other] = with_scales(pair[other], torch.full((len(pair[other].codes), 7), 230))
        a, b = pair["a"].to("cuda"), pair["b"].to("cuda")
        is_lost = elements_of(fmt, side) == "e4m3"
        prepared = prepare(b, "bfloat16")
        assert (word_of(prepared, "bfloat16") != 0) == (is_lost and side == "b")
        actual = multiply_prepared(a, b, prepared, out_dtype=F32)
        row = row_that_ran(fmt)
        assert row.config.route == "bfloat16"
        assert torch.equal(actual, (portable_row(row) if is_lost else row).run(a, b, out_dtype=F32))


class TestChoice:
    @each_prepared
    def test_few_rows_are_multiplied_by_the_codes(self, fmt: Format, form: str) -> None:
        every, b = normal_pair(128, 200, 544, fmt)
        most = 128 if form == "bfloat16" and fmt.b == "e2m1" else 64  # of codes that are a quarter of what is kept
        prepared = prepare(b, form)
        for m in (1, 16, 64, 65, 128):
            a = every.first(m)
            actual = multiply_prepared(a, b, prepared, out_dtype=F32)
            row = row_that_ran(fmt)
            assert row.config.route == ("decoded" if m <= most else form), f"m {m}"
            assert torch.equal(actual, row.run(a, b, out_dtype=F32)), f"m {m}"

    @each_prepared
    def test_few_rows_of_b_take_the_portable_kernels(self, fmt: Format, form: str) -> None:
        a, b = small_integers(fmt, "a", 200, 96).to("cuda"), small_integers(fmt, "b", 64, 96).to("cuda")
        actual = multiply_prepared(a, b, prepare(b, form), out_dtype=F32)
        assert last_config().backend == "sm80"
        assert_exact_product(actual, a, b)

    @each_prepared
    def test_nothing_to_multiply(self, fmt: Format, form: str) -> None:
        for m, n, k in ((70, 0, 64), (70, 130, 0), (0, 130, 64), (0, 0, 0)):
            a, b = small_integers(fmt, "a", m, k).to("cuda"), small_integers(fmt, "b", n, k).to("cuda")
            prepared = prepare(b, form, "2d")
            assert word_of(prepared, form) == 0
            bias = torch.arange(float(n), device="cuda")
            actual = multiply_prepared(a, b, prepared, bias, forms=("2d", "2d"), out_dtype=F32)
            assert torch.equal(actual, bias.expand(m, n)), f"{m}x{n}x{k}"


@each_prepared
@pytest.mark.parametrize("out_dtype", OUT_DTYPES, ids=str)
def test_epilogue_and_every_output(out_dtype: torch.dtype, fmt: Format, form: str) -> None:
    m, n, k = 67, 131, 96
    a, b = small_integers(fmt, "a", m, k).to("cuda"), small_integers(fmt, "b", n, k, seed=1).to("cuda")
    prepared, total, factor = prepare(b, form), product(a, b), torch.tensor(-0.3, device="cuda")
    bias = 4 * torch.randn(n, device="cuda", generator=torch.Generator("cuda").manual_seed(1))
    for activation in ("none", "leaky_relu", "gelu"):
        options = {"activation": activation, "slope": 0.2, "out_dtype": out_dtype}
        for tail in ((), (bias,), (None, factor), (bias, factor)):
            wanted = expected(total, *tail, **options)  # type: ignore[arg-type]
            assert_product(multiply_prepared(a, b, prepared, *tail, **options), wanted, f"{activation}, {len(tail)}")


@each_prepared
def test_codes_of_any_strides(fmt: Format, form: str) -> None:
    """Copied when the weight is prepared, and at each product, which may read them."""
    a, b = small_integers(fmt, "a", 70, 160).to("cuda"), small_integers(fmt, "b", 131, 160, seed=1).to("cuda")
    numbers = numbers_of(prepare(b, form), form, b)
    scale_a, scale_b = a.scale_tensor(), b.typed_scale(in_poison(b.scales, transposed=True))
    for options in ({"transposed": True}, {"step": 2}, {"offset": 1}, {"pad": 3}):
        codes = b.typed(in_poison(b.bytes(), **options))  # type: ignore[arg-type]
        prepared = torch.ops.tileon._prepare_block_scaled(codes, scale_b, form=form)
        assert torch.equal(numbers_of(prepared, form, b), numbers), options
        actual = op(a.data(), codes, scale_a, scale_b, prepared, out_dtype=F32)
        assert last_config().route == form
        assert torch.ops.tileon._last_kernel().endswith(" (b copied)"), options
        assert_exact_product(actual, a, b, str(options))


@each_prepared
def test_the_bits_are_the_same_every_time(fmt: Format, form: str) -> None:
    a, b = normal_pair(130, 330, 2080, fmt)
    first = prepare(b, form)
    for operand in (a, random_codes(fmt, "a", 130, 2080).to("cuda")):  # of mxfp4 the one fits int8, the other does not
        wanted = multiply_prepared(operand, b, first, out_dtype=F32)
        for _ in range(4):
            again = prepare(b, form)
            assert torch.equal(numbers_of(again, form, b), numbers_of(first, form, b))
            assert torch.equal(multiply_prepared(operand, b, again, out_dtype=F32), wanted)


class TestGraphs:
    def test_the_activations_of_each_replay_decide(self) -> None:
        fits, b = normal_pair(256, 330, 512)
        wide = spread(fits.to("cpu"), 130, 9).to("cuda")
        prepared, buffers = prepare(b, "int8"), Buffers(fits, b)
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            out = op(*buffers.tensors, prepared, out_dtype=F32)
        for a in (fits, wide, fits):
            buffers.write(a, b)
            graph.replay()
            if a is fits:
                assert torch.equal(out, exact_product(a, b))
            else:
                assert torch.equal(out, bfloat16_row(INT8_ROWS[0]).run(a, b, out_dtype=F32))

    def test_a_weight_is_prepared_anew_at_each_replay(self) -> None:
        """What one replay noted of it is forgotten at the next."""
        a, fits = normal_pair(256, 330, 512)
        wide = spread(fits.to("cpu"), 130, 9).to("cuda")
        buffers = Buffers(a, fits)
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            prepared = torch.ops.tileon._prepare_block_scaled(buffers.tensors[1], buffers.tensors[3], form="int8")
            out = op(*buffers.tensors, prepared, out_dtype=F32)
        for b in (fits, wide, fits):
            buffers.write(a, b)
            graph.replay()
            assert (word_of(prepared, "int8") == 0) == (b is fits)
            if b is fits:
                assert torch.equal(out, exact_product(a, b))
            else:
                assert torch.equal(out, bfloat16_row(INT8_ROWS[0]).run(a, b, out_dtype=F32))


@each_prepared
def test_each_kernel_waits_for_the_one_before(fmt: Format, form: str) -> None:
    """The codes are written, prepared, multiplied and written again, without a gap between."""
    pairs = [
        tuple(small_integers(fmt, side, rows, 544, seed=seed).to("cuda") for side, rows in (("a", 130), ("b", 200)))
        for seed in range(3)
    ]
    buffers = Buffers(*pairs[0])
    results = []
    torch.cuda.synchronize()
    torch.cuda._sleep(SPIN_CYCLES)
    for a, b in pairs * 4:
        buffers.write(a, b)
        prepared = torch.ops.tileon._prepare_block_scaled(buffers.tensors[1], buffers.tensors[3], form=form)
        results.append(op(*buffers.tensors, prepared, out_dtype=F32))
    for (a, b), actual in zip(pairs * 4, results, strict=True):
        assert_exact_product(actual, a, b)


@pytest.mark.usefixtures("codes_compare_as_bytes")
@each_prepared
def test_under_torchs_transformations(fmt: Format, form: str) -> None:
    """What stands between a buffer's parts is anything, so that of the preparation no two runs are compared."""
    a, b = small_integers(fmt, "a", 70, 96).to("cuda"), small_integers(fmt, "b", 131, 96, seed=1).to("cuda")
    codes, scales = (a.data(), b.data()), (a.scale_tensor(), b.scale_tensor("packed"))
    preparing = torch.ops.tileon._prepare_block_scaled.default
    torch.library.opcheck(preparing, (codes[1], scales[1]), {"form": form}, test_utils=OPCHECK_TESTS[:3])
    arguments = (*codes, *scales, prepare(b, form))
    torch.library.opcheck(op.default, arguments, {"activation": "relu"}, test_utils=OPCHECK_TESTS)
    torch._dynamo.reset()
    compiled = torch.compile(lambda *tensors: op(*tensors) * 2, fullgraph=True, dynamic=True, backend="aot_eager")
    assert torch.equal(compiled(*arguments), op(*arguments) * 2)
