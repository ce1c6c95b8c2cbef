"""None, or a thing that is no tensor, in place of a tensor that a call must have: one line names op and argument."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

import tileon_ops

E4M3, E8M0, U8 = torch.float8_e4m3fn, torch.float8_e8m0fnu, torch.uint8

Make = Callable[[torch.device], Any]


def ones(*shape: int, dtype: torch.dtype = torch.float32) -> Make:
    return lambda device: torch.ones(shape, device=device).to(dtype)


def value(given: Any) -> Make:
    return lambda device: given


MXFP8 = {"a": ones(3, 64, dtype=E4M3), "b": ones(5, 64, dtype=E4M3)} | {
    name: ones(rows, 2, dtype=U8) for name, rows in (("scale_a", 3), ("scale_b", 5))
}

# Good calls: every argument by its name, in the schema's order, and which must be tensors.
CALLS: dict[str, tuple[dict[str, Make], tuple[str, ...]]] = {
    "matmul": ({"a": ones(2, 3), "b": ones(3, 4)}, ("a", "b")),
    "matmul.out": ({"a": ones(2, 3), "b": ones(3, 4), "out": ones(2, 4)}, ("a", "b", "out")),
    "_matmul_with_preactivation": ({"a": ones(2, 3), "b": ones(3, 4)}, ("a", "b")),
    "_epilogue_backward": (
        {
            "grad": ones(2, 4),
            "saved": value(None),
            "activation": value("none"),
            "slope": value(0.0),
            "out_dtype": value(torch.float32),
        },
        ("grad",),
    ),
    "block_scaled_matmul": (MXFP8, tuple(MXFP8)),
    "block_scaled_matmul.out": ({**MXFP8, "out": ones(3, 5, dtype=torch.float16)}, (*MXFP8, "out")),
    "_block_scaled_backward": (
        {"grad": ones(3, 5, dtype=torch.float16), "b": MXFP8["b"], "scale_b": MXFP8["scale_b"]},
        ("grad", "b", "scale_b"),
    ),
    "_prepare_block_scaled": (
        {"b": MXFP8["b"], "scale_b": MXFP8["scale_b"], "form": value("bfloat16")},
        ("b", "scale_b"),
    ),
    "_block_scaled_matmul_prepared": ({**MXFP8, "prepared_b": ones(8, dtype=U8)}, (*MXFP8, "prepared_b")),
    "quantize": ({"x": ones(2, 32), "format": value("mxfp8")}, ("x",)),
    "_quantize_nvfp4_rows": ({"x": ones(2, 32)}, ("x",)),
    "_round_to_format": ({"x": ones(2, 32, dtype=torch.float16), "format": value("mxfp8")}, ("x",)),
    "_quantized_linear": (
        {"x": ones(3, 64), "b": MXFP8["b"], "scale_b": MXFP8["scale_b"], "format": value("mxfp8")},
        ("x", "b", "scale_b"),
    ),
    "dequantize": (
        {"data": MXFP8["a"], "scale": MXFP8["scale_a"], "format": value("mxfp8")},
        ("data", "scale"),
    ),
    "pack_scales": ({"scale": MXFP8["scale_a"]}, ("scale",)),
    "unpack_scales": ({"packed": ones(1, 1, 32, 4, 4, dtype=U8), "rows": value(3), "cols": value(2)}, ("packed",)),
}
EACH = [pytest.param(op, name, id=f"{op}-{name}") for op, (_, required) in CALLS.items() for name in required]
OUT_OVERLOADS = [op for op in CALLS if op.endswith(".out")]
PUBLIC = [op for op in CALLS if not op.startswith("_") and op not in OUT_OVERLOADS]


def overload(op: str) -> Any:
    name, _, which = op.partition(".")
    return getattr(getattr(torch.ops.tileon, name), which or "default")


def made(op: str, device: torch.device | str = "cpu", /, **replaced: Any) -> dict[str, Any]:
    arguments, _ = CALLS[op]
    return {
        name: replaced[name] if name in replaced else make(torch.device(device)) for name, make in arguments.items()
    }


def message(function: Callable[..., Any], arguments: dict[str, Any]) -> str:
    with pytest.raises(RuntimeError) as caught:
        function(**arguments)
    assert type(caught.value) is RuntimeError
    return str(caught.value)


# Whose rules a private op shares. `prepared_b` is a rule of its own.
SPEAKERS = {
    "_matmul_with_preactivation": "matmul",
    "_block_scaled_matmul_prepared": "block_scaled_matmul",
    "_quantize_nvfp4_rows": "quantize",
    "_round_to_format": "quantize",
    "_quantized_linear": "block_scaled_matmul",
}

# Ops whose `scale_a` may be None, and must be a tensor only where `a` is codes, as it is in CALLS.
TAKES_NO_SCALE_A = ("block_scaled_matmul", "block_scaled_matmul.out")


def expected(op: str, name: str, got: str = "None") -> str:
    speaker = op.partition(".")[0] if name == "prepared_b" else SPEAKERS.get(op, op.partition(".")[0])
    if (op, name) == ("_quantized_linear", "x"):
        speaker = "quantize"
    where = " where `a` is float8_e4m3fn" if got == "None" and name == "scale_a" and op in TAKES_NO_SCALE_A else ""
    return f"{speaker}: `{name}` must be a tensor{where}, got {got}"


MODES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "plain": nullcontext,
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "fake": FakeTensorMode,
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("op", "name"), EACH)
def test_none_is_refused_in_every_mode(mode: str, op: str, name: str) -> None:
    with MODES[mode]():
        arguments = made(op, **{name: None})
        assert message(overload(op), arguments) == expected(op, name)


@pytest.mark.parametrize(("op", "name"), EACH)
def test_none_is_refused_beside_meta_tensors(op: str, name: str) -> None:
    assert message(overload(op), made(op, "meta", **{name: None})) == expected(op, name)


@pytest.mark.gpu
@pytest.mark.parametrize(("op", "name"), EACH)
def test_none_is_refused_beside_tensors_on_a_gpu(op: str, name: str) -> None:
    assert message(overload(op), made(op, "cuda", **{name: None})) == expected(op, name)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("op", CALLS)
def test_a_call_without_any_tensor_names_the_first(mode: str, op: str) -> None:
    """The dispatcher finds no device among its arguments."""
    _, required = CALLS[op]
    with MODES[mode]():
        assert message(overload(op), made(op, "cpu", **dict.fromkeys(required))) == expected(op, required[0])


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("op", ["matmul", "matmul.out", "block_scaled_matmul", "block_scaled_matmul.out", "dequantize"])
def test_none_for_an_operand_is_refused_before_any_other_rule(op: str, device: str) -> None:
    """The last operand is missing, and the first has a shape that is refused too."""
    operands = [name for name in CALLS[op][1] if name != "out"]
    arguments = made(op, device, **{operands[-1]: None, operands[0]: torch.ones((), device=device)})
    assert message(overload(op), arguments) == expected(op, operands[-1])


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("op", OUT_OVERLOADS)
def test_none_for_out_is_refused_after_what_is_wrong_with_the_operands(op: str, device: str) -> None:
    arguments = made(op, device, a=torch.ones((), device=device), out=None)
    assert "`a` must be 2-D" in message(overload(op), arguments)


@pytest.mark.parametrize("name", ["a", "b"])
def test_none_is_refused_where_the_other_operand_requires_grad(name: str) -> None:
    arguments = {other: None if other == name else torch.ones(3, 3, requires_grad=True) for other in ("a", "b")}
    for function in (torch.ops.tileon.matmul, tileon_ops.matmul):
        assert message(function, arguments) == expected("matmul", name)


@pytest.mark.parametrize("name", ["a", "b"])
def test_none_is_refused_under_torch_func(name: str) -> None:
    def product(x: Tensor) -> Tensor:
        result: Tensor = torch.ops.tileon.matmul(*(None if which == name else x for which in ("a", "b"))).sum()
        return result

    for transformed in (torch.func.vmap(product), torch.func.grad(product)):
        with pytest.raises(RuntimeError, match=re.escape(expected("matmul", name))):
            transformed(torch.ones(3, 3, 3))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_no_scale_is_required_where_a_has_16_bits(mode: str, dtype: torch.dtype) -> None:
    with MODES[mode]():
        numbers = {"a": torch.ones(3, 64, dtype=dtype), "scale_a": None}
        assert overload("block_scaled_matmul")(**made("block_scaled_matmul", **numbers)).shape == (3, 5)
        out = torch.empty(3, 5, dtype=dtype)
        assert overload("block_scaled_matmul.out")(**made("block_scaled_matmul.out", **numbers, out=out)) is None


@pytest.mark.parametrize(
    ("a", "words"),
    [
        (ones(3, 32, dtype=U8), "must be a tensor where `a` is uint8, got None"),
        (ones(3, 64, dtype=torch.float8_e5m2), "must be a tensor where `a` is float8_e5m2, got None"),
    ],
    ids=["fp4", "e5m2"],
)
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_scale_is_required_of_any_codes(device: str, a: Make, words: str) -> None:
    arguments = made("block_scaled_matmul", device, a=a(torch.device(device)), scale_a=None)
    assert message(overload("block_scaled_matmul"), arguments) == f"block_scaled_matmul: `scale_a` {words}"


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_scale_is_refused_beside_numbers(device: str) -> None:
    arguments = made("block_scaled_matmul", device, a=torch.ones(3, 64, dtype=torch.bfloat16, device=device))
    assert message(overload("block_scaled_matmul"), arguments) == (
        "block_scaled_matmul: `scale_a` must be None where `a` is bfloat16, which is multiplied as it is"
    )


@pytest.mark.parametrize("op", OUT_OVERLOADS)
def test_nothing_is_written(op: str) -> None:
    out = made(op)["out"].fill_(7)
    message(overload(op), made(op, out=out, b=None))
    assert bool((out == 7).all())


NOT_TENSORS = [
    (np.ones((4, 4), dtype=np.float32), "numpy.ndarray"),
    ([[1.0]], "list"),
    (1.0, "float"),
    (None, "None"),
]


@pytest.mark.parametrize(("thing", "kind"), NOT_TENSORS, ids=[kind for _, kind in NOT_TENSORS])
@pytest.mark.parametrize(
    ("op", "name"), [pytest.param(op, name, id=f"{op}-{name}") for op in PUBLIC for name in CALLS[op][1]]
)
def test_python_functions_say_what_came_in_place_of_a_tensor(op: str, name: str, thing: object, kind: str) -> None:
    assert message(getattr(tileon_ops, op), made(op, "cpu", **{name: thing})) == expected(op, name, kind)


@pytest.mark.parametrize(
    ("op", "name"),
    [
        ("matmul", "bias"),
        ("matmul", "out"),
        ("block_scaled_matmul", "bias"),
        ("block_scaled_matmul", "global_scale"),
        ("block_scaled_matmul", "out"),
        ("quantize", "global_scale"),
        ("dequantize", "global_scale"),
    ],
)
def test_python_functions_say_it_of_a_tensor_that_may_be_left_out(op: str, name: str) -> None:
    arguments = {**made(op), name: np.ones(4, dtype=np.float32)}
    assert message(getattr(tileon_ops, op), arguments) == expected(op, name, "numpy.ndarray")


def test_operands_of_one_dimension_are_told_apart_from_things_that_are_no_tensors() -> None:
    assert message(tileon_ops.matmul, {"a": torch.ones(3), "b": np.ones(3)}) == expected("matmul", "b", "numpy.ndarray")
    assert tileon_ops.matmul(torch.ones(3), torch.ones(3)) == 3


def test_a_global_scale_is_of_a_tensor() -> None:
    text = message(tileon_ops.nvfp4_global_scale, {"x": np.ones(3, dtype=np.float32)})
    assert text == expected("nvfp4_global_scale", "x", "numpy.ndarray")


def test_the_cause_is_told_without_the_error_that_told_of_it() -> None:
    with pytest.raises(RuntimeError) as caught:
        tileon_ops.matmul(None, torch.ones(3, 3))  # type: ignore[arg-type]
    assert caught.value.__suppress_context__


@pytest.mark.filterwarnings("ignore:.*(Sparse CSR|quantized tensor)")
class TestNoKernel:
    """Tensors that no kernel reads get a line of ours, not the dispatcher's table of all its kernels."""

    def test_of_a_sparse_tensor(self) -> None:
        a = torch.eye(3)
        for op, sparse in ((torch.ops.tileon.matmul, a.to_sparse()), (tileon_ops.matmul, a.to_sparse_csr())):
            text = message(op, {"a": a, "b": sparse})
            assert text == f"matmul: `b` must be strided, got a tensor of layout {sparse.layout}"

    def test_of_a_quantized_tensor(self) -> None:
        a = torch.quantize_per_tensor(torch.eye(3), 1.0, 0, torch.qint8)
        text = message(torch.ops.tileon.matmul, {"a": a, "b": a})
        assert text == "matmul: there are no kernels for tensors as `a` is, torch.qint8"
