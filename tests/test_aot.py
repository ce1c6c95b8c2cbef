"""The ops in packages of AOTInductor: loaded by Python, and by a C++ program that has no Python in it."""

from __future__ import annotations

import os
import pathlib
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from operands import integers, normal
from reference import assert_exact
from torch import Tensor
from weights import exact_weight

import tileon_ops
from tileon_ops._loading import library

EXAMPLE = pathlib.Path(__file__).resolve().parent.parent / "examples" / "aoti"
TORCH = tuple(int(number) for number in torch.__version__.split(".")[:2])
KNOWS_DTYPES = TORCH >= (2, 12)  # https://github.com/pytorch/pytorch/pull/173562
ROWS = (2, 5, 16, 33, 300)


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


OWN_PACKAGE = """
import sys, torch
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()).to(sys.argv[1])
x = torch.ones(2, 8, device=sys.argv[1])
with torch.no_grad():
    path = torch._inductor.aoti_compile_and_package(torch.export.export(model, (x,)), package_path=sys.argv[2])
    torch.testing.assert_close(torch._inductor.aoti_load_package(path)(x), model(x))
"""


@pytest.fixture(scope="module", autouse=True)
def _packages_load_here(tmp_path_factory: pytest.TempPathFactory) -> None:
    """On a GPU machine another process tries a package of torch's own ops first: where that ends the process, these
    tests would end the suite's."""
    if not torch.cuda.is_available():
        return
    path = tmp_path_factory.mktemp("own") / "own.pt2"
    command = [sys.executable, "-c", OWN_PACKAGE, "cpu", str(path)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=100)
    except subprocess.TimeoutExpired:
        pytest.skip("a package of torch's own ops takes more than 100 s to make here")
    if done.returncode < 0:
        pytest.skip(f"a package of torch's own ops ends the process here, by signal {-done.returncode}")


def example() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLE / "export.py"))


@pytest.fixture(scope="module")
def package(device: torch.device, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What examples/aoti/export.py writes for the device."""
    path = str(tmp_path_factory.mktemp("package") / "model.pt2")
    example()["write_package"](path, device.type)
    return path


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """examples/aoti/main.cpp, built by its Makefile against the torch that runs this."""
    for tool in (os.environ.get("CXX", "g++"), "make"):
        if shutil.which(tool) is None:
            pytest.skip(f"no {tool} here")
    folder = tmp_path_factory.mktemp("aoti")
    for name in ("main.cpp", "Makefile"):
        shutil.copy(EXAMPLE / name, folder)
    command = ["make", "-C", str(folder), "main", f"PYTHON={sys.executable}", "CXXFLAGS=-O0"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr
    return folder / "main"


def expected_rows(x: Tensor) -> Tensor:
    """The example's model in float64."""
    model = example()["Model"]().double()
    with torch.no_grad():
        hidden = x.double().cpu() @ model.up.t() + model.up_bias
        return (torch.where(hidden > 0, hidden, hidden / 2) @ model.down.t()).clamp(min=0)


def test_a_package_takes_any_number_of_rows(device: torch.device, package: str) -> None:
    model = torch._inductor.aoti_load_package(package)
    for rows in ROWS:
        x = integers(rows, 8, dtype=torch.float32, device=device, seed=rows)
        assert_exact(model(x).cpu(), expected_rows(x), torch.float32)


@pytest.mark.parametrize("rows", [3, 130])
def test_a_program_without_python_gets_the_same_numbers(package: str, program: pathlib.Path, rows: int) -> None:
    result = subprocess.run(
        [str(program), str(library.path()), package, str(rows)], capture_output=True, text=True, timeout=300, cwd="/"
    )
    assert result.returncode == 0, result.stderr
    numbers = [[float(word) for word in line.split()] for line in result.stdout.splitlines()]
    x = torch.tensor([[(3 * i + 5 * j) % 7 - 3 for j in range(8)] for i in range(rows)])
    assert torch.equal(torch.tensor(numbers, dtype=torch.float64), expected_rows(x))


def test_the_program_has_no_python_in_it(program: pathlib.Path) -> None:
    linked = subprocess.run(["ldd", str(program)], capture_output=True, text=True, timeout=60).stdout
    assert "libtorch_cpu" in linked
    assert "libpython" not in linked
    assert "libtorch_python" not in linked


def test_without_the_library_the_program_says_what_is_missing(package: str, program: pathlib.Path) -> None:
    command = [str(program), "/nowhere/_C.so", package, "3"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == 1
    assert "/nowhere/_C.so" in result.stderr


class Quantized(torch.nn.Module):
    """A layer with a quantized weight: every op on quantized operands, once. e8m0 scales are kept as uint8."""

    def __init__(self, form: str, device: torch.device, out_dtype: torch.dtype | None) -> None:
        super().__init__()
        self.form, self.out_dtype = form, out_dtype
        data, scale = tileon_ops.quantize(normal(6, 64, dtype=torch.float32, device=device), form)
        self.register_buffer("data", data)
        self.register_buffer("scale", scale if form == "nvfp4" else scale.view(torch.uint8))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        data, scale = tileon_ops.quantize(x, self.form)
        plain = tileon_ops.unpack_scales(scale, x.shape[0], 4 if self.form == "nvfp4" else 2)
        y = tileon_ops.block_scaled_matmul(
            data, self.data, tileon_ops.pack_scales(plain), self.scale, activation="relu", out_dtype=self.out_dtype
        )
        return y, tileon_ops.dequantize(data, plain, self.form)


class Together(torch.nn.Module):
    """Layers of the same inputs, by name, for one package: it is compiled once."""

    def __init__(self, layers: dict[str, torch.nn.Module]) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleDict(layers)

    def forward(self, inputs: tuple[Tensor, ...]) -> dict[str, Any]:
        return {name: layer(*inputs) for name, layer in self.layers.items()}


def packaged(layers: torch.nn.Module, inputs: tuple[Tensor, ...], folder: pathlib.Path) -> Callable[..., Any]:
    """A package for all numbers of rows from 2 to 128."""
    rows = torch.export.Dim("rows", min=2, max=128)
    exported = torch.export.export(layers, (inputs,), dynamic_shapes=(tuple({0: rows} for _ in inputs),))
    path = torch._inductor.aoti_compile_and_package(exported, package_path=str(folder / "layers.pt2"))
    return torch._inductor.aoti_load_package(path)


def test_quantized_layers(device: torch.device, tmp_path: pathlib.Path) -> None:
    out_dtype = torch.float32 if KNOWS_DTYPES else None
    layers = Together({form: Quantized(form, device, out_dtype) for form in ("nvfp4", "mxfp8")})
    model = packaged(layers, (normal(5, 64, dtype=torch.float32, device=device),), tmp_path)
    for count in (2, 5, 33, 128):
        inputs = (normal(count, 64, dtype=torch.float32, device=device, seed=count),)
        results, wanted = model(inputs), layers(inputs)
        assert results.keys() == wanted.keys()
        for form in wanted:
            for actual, expected in zip(results[form], wanted[form], strict=True):
                assert actual.dtype == expected.dtype, form
                assert torch.equal(actual, expected), form


class WeightOnly(torch.nn.Module):
    """A 16-bit input times a weight with scales."""

    def __init__(self, name: str, device: torch.device) -> None:
        super().__init__()
        weight = exact_weight(name, 6, 64, packed=True)
        scale = weight.scale.view(torch.uint8) if weight.scale.dtype == torch.float8_e8m0fnu else weight.scale
        self.register_buffer("data", weight.data.to(device))
        self.register_buffer("scale", scale.to(device))

    def forward(self, x: Tensor, factor: Tensor) -> Tensor:
        return tileon_ops.block_scaled_matmul(x, self.data, None, self.scale, None, factor, activation="relu")


class Float32Scaled(WeightOnly):
    """Both operands have float32 scales, those of the input one a row."""

    def forward(self, x: Tensor, factor: Tensor) -> Tensor:
        data = x.to(self.data.dtype)
        return tileon_ops.block_scaled_matmul(data, self.data, factor, self.scale, activation="relu")


def test_scaled_operands(device: torch.device, tmp_path: pathlib.Path) -> None:
    """One package for all row counts, and a scale for each row."""
    weights = ("nvfp4", "mxfp8", "float8_e4m3fn_128x128", "int8_row")
    both = ("float8_e4m3fn_1x128", "int8_tensor")
    made = {name: WeightOnly(name, device) for name in weights} | {name: Float32Scaled(name, device) for name in both}
    layers = Together(made)
    inputs = (integers(5, 64, dtype=torch.bfloat16, device=device), torch.ones(5, 1, device=device))
    model = packaged(layers, inputs, tmp_path)
    for count in (2, 5, 33, 128):
        x = integers(count, 64, dtype=torch.bfloat16, device=device, seed=count)
        inputs = (x, torch.arange(1.0, count + 1, device=device)[:, None])
        results, wanted = model(inputs), layers(inputs)
        assert results.keys() == wanted.keys()
        for name in wanted:
            assert torch.equal(results[name], wanted[name]), name


@pytest.mark.skipif(KNOWS_DTYPES, reason="AOTInductor hands dtypes over rightly from torch 2.12 on")
def test_a_dtype_that_would_arrive_as_another_is_refused(tmp_path: pathlib.Path) -> None:
    class Layer(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.ops.tileon.matmul(x, x, out_dtype=torch.float16)

    exported = torch.export.export(Layer(), (torch.ones(4, 4),))
    with pytest.raises(Exception, match="matmul: `out_dtype` cannot be given under AOTInductor of torch"):
        torch._inductor.aoti_compile_and_package(exported, package_path=str(tmp_path / "refused.pt2"))
