"""vmap of `matmul`: one product for all the samples, of operands that are not copied, with a loop's results."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from operands import integers, normal
from reference import ACTIVATIONS, MATMUL_DTYPES, activate, check_matmul
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import tileon_ops

matmul = torch.ops.tileon.matmul

V = 4  # samples
F8 = (torch.float8_e4m3fn, torch.float8_e5m2)


@pytest.fixture(autouse=True)
def _no_fallback() -> Iterator[None]:
    """torch's loop over samples says this of itself."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*performance drop")
        yield


class Recorder(TorchDispatchMode):
    """The calls of tileon's ops, and how many of torch's made memory."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        self.copies: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "tileon":
            self.calls.append((args, kwargs or {}))
        elif func.overloadpacket in (torch.ops.aten.clone, torch.ops.aten.copy_, torch.ops.aten._to_copy):
            self.copies.append(str(func))
        return func(*args, **(kwargs or {}))


def loop(op: Callable[..., Tensor], in_dims: tuple[int | None, ...], tensors: tuple[Tensor, ...]) -> Tensor:
    return torch.stack(
        [op(*(t if d is None else t.select(d, i) for t, d in zip(tensors, in_dims, strict=True))) for i in range(V)]
    )


def stacked(
    shape: tuple[int, ...], dim: int | None, dtype: torch.dtype, device: torch.device, seed: int, *, front: bool = False
) -> Tensor:
    """Samples of a shape, mapped at `dim`; with `front` their memory has V first whatever `dim` is."""
    if dim is None:
        return integers(*shape, dtype=dtype, device=device, seed=seed)
    if front:
        return integers(V, *shape, dtype=dtype, device=device, seed=seed).movedim(0, dim)
    return integers(*shape[:dim], V, *shape[dim:], dtype=dtype, device=device, seed=seed)


SHAPES = (
    ((5, 3), (3, 2)),
    ((6, 5, 3), (3, 2)),
    ((5, 3), (6, 3, 2)),
    ((6, 5, 3), (6, 3, 2)),
    ((1, 5, 3), (6, 3, 2)),
    ((6, 5, 3), (1, 3, 2)),
    ((1, 5, 3), (3, 2)),
    ((5, 3), (1, 3, 2)),
    ((1, 5, 3), (1, 3, 2)),
    ((1, 3), (3, 1)),
)


def dims_of(shape: tuple[int, ...]) -> list[int | None]:
    return [None, *range(len(shape) + 1)]


class TestResults:
    @pytest.mark.parametrize("front", [False, True], ids=["as_mapped", "v_first"])
    @pytest.mark.parametrize(("shape_a", "shape_b"), SHAPES, ids=str)
    def test_are_a_loops_for_every_in_dim(
        self, device: torch.device, shape_a: tuple[int, ...], shape_b: tuple[int, ...], front: bool
    ) -> None:
        for dims in itertools.product(dims_of(shape_a), dims_of(shape_b), (None, "absent", 0, 1)):
            dim_a, dim_b, bias_dim = dims
            if dim_a is None and dim_b is None and bias_dim in (None, "absent"):
                continue
            a = stacked(shape_a, dim_a, torch.float32, device, 0, front=front)
            b = stacked(shape_b, dim_b, torch.float32, device, 1, front=front)
            tensors, in_dims = (a, b), (dim_a, dim_b)
            if bias_dim != "absent":
                tensors = (*tensors, stacked(shape_b[-1:], bias_dim, torch.float32, device, 2))
                in_dims = (*in_dims, bias_dim)

            def op(*tensors: Tensor) -> Tensor:
                return matmul(*tensors, activation="leaky_relu", slope=-0.5)

            with Recorder() as recorder:
                actual = torch.vmap(op, in_dims)(*tensors)
            assert len(recorder.calls) == 1, dims
            assert torch.equal(actual, loop(op, in_dims, tensors)), dims

    @pytest.mark.parametrize("out_dim", [0, 1, 2, -1])
    def test_go_where_out_dims_says(self, device: torch.device, out_dim: int) -> None:
        a, b = (integers(V, 3, 3, dtype=torch.float32, device=device, seed=seed) for seed in (0, 1))
        for in_dims in ((0, 0), (0, None), (None, 0)):
            tensors = tuple(t[0] if d is None else t for t, d in zip((a, b), in_dims, strict=True))
            actual = torch.vmap(matmul, in_dims, out_dims=out_dim)(*tensors)
            assert torch.equal(actual, loop(matmul, in_dims, tensors).movedim(0, out_dim))

    def test_of_nested_maps(self, device: torch.device) -> None:
        """Each operand has the batches that it is mapped over, in either order."""
        a = integers(V, 2, 5, 3, dtype=torch.float64, device=device)
        b = integers(V, 2, 3, 6, dtype=torch.float64, device=device, seed=1)
        bias = integers(V, 2, 6, dtype=torch.float64, device=device, seed=2)
        batches = {"": (0, 0), "v": (slice(None), 0), "w": (0, slice(None)), "vw": (slice(None), slice(None))}
        for of_a, of_b, of_bias in itertools.product(batches, batches, batches):
            if "v" not in of_a + of_b + of_bias or "w" not in of_a + of_b + of_bias:
                continue
            names = (of_a, of_b, of_bias)
            tensors = tuple(t[batches[n]] for t, n in zip((a, b, bias), names, strict=True))
            for outer, inner in (("v", "w"), ("w", "v")):
                out = [0 if outer in n else None for n in names]
                if outer == "w":
                    out = [None if "w" not in n else len(n) - 1 for n in names]
                mapped = torch.vmap(
                    torch.vmap(
                        lambda *t: matmul(*t, activation="silu"), tuple(0 if inner in n else None for n in names)
                    ),
                    tuple(out),
                )
                actual = mapped(*tensors)
                full = [
                    t[{"": (None, None), "v": (slice(None), None), "w": (None,), "vw": ()}[n]]
                    for t, n in zip(tensors, names, strict=True)
                ]
                expected = activate(full[0] @ full[1] + full[2].unsqueeze(-2), "silu", 0).expand(V, 2, 5, 6)
                torch.testing.assert_close(
                    actual, expected if outer == "v" else expected.transpose(0, 1), rtol=1e-12, atol=1e-12
                )

    @pytest.mark.parametrize("dtype", [*MATMUL_DTYPES, *F8], ids=str)
    @pytest.mark.parametrize("in_dims", [(0, 0, 0), (0, None, 0), (None, 0, 0), (None, None, 0), (0, 0, None)], ids=str)
    def test_round_once(self, device: torch.device, dtype: torch.dtype, in_dims: tuple[int | None, ...]) -> None:
        """A mapped bias is added by torch, in float32."""
        out_dtype = torch.float16 if dtype in F8 else dtype
        a, b = normal(V, 5, 70, dtype=dtype, device=device), normal(V, 70, 6, dtype=dtype, device=device, seed=1)
        bias = normal(V, 6, dtype=out_dtype if dtype == torch.float64 else torch.float32, device=device, seed=2)
        tensors = tuple(t[0] if d is None else t for t, d in zip((a, b, bias), in_dims, strict=True))
        for activation in ACTIVATIONS:
            actual = torch.vmap(lambda *t: matmul(*t, activation=activation, slope=0.3), in_dims)(*tensors)  # noqa: B023
            assert actual.dtype == out_dtype
            for i in range(V):
                own = [t if d is None else t[i] for t, d in zip(tensors, in_dims, strict=True)]
                check_matmul(actual[i], *own, activation=activation, slope=0.3)

    @pytest.mark.parametrize("shape", [(0, 3, 2), (5, 0, 2), (5, 3, 0)], ids=str)
    def test_of_no_elements(self, device: torch.device, shape: tuple[int, int, int]) -> None:
        m, k, n = shape
        for in_dims in ((0, 0, 0), (0, None, None), (None, 0, 0), (None, 0, None), (None, None, 0)):
            tensors = tuple(
                torch.ones(*([] if d is None else [V]), *s, device=device)
                for s, d in zip(((m, k), (k, n), (n,)), in_dims, strict=True)
            )
            actual = torch.vmap(matmul, in_dims)(*tensors)
            assert torch.equal(actual, loop(matmul, in_dims, tensors))

    def test_of_no_samples(self, device: torch.device) -> None:
        a, b, bias = torch.ones(5, 3, device=device), torch.ones(3, 2, device=device), torch.ones(2, device=device)
        for which in range(3):
            in_dims = tuple(0 if i == which else None for i in range(3))
            tensors = [t.new_empty(0, *t.shape) if i == which else t for i, t in enumerate((a, b, bias))]
            assert torch.vmap(matmul, in_dims)(*tensors).shape == (0, 5, 2)

    @pytest.mark.parametrize("chunk_size", [1, 3, 4])
    def test_of_chunks(self, device: torch.device, chunk_size: int) -> None:
        a, b = (integers(V, 3, 3, dtype=torch.float32, device=device, seed=s) for s in (0, 1))
        assert torch.equal(torch.vmap(matmul, chunk_size=chunk_size)(a, b), matmul(a, b))

    def test_of_the_wrapper(self, device: torch.device) -> None:
        """Per sample it takes torch.matmul's shapes."""
        shapes = (((3,), (3, 2)), ((5, 3), (3,)), ((3,), (3,)), ((6, 5, 3), (3, 2)), ((7, 6, 5, 3), (6, 3, 2)))
        for (shape_a, shape_b), dim_a, dim_b in itertools.product(shapes, (None, 0, -1), (None, 0, -1)):
            if dim_a is None and dim_b is None:
                continue
            a = stacked(shape_a, dim_a and len(shape_a), torch.float64, device, 0)
            b = stacked(shape_b, dim_b and len(shape_b), torch.float64, device, 1)
            actual = torch.vmap(tileon_ops.matmul, (dim_a, dim_b))(a, b)
            assert torch.equal(actual, torch.vmap(torch.matmul, (dim_a, dim_b))(a, b))


def only_call(op: Callable[..., Tensor], in_dims: tuple[int | None, ...], *tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors that the one call got, none of them, nor the result, having been copied."""
    with Recorder() as recorder:
        torch.vmap(op, in_dims)(*tensors)
    assert not recorder.copies
    ((arguments, _),) = recorder.calls
    return tuple(t for t in arguments if t is not None)


class TestOneProduct:
    """(V, batch, m, k, n) is (4, 6, 5, 3, 2)."""

    @pytest.mark.parametrize("dim", [0, 1])
    @pytest.mark.parametrize("front", [False, True])
    def test_of_more_rows_where_b_is_one_matrix(self, device: torch.device, dim: int, front: bool) -> None:
        a, b = stacked((5, 3), dim, torch.float32, device, 0, front=front), torch.ones(3, 2, device=device)
        got = only_call(matmul, (dim, None), a, b)
        assert [t.shape for t in got] == [(20, 3), (3, 2)]
        a = stacked((6, 5, 3), dim, torch.float32, device, 0, front=front)
        got = only_call(matmul, (dim, None), a, b[None])
        assert [t.shape for t in got] == [(120, 3), (3, 2)]

    def test_of_samples_along_k_is_a_batch(self, device: torch.device) -> None:
        got = only_call(matmul, (2, None), torch.ones(5, 3, V, device=device), torch.ones(3, 2, device=device))
        assert [t.shape for t in got] == [(V, 5, 3), (3, 2)]

    def test_of_more_columns_where_weights_are_stacked(self, device: torch.device) -> None:
        x, weights, bias = torch.ones(5, 3, device=device), torch.ones(V, 2, 3, device=device), torch.ones(V, 2)
        got = only_call(lambda x, w, bias: matmul(x, w.t(), bias), (None, 0, 0), x, weights, bias.to(device))
        assert [t.shape for t in got] == [(5, 3), (3, V * 2), (V * 2,)]

    def test_of_more_columns_where_b_is_a_vector(self, device: torch.device) -> None:
        got = only_call(tileon_ops.matmul, (None, 0), torch.ones(5, 3, device=device), torch.ones(V, 3, device=device))
        assert [t.shape for t in got] == [(5, 3), (3, V)]

    def test_that_shares_a_where_samples_of_b_are_not_columns(self, device: torch.device) -> None:
        got = only_call(matmul, (None, 0), torch.ones(5, 3, device=device), torch.ones(V, 3, 2, device=device))
        assert [t.shape for t in got] == [(5, 3), (V, 3, 2)]

    def test_of_a_batch_that_becomes_rows_where_b_has_none(self, device: torch.device) -> None:
        got = only_call(matmul, (0, 0), torch.ones(V, 6, 5, 3, device=device), torch.ones(V, 3, 2, device=device))
        assert [t.shape for t in got] == [(V, 30, 3), (V, 3, 2)]
        got = only_call(matmul, (None, 0), torch.ones(6, 5, 3, device=device), torch.ones(V, 3, 2, device=device))
        assert [t.shape for t in got] == [(30, 3), (V, 3, 2)]
        got = only_call(matmul, (0, None), torch.ones(V, 5, 3, device=device), torch.ones(6, 3, 2, device=device))
        assert [t.shape for t in got] == [(V * 5, 3), (6, 3, 2)]

    def test_of_a_merged_batch(self, device: torch.device) -> None:
        got = only_call(matmul, (0, 0), torch.ones(V, 6, 5, 3, device=device), torch.ones(V, 6, 3, 2, device=device))
        assert [t.shape for t in got] == [(V * 6, 5, 3), (V * 6, 3, 2)]

    def test_reads_strided_samples_in_place(self, device: torch.device) -> None:
        a, b = torch.ones(5, V, 3, device=device), torch.ones(3, 2, V, device=device)
        got = only_call(matmul, (1, 2), a, b)
        assert [t.stride() for t in got] == [(3, 3 * V, 1), (1, 2 * V, V)]
        assert [t.data_ptr() for t in got] == [a.data_ptr(), b.data_ptr()]

    def test_of_a_mapped_bias_alone(self, device: torch.device) -> None:
        """(V, m, n) is what the bias makes of one product."""
        with Recorder() as recorder:
            torch.vmap(matmul, (None, None, 0))(*(torch.ones(s, device=device) for s in ((5, 3), (3, 2), (V, 2))))
        assert [t.shape for t in recorder.calls[0][0][:2]] == [(5, 3), (3, 2)]


class TestWhatGradientsRunBy:
    """The two private ops of the forward and the backward pass."""

    @pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
    def test_the_product_that_keeps_the_activations_argument(self, device: torch.device, dtype: torch.dtype) -> None:
        for in_dims in itertools.product((None, 0, 1), (None, 0, 2), (None, 0)):
            if all(d is None for d in in_dims):
                continue
            tensors = [stacked(s, d, dtype, device, i) for i, (s, d) in enumerate(zip(((5, 3), (3, 2), (2,)), in_dims))]  # noqa: B905

            def op(*tensors: Tensor) -> tuple[Tensor, Tensor]:
                return torch.ops.tileon._matmul_with_preactivation(*tensors, activation="leaky_relu", slope=-0.5)

            y, z = torch.vmap(op, in_dims)(*tensors)
            for which, got in enumerate((y, z)):
                assert torch.equal(got, loop(lambda *t: op(*t)[which], in_dims, tuple(tensors)))  # noqa: B023

    @pytest.mark.parametrize("shape", [(5, 3), (2, 5, 3)], ids=str)
    @pytest.mark.parametrize("bias_dtype", [None, torch.bfloat16, torch.float32], ids=str)
    def test_the_epilogues_backward(
        self, device: torch.device, shape: tuple[int, ...], bias_dtype: torch.dtype | None
    ) -> None:
        for dims in itertools.product((None, 0, 1), (None, 0, 2)):
            if dims == (None, None):
                continue
            grad, saved = (stacked(shape, d, torch.float32, device, i) for i, d in enumerate(dims))
            options = {"activation": "leaky_relu", "slope": 0.5, "out_dtype": torch.bfloat16, "bias_dtype": bias_dtype}

            def op(grad: Tensor, saved: Tensor) -> tuple[Tensor, Tensor]:
                return torch.ops.tileon._epilogue_backward(grad, saved, **options)  # noqa: B023

            with Recorder() as recorder:
                results = torch.vmap(op, dims)(grad, saved)
            assert len(recorder.calls) == 1
            for which, got in enumerate(results):
                expected = loop(lambda *t: op(*t)[which], dims, (grad, saved))  # noqa: B023
                assert got.dtype == expected.dtype
                assert torch.equal(got, expected)

    def test_the_epilogues_backward_sums_before_it_rounds(self, device: torch.device) -> None:
        grad, saved = (normal(V, 40, 3, dtype=torch.float32, device=device, seed=seed) for seed in (0, 1))
        options = {"activation": "relu", "slope": 0.0, "out_dtype": torch.bfloat16, "bias_dtype": torch.float32}
        _, grad_bias = torch.vmap(lambda g, s: torch.ops.tileon._epilogue_backward(g, s, **options))(grad, saved)
        torch.testing.assert_close(grad_bias, (grad * (saved > 0)).sum(1), rtol=1e-5, atol=1e-5)

    def test_batched_gradients_of_one_backward_pass(self, device: torch.device) -> None:
        """torch.autograd.grad maps the backward pass itself, which is not recorded."""
        a, b, bias = (normal(*s, dtype=torch.float64, device=device).requires_grad_() for s in ((5, 3), (3, 2), (2,)))
        upstream = normal(V, 5, 2, dtype=torch.float64, device=device)
        for activation in ACTIVATIONS:
            results = (
                matmul(a, b, bias, activation=activation, slope=0.3),
                activate(a @ b + bias, activation, 0.3),
            )
            ours, theirs = (torch.autograd.grad(y, (a, b, bias), upstream, is_grads_batched=True) for y in results)
            for got, expected in zip(ours, theirs, strict=True):
                torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)


class TestErrors:
    @pytest.mark.parametrize(
        ("shape_a", "shape_b", "shape_bias"),
        [
            ((3,), (3, 2), None),
            ((5, 3), (2, 2, 3, 2), None),
            ((5, 3), (4, 2), None),
            ((2, 5, 3), (3, 3, 2), None),
            ((5, 3), (3, 2), (3,)),
            ((5, 3), (3, 2), (1, 2)),
        ],
        ids=str,
    )
    def test_are_those_of_one_sample(
        self,
        device: torch.device,
        shape_a: tuple[int, ...],
        shape_b: tuple[int, ...],
        shape_bias: tuple[int, ...] | None,
    ) -> None:
        shapes = [s for s in (shape_a, shape_b, shape_bias) if s is not None]
        with pytest.raises(RuntimeError, match=r"^matmul: ") as alone:
            matmul(*(torch.ones(s, device=device) for s in shapes))
        for dims in itertools.product((None, 0, 1), repeat=len(shapes)):
            if any(d is not None for d in dims):
                tensors = [
                    torch.ones(s if d is None else (*s[:d], V, *s[d:]), device=device)
                    for s, d in zip(shapes, dims, strict=True)
                ]
                with pytest.raises(RuntimeError) as mapped:
                    torch.vmap(matmul, dims)(*tensors)
                assert str(mapped.value) == str(alone.value)

    @pytest.mark.parametrize(
        "options", [{"activation": "tanh"}, {"out_dtype": torch.float64}, {"out_dtype": torch.int8}], ids=str
    )
    def test_of_options_are_the_ops(self, device: torch.device, options: dict[str, Any]) -> None:
        a = torch.ones(V, 3, 3, device=device)
        with pytest.raises(RuntimeError, match=r"^matmul: ") as alone:
            matmul(a[0], a[0], **options)
        for in_dims, bias in (((0, None, None), None), ((0, 0, 0), a[0, :1].expand(V, 3))):
            tensors = [a[0] if d is None else a for d in in_dims[:2]]
            with pytest.raises(RuntimeError) as mapped:
                torch.vmap(lambda *t: matmul(*t, **options), in_dims)(*tensors, bias)
            assert str(mapped.value) == str(alone.value)

    def test_of_different_dtypes(self, device: torch.device) -> None:
        a, b = torch.ones(V, 3, 3, device=device), torch.ones(V, 3, 3, device=device, dtype=torch.float16)
        with pytest.raises(RuntimeError, match=r"^matmul: operands `a` x `b` of dtypes float32 x float16"):
            torch.vmap(matmul)(a, b)

    def test_out_is_refused(self, device: torch.device) -> None:
        a, out = torch.ones(V, 3, 3, device=device), torch.zeros(V, 3, 3, device=device)
        with pytest.raises(RuntimeError, match=r"^matmul: `out` is not supported under vmap"):
            torch.vmap(lambda a, out: matmul.out(a, a, out=out))(a, out)
        with pytest.raises(RuntimeError, match=r"^matmul: `out` is not supported under vmap"):
            torch.vmap(lambda a: tileon_ops.matmul(a, a, out=out[0]))(a)
        assert not out.any()


class TestAutocast:
    @pytest.mark.parametrize("to", [torch.bfloat16, torch.float16], ids=str)
    @pytest.mark.parametrize("bias_dtype", [torch.float32, None], ids=["float32_bias", "16_bit_bias"])
    @pytest.mark.parametrize("in_dims", [(0, 0, 0), (0, None, None), (None, 0, 0)], ids=str)
    def test_casts_within_the_map(
        self, device: torch.device, to: torch.dtype, bias_dtype: torch.dtype | None, in_dims: tuple[int | None, ...]
    ) -> None:
        a, b = (integers(V, 3, 3, dtype=torch.float32, device=device, seed=s) for s in (0, 1))
        bias = integers(V, 3, dtype=bias_dtype or to, device=device, seed=2)
        tensors = tuple(t[0] if d is None else t for t, d in zip((a, b, bias), in_dims, strict=True))
        with torch.autocast(device.type, dtype=to):
            actual, expected = torch.vmap(matmul, in_dims)(*tensors), loop(matmul, in_dims, tensors)
        assert actual.dtype == to
        assert torch.equal(actual, expected)
