"""The ways in which a GPU multiplies operands with scales that are not two block-scaled ones: each by its number, on
every kind of operand that it takes; and which one is taken for what."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch
from block_scaled_reference import assert_product
from block_scaled_table import HAS_HOPPER_GPU
from scaled_operands import NUMBERS, expected, make, multiply
from test_scaled_operands import OPERANDS, each_pair, inside, transposed

import tileon_ops
from tileon_ops._rules import configs

pytestmark = pytest.mark.gpu

F32, E4M3 = torch.float32, torch.float8_e4m3fn
OWN = [config for config in configs.block_scaled() if config.family in ("decoded", "expanded")]
SCALED_CODES = [config for config in configs.block_scaled() if config.route.startswith(("row_scales", "block_scales"))]
HOPPER_ROWS = [c for c in configs.block_scaled() if c.backend == "sm90" and c.route == "bfloat16"]
FEW_ROWS = [c for c in configs.block_scaled() if c.family == "small_m"]
EXPANDED = next(config for config in OWN if config.name == "expanded_codes")
EXPANDED_PAIRS = list(itertools.product(NUMBERS, ("e4m3_row", "e5m2_row", "int8_row")))

# By pair, and by whether a global scale for each row comes with it: what takes the product once it is large.
ROUTES = {
    ("e4m3_row", "e5m2_tensor", False): "expanded_codes",
    ("bfloat16", "e4m3_row", False): "sm90_weight_codes_",
    ("float16", "int8_row", True): "expanded_codes",
    ("float16", "mxfp4", False): "expanded_split",
    ("e4m3_row", "e4m3_tensor", False): "sm90_scaled_fp8_",
    ("e4m3_1x128", "e4m3_128x128", False): "sm90_scaled_fp8_blocks_",
    ("e4m3_1x128", "e4m3_1x128", False): "expanded_float32",
    ("bfloat16", "e4m3_128x128", False): "sm90_weight_blocks_",
    ("int8_row", "int8_tensor", False): "sm90_scaled_int8_",
    ("bfloat16", "nvfp4", True): "expanded_row_global",
    ("bfloat16", "nvfp4", False): "sm90_block_scaled_bfloat16",
    ("bfloat16", "mxfp8", False): "sm90_block_scaled_bfloat16",
}


needs_hopper = pytest.mark.skipif(not HAS_HOPPER_GPU, reason="no kernel decodes the weight here")
each_expanded = pytest.mark.parametrize(("a_name", "b_name"), EXPANDED_PAIRS, ids=map("*".join, EXPANDED_PAIRS))


def by_config(config, a, b, bias=None, global_scale=None, **options):  # type: ignore[no-untyped-def]
    """The result by one config; None where it does not take the operands."""
    try:
        return torch.ops.tileon._block_scaled_matmul_with_config(
            a.data, b.data, a.scale, b.scale, bias, global_scale, config=config.index, **options
        )
    except RuntimeError as error:
        if "cannot run these operands" not in str(error):
            raise
        return None


@each_pair
def test_every_way_gives_the_same_sums(gpu: torch.device, a_name: str, b_name: str) -> None:
    taken = 0
    for m, n, k in ((3, 130, 96), (33, 64, 128), (70, 72, 288)):
        a, b = make(a_name, m, k, True).to(gpu), make(b_name, n, k, True).to(gpu)
        wanted = expected(a, b, out_dtype=F32, bound=0.0)
        for config in (*OWN, *SCALED_CODES, *HOPPER_ROWS[:1], *FEW_ROWS):
            actual = by_config(config, a, b, out_dtype=F32)
            taken += actual is not None
            if actual is not None:
                assert_product(actual, wanted, f"{config.name} {m}x{n}x{k}")
    assert taken >= 6, "the decoding kernels take everything"


@each_pair
def test_every_way_finishes_the_sums(gpu: torch.device, a_name: str, b_name: str) -> None:
    m, n, k = 37, 64, 160
    a, b = make(a_name, m, k).to(gpu), make(b_name, n, k).to(gpu)
    bias = torch.linspace(-3, 3, n, device=gpu)
    one, rows = torch.full((), 0.75, device=gpu), torch.linspace(0.1, 2, m, device=gpu)[:, None]
    for config in (*OWN, *SCALED_CODES, *FEW_ROWS):
        for global_scale, out_dtype, activation in (
            (one, F32, "gelu"),
            (rows, E4M3, "relu"),
            (None, torch.bfloat16, "silu"),
        ):
            actual = by_config(config, a, b, bias, global_scale, activation=activation, out_dtype=out_dtype)
            if actual is not None:
                wanted = expected(a, b, bias, global_scale, activation=activation, out_dtype=out_dtype)
                assert_product(actual, wanted, f"{config.name} {out_dtype}")


@each_pair
def test_every_way_reads_every_layout(gpu: torch.device, a_name: str, b_name: str) -> None:
    m, n, k = 21, 50, 96
    a, b = make(a_name, m, k, True).to(gpu), make(b_name, n, k, True).to(gpu)
    wanted = expected(a, b, out_dtype=F32, bound=0.0)
    for config in (*OWN, *SCALED_CODES):
        for laid_a, laid_b in ((transposed(a), b), (a, transposed(b)), (inside(a), inside(b))):
            actual = by_config(config, laid_a, laid_b, out_dtype=F32)
            if actual is not None:
                assert_product(actual, wanted, config.name)


@pytest.mark.parametrize("b_name", ["mxfp8", "mxfp4", "nvfp4", "e4m3_row", "int8_row"])
@pytest.mark.parametrize("m", [8, 64, 200])
def test_an_a_whose_rows_are_adjacent(gpu: torch.device, m: int, b_name: str) -> None:
    """TMA could read it, along m: the kernels of weights alone scaled read along k, and must refuse it."""
    n, k = 72, 288
    a, b = make("bfloat16", m, k, True).to(gpu), make(b_name, n, k, True).to(gpu)
    turned = replace(a, data=a.data.t().contiguous().t())
    if b_name in ("mxfp8", "mxfp4", "nvfp4"):
        b = replace(b, scale=tileon_ops.pack_scales(b.scale))
    wanted = expected(a, b, out_dtype=F32, bound=0.0)
    assert_product(multiply(turned, b, out_dtype=F32), wanted, tileon_ops.last_kernel())
    for config in configs.block_scaled():
        actual = by_config(config, turned, b, out_dtype=F32)
        if actual is not None:
            assert_product(actual, wanted, config.name)


@pytest.mark.parametrize("b_name", ["mxfp8", "mxfp4", "nvfp4", "e4m3_row", "e4m3_128x128", "int8_row"])
def test_batch_invariant_products_of_a_weight(gpu: torch.device, b_name: str) -> None:
    """Of so many columns that few rows would share k among other CTAs than many do."""
    m, n, k = 200, 1100, 1056
    a, b = make("bfloat16", m, k).to(gpu), make(b_name, n, k).to(gpu)
    with tileon_ops.batch_invariant():
        whole = multiply(a, b, out_dtype=F32)
        for rows in (1, 8, 70):
            part = multiply(replace(a, data=a.data[:rows], elements=a.elements[:rows]), b, out_dtype=F32)
            assert torch.equal(part, whole[:rows]), f"{rows} rows, {tileon_ops.last_kernel()}"


# Scales of a row of `a` and of 128 rows of `b`, in one block of k, and the codes that bring their product back.
EXTREME_BLOCKS = {
    "too_large": (3e20, 1e19, 2.0**-9),
    "too_small": (1e-30, 1e-20, 448.0),
    "subnormal": (1e-20, 1e-20, 448.0),
    "zero": (0.0, 1e30, 1.0),
    "infinite": (float("inf"), 1e-30, 1.0),
    "infinite_by_zero": (float("inf"), 0.0, 1.0),
    "nan": (float("nan"), 1.0, 1.0),
}


@pytest.mark.parametrize("name", EXTREME_BLOCKS)
def test_scales_of_blocks_of_any_size(gpu: torch.device, name: str) -> None:
    """Two scales whose product float32 does not hold still multiply a sum as if in double, whatever kernel does it."""
    m, n, k = 40, 130, 384
    of_a, of_b, code = EXTREME_BLOCKS[name]
    source = torch.Generator().manual_seed(1)
    a, b = (code * torch.randint(0, 2, (rows, k), generator=source).double() for rows in (m, n))
    scale_a, scale_b = torch.ones(m, 3, dtype=torch.float64), torch.ones(2, 3, dtype=torch.float64)
    scale_a[5, 1], scale_b[1, 1] = torch.tensor([of_a, of_b]).double()
    if code != 1.0:
        a[:, :128], a[:, 256:] = 0, 0  # nothing beside the block whose products are tiny
    blocks = (a.view(m, 3, 128).permute(1, 0, 2) @ b.view(n, 3, 128).permute(1, 2, 0)).permute(1, 2, 0)
    wanted = (blocks * (scale_a[:, None] * scale_b.repeat_interleave(128, 0)[None, :n])).sum(2).float().to(gpu)
    codes = [x.to(E4M3).to(gpu) for x in (a, b)]
    scales = [x.float().to(gpu) for x in (scale_a, scale_b)]
    for config in configs.block_scaled():
        if not config.route.startswith("block_scales"):
            continue
        multiply_by = torch.ops.tileon._block_scaled_matmul_with_config
        actual = multiply_by(*codes, *scales, config=config.index, out_dtype=F32)
        torch.testing.assert_close(actual, wanted, rtol=2.0**-22, atol=3e-45, equal_nan=True, msg=config.name)


def test_extreme_scales_of_a_weight_are_computed_anew(gpu: torch.device) -> None:
    """What bfloat16 loses of e4m3 under the smallest scales, the decoding kernel adds."""
    a, b = make("bfloat16", 40, 96, True).to(gpu), make("mxfp8", 66, 96, True).to(gpu)
    scale = b.scale.view(torch.uint8).clone()
    scale[5] = 1
    for config in (*HOPPER_ROWS, *FEW_ROWS):
        actual = torch.ops.tileon._block_scaled_matmul_with_config(
            a.data, b.data, None, scale, config=config.index, out_dtype=F32
        )
        wanted = multiply(a, type(b)(b.data, scale, b.elements, b.scales), out_dtype=F32)
        decoded = by_config(OWN[-1], a, type(b)(b.data, scale, b.elements, b.scales), out_dtype=F32)
        assert torch.equal(actual, decoded)
        assert torch.equal(wanted, decoded)


@pytest.mark.parametrize("b_name", ["mxfp4", "nvfp4"])
@pytest.mark.parametrize("route", [pytest.param("halves", marks=needs_hopper), "split"])
def test_a_split_a_has_every_number_of_float16(gpu: torch.device, route: str, b_name: str) -> None:
    """Two parts of bfloat16 make all of `a`; infinities, and elements that float32 does not hold, are in the first."""
    split = next(config for config in OWN if config.route == route)
    a, b = make("float16", 6, 64, True), make(b_name, 5, 64, True)
    a.data[0, :8] = torch.tensor([65504.0, 2.0**-24, 1 + 2.0**-10, 2047.0, -4095.0, 3 * 2.0**-24, 0.1, -0.3])
    a.data[1, 3], a.data[2, 5] = float("inf"), float("nan")
    wanted = a.data.double() @ b.values().t()
    actual = by_config(split, a.to(gpu), b.to(gpu), out_dtype=F32).cpu().double()
    assert torch.equal(actual[1:].isnan(), wanted[1:].isnan())
    torch.testing.assert_close(actual, wanted, rtol=2.0**-18, atol=0.0, equal_nan=True)
    if b_name == "mxfp4":
        b.scale.view(torch.uint8)[3, 0] = 254  # 4 times this and more is infinite
        actual = by_config(split, a.to(gpu), b.to(gpu), out_dtype=F32).cpu()
        decoded = by_config(OWN[-1], a.to(gpu), b.to(gpu), out_dtype=F32).cpu()
        assert torch.equal(actual[3:].isinf(), decoded[3:].isinf())
        assert torch.equal(actual[3:].isnan(), decoded[3:].isnan())


def test_a_product_that_overflows_is_infinite_before_its_bias(gpu: torch.device) -> None:
    """In every way: an infinite bias of the other sign then makes it NaN."""
    a, b = make("e4m3_row", 3, 32, True).to(gpu), make("e4m3_row", 5, 32, True).to(gpu)
    ones = [
        replace(x, data=torch.ones_like(x.data, dtype=F32).to(E4M3), scale=torch.ones_like(x.scale)) for x in (a, b)
    ]
    bias, global_scale = torch.full((5,), -float("inf"), device=gpu), torch.full((), 2.0**127, device=gpu)
    taken = 0
    for config in configs.block_scaled():
        actual = by_config(config, *ones, bias, global_scale, out_dtype=F32)
        taken += actual is not None
        assert actual is None or bool(actual.isnan().all()), config.name
    assert taken >= 2


@each_expanded
def test_a_weights_codes_become_what_a_is(gpu: torch.device, a_name: str, b_name: str) -> None:
    """By eight at a time where every row of the weight is whole vectors of them, wherever it begins, and else by
    four: exact sums of small whole numbers."""
    m = 200
    for n, k in ((48, 304), (16, 16), (67, 320), (48, 304 + 8), (33, 304 + 1)):
        a, b = make(a_name, m, k, True).to(gpu), make(b_name, n, k, True).to(gpu)
        wanted = expected(a, b, out_dtype=F32, bound=0.0)
        wide = torch.full((n, k // 16 * 16 + 48), 0x7F, dtype=torch.uint8, device=gpu).view(b.data.dtype)
        for first in (None, 16, 8, 3):  # in wider rows from there on, between what is not to be read
            data = b.data
            if first is not None:
                data = wide[:, first : first + k]
                data.view(torch.uint8).copy_(b.data.view(torch.uint8))
            actual = by_config(EXPANDED, a, replace(b, data=data), out_dtype=F32)
            assert actual is not None
            assert_product(actual, wanted, f"{n}x{k} from {first} on")


@each_expanded
def test_every_code_of_a_weight_becomes_its_number(gpu: torch.device, a_name: str, b_name: str) -> None:
    """Each in every place of eight: a row of `a` that is one at one k picks a column of the weight."""
    n, k = 256, 144
    codes = ((torch.arange(n).view(-1, 1) + torch.arange(k) * 17) % 256).to(torch.uint8)
    weight = make(b_name, n, k)
    data = codes.view(weight.data.dtype)
    data = torch.where(data.float().isfinite(), data.float(), 0.0).to(data.dtype).to(gpu)
    ones = torch.eye(k, dtype=NUMBERS[a_name], device=gpu)
    a, b = replace(make(a_name, k, k).to(gpu), data=ones), replace(weight.to(gpu), data=data, elements=data.double())
    actual = by_config(EXPANDED, a, replace(b, scale=torch.ones_like(b.scale)), out_dtype=F32)
    assert torch.equal(actual.double(), data.double().t())


@pytest.mark.slow
@pytest.mark.skipif(not HAS_HOPPER_GPU, reason="the ways of a Hopper GPU")
@pytest.mark.parametrize(("a_name", "b_name", "has_rows"), ROUTES)
def test_large_products_go_by_measured_kernels(gpu: torch.device, a_name: str, b_name: str, has_rows: bool) -> None:
    m, n, k = 640, 384, 384
    a, b = make(a_name, m, k).to(gpu), make(b_name, n, k).to(gpu)
    multiply(a, b, None, torch.ones(m, 1, device=gpu) if has_rows else None)
    assert tileon_ops.last_kernel().startswith(ROUTES[a_name, b_name, has_rows])
    assert len(OPERANDS) > len(ROUTES)


@needs_hopper
@pytest.mark.parametrize("m", [1, 16, 32])
def test_few_rows_of_float16_are_multiplied_by_fp4_as_it_is_decoded(gpu: torch.device, m: int) -> None:
    """Twice as many rows of bfloat16 take next to no longer, and the weight is never written as numbers."""
    a, b = make("float16", m, 384, True).to(gpu), make("mxfp4", 384, 384, True).to(gpu)
    assert_product(multiply(a, b, out_dtype=F32), expected(a, b, out_dtype=F32, bound=0.0), f"{m} rows")
    assert tileon_ops.last_kernel() == "expanded_halves"


@needs_hopper
def test_a_product_that_overflows_stays_infinite_in_two_parts(gpu: torch.device) -> None:
    """The rest of a number has the other sign where bfloat16 is above it: its sums must not make NaN of infinity."""
    halves = next(config for config in OWN if config.route == "halves")
    a, b = make("float16", 3, 64, True), make("mxfp4", 5, 64, True)
    a.data.fill_(255.75)  # 256 and -0.25
    b.data.view(torch.uint8).fill_(0x77)  # 6
    b.scale.view(torch.uint8)[2:4] = 254  # which infinity takes the place of, under this scale
    actual = by_config(halves, a.to(gpu), b.to(gpu), out_dtype=F32).cpu()
    assert torch.equal(actual.isinf(), torch.tensor([False, False, True, True, False]).expand(3, 5)), actual
    assert not actual.isnan().any()
