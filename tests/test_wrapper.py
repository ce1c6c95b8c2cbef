"""`tileon_ops.matmul`: torch.matmul's shapes, `out=`, torch's TF32 setting, autocast."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from operands import integers, normal
from reference import ACTIVATIONS, MATMUL_DTYPES, activate, assert_exact
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import tileon_ops

SHAPES = [
    ((3,), (3,)),
    ((0,), (0,)),
    ((2, 3), (3,)),
    ((3,), (3, 4)),
    ((5, 2, 3), (3,)),
    ((6, 5, 2, 3), (3,)),
    ((3,), (5, 3, 4)),
    ((3,), (6, 5, 3, 4)),
    ((2, 3), (3, 4)),
    ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)),
    ((5, 2, 3), (5, 3, 4)),
    ((1, 2, 3), (5, 3, 4)),
    ((5, 2, 3), (1, 3, 4)),
    ((6, 5, 2, 3), (3, 4)),
    ((6, 5, 2, 3), (5, 3, 4)),
    ((5, 2, 3), (6, 5, 3, 4)),
    ((6, 1, 2, 3), (5, 3, 4)),
    ((6, 1, 2, 3), (1, 5, 3, 4)),
    ((1, 5, 2, 3), (6, 1, 3, 4)),
    ((6, 5, 2, 3), (6, 5, 3, 4)),
    ((7, 1, 5, 2, 3), (6, 1, 3, 4)),
    ((1, 1, 2, 3), (3, 4)),
    ((2, 3), (1, 1, 3, 4)),
    ((0, 2, 3), (3, 4)),
    ((6, 0, 2, 3), (1, 3, 4)),
    ((5, 0, 3), (3, 4)),
    ((5, 2, 0), (0, 4)),
    ((5, 2, 3), (5, 3, 0)),
    ((2, 0), (0,)),
]


class TestShapes:
    @pytest.mark.parametrize("dtype", MATMUL_DTYPES, ids=str)
    @pytest.mark.parametrize(("shape_a", "shape_b"), SHAPES, ids=str)
    def test_are_torchs(
        self, device: torch.device, shape_a: tuple[int, ...], shape_b: tuple[int, ...], dtype: torch.dtype
    ) -> None:
        a = integers(*shape_a, dtype=dtype, device=device)
        b = integers(*shape_b, dtype=dtype, device=device, seed=1)
        expected = torch.matmul(a.double(), b.double())
        actual = tileon_ops.matmul(a, b)
        assert_exact(actual, expected, dtype)
        assert actual.is_contiguous()

    @pytest.mark.parametrize("activation", ACTIVATIONS)
    @pytest.mark.parametrize(("shape_a", "shape_b"), [s for s in SHAPES if len(s[1]) > 1], ids=str)
    def test_with_bias_and_activation(
        self, device: torch.device, shape_a: tuple[int, ...], shape_b: tuple[int, ...], activation: str
    ) -> None:
        a = integers(*shape_a, dtype=torch.float64, device=device)
        b = integers(*shape_b, dtype=torch.float64, device=device, seed=1)
        bias = integers(shape_b[-1], dtype=torch.float64, device=device, seed=2)
        expected = activate(torch.matmul(a, b) + bias, activation, 0.3)
        actual = tileon_ops.matmul(a, b, bias, activation=activation, slope=0.3)
        torch.testing.assert_close(actual, expected, rtol=1e-13, atol=1e-13)

    @pytest.mark.parametrize(("shape_a", "shape_b"), SHAPES, ids=str)
    def test_of_views(self, device: torch.device, shape_a: tuple[int, ...], shape_b: tuple[int, ...]) -> None:
        """Transposed and broadcast operands, which cannot all be folded by a view."""
        a = integers(*reversed(shape_a), dtype=torch.float32, device=device).permute(*reversed(range(len(shape_a))))
        b = integers(*reversed(shape_b), dtype=torch.float32, device=device, seed=1).permute(
            *reversed(range(len(shape_b)))
        )
        assert_exact(tileon_ops.matmul(a, b), torch.matmul(a.double(), b.double()), torch.float32)
        a, b = a[..., :1].expand(shape_a), b[..., :1].expand(shape_b)
        assert_exact(tileon_ops.matmul(a, b), torch.matmul(a.double(), b.double()), torch.float32)

    @pytest.mark.parametrize(
        ("shape_a", "shape_b"),
        [
            ((), (3,)),
            ((3,), ()),
            ((3,), (4,)),
            ((2, 3), (4,)),
            ((3,), (4, 5)),
            ((2, 3), (4, 5)),
            ((2, 2, 3), (3, 3, 4)),
            ((6, 2, 2, 3), (5, 2, 3, 4)),
        ],
        ids=str,
    )
    def test_that_torch_refuses_are_refused(
        self, device: torch.device, shape_a: tuple[int, ...], shape_b: tuple[int, ...]
    ) -> None:
        a, b = torch.ones(shape_a, device=device), torch.ones(shape_b, device=device)
        with pytest.raises(RuntimeError):
            torch.matmul(a, b)
        with pytest.raises(RuntimeError, match=r"^matmul: "):
            tileon_ops.matmul(a, b)

    def test_a_shared_weight_makes_one_product(self, device: torch.device) -> None:
        """(6, 5, 2, 3) x (3, 4) is one product of 60 rows, not 30 of two."""
        calls = recorded_calls(
            lambda: tileon_ops.matmul(torch.ones(6, 5, 2, 3, device=device), torch.ones(3, 4, device=device))
        )
        assert len(calls) == 1
        a, b = calls[0][0][:2]
        assert a.reshape(-1, 3).shape[0] == 60
        assert b.shape == (3, 4)

    def test_a_weight_for_each_of_a_few_makes_a_batch_of_those(self, device: torch.device) -> None:
        """(6, 5, 2, 3) x (6, 1, 3, 4) is 6 products of 10 rows, with nothing copied."""
        a, b = torch.ones(6, 5, 2, 3, device=device), torch.ones(6, 1, 3, 4, device=device)
        (((got_a, got_b, *_), _),) = recorded_calls(lambda: tileon_ops.matmul(a, b))
        assert (got_a.shape, got_b.shape) == ((6, 10, 3), (6, 3, 4))
        assert (got_a.data_ptr(), got_b.data_ptr()) == (a.data_ptr(), b.data_ptr())

    def test_a_batch_that_is_no_rows_by_a_view_is_not_copied(self, device: torch.device) -> None:
        """Transposed matrices, one weight: a batch that shares it."""
        a, b = torch.ones(6, 5, 3, 2, device=device).mT, torch.ones(3, 4, device=device)
        (((got_a, *_), _),) = recorded_calls(lambda: tileon_ops.matmul(a, b))
        assert got_a.shape == (30, 2, 3)
        assert got_a.data_ptr() == a.data_ptr()


class Recorder(TorchDispatchMode):
    """Notes every call of a tileon op."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "tileon":
            self.calls.append((args, kwargs or {}))
        return func(*args, **(kwargs or {}))


def recorded_calls(run: Any) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    with Recorder() as recorder:
        run()
    return recorder.calls


class TestOut:
    @pytest.mark.parametrize(("shape_a", "shape_b"), SHAPES, ids=str)
    def test_is_filled_and_returned(
        self, device: torch.device, shape_a: tuple[int, ...], shape_b: tuple[int, ...]
    ) -> None:
        a, b = (
            integers(*shape_a, dtype=torch.float32, device=device),
            integers(*shape_b, dtype=torch.float32, device=device, seed=1),
        )
        expected = torch.matmul(a.double(), b.double())
        out = torch.full(expected.shape, float("nan"), device=device)
        assert tileon_ops.matmul(a, b, out=out) is out
        assert_exact(out, expected, torch.float32)

    def test_may_be_strided(self, device: torch.device) -> None:
        a, b = (
            integers(4, 5, 6, dtype=torch.float32, device=device),
            integers(6, 7, dtype=torch.float32, device=device, seed=1),
        )
        out = torch.full((4, 5, 14), float("nan"), device=device)[..., ::2]
        assert tileon_ops.matmul(a, b, activation="relu", out=out) is out
        assert_exact(out, (a.double() @ b.double()).relu(), torch.float32)

    def test_of_four_dimensions_may_be_strided(self, device: torch.device) -> None:
        a, b = (
            integers(2, 3, 5, 6, dtype=torch.float32, device=device),
            integers(2, 3, 6, 7, dtype=torch.float32, device=device, seed=1),
        )
        out = torch.full((3, 2, 7, 5), float("nan"), device=device).permute(1, 0, 3, 2)
        assert tileon_ops.matmul(a, b, out=out) is out
        assert_exact(out, a.double() @ b.double(), torch.float32)

    @pytest.mark.parametrize("strides", [(0, 35, 7, 1), (105, 35, 7, 0), (105, 35, 1, 1), (1, 35, 7, 1)], ids=str)
    def test_of_four_dimensions_that_overlaps_itself_is_refused(
        self, device: torch.device, strides: tuple[int, ...]
    ) -> None:
        a, b = torch.ones(2, 3, 5, 6, device=device), torch.ones(2, 3, 6, 7, device=device)
        out = torch.full((400,), 7.0, device=device).as_strided((2, 3, 5, 7), strides)
        with pytest.raises(RuntimeError, match=r"^matmul: .*`out`.*overlap"):
            tileon_ops.matmul(a, b, out=out)
        assert bool((out == 7).all())

    def test_of_four_dimensions_that_overlaps_an_operand_is_refused(self, device: torch.device) -> None:
        storage = torch.ones(2000, device=device)
        a = storage[:360].view(2, 3, 10, 6)[:, :, ::2]
        b = torch.ones(2, 3, 6, 7, device=device)
        for out in (storage[300:510].view(2, 3, 5, 7), storage[300:510].view(3, 2, 7, 5).permute(1, 0, 3, 2)):
            with pytest.raises(RuntimeError, match=r"^matmul: .*`out`.*overlap.*`a`"):
                tileon_ops.matmul(a, b, out=out)
        assert bool((storage == 1).all())

    def test_takes_its_dtype_from_out_dtype(self, device: torch.device) -> None:
        a = integers(4, 4, dtype=torch.float16, device=device)
        out = torch.empty(4, 4, device=device)
        tileon_ops.matmul(a, a, out_dtype=torch.float32, out=out)
        assert_exact(out, a.double() @ a.double(), torch.float32)

    def test_refuses_gradients(self, device: torch.device) -> None:
        a = torch.ones(3, 3, device=device, requires_grad=True)
        with pytest.raises(RuntimeError, match=r"requires? grad|differentiation"):
            tileon_ops.matmul(a, a, out=torch.empty(3, 3, device=device))


class TestTf32:
    @pytest.mark.parametrize("setting", [False, True])
    def test_none_takes_torchs_setting(self, device: torch.device, setting: bool) -> None:
        a = torch.ones(4, 4, device=device)
        torch.backends.cuda.matmul.allow_tf32 = setting
        try:
            for given, expected in ((None, setting), (True, True), (False, False)):
                (call,) = recorded_calls(lambda: tileon_ops.matmul(a, a, allow_tf32=given))  # noqa: B023
                assert call[1].get("allow_tf32", False) is expected
        finally:
            torch.backends.cuda.matmul.allow_tf32 = False

    @pytest.mark.gpu
    def test_changes_the_kernel(self) -> None:
        a = torch.ones(256, 256, device="cuda")
        tileon_ops.matmul(a, a, allow_tf32=True)
        fast = torch.ops.tileon._last_kernel()
        tileon_ops.matmul(a, a)
        assert torch.ops.tileon._last_kernel() != fast


AUTOCAST_DTYPES = (torch.bfloat16, torch.float16)


class TestAutocast:
    @pytest.mark.parametrize("to", AUTOCAST_DTYPES, ids=str)
    @pytest.mark.parametrize("op", [tileon_ops.matmul, torch.ops.tileon.matmul], ids=["wrapper", "op"])
    def test_operands_take_its_dtype(self, device: torch.device, op: Any, to: torch.dtype) -> None:
        for dtype_a, dtype_b in ((torch.float32, torch.float32), (torch.float32, to), (to, torch.float32), (to, to)):
            a, b = normal(5, 6, dtype=dtype_a, device=device), normal(6, 7, dtype=dtype_b, device=device, seed=1)
            with torch.autocast(device.type, dtype=to):
                actual = op(a, b)
            assert actual.dtype == to
            assert torch.equal(actual, op(a.to(to), b.to(to)))

    @pytest.mark.parametrize("to", AUTOCAST_DTYPES, ids=str)
    def test_with_a_float32_bias(self, device: torch.device, to: torch.dtype) -> None:
        a, b = (
            normal(5, 6, dtype=torch.float32, device=device),
            normal(6, 7, dtype=torch.float32, device=device, seed=1),
        )
        bias = normal(7, dtype=torch.float32, device=device, seed=2)
        with torch.autocast(device.type, dtype=to):
            actual = tileon_ops.matmul(a, b, bias, activation="relu")
            torchs = torch.nn.functional.linear(a, b.t(), bias).relu()
        assert actual.dtype == torchs.dtype == to
        torch.testing.assert_close(actual, torchs, rtol=2e-2, atol=2e-2)

    def test_float64_is_left_alone(self, device: torch.device) -> None:
        a = normal(5, 5, dtype=torch.float64, device=device)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            actual = tileon_ops.matmul(a, a)
        assert actual.dtype == torch.float64
        assert torch.equal(actual, tileon_ops.matmul(a, a))

    def test_gradients_come_back_in_the_operands_dtype(self, device: torch.device) -> None:
        a = normal(5, 6, dtype=torch.float32, device=device).requires_grad_()
        b = normal(6, 7, dtype=torch.float32, device=device).requires_grad_()
        with torch.autocast(device.type, dtype=torch.bfloat16):
            result = tileon_ops.matmul(a, b, activation="gelu")
        result.float().sum().backward()
        assert a.grad is not None
        assert b.grad is not None
        assert a.grad.dtype == b.grad.dtype == torch.float32

    def test_is_off_by_default(self, device: torch.device) -> None:
        a = normal(5, 5, dtype=torch.float32, device=device)
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=False):
            assert tileon_ops.matmul(a, a).dtype == torch.float32


def test_the_wrapper_is_the_op_on_two_matrices(device: torch.device) -> None:
    a: Tensor = normal(65, 33, dtype=torch.float32, device=device)
    assert torch.equal(
        tileon_ops.matmul(a, a.t(), activation="silu"), torch.ops.tileon.matmul(a, a.t(), activation="silu")
    )
