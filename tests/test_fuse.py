"""`tileon_ops.fuse`: which products of a graph become calls of matmul, with what, and which stay torch's."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from fuse_graphs import CAPTURES, AsModule, fused, matmuls
from operands import integers
from reference import activate, assert_exact
from torch import Tensor

import tileon_ops

each_capture = pytest.mark.parametrize("capture", CAPTURES)


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def operands(
    *shapes: tuple[int, ...], dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu"
) -> tuple[Tensor, ...]:
    return tuple(integers(*shape, dtype=dtype, device=device, seed=seed) for seed, shape in enumerate(shapes))


def in_place_sum(a: Tensor, b: Tensor, bias: Tensor) -> Tensor:
    y = a @ b
    y += bias
    return F.relu(y, inplace=True)


# name: (function of a (5, 7), b (7, 6) and bias (6,), whether it adds the bias, activation, slope)
FORMS: dict[str, tuple[Callable[[Tensor, Tensor, Tensor], Tensor], bool, str, float]] = {
    "a @ b": (lambda a, b, bias: a @ b, False, "none", 0),
    "torch.mm": (lambda a, b, bias: torch.mm(a, b), False, "none", 0),
    "a.matmul": (lambda a, b, bias: a.matmul(b), False, "none", 0),
    "+ bias": (lambda a, b, bias: a @ b + bias, True, "none", 0),
    "bias +": (lambda a, b, bias: bias + torch.matmul(a, b), True, "none", 0),
    "torch.add": (lambda a, b, bias: torch.add(a.mm(b), bias), True, "none", 0),
    "addmm": (lambda a, b, bias: torch.addmm(bias, a, b), True, "none", 0),
    "bias.addmm": (lambda a, b, bias: bias.addmm(a, b, beta=1, alpha=1), True, "none", 0),
    "linear": (lambda a, b, bias: F.linear(a, b.t()), False, "none", 0),
    "linear with bias": (lambda a, b, bias: F.linear(a, b.t(), bias), True, "none", 0),
    "relu": (lambda a, b, bias: torch.relu(a @ b), False, "relu", 0),
    "relu method": (lambda a, b, bias: (a @ b + bias).relu(), True, "relu", 0),
    "in place": (in_place_sum, True, "relu", 0),
    "relu_": (lambda a, b, bias: torch.addmm(bias, a, b).relu_(), True, "relu", 0),
    "leaky_relu": (lambda a, b, bias: F.leaky_relu(a @ b + bias, 0.5), True, "leaky_relu", 0.5),
    "negative slope": (lambda a, b, bias: F.leaky_relu(a @ b, negative_slope=-2), False, "leaky_relu", -2),
    "leaky_relu in place": (lambda a, b, bias: F.leaky_relu(a @ b, 0.25, True), False, "leaky_relu", 0.25),
    "gelu": (lambda a, b, bias: F.gelu(F.linear(a, b.t(), bias)), True, "gelu", 0),
    "gelu_tanh": (lambda a, b, bias: F.gelu(a @ b, approximate="tanh"), False, "gelu_tanh", 0),
    "silu": (lambda a, b, bias: F.silu(a @ b + bias), True, "silu", 0),
}


@each_capture
@pytest.mark.parametrize("name", FORMS)
def test_each_form_is_one_matmul(name: str, capture: str) -> None:
    function, biased, activation, slope = FORMS[name]
    a, b, bias = operands((5, 7), (7, 6), (6,))
    actual, calls = fused(function, (a, b, bias), capture)
    assert [(len(call.args), call.kwargs.get("activation", "none")) for call in calls] == [(2 + biased, activation)]
    total = a.double() @ b.double() + (bias.double() if biased else 0)
    expected = activate(total, activation, slope)
    if activation in ("gelu", "gelu_tanh", "silu"):
        torch.testing.assert_close(actual.double(), expected, rtol=1e-6, atol=1e-6)
    else:
        assert_exact(actual, expected, torch.float32)


@each_capture
@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda a, b, bias: F.relu(F.linear(a, b, bias)), ((2, 3, 7), (6, 7), (6,))),
        (lambda a, b, bias: F.relu(F.linear(a, b, bias)), ((2, 3, 4, 7), (6, 7), (6,))),
        (lambda a, b, bias: F.relu(F.linear(a.transpose(0, 1), b, bias)), ((2, 3, 7), (6, 7), (6,))),
        (lambda a, b, bias: F.relu(F.linear(a, b, bias)), ((0, 3, 7), (6, 7), (6,))),
        (lambda a, b, bias: F.relu(a @ b + bias), ((2, 3, 4, 7), (7, 6), (6,))),
        (lambda a, b, bias: F.relu(a @ b + bias), ((3, 5, 7), (3, 7, 6), (6,))),
        (lambda a, b, bias: F.relu(a @ b + bias), ((1, 5, 7), (3, 7, 6), (6,))),
        (lambda a, b, bias: F.relu(a @ b.mT + bias), ((5, 7), (3, 6, 7), (6,))),
        (lambda a, b, bias: F.relu(torch.bmm(a, b) + bias), ((3, 5, 7), (3, 7, 6), (6,))),
        (lambda a, b, bias: F.relu(torch.baddbmm(bias, a, b)), ((3, 5, 7), (3, 7, 6), (6,))),
        (lambda a, b, bias: F.relu(bias.baddbmm(a, b)), ((3, 5, 7), (3, 7, 6), (6,))),
    ],
    ids=[
        "linear 3-D",
        "linear 4-D",
        "strided",
        "no rows",
        "4-D @ 2-D",
        "3-D",
        "batch of 1",
        "2-D @ 3-D",
        "bmm",
        "baddbmm",
        "method",
    ],
)
def test_batches(function: Callable[..., Tensor], shapes: tuple[tuple[int, ...], ...], capture: str) -> None:
    arguments = operands(*shapes)
    actual, calls = fused(function, arguments, capture)
    assert [(len(call.args), call.kwargs) for call in calls] == [(3, {"activation": "relu"})]
    assert_exact(actual, function(*(argument.double() for argument in arguments)), torch.float32)


@each_capture
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_dtypes(device: torch.device, dtype: torch.dtype, capture: str) -> None:
    a, b, bias = operands((5, 8), (8, 6), (6,), dtype=dtype, device=device)
    actual, calls = fused(lambda a, b, bias: F.relu(a @ b + bias), (a, b, bias), capture)
    assert len(calls) == 1
    assert_exact(actual, (a.double() @ b.double() + bias.double()).relu(), dtype)


def gelu_of_a_product(a: Tensor, b: Tensor, bias: Tensor) -> Tensor:
    return F.gelu(torch.addmm(bias, a, b))


def with_write_between(a: Tensor, b: Tensor, bias: Tensor) -> Tensor:
    a = a * 2
    y = a @ b
    a.add_(1)
    return F.relu(y) + a.sum()


def with_bias_written_between(a: Tensor, b: Tensor, bias: Tensor) -> Tensor:
    bias = bias * 2
    y = a @ b
    bias[0] = 5
    return y + bias


def with_bias_added_to_between(a: Tensor, b: Tensor, bias: Tensor) -> Tensor:
    bias = bias * 2
    y = a @ b
    bias += 1
    return y + bias


def with_two_users(a: Tensor, b: Tensor, bias: Tensor) -> Tensor:
    y = a @ b
    return F.relu(y) + y


# name: (function, shapes, dtype, and what of it is fused: (number of arguments, activation) for each call)
HALVES: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...], list[tuple[int, str]]]] = {
    "two users": (with_two_users, ((5, 7), (7, 6), (6,)), [(2, "none")]),
    "the product is a result too": (lambda a, b, c: (y := a @ b, y + c), ((5, 7), (7, 6), (6,)), [(2, "none")]),
    "a write between": (with_write_between, ((5, 7), (7, 6), (6,)), [(2, "none")]),
    "the bias written between": (with_bias_written_between, ((5, 7), (7, 6), (6,)), [(2, "none")]),
    "the bias added to between": (with_bias_added_to_between, ((5, 7), (7, 6), (6,)), [(2, "none")]),
    "square bias": (lambda a, b, c: a @ b + c, ((6, 7), (7, 6), (6, 6)), [(2, "none")]),
    "bias of two dimensions": (lambda a, b, c: a @ b + c, ((5, 7), (7, 6), (5, 6)), [(2, "none")]),
    "bias of one element": (lambda a, b, c: a @ b + c, ((5, 7), (7, 6), (1,)), [(2, "none")]),
    "number": (lambda a, b, c: F.relu(a @ b + 1), ((5, 7), (7, 6), (6,)), [(2, "none")]),
    "alpha of a sum": (lambda a, b, c: torch.add(a @ b, c, alpha=2), ((5, 7), (7, 6), (6,)), [(2, "none")]),
    "another activation": (lambda a, b, c: F.elu(a @ b + c), ((5, 7), (7, 6), (6,)), [(3, "none")]),
    "beta": (lambda a, b, c: torch.addmm(c, a, b, beta=2), ((5, 7), (7, 6), (6,)), []),
    "alpha": (lambda a, b, c: torch.addmm(c, a, b, alpha=2), ((5, 7), (7, 6), (6,)), []),
    "addmm's input of two dimensions": (lambda a, b, c: torch.addmm(c, a, b), ((5, 7), (7, 6), (5, 6)), []),
    "vector": (lambda a, b, c: a @ b + c, ((7,), (7, 6), (6,)), []),
    "matrix times vector": (lambda a, b, c: a @ b, ((5, 7), (7,), (6,)), []),
    "both of four dimensions": (lambda a, b, c: a @ b + c, ((2, 3, 5, 7), (2, 3, 7, 6), (6,)), []),
}


@each_capture
@pytest.mark.parametrize("name", HALVES)
def test_what_does_not_agree_stays_torchs(name: str, capture: str) -> None:
    function, shapes, expected_calls = HALVES[name]
    arguments = operands(*shapes)
    actual, calls = fused(function, arguments, capture)
    assert [(len(call.args), call.kwargs.get("activation", "none")) for call in calls] == expected_calls
    torch.testing.assert_close(actual, function(*arguments), rtol=1e-6, atol=1e-6)


@each_capture
@pytest.mark.parametrize("dtype", [torch.int32, torch.complex64], ids=str)
def test_dtypes_that_matmul_does_not_offer_stay_torchs(dtype: torch.dtype, capture: str) -> None:
    arguments = operands((5, 7), (7, 6), (6,), dtype=dtype)
    actual, calls = fused(lambda a, b, bias: a @ b + bias, arguments, capture)
    assert not calls
    assert torch.equal(actual, arguments[0] @ arguments[1] + arguments[2])


@each_capture
@pytest.mark.parametrize("bias_dtype", [torch.float32, torch.int32, torch.bfloat16], ids=str)
def test_a_bias_of_another_dtype_is_added_by_torch(bias_dtype: torch.dtype, capture: str) -> None:
    a, b = operands((5, 7), (7, 6), dtype=torch.float16)
    bias = integers(6, dtype=bias_dtype, device="cpu")
    actual, calls = fused(lambda a, b, bias: a @ b + bias, (a, b, bias), capture)
    assert [len(call.args) for call in calls] == [2]
    expected = a @ b + bias
    assert actual.dtype == expected.dtype
    assert torch.equal(actual, expected)


def product_without_gradient(a: Tensor, b: Tensor) -> Tensor:
    with torch.no_grad():
        y = a @ b
    return F.relu(y) * a.sum()


def activation_without_gradient(a: Tensor, b: Tensor) -> Tensor:
    y = a @ b
    with torch.no_grad():
        z = F.relu(y)
    return z * a.sum()


@pytest.mark.parametrize("function", [product_without_gradient, activation_without_gradient])
def test_nothing_is_moved_into_another_grad_mode(function: Callable[[Tensor, Tensor], Tensor]) -> None:
    a, b = operands((5, 7), (7, 6))
    result, calls = fused(function, (a.requires_grad_(), b), "compile")
    assert [call.kwargs for call in calls] == [{}]
    expected = torch.autograd.grad(function(a, b).sum(), a)
    assert torch.equal(torch.autograd.grad(result.sum(), a)[0], expected[0])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_under_autocast_the_operands_take_its_dtype(dtype: torch.dtype) -> None:
    def function(a: Tensor, b: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        with torch.autocast("cpu", dtype):
            product = a @ b
        with torch.autocast("cpu", dtype):
            inside = F.relu(F.linear(a, b.t(), bias))
        return inside, F.relu(product)  # the activation of the product is outside

    arguments = operands((5, 7), (7, 6), (6,))
    actual, calls = fused(function, arguments, "compile")
    assert [(len(call.args), call.kwargs) for call in calls] == [(2, {}), (3, {"activation": "relu"})]
    for got, wanted in zip(actual, function(*arguments), strict=True):
        assert got.dtype == dtype
        assert torch.equal(got, wanted)


@each_capture
@pytest.mark.parametrize("precision", ["ieee", "tf32"])
def test_float32_follows_torchs_precision(precision: str, capture: str) -> None:
    torch.backends.cuda.matmul.fp32_precision = precision  # every test starts with "ieee": conftest.py
    for dtype in (torch.float32, torch.bfloat16):
        torch._dynamo.reset()
        _, (call,) = fused(lambda a, b: a @ b, operands((5, 7), (7, 6), dtype=dtype), capture)
        assert call.kwargs.get("allow_tf32", False) is (precision == "tf32" and dtype == torch.float32)


@each_capture
def test_sizes_may_be_symbols(capture: str) -> None:
    def function(a: Tensor, b: Tensor, bias: Tensor) -> Tensor:
        return F.leaky_relu(F.linear(a, b, bias), 0.5)

    arguments = operands((3, 5, 7), (6, 7), (6,))
    auto = torch.export.Dim.AUTO
    options = {"dynamic": True} if capture == "compile" else {"dynamic_shapes": (({0: auto, 1: auto}, None, None),)}
    actual, calls = fused(function, arguments, capture, **options)
    assert [call.kwargs for call in calls] == [{"activation": "leaky_relu", "slope": 0.5}]
    assert_exact(actual, function(*(argument.double() for argument in arguments)), torch.float32)


def test_a_graph_without_metadata_is_refused_and_one_with_it_is_not() -> None:
    from torch.fx.passes.fake_tensor_prop import FakeTensorProp

    class Layer(torch.nn.Module):
        def forward(self, a: Tensor, b: Tensor) -> Tensor:
            return F.relu(a @ b)

    arguments = operands((5, 7), (7, 6))
    graph_module = torch.fx.symbolic_trace(Layer())
    with pytest.raises(RuntimeError, match="fuse: the nodes of the graph must say their shapes and dtypes"):
        tileon_ops.fuse(graph_module)
    FakeTensorProp(graph_module).propagate(*arguments)
    assert tileon_ops.fuse(graph_module) is graph_module
    assert len(matmuls(graph_module.graph)) == 1
    assert torch.equal(graph_module(*arguments), Layer()(*arguments))


def test_a_product_without_metadata_stays_torchs(caplog: pytest.LogCaptureFixture) -> None:
    def function(a: Tensor, b: Tensor) -> Tensor:
        return F.relu(a @ b) @ b.t()

    arguments = operands((5, 7), (7, 6))
    module = torch.export.export(AsModule(function), arguments).module()
    del next(node for node in module.graph.nodes if node.name.startswith("matmul")).meta["val"]
    tileon_ops.fuse(module)
    assert len(matmuls(module.graph)) == 1
    assert "fuse: `matmul` does not say its shape and dtype, and stays torch's" in caplog.messages
    assert torch.equal(module(*arguments), function(*arguments))


def test_a_module_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"fuse: `program` must be .* got Linear; torch\.export"):
        tileon_ops.fuse(torch.nn.Linear(3, 3))  # type: ignore[type-var]


def test_the_log_says_what_was_fused(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "tileon_ops"):
        fused(gelu_of_a_product, operands((5, 7), (7, 6), (6,)), "export")
    assert caplog.messages == [
        "fuse: addmm -> gelu is one matmul: float32 (5, 7) x (7, 6), bias, gelu",
        "fuse: matmul is called 1 times in this graph",
    ]


def test_the_compiler_is_imported_with_fuse_and_not_before() -> None:
    source = (
        "import sys, tileon_ops\n"
        "assert 'tileon_ops.fx.fusion' not in sys.modules\n"
        "assert 'fuse' in tileon_ops.__all__\n"
        "assert callable(tileon_ops.fuse) and tileon_ops.fuse is tileon_ops.fuse\n"
        "assert 'tileon_ops.fx.fusion' in sys.modules\n"
        "try:\n    tileon_ops.nothing\nexcept AttributeError as error:\n    print(error)\n"
    )
    result = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    assert "nothing" in result.stdout
