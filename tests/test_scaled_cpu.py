"""block_scaled_matmul on CPU tensors: the same bits by vectors of any width, from any number of threads, for any number
of rows; the bound at sizes around its blocks; scales and codes at their ends; memory."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

import pytest
import torch
from block_scaled_operands import pack_scales
from block_scaled_reference import VALUES, assert_product, decode, documented_bound
from reference import Expected
from scaled_operands import Scaled, expected, make, multiply
from source_trees import ROOT
from test_scaled_operands import OPERANDS, each_pair, takes_odd_k, transposed

F32, E4M3 = torch.float32, torch.float8_e4m3fn
BYTE_PAIRS = [*itertools.product(("mxfp8", "mxfp4"), ("mxfp8", "mxfp4")), ("nvfp4", "nvfp4")]
PAIRS = [*OPERANDS, *BYTE_PAIRS]
ROWS = (0, 1, 2, 15, 16, 17, 64, 255, 256, 300)  # a block has 128, its inner loop 3 or 6
K = (0, 32, 128, 512, 544, 1056, 4096)  # a chunk has 512
ODD_K = (33, 129)

all_pairs = pytest.mark.parametrize(("a_name", "b_name"), PAIRS, ids=map("*".join, PAIRS))


def last_kernel() -> str:
    return str(torch.ops.tileon._last_kernel())


def first_rows(operand: Scaled, rows: int) -> Scaled:
    """Of scales that are not one for 128 rows."""
    scale = operand.scale
    if scale is not None and scale.dim() > 0 and scale.shape[0] == operand.data.shape[0]:
        scale = scale[:rows]
    return Scaled(operand.data[:rows], scale, operand.elements[:rows], operand.scales[:rows])


@all_pairs
def test_the_bound_holds_at_sizes_around_the_blocks(a_name: str, b_name: str) -> None:
    """Every number of rows with some k, every k with some number of rows."""
    k_sizes = K + (ODD_K if takes_odd_k(b_name) else ())
    sizes = list(zip(ROWS, itertools.cycle(k_sizes), strict=False))
    for m, k in (*sizes, *((17, k) for k in k_sizes)):
        a, b = make(a_name, m, k), make(b_name, 37, k)
        bound = documented_bound(k)
        assert_product(multiply(a, b, out_dtype=F32), expected(a, b, out_dtype=F32, bound=bound), f"m {m}, k {k}")


@all_pairs
def test_a_row_does_not_depend_on_the_others(a_name: str, b_name: str) -> None:
    if "128x128" in a_name:
        pytest.skip("a shorter operand has other scales")
    a, b = make(a_name, 300, 1056), make(b_name, 45, 1056)
    whole = multiply(a, b)
    for rows in (1, 2, 7, 129):
        assert torch.equal(multiply(first_rows(a, rows), b), whole[:rows]), f"{rows} rows"


@all_pairs
def test_layouts_give_the_same_bits(a_name: str, b_name: str) -> None:
    for m in (1, 19):
        a, b = make(a_name, m, 544), make(b_name, 45, 544)
        wanted = multiply(a, b)
        assert torch.equal(multiply(transposed(a), transposed(b)), wanted)
        if b.scale is not None and b.scale.dtype != F32:
            packed = [
                None if x.scale is None else pack_scales(x.scale.view(torch.uint8)).view(x.scale.dtype) for x in (a, b)
            ]
            assert torch.equal(torch.ops.tileon.block_scaled_matmul(a.data, b.data, *packed), wanted)


def test_the_number_of_threads_changes_no_bit() -> None:
    threads = torch.get_num_threads()
    try:
        for a_name, b_name in (("bfloat16", "nvfp4"), ("mxfp8", "mxfp4"), ("int8_row", "int8_row")):
            for m in (1, 300):
                a, b = make(a_name, m, 1056), make(b_name, 700, 1056)
                results = []
                for count in (1, 2, 3, 8):
                    torch.set_num_threads(count)
                    results.append(multiply(a, b))
                assert all(torch.equal(results[0], result) for result in results[1:])
    finally:
        torch.set_num_threads(threads)


# ---- vectors of every width ----

DIGESTS = """
import hashlib, sys
sys.path[:0] = ["{root}", "{root}/tests"]
import torch, tileon_ops
from scaled_operands import make, multiply
from test_scaled_cpu import PAIRS, extreme_products
kernels = set()
for a_name, b_name in PAIRS:
    for m, k in ((1, 1056), (23, 544)):
        result = multiply(make(a_name, m, k), make(b_name, 45, k), out_dtype=torch.float32)
        print(a_name, b_name, m, hashlib.sha256(result.numpy().tobytes()).hexdigest())
        kernels.add(torch.ops.tileon._last_kernel())
for name, result in extreme_products():
    result = torch.where(result.isnan(), torch.full_like(result, float("nan")), result)  # whose bits are anybody's
    print(name, hashlib.sha256(result.numpy().tobytes()).hexdigest())
print(*sorted(kernels), file=sys.stderr)
"""


def digests(vectors: str) -> tuple[str, set[str]]:
    environment = os.environ | {"TILEON_CPU_VECTORS": vectors}
    program = DIGESTS.format(root=ROOT)
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert result.returncode == 0, result.stderr
    return result.stdout, set(result.stderr.split("\n")[-2].split())


def test_vectors_of_every_width_give_the_same_bits() -> None:
    """A version that this processor cannot run is left out: what runs in its place is a narrower one."""
    wanted, kernels = digests("baseline")
    assert kernels == {"cpu_row_baseline", "cpu_tiles_baseline"}
    for vectors in ("avx2", "avx512", "avx512_bf16"):
        found, kernels = digests(vectors)
        assert len(kernels) == 2
        for line, other in zip(wanted.splitlines(), found.splitlines(), strict=True):
            assert line == other, f"{vectors}, by {kernels}"


def test_unknown_vectors_are_refused() -> None:
    program = (
        "import torch, tileon_ops\n"
        "x = torch.zeros(1, 32, dtype=torch.int8)\n"
        "torch.ops.tileon.block_scaled_matmul(x, x, torch.ones(()), torch.ones(()))"
    )
    environment = os.environ | {"TILEON_CPU_VECTORS": "avx", "PYTHONPATH": str(ROOT)}
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert "TILEON_CPU_VECTORS must be baseline, avx2, avx512, avx512_bf16 or amx, got avx" in result.stderr


# ---- ends of the ranges ----

PARTNERS = torch.tensor([0.0, 1.0, -3.0, 2.0**-133, 2.0**-126, 2.0**-60, -(2.0**60), 3e38, float("inf"), float("nan")])


def alone(values: torch.Tensor, k: int) -> torch.Tensor:
    """(len(values), k): each value in a place of its own, zeros beside it."""
    rows = torch.zeros(len(values), k, dtype=values.dtype)
    places = torch.arange(len(values))
    rows[places, places % k] = values
    return rows


def every_scale(name: str) -> Scaled:
    """Rows of ramps of codes, under every byte that a scale may be."""
    element, scale_kind = {"mxfp8": ("e4m3", "e8m0"), "mxfp4": ("e2m1", "e8m0"), "nvfp4": ("e2m1", "e4m3")}[name]
    codes = torch.arange(256)[:, None] * 7 + torch.arange(32)
    codes = (codes % 16 if element == "e2m1" else codes % 256).to(torch.uint8)
    data = codes[:, ::2] | codes[:, 1::2] << 4 if element == "e2m1" else codes.view(E4M3)
    vec = 16 if scale_kind == "e4m3" else 32
    scales = torch.arange(256, dtype=torch.uint8)[:, None].expand(256, 32 // vec)
    values = (decode(codes, element) * decode(scales, scale_kind).repeat_interleave(vec, 1)).float().double()
    dtype = E4M3 if scale_kind == "e4m3" else torch.float8_e8m0fnu
    return Scaled(data, scales.contiguous().view(dtype), values, torch.ones(1, 1, dtype=torch.float64))


def weights_at_their_ends() -> list[tuple[str, Scaled]]:
    """The last: float32 scales that are small, large, infinite and no numbers."""
    found = [(name, every_scale(name)) for name in ("mxfp8", "mxfp4", "nvfp4")]
    scale = torch.tensor([0.0, 1e-45, 1e-38, -1.0, 1e30, 3e38, float("inf"), float("nan")]).reshape(-1, 1)
    for dtype, table in ((E4M3, VALUES["e4m3"]), (torch.int8, torch.arange(256).to(torch.int8).double())):
        codes = torch.arange(32, dtype=torch.uint8).repeat(8, 1) * 8 + torch.arange(8, dtype=torch.uint8)[:, None]
        values = (table[codes.long()] * scale.double()).float().double()
        found.append((str(dtype), Scaled(codes.view(dtype), scale, values, torch.ones(1, 1, dtype=torch.float64))))
    return found


def partners() -> Scaled:
    data = alone(PARTNERS, 32).bfloat16()
    return Scaled(data, None, data.double(), torch.ones(1, 1, dtype=torch.float64))


def extreme_products() -> list[tuple[str, torch.Tensor]]:
    a = partners()
    found = [(name, multiply(a, b, out_dtype=F32)) for name, b in weights_at_their_ends()]
    return found + [
        (name + " row", multiply(first_rows(a, 4), b, out_dtype=F32)) for name, b in weights_at_their_ends()
    ]


def test_scales_codes_and_partners_at_their_ends() -> None:
    """One product in a sum is not zero: what float32 makes of it, infinity times zero included."""
    a = partners()
    for name, b in weights_at_their_ends():
        value = torch.stack([torch.stack([(x * y).sum() for y in b.elements]) for x in a.elements])
        value = torch.where(value.abs() >= 2.0**128, value.sign() * float("inf"), value)
        wanted = Expected(value, torch.zeros_like(value), F32)
        assert_product(multiply(a, b, out_dtype=F32), wanted, name)
        for row in range(len(PARTNERS)):
            one = Scaled(a.data[row : row + 1], None, a.elements[row : row + 1], a.scales)
            wanted = Expected(value[row : row + 1], torch.zeros(1, len(value[0]), dtype=torch.float64), F32)
            assert_product(multiply(one, b, out_dtype=F32), wanted, f"{name}, row {row}")


def test_numbers_that_are_none_stay_in_their_rows_and_columns() -> None:
    for dtype, nan in ((E4M3, 0xFF), (torch.float8_e5m2, 0x7D)):
        codes = torch.full((45, 1056), 0x38, dtype=torch.uint8)
        codes[7, 1000] = nan
        ones = torch.ones(45, 1)
        for m in (1, 19):
            result = multiply(make("bfloat16", m, 1056), Scaled(codes.view(dtype), ones, ones, ones), out_dtype=F32)
            assert bool(result[:, 7].isnan().all())
            assert int(result.isnan().sum()) == m
            result = torch.ops.tileon.block_scaled_matmul(
                codes.view(dtype), codes[: m + 1].view(dtype), ones, ones[: m + 1]
            )
            assert int(result.isnan().sum()) == m + 1 + (44 if m + 1 > 7 else 0)


def test_int8_sums_are_exact_beyond_32_bits() -> None:
    for k in (131_072, 140_000):
        a = torch.full((3, k), -128, dtype=torch.int8)
        a[1] = 127
        a[2, ::2] = 127
        wanted = (a.double() @ a.double().t()).float()
        assert float(wanted[0, 0]) >= 2.0**31
        for m in (1, 3):
            one = torch.ones(())
            assert torch.equal(torch.ops.tileon.block_scaled_matmul(a[:m], a, one, one, out_dtype=F32), wanted[:m])


# ---- epilogue ----


@each_pair
def test_what_follows_the_sums_is_one_rounding(a_name: str, b_name: str) -> None:
    """Bias, activation and a factor for each row, into dtypes and strides of every kind: exact sums, so exact bits."""
    m, n, k = 140, 45, 96
    a, b = make(a_name, m, k, exact=True), make(b_name, n, k, exact=True)
    bias = torch.arange(n).float() - 20
    factors = torch.exp2((torch.arange(m) % 5 - 2).float()).reshape(-1, 1)
    for out_dtype, activation in (
        (F32, "relu"),
        (torch.bfloat16, "leaky_relu"),
        (torch.float16, "none"),
        (E4M3, "relu"),
    ):
        wanted = expected(a, b, bias, factors, out_dtype=out_dtype, activation=activation, slope=0.5, bound=0.0)
        out = torch.zeros(2 * n, m, dtype=out_dtype).t()[:, ::2]
        options = {"activation": activation, "slope": 0.5, "out_dtype": out_dtype}
        torch.ops.tileon.block_scaled_matmul.out(
            a.data,
            b.data,
            a.scale,
            b.scale,
            bias.to(out_dtype if out_dtype != E4M3 else F32),
            factors,
            out=out,
            **options,
        )
        assert_product(out, wanted, f"{out_dtype}")


# ---- memory ----

MEMORY = """
import resource, sys
sys.path.insert(0, "{root}")
import torch, tileon_ops
torch.set_num_threads(1)
multiply = torch.ops.tileon.block_scaled_matmul
def operands(m, n, k):
    scale = lambda rows: torch.full((rows, k // 32), 127, dtype=torch.uint8)
    codes = lambda rows: torch.zeros(rows, k, dtype=torch.uint8).view(torch.float8_e4m3fn)
    return codes(m), codes(n), scale(m), scale(n)
multiply(*operands(130, 64, 64))
large = operands({m}, {n}, {k})
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
multiply(*large)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize(("m", "n", "k"), [(1, 4096, 8192), (200, 4096, 8192), (4096, 64, 8192)])
def test_a_call_takes_its_output_and_8_mb(m: int, n: int, k: int) -> None:
    """Operands as float32 would take 128 MB or more."""
    program = MEMORY.format(root=ROOT, m=m, n=n, k=k)
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(result.stdout) * 1024 <= m * n * 2 + 8 * 2**20
