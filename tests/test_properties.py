"""Random shapes, strides, dtypes and epilogues. Runs are reproducible: the examples follow from the test's name."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from operands import full_precision, integers, place
from reference import ACTIVATIONS, DTYPE_PAIRS, MATMUL_DTYPES, activate, assert_exact, check_matmul
from torch import Tensor

import tileon_ops

matmul = torch.ops.tileon.matmul

examples = settings(
    max_examples=200,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

size = st.one_of(
    st.integers(0, 9), st.integers(0, 140), st.sampled_from([15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129])
)
k_size = st.one_of(size, st.sampled_from([255, 256, 257, 1000]))


@dataclass(frozen=True)
class Layout:
    transposed: bool
    pad: int
    step: int
    offset: int
    batch_last: bool
    expanded: tuple[bool, bool, bool]  # batch, rows, columns

    def apply(self, values: Tensor) -> Tensor:
        narrow = values
        for dim, expanded in zip(range(-values.dim(), 0), self.expanded[-values.dim() :], strict=True):
            if expanded and narrow.shape[dim] > 0:
                narrow = narrow.narrow(dim, 0, 1)
        view = place(
            narrow,
            transposed=self.transposed,
            pad=self.pad,
            step=self.step,
            offset=self.offset,
            batch_last=self.batch_last,
        ).view
        return view.expand(values.shape)


rarely = st.sampled_from([False, False, False, True])
layouts = st.builds(
    Layout,
    transposed=st.booleans(),
    pad=st.sampled_from([0, 0, 1, 3, 8]),
    step=st.sampled_from([1, 1, 1, 2, 3]),
    offset=st.sampled_from([0, 0, 1, 2, 4, 7, 8]),
    batch_last=rarely,
    expanded=st.tuples(rarely, rarely, rarely),
)
plain_layouts = st.builds(
    Layout,
    transposed=st.booleans(),
    pad=st.sampled_from([0, 1, 8]),
    step=st.sampled_from([1, 1, 2]),
    offset=st.sampled_from([0, 1, 8]),
    batch_last=rarely,
    expanded=st.just((False, False, False)),
)
batches = st.sampled_from(
    [((), ()), ((), ()), ((3,), (3,)), ((3,), ()), ((), (3,)), ((1,), (3,)), ((3,), (1,)), ((0,), (0,)), ((1,), (1,))]
)


@examples
@given(
    data=st.data(),
    batch=batches,
    m=size,
    n=size,
    k=k_size,
    dtypes=st.sampled_from(DTYPE_PAIRS),
    layout_a=layouts,
    layout_b=layouts,
)
def test_integers_are_exact_under_any_layout(
    device: torch.device,
    data: st.DataObject,
    batch: tuple[tuple[int, ...], tuple[int, ...]],
    m: int,
    n: int,
    k: int,
    dtypes: tuple[torch.dtype, torch.dtype],
    layout_a: Layout,
    layout_b: Layout,
) -> None:
    dtype, out_dtype = dtypes
    a = layout_a.apply(integers(*batch[0], m, k, dtype=dtype, device=device))
    b = layout_b.apply(integers(*batch[1], k, n, dtype=dtype, device=device, seed=1))
    expected = torch.matmul(a.double(), b.double())
    bias = None
    if data.draw(st.booleans(), label="bias"):
        bias_dtype = data.draw(st.sampled_from([out_dtype, torch.float32]), label="bias dtype")
        stride = data.draw(st.sampled_from([0, 1, 2, 5]), label="bias stride")
        storage = integers(n * max(stride, 1) + 1, dtype=bias_dtype, device=device, seed=2, high=9)
        bias = storage.as_strided((n,), (stride,))
        expected = expected + bias.double()
    activation = data.draw(st.sampled_from(["none", "relu", "leaky_relu"]), label="activation")
    expected = activate(expected, activation, -0.5)
    actual = matmul(a, b, bias, activation=activation, slope=-0.5, out_dtype=out_dtype)
    assert actual.is_contiguous()
    assert_exact(actual, expected, out_dtype)

    out = data.draw(plain_layouts, label="out")
    placed = place(
        torch.full_like(actual, float("nan")), transposed=out.transposed, pad=out.pad, step=out.step, offset=out.offset,
        batch_last=out.batch_last,
    )  # fmt: skip
    matmul.out(a, b, bias, activation=activation, slope=-0.5, out_dtype=out_dtype, out=placed.view)
    assert_exact(placed.view, expected, out_dtype)
    assert placed.margin_is_intact()


@examples
@given(
    m=size,
    n=size,
    k=k_size,
    dtypes=st.sampled_from(DTYPE_PAIRS),
    layout_a=layouts,
    layout_b=layouts,
    activation=st.sampled_from(ACTIVATIONS),
    slope=st.floats(-4, 4),
    with_bias=st.booleans(),
    tf32=st.booleans(),
)
def test_random_values_keep_the_bound(
    device: torch.device,
    m: int,
    n: int,
    k: int,
    dtypes: tuple[torch.dtype, torch.dtype],
    layout_a: Layout,
    layout_b: Layout,
    activation: str,
    slope: float,
    with_bias: bool,
    tf32: bool,
) -> None:
    dtype, out_dtype = dtypes
    a = layout_a.apply(full_precision(m, k, dtype=dtype, device=device))
    b = layout_b.apply(full_precision(k, n, dtype=dtype, device=device, seed=1))
    bias = full_precision(n, dtype=out_dtype, device=device, seed=2) if with_bias else None
    actual = matmul(a, b, bias, activation=activation, slope=slope, out_dtype=out_dtype, allow_tf32=tf32)
    uses_tf32 = tf32 and dtype == torch.float32
    check_matmul(actual, a, b, bias, activation=activation, slope=slope, out_dtype=out_dtype, tf32=uses_tf32)


small = st.integers(0, 5)
batch_shape = st.lists(st.integers(1, 4), max_size=3)


@examples
@given(data=st.data(), m=small, n=small, k=small, batch=batch_shape, dtype=st.sampled_from(MATMUL_DTYPES))
def test_the_wrapper_broadcasts_as_torch_does(
    device: torch.device, data: st.DataObject, m: int, n: int, k: int, batch: list[int], dtype: torch.dtype
) -> None:
    def one_side(label: str) -> list[int]:
        kept = batch[data.draw(st.integers(0, len(batch)), label=f"{label} drops") :]
        return [1 if data.draw(st.booleans(), label=f"{label} is broadcast") else length for length in kept]

    shape_a, shape_b = [*one_side("a"), m, k], [*one_side("b"), k, n]
    if len(shape_a) == 2 and data.draw(st.booleans(), label="a is a vector"):
        shape_a = [k]
    if len(shape_b) == 2 and data.draw(st.booleans(), label="b is a vector"):
        shape_b = [k]
    a, b = integers(*shape_a, dtype=dtype, device=device), integers(*shape_b, dtype=dtype, device=device, seed=1)
    assert_exact(tileon_ops.matmul(a, b), torch.matmul(a.double(), b.double()), dtype)


@settings(examples, max_examples=60)
@given(
    m=small,
    n=small,
    k=small,
    activation=st.sampled_from(ACTIVATIONS),
    shared=st.sampled_from(["a", "b", "none"]),
    slope=st.floats(-2, 2),
)
def test_gradients_are_torchs(
    device: torch.device, m: int, n: int, k: int, activation: str, shared: str, slope: float
) -> None:
    a = integers(*(() if shared == "a" else (2,)), m, k, dtype=torch.float64, device=device).requires_grad_()
    b = integers(*(() if shared == "b" else (2,)), k, n, dtype=torch.float64, device=device, seed=1).requires_grad_()
    bias = integers(n, dtype=torch.float64, device=device, seed=2).requires_grad_()
    expected = activate(torch.matmul(a, b) + bias, activation, slope)
    actual = matmul(a, b, bias, activation=activation, slope=slope)
    upstream = integers(*expected.shape, dtype=torch.float64, device=device, seed=3)
    for got, wanted in zip(
        torch.autograd.grad(actual, (a, b, bias), upstream),
        torch.autograd.grad(expected, (a, b, bias), upstream),
        strict=True,
    ):
        torch.testing.assert_close(got, wanted, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("dtype", MATMUL_DTYPES, ids=str)
def test_transposing_the_product_swaps_the_operands(device: torch.device, dtype: torch.dtype) -> None:
    """(a b)^T = b^T a^T, exactly on integers."""
    for m, n, k in ((65, 129, 70), (1, 200, 31), (200, 1, 31)):
        a, b = integers(m, k, dtype=dtype, device=device), integers(k, n, dtype=dtype, device=device, seed=1)
        assert torch.equal(matmul(a, b).t(), matmul(b.t(), a.t()))
