"""Results of a row do not depend on how many other rows there are, where `tileon_ops.batch_invariant` says so."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator

import pytest
import recorded_scaled_bits
import simulated_gpu
import torch
from tile_table import HAS_GPU, HAS_HOPPER_GPU
from torch import Tensor

import tileon_ops
from tileon_ops import BlockScaledLinear, Linear
from tileon_ops._rules import configs

ROOT = pathlib.Path(__file__).resolve().parent.parent
DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.float8_e4m3fn, torch.float8_e5m2)
FORMATS = ("mxfp8", "mxfp4", "mixed", "nvfp4", "fp8_row", "fp8_128x128", "int8_row")
MOST = 512  # rows
ON_HARDWARE = HAS_GPU and not simulated_gpu.is_loaded()
N, K = 40, 1120  # more than two chunks of a tile along k, the last one short

each_layout = pytest.mark.parametrize("across", [False, True], ids=["rows of b", "columns of b"])


def numbers(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def differing(multiply: Callable[[Tensor], Tensor], a: Tensor) -> list[int]:
    """The numbers of rows, from 1 on, whose results are not those of as many first rows of all."""
    wanted = multiply(a)
    return [m for m in range(1, len(a)) if not torch.equal(multiply(a[:m]), wanted[:m])]


@pytest.fixture
def invariant() -> Iterator[None]:
    with tileon_ops.batch_invariant():
        yield


@pytest.mark.usefixtures("invariant")
class TestOnTheCpu:
    @each_layout
    @pytest.mark.parametrize("dtype", DTYPES, ids=str)
    def test_matmul(self, dtype: torch.dtype, across: bool) -> None:
        b = numbers(K, N, seed=1) if across else numbers(N, K, seed=1).t()
        b, out_dtype = b.to(dtype), torch.float32 if dtype.itemsize < 4 else dtype

        def multiply(a: Tensor) -> Tensor:
            return tileon_ops.matmul(a, b, activation="gelu", out_dtype=out_dtype)

        assert differing(multiply, numbers(MOST, K, seed=0).to(dtype)) == []

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
    def test_matrices_of_a_batch(self, dtype: torch.dtype) -> None:
        a, b = numbers(5, 70, K, seed=0).to(dtype), numbers(5, K, N, seed=1).to(dtype)
        wanted = tileon_ops.matmul(a, b)
        for i in range(5):
            assert torch.equal(tileon_ops.matmul(a[i], b[i]), wanted[i])
            assert torch.equal(tileon_ops.matmul(a[:, :1], b)[i], wanted[i, :1])

    @pytest.mark.parametrize("weight_only", [False, True], ids=["both", "weight_only"])
    @pytest.mark.parametrize("format", FORMATS)
    def test_block_scaled_layers(self, format: str, weight_only: bool) -> None:
        layer = BlockScaledLinear.from_linear(torch.nn.Linear(K, N), format, weight_only=weight_only)
        x = numbers(MOST, K, seed=0).bfloat16()
        x[3] *= 1000  # rows beside it do not count either
        with torch.no_grad():
            assert differing(layer, x) == []

    def test_linear_and_its_gradient_of_the_input(self) -> None:
        layer = Linear(K, N, activation="relu")
        x, grad = numbers(130, K, seed=0), numbers(130, N, seed=2)

        def gradient(rows: Tensor) -> Tensor:
            leaf = rows.clone().requires_grad_()
            layer(leaf).backward(grad[: len(rows)])
            assert leaf.grad is not None
            return leaf.grad

        with torch.no_grad():
            assert differing(layer, x) == []
        assert differing(gradient, x) == []


class TestTheSetting:
    def test_without_it_large_float32_is_atens(self) -> None:
        a, b = numbers(200, 90, seed=0), numbers(90, 200, seed=1)  # a short k, which ATen has on any processor
        tileon_ops.matmul(a, b)
        assert tileon_ops.last_kernel() == "cpu_aten"
        with tileon_ops.batch_invariant():
            tileon_ops.matmul(a, b)
            assert tileon_ops.last_kernel().startswith("cpu_tiles_")
            with tileon_ops.batch_invariant(False):
                tileon_ops.matmul(a, b)
                assert tileon_ops.last_kernel() == "cpu_aten"
            tileon_ops.matmul(a, b)
            assert tileon_ops.last_kernel().startswith("cpu_tiles_")
        tileon_ops.matmul(a, b)
        assert tileon_ops.last_kernel() == "cpu_aten"

    def test_a_call_sets_it_until_the_next(self) -> None:
        a, b = numbers(200, 90, seed=0), numbers(90, 200, seed=1)  # a short k, which ATen has on any processor
        try:
            tileon_ops.batch_invariant()
            tileon_ops.matmul(a, b)
            assert tileon_ops.last_kernel().startswith("cpu_tiles_")
        finally:
            tileon_ops.batch_invariant(False)
        tileon_ops.matmul(a, b)
        assert tileon_ops.last_kernel() == "cpu_aten"

    def test_an_error_inside_ends_it(self) -> None:
        with pytest.raises(ValueError, match="inside"), tileon_ops.batch_invariant():
            raise ValueError("inside")
        assert torch.ops.tileon._set_batch_invariant(False) is False

    @pytest.mark.parametrize(("setting", "holds"), [("1", True), ("0", False), ("", False)])
    def test_the_environment_sets_it(self, setting: str, holds: bool) -> None:
        program = "import torch, tileon_ops; print(torch.ops.tileon._set_batch_invariant(False))"
        environment = os.environ | {"TILEON_BATCH_INVARIANT": setting, "PYTHONPATH": str(ROOT)}
        result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
        assert result.stdout.strip() == str(holds), result.stderr

    def test_compiled_functions_read_it_when_they_run(self) -> None:
        a, b = numbers(200, 90, seed=0), numbers(90, 200, seed=1)  # a short k, which ATen has on any processor
        compiled = torch.compile(lambda a, b: tileon_ops.matmul(a, b), backend="aot_eager")
        compiled(a, b)
        assert tileon_ops.last_kernel() == "cpu_aten"
        with tileon_ops.batch_invariant():
            compiled(a, b)
            assert tileon_ops.last_kernel().startswith("cpu_tiles_")


def some_rows(*few: int) -> tuple[int, ...]:
    """Every number of them on a GPU, these elsewhere."""
    return tuple(range(1, MOST)) if ON_HARDWARE else few


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_on_a_gpu_results_do_not_hang_on_the_rows(device: torch.device, dtype: torch.dtype) -> None:
    if device.type == "cpu" and not simulated_gpu.is_loaded():
        pytest.skip("a CPU has kernels of its own for one row")
    b = numbers(136, 1024, seed=1).to(dtype).to(device).t()
    a = numbers(MOST if ON_HARDWARE else 300, 1024, seed=0).to(dtype).to(device)
    out_dtype = torch.float32 if dtype.itemsize < 4 else dtype
    with tileon_ops.batch_invariant():
        wanted = tileon_ops.matmul(a, b, out_dtype=out_dtype)
        for m in some_rows(1, 2, 7, 16, 64, 65, 128, 200):
            assert torch.equal(tileon_ops.matmul(a[:m], b, out_dtype=out_dtype), wanted[:m]), m


@pytest.mark.gpu
@pytest.mark.skipif(not (ON_HARDWARE and HAS_HOPPER_GPU), reason="Hopper's choice; a simulated GPU takes minutes")
@pytest.mark.parametrize("kind", ["bfloat16", "float8_e4m3fn", "tf32", "float32", "float64"])
def test_on_a_gpu_a_layer_has_the_tile_that_suits_its_rows(kind: str) -> None:
    """And the same bits."""
    dtype = torch.float32 if kind == "tf32" else getattr(torch, kind)
    a, b = numbers(4096, 2048, seed=0).to(dtype).cuda(), numbers(2048, 2048, seed=1).to(dtype).cuda().t()
    kernels = set()
    with tileon_ops.batch_invariant():
        wanted = tileon_ops.matmul(a, b, allow_tf32=kind == "tf32")
        for m in (1, 16, 64, 128, 256, 1024, 4096):
            assert torch.equal(tileon_ops.matmul(a[:m], b, allow_tf32=kind == "tf32"), wanted[:m]), m
            kernels.add(tileon_ops.last_kernel())
    assert len(kernels) > 1


@pytest.mark.gpu
@pytest.mark.parametrize("columns", [1, 5, 40])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_on_a_gpu_few_columns_do_not_hang_on_the_rows(device: torch.device, dtype: torch.dtype, columns: int) -> None:
    """The narrow kernels, which share k by the number of rows, do not take them."""
    if device.type == "cpu" and not simulated_gpu.is_loaded():
        pytest.skip("a CPU has kernels of its own for one row")
    a, b = numbers(300, 500, seed=0).to(dtype).to(device), numbers(500, columns, seed=1).to(dtype).to(device)
    with tileon_ops.batch_invariant():
        wanted = tileon_ops.matmul(a, b)
        for m in (1, 2, 8, 30, 129):
            assert torch.equal(tileon_ops.matmul(a[:m], b), wanted[:m]), m
            assert "narrow" not in tileon_ops.last_kernel()


@pytest.mark.gpu
@pytest.mark.parametrize("across", [False, True], ids=["along k", "across k"])
@pytest.mark.parametrize("kind", ["float64", "float32", "tf32"])
def test_on_a_gpu_neither_slices_of_k_nor_copies_hang_on_the_rows(
    device: torch.device, kind: str, across: bool
) -> None:
    """Of so few tiles that k would be sliced by their number; of operands of which the smaller one would be copied."""
    if device.type == "cpu" and not simulated_gpu.is_loaded():
        pytest.skip("a CPU has kernels of its own for one row")
    dtype = torch.float64 if kind == "float64" else torch.float32
    a, b = numbers(300, 2048, seed=0).to(dtype).to(device), numbers(2048, 72, seed=1).to(dtype).to(device)
    if across:
        a = a.t().contiguous().t()
    with tileon_ops.batch_invariant():
        wanted = tileon_ops.matmul(a, b, allow_tf32=kind == "tf32")
        for m in (1, 2, 16, 65, 200):
            assert torch.equal(tileon_ops.matmul(a[:m], b, allow_tf32=kind == "tf32"), wanted[:m]), m


@pytest.mark.gpu
@pytest.mark.parametrize("weight_only", [False, True], ids=["both", "weight_only"])
@pytest.mark.parametrize("format", FORMATS)
def test_on_a_gpu_layers_do_not_hang_on_the_rows(device: torch.device, format: str, weight_only: bool) -> None:
    layer = BlockScaledLinear.from_linear(torch.nn.Linear(256, 136), format, weight_only=weight_only).to(device)
    x = numbers(MOST if ON_HARDWARE else 140, 256, seed=0).bfloat16().to(device)
    with tileon_ops.batch_invariant(), torch.no_grad():
        wanted = layer(x)
        for m in some_rows(1, 2, 16, 64, 65, 129):
            assert torch.equal(layer(x[:m]), wanted[:m]), m


# What a weight alone scaled, and codes with float32 scales, are multiplied by, whose tiles CTAs share elsewhere: the
# bits of the others are recorded (test_recorded_bits.py).
PAIRS = (
    *(("bfloat16", "mxfp4"), ("bfloat16", "nvfp4"), ("bfloat16", "mxfp8"), ("bfloat16", "e4m3_row")),
    *(("bfloat16", "int8_row"), ("bfloat16", "e4m3_128x128"), ("bfloat16", "e4m3_1x128"), ("float16", "nvfp4")),
    *(("e4m3_row", "e4m3_row"), ("e4m3_1x128", "e4m3_128x128")),
)


@pytest.mark.gpu
@pytest.mark.usefixtures("invariant")
@pytest.mark.parametrize("pair", PAIRS, ids="*".join)
def test_on_a_gpu_configs_of_one_route_add_alike(device: torch.device, pair: tuple[str, str]) -> None:
    if device.type == "cpu" and not simulated_gpu.is_loaded():
        pytest.skip("kernels of Hopper's")
    if not HAS_HOPPER_GPU and not simulated_gpu.is_loaded():
        pytest.skip("this GPU has none of Hopper's kernels")
    k = 640 if pair[1] in recorded_scaled_bits.BYTE_SCALES else 656
    a, b = (recorded_scaled_bits.operand(name, rows, k, "normal") for name, rows in zip(pair, (72, 144), strict=True))
    placed = [None if of is None else of.to(device) for of in (a.data, b.data, a.scale, b.scale)]
    found = defaultdict[str, dict[str, Tensor]](dict)
    for config in configs.block_scaled():
        if config.backend == "sm90" and config.family not in ("small_m", "direct_weight"):
            by_number = torch.ops.tileon._block_scaled_matmul_with_config
            try:
                result = by_number(*placed, config=config.index, out_dtype=torch.float32)
            except RuntimeError:  # it does not take these operands
                continue
            found[config.route][config.name] = result.cpu()
    assert max(map(len, found.values())) > 1
    for of_route in found.values():
        first, *others = of_route.values()
        assert [name for name, bits in zip([*of_route][1:], others, strict=True) if not torch.equal(bits, first)] == []
