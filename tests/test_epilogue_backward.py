"""The private ops behind the gradients of matmul: `_epilogue_backward` and `_matmul_with_preactivation`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from operands import in_layout, integers, normal, place
from reference import ACTIVATIONS, DTYPE_PAIRS, activate
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

import tileon_ops  # noqa: F401  (registers the ops)

epilogue_backward = torch.ops.tileon._epilogue_backward
with_preactivation = torch.ops.tileon._matmul_with_preactivation

OPCHECK_TESTS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")

# (gradient, grad_z): what a product's output and its operands may be
GRADIENT_PAIRS = tuple((out, operand) for operand, out in DTYPE_PAIRS)
ROUNDING = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8, torch.float32: 2.0**-24, torch.float64: 2.0**-53}

SHAPES = (
    (1, 8),  # one lane of one warp
    (3, 5),  # no whole vector
    (7, 264),  # a second CTA of one vector
    (65, 256),  # one row more than whole turns of the warps
    (700, 40),  # many shares of the rows
    (2, 33, 24),
    (3, 5, 7),
)


def derived(grad: Tensor, z: Tensor, activation: str, slope: float) -> Tensor:
    """grad * activation'(z) in float64, by torch's autograd."""
    z = z.double().clone().requires_grad_()
    (result,) = torch.autograd.grad(activate(z, activation, slope), z, grad.double())
    return result


def kept_of(z: Tensor, activation: str, slope: float) -> Tensor | None:
    """What the op is given of an activation: its output where that tells the derivative."""
    if activation == "none":
        return None
    return activate(z, activation, slope) if activation in ("relu", "leaky_relu") else z


def expanded(grad: Tensor) -> Tensor:
    return grad[..., :1, :1].expand(grad.shape)


GRADIENT_LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "contiguous": lambda grad: grad,
    "expanded": expanded,
    "one row": lambda grad: grad[..., :1, :].expand(grad.shape),
    "one column": lambda grad: grad[..., :1].expand(grad.shape),
    "transposed": lambda grad: place(grad, transposed=True).view,
    "padded": lambda grad: place(grad, pad=8).view,
    "misaligned": lambda grad: place(grad, offset=1).view,
    "strided": lambda grad: place(grad, step=2, pad=3).view,
    "batch last": lambda grad: place(grad, batch_last=True).view,
}


class TestEpilogueBackward:
    @pytest.mark.parametrize("layout", GRADIENT_LAYOUTS)
    @pytest.mark.parametrize("shape", SHAPES, ids=str)
    def test_every_shape_and_layout_exactly(self, device: torch.device, shape: tuple[int, ...], layout: str) -> None:
        """Small integers and slope 1/2: grad_z and its sum have no rounding at all."""
        for dtype, activation in ((torch.float32, "relu"), (torch.float16, "leaky_relu"), (torch.bfloat16, "none")):
            grad = GRADIENT_LAYOUTS[layout](2 * integers(*shape, dtype=dtype, device=device))
            z = integers(*shape, dtype=dtype, device=device, seed=1)
            expected = derived(grad, z, activation, 0.5)
            grad_z, grad_bias = epilogue_backward(
                grad,
                kept_of(z, activation, 0.5),
                activation=activation,
                slope=0.5,
                out_dtype=dtype,
                bias_dtype=torch.float32,
            )
            assert (grad_z.dtype, grad_z.shape) == (dtype, grad.shape)
            assert grad_z.is_contiguous()
            assert torch.equal(grad_z.double(), expected)
            assert torch.equal(grad_bias.double(), expected.flatten(0, -2).sum(0))

    @pytest.mark.parametrize("activation", ACTIVATIONS)
    @pytest.mark.parametrize(("grad_dtype", "out_dtype"), GRADIENT_PAIRS, ids=str)
    def test_every_dtype_and_activation(
        self, device: torch.device, grad_dtype: torch.dtype, out_dtype: torch.dtype, activation: str
    ) -> None:
        """One rounding of what float32 holds, for float64 of what float64 holds."""
        shape, slope = (130, 96), 0.3
        grad = normal(*shape, dtype=grad_dtype, device=device)
        z = (3 * normal(*shape, dtype=torch.float32, device=device, seed=1)).to(grad_dtype)
        expected = derived(grad, z, activation, slope)
        bias_dtypes = {grad_dtype, torch.float32}
        for bias_dtype in bias_dtypes:
            grad_z, grad_bias = epilogue_backward(
                grad,
                kept_of(z, activation, slope),
                activation=activation,
                slope=slope,
                out_dtype=out_dtype,
                bias_dtype=bias_dtype,
            )
            assert (grad_z.dtype, grad_bias.dtype) == (out_dtype, bias_dtype)
            accumulator = ROUNDING[torch.float64 if grad_dtype == torch.float64 else torch.float32]
            formula = 32 * accumulator * (grad.double().abs() * (1 + z.double().abs()))  # a dozen operations
            bound = formula + ROUNDING[out_dtype] * expected.abs() + 2.0**-24  # float16's subnormals
            assert bool(((grad_z.double() - expected).abs() <= bound).all())
            total, terms = expected.sum(0), expected.abs().sum(0)
            bound = formula.sum(0) + 140 * accumulator * terms + ROUNDING[bias_dtype] * total.abs()
            assert bool(((grad_bias.double() - total).abs() <= bound).all())

    @pytest.mark.parametrize("shape", [(0, 5), (5, 0), (2, 0, 3), (0, 4, 3)], ids=str)
    def test_sizes_of_zero(self, device: torch.device, shape: tuple[int, ...]) -> None:
        grad = torch.ones(shape, device=device)
        grad_z, grad_bias = epilogue_backward(
            grad, grad, activation="relu", slope=0.0, out_dtype=torch.float32, bias_dtype=torch.float32
        )
        assert grad_z.shape == grad.shape
        assert torch.equal(grad_bias, torch.zeros(shape[-1], device=device))

    def test_without_a_bias_the_second_result_is_empty(self, device: torch.device) -> None:
        grad = integers(9, 16, dtype=torch.float32, device=device)
        grad_z, nothing = epilogue_backward(grad, grad, activation="relu", slope=0.0, out_dtype=torch.float16)
        assert torch.equal(grad_z.double(), torch.where(grad > 0, grad, 0).double())
        assert nothing.shape == (0,)

    @pytest.mark.parametrize("activation", ["relu", "leaky_relu"])
    def test_infinities_and_nan_are_torchs(self, device: torch.device, activation: str) -> None:
        special = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0, -1.0], device=device)
        grad, kept = special.repeat(7, 1), special.repeat(7, 1).t().contiguous()
        grad_z, _ = epilogue_backward(grad, kept, activation=activation, slope=0.25, out_dtype=torch.float32)
        aten = torch.ops.aten
        expected = (
            aten.threshold_backward(grad, kept, 0)
            if activation == "relu"
            else aten.leaky_relu_backward(grad, kept, 0.25, True)
        )
        torch.testing.assert_close(grad_z, expected, rtol=0, atol=0, equal_nan=True)

    def test_saved_may_be_strided(self, device: torch.device) -> None:
        grad = integers(6, 10, dtype=torch.float32, device=device)
        z = integers(6, 10, dtype=torch.float32, device=device, seed=1)
        grad_z, _ = epilogue_backward(
            grad, place(z, transposed=True, pad=1).view, activation="relu", slope=0.0, out_dtype=torch.float32
        )
        assert torch.equal(grad_z, torch.where(z > 0, grad, 0))

    def test_saved_may_begin_anywhere(self, device: torch.device) -> None:
        """A hook on saved tensors may hand back a view into a buffer of its own: contiguous, at no vector's address."""
        for dtype in (torch.float16, torch.float32, torch.float64):
            grad = integers(6, 16, dtype=dtype, device=device)
            z = place(integers(6, 16, dtype=dtype, device=device, seed=1), offset=1).view
            assert z.is_contiguous()
            grad_z, _ = epilogue_backward(grad, z, activation="relu", slope=0.0, out_dtype=dtype)
            assert torch.equal(grad_z, torch.where(z > 0, grad, 0))

    def test_the_same_bits_every_time(self, device: torch.device) -> None:
        grad = normal(1500, 520, dtype=torch.bfloat16, device=device)
        z = normal(1500, 520, dtype=torch.bfloat16, device=device, seed=1)
        first, *others = (
            epilogue_backward(grad, z, activation="gelu", slope=0.0, out_dtype=torch.bfloat16, bias_dtype=torch.float32)
            for _ in range(4)
        )
        for other in others:
            assert torch.equal(first[0], other[0])
            assert torch.equal(first[1], other[1])

    def test_is_not_differentiable(self, device: torch.device) -> None:
        grad = torch.ones(3, 4, device=device, requires_grad=True)
        with pytest.raises(RuntimeError, match="_epilogue_backward: `grad` requires grad"):
            epilogue_backward(grad, grad, activation="relu", slope=0.0, out_dtype=torch.float32)

    @pytest.mark.parametrize("bias_dtype", [None, torch.float32])
    @pytest.mark.parametrize("activation", ["none", "gelu"])
    def test_opcheck(self, device: torch.device, activation: str, bias_dtype: torch.dtype | None) -> None:
        for shape in ((5, 8), (2, 3, 8)):
            grad = normal(*shape, dtype=torch.float16, device=device)
            options = {"activation": activation, "slope": 0.0, "out_dtype": torch.float16, "bias_dtype": bias_dtype}
            torch.library.opcheck(
                epilogue_backward.default,
                (grad, None if activation == "none" else grad),
                options,
                test_utils=OPCHECK_TESTS,
            )


def ones(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.ones(shape, dtype=dtype)


BAD_CALLS: dict[str, tuple[Callable[[], tuple[Any, ...]], dict[str, Any], str]] = {
    "grad 1-D": (lambda: (ones(3), ones(3)), {}, r"`grad` must be 2-D .* got 1-D"),
    "grad 4-D": (lambda: (ones(1, 1, 2, 3), ones(1, 1, 2, 3)), {}, r"`grad` must be .* got 4-D"),
    "integers": (
        lambda: (ones(2, 3, dtype=torch.int32), ones(2, 3, dtype=torch.int32)),
        {},
        r"`grad` must be float16, .* got int32",
    ),
    "fp8 out": (
        lambda: (ones(2, 3), ones(2, 3)),
        {"out_dtype": torch.float8_e4m3fn},
        r"`out_dtype` must be .* got float8_e4m3fn",
    ),
    "float64 out": (
        lambda: (ones(2, 3), ones(2, 3)),
        {"out_dtype": torch.float64},
        r".*float64 both or neither.* got float32, float64 and float64",
    ),
    "float64 bias": (lambda: (ones(2, 3), ones(2, 3)), {"bias_dtype": torch.float64}, r".*float64 both or neither"),
    "unknown activation": (
        lambda: (ones(2, 3), ones(2, 3)),
        {"activation": "tanh"},
        r"`activation` must be one of .* got \"tanh\"",
    ),
    "nothing saved": (lambda: (ones(2, 3), None), {}, r"`saved` must be there where there is an activation"),
    "saved for none": (
        lambda: (ones(2, 3), ones(2, 3)),
        {"activation": "none"},
        r"`saved` must be there .* only there",
    ),
    "saved's dtype": (
        lambda: (ones(2, 3), ones(2, 3, dtype=torch.float16)),
        {},
        r"`saved` must have the dtype of `grad`, float32, got float16",
    ),
    "saved's shape": (
        lambda: (ones(2, 3), ones(3, 2)),
        {},
        r"`saved` must have the shape of `grad`, \(2, 3\), got \(3, 2\)",
    ),
    "saved's dimensions": (lambda: (ones(2, 3), ones(1, 2, 3)), {}, r"`saved` must have the shape of `grad`"),
}


class TestErrors:
    @pytest.mark.parametrize("name", BAD_CALLS)
    def test_name_the_argument_and_the_rule_with_data_and_without(self, device: torch.device, name: str) -> None:
        make, replaced, pattern = BAD_CALLS[name]
        options = {"activation": "relu", "slope": 0.0, "out_dtype": torch.float32, **replaced}
        with torch.device(device), pytest.raises(RuntimeError, match=rf"^_epilogue_backward: {pattern}") as real:
            epilogue_backward(*make(), **options)
        with FakeTensorMode(), torch.device(device), pytest.raises(RuntimeError) as fake:
            epilogue_backward(*make(), **options)
        assert str(real.value) == str(fake.value)

    def test_fp8_operands_have_no_preactivation(self, device: torch.device) -> None:
        a = torch.ones(16, 16, device=device).to(torch.float8_e4m3fn)
        with pytest.raises(RuntimeError, match="matmul: the argument of the activation is not kept for fp8"):
            with_preactivation(a, a.t(), activation="gelu")


class TestWithPreactivation:
    @pytest.mark.parametrize("activation", ACTIVATIONS)
    @pytest.mark.parametrize(("dtype", "out_dtype"), DTYPE_PAIRS, ids=str)
    def test_both_results_are_those_of_matmul_alone(
        self, device: torch.device, dtype: torch.dtype, out_dtype: torch.dtype, activation: str
    ) -> None:
        """Bit for bit: y as without z, z as without the activation. The shapes reach every family of kernels."""
        shapes = [(5, 33, 7), (1, 256, 512), (130, 72, 136)]
        if device.type == "cuda":
            shapes += [(512, 2048, 64), (1024, 128, 1536), (300, 4096, 72)]
        for (m, k, n), layout in zip(shapes, ("NN", "NT", "TN", "NT", "NN", "TT"), strict=False):
            a, b = in_layout(
                normal(m, k, dtype=dtype, device=device), normal(k, n, dtype=dtype, device=device, seed=1), layout
            )
            bias = normal(n, dtype=out_dtype, device=device, seed=2)
            options = {"out_dtype": out_dtype, "slope": -0.5}
            y, z = with_preactivation(a, b, bias, activation=activation, **options)
            assert torch.equal(z, torch.ops.tileon.matmul(a, b, bias, **options))
            assert torch.equal(y, torch.ops.tileon.matmul(a, b, bias, activation=activation, **options))

    def test_batches_and_sizes_of_zero(self, device: torch.device) -> None:
        for a_shape, b_shape in (((3, 5, 4), (4, 6)), ((5, 4), (3, 4, 6)), ((0, 4), (4, 6)), ((5, 0), (0, 6))):
            a = integers(*a_shape, dtype=torch.float32, device=device)
            b = integers(*b_shape, dtype=torch.float32, device=device, seed=1)
            y, z = with_preactivation(a, b, activation="relu")
            expected = torch.matmul(a.double(), b.double())
            assert torch.equal(z.double(), expected)
            assert torch.equal(y.double(), expected.relu())

    def test_opcheck(self, device: torch.device) -> None:
        for activation in ("gelu", "none", "relu"):
            a, b = (normal(6, 6, dtype=torch.float32, device=device, seed=i).requires_grad_() for i in range(2))
            torch.library.opcheck(
                with_preactivation.default, (a, b), {"activation": activation}, test_utils=OPCHECK_TESTS
            )

    @pytest.mark.parametrize("activation", ACTIVATIONS)
    def test_is_differentiable_through_both_results(self, device: torch.device, activation: str) -> None:
        def op(a: Tensor, b: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
            y, z = with_preactivation(a, b, bias, activation=activation, slope=0.3)
            return y, z

        tensors = [
            normal(*shape, dtype=torch.float64, device=device, seed=i).requires_grad_()
            for i, shape in enumerate(((3, 4), (4, 5), (5,)))
        ]
        assert torch.autograd.gradcheck(op, tensors)
        assert torch.autograd.gradgradcheck(op, tensors)
