"""vmap of the ops on block-scaled operands: a loop's results, in one call where there is a way."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from operands import normal
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

ops = torch.ops.tileon

V = 3  # samples
ROWS = (5, 64, 128, 130)  # less than a packed block, half of one, a whole one, more
FORMATS = ("mxfp8", "mxfp4", "nvfp4")
FLOAT32_FORMATS = ("fp8_tensor", "fp8_row", "fp8_1x128", "fp8_128x128", "int8_row", "int8_tensor")


@pytest.fixture(autouse=True)
def _no_fallback() -> Iterator[None]:
    """torch's loop over samples says this of itself."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*performance drop")
        yield


class Counter(TorchDispatchMode):
    """How often each of tileon's ops ran."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: dict[str, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "tileon":
            name = func.overloadpacket.__name__
            self.calls[name] = self.calls.get(name, 0) + 1
        return func(*args, **(kwargs or {}))


def counted(run: Callable[[], Any]) -> tuple[Any, dict[str, int]]:
    with Counter() as counter:
        result = run()
    return result, counter.calls


def same_bits(actual: Tensor, expected: Tensor) -> bool:
    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
    return torch.equal(actual.contiguous().view(torch.uint8), expected.contiguous().view(torch.uint8))


def loop(op: Callable[..., Any], in_dims: tuple[int | None, ...], tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    results = [
        op(*(t if d is None else t.select(d, i) for t, d in zip(tensors, in_dims, strict=True))) for i in range(V)
    ]
    if isinstance(results[0], Tensor):
        return (torch.stack(results),)
    return tuple(map(torch.stack, zip(*results, strict=True)))


def check(op: Callable[..., Any], in_dims: tuple[int | None, ...], *tensors: Tensor) -> dict[str, int]:
    """That the map gives a loop's bits; the calls it made."""
    actual, calls = counted(lambda: torch.vmap(op, in_dims)(*tensors))
    actual = (actual,) if isinstance(actual, Tensor) else actual
    for got, expected in zip(actual, loop(op, in_dims, tensors), strict=True):
        assert same_bits(got, expected)
    return calls


def quantized(rows: int, k: int, fmt: str, device: torch.device, seed: int = 0) -> tuple[Tensor, Tensor]:
    """(V, rows, k) quantized sample by sample: stacked data and packed scales."""
    x = normal(V, rows, k, dtype=torch.float32, device=device, seed=seed)
    data, scale = zip(*(ops.quantize(one, fmt) for one in x), strict=True)
    return torch.stack(data), torch.stack(scale)


class TestQuantize:
    @pytest.mark.parametrize("fmt", FORMATS)
    @pytest.mark.parametrize("rows", [0, *ROWS])
    def test_is_one_call(self, device: torch.device, rows: int, fmt: str) -> None:
        for dim, shape in enumerate([(V, rows, 96), (rows, V, 96), (rows, 96, V)]):
            x = normal(*shape, dtype=torch.bfloat16, device=device)
            calls = check(lambda x: ops.quantize(x, fmt), (dim,), x)
            assert calls["quantize"] == 1
            assert ("unpack_scales" in calls) == (rows % 128 != 0)

    def test_with_a_global_scale_of_all(self, device: torch.device) -> None:
        x, scale = normal(V, 5, 32, dtype=torch.float32, device=device), torch.tensor(0.5, device=device)
        assert check(lambda x, s: ops.quantize(x, "nvfp4", s), (0, None), x, scale)["quantize"] == 1

    def test_with_a_global_scale_for_each_is_one_call(self, device: torch.device) -> None:
        """Each sample's becomes that of its rows."""
        x = normal(V, 5, 32, dtype=torch.float32, device=device)
        one, rows = torch.tensor([0.5, 1, 2], device=device), torch.rand(5, V, 1, device=device) + 0.1
        for scale in (one, one.unsqueeze(1)):
            assert check(lambda x, s: ops.quantize(x, "nvfp4", s), (0, 0), x, scale)["quantize"] == 1
            assert check(lambda x, s: ops.quantize(x, "nvfp4", s), (None, 0), x[0], scale)["quantize"] == 1
        for scale, dim in ((rows, 1), (rows[:, 0], None)):
            assert check(lambda x, s: ops.quantize(x, "nvfp4", s), (0, dim), x, scale)["quantize"] == 1

    def test_options_and_errors_are_those_of_one_sample(self, device: torch.device) -> None:
        x = normal(V, 5, 32, dtype=torch.float32, device=device)
        check(lambda x: ops.quantize(x, "mxfp4", scale_rounding="rceil"), (0,), x)
        for bad, fmt in ((x[:, :, :31], "mxfp8"), (x[0], "mxfp8"), (x, "mxfp6"), (x.double(), "mxfp8")):
            with pytest.raises(RuntimeError, match=r"^quantize: ") as alone:
                ops.quantize(bad[0], fmt)
            with pytest.raises(RuntimeError) as mapped:
                torch.vmap(lambda x: ops.quantize(x, fmt))(bad)  # noqa: B023
            assert str(mapped.value) == str(alone.value)


class TestDequantize:
    @pytest.mark.parametrize("fmt", FORMATS)
    @pytest.mark.parametrize("rows", ROWS)
    def test_is_one_call(self, device: torch.device, rows: int, fmt: str) -> None:
        data, scale = quantized(rows, 96, fmt, device)
        cols = 96 // (16 if fmt == "nvfp4" else 32)
        flat = torch.stack([ops.unpack_scales(one, rows, cols) for one in scale])
        for scales, dims in ((scale, (0, 0)), (flat, (0, 0)), (scale.movedim(0, 3), (0, 3)), (scale[0], (0, None))):
            calls = check(lambda d, s: ops.dequantize(d, s, fmt, out_dtype=torch.float16), dims, data, scales)
            assert calls["dequantize"] == 1
        assert check(lambda d, s: ops.dequantize(d, s, fmt), (None, 0), data[0], scale)["dequantize"] == 1
        assert check(lambda d, s: ops.dequantize(d, s, fmt), (2, 0), data.movedim(0, 2), scale)["dequantize"] == 1

    @pytest.mark.parametrize("out_dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
    def test_with_a_global_scale_for_each(self, device: torch.device, out_dtype: torch.dtype) -> None:
        data, scale = quantized(5, 32, "nvfp4", device)
        for shape in ((V,), (V, 1), (V, 5, 1)):
            global_scale = torch.rand(shape, device=device) / 3
            calls = check(
                lambda d, s, g: ops.dequantize(d, s, "nvfp4", g, out_dtype=out_dtype),
                (0, 0, 0),
                data,
                scale,
                global_scale,
            )
            assert calls["dequantize"] == 1

    def test_errors_are_those_of_one_sample(self, device: torch.device) -> None:
        data, scale = quantized(5, 32, "mxfp8", device)
        for bad in (scale[:, :, :0], scale[:, 0], scale.view(torch.float8_e4m3fn)):
            with pytest.raises(RuntimeError, match=r"^dequantize: ") as alone:
                ops.dequantize(data[0], bad[0], "mxfp8")
            with pytest.raises(RuntimeError) as mapped:
                torch.vmap(lambda d, s: ops.dequantize(d, s, "mxfp8"))(data, bad)
            assert str(mapped.value) == str(alone.value)


class TestFloat32Scales:
    @pytest.mark.parametrize("fmt", FLOAT32_FORMATS)
    @pytest.mark.parametrize("rows", [0, *ROWS])
    def test_is_one_call_there_and_back(self, device: torch.device, rows: int, fmt: str) -> None:
        for dim, shape in enumerate([(V, rows, 157), (rows, V, 157), (rows, 157, V)]):
            x = normal(*shape, dtype=torch.bfloat16, device=device)
            assert check(lambda x: ops.quantize(x, fmt), (dim,), x) == {"quantize": 1}
        data, scale = torch.vmap(lambda x: ops.quantize(x, fmt), 2)(x)
        for scales, dims in ((scale, (0, 0)), (scale.movedim(0, 2), (0, 2)), (scale[0], (0, None))):
            calls = check(lambda d, s: ops.dequantize(d, s, fmt, out_dtype=torch.float16), dims, data, scales)
            assert calls == {"dequantize": 1}
        assert check(lambda d, s: ops.dequantize(d, s, fmt), (None, 0), data[0], scale) == {"dequantize": 1}
        assert check(lambda d, s: ops.dequantize(d, s, fmt), (2, 0), data.movedim(0, 2), scale) == {"dequantize": 1}

    def test_a_tensors_scale_of_any_shape(self, device: torch.device) -> None:
        data = torch.randint(0, 100, (V, 5, 7), device=device).to(torch.int8)
        for shape in ((V,), (V, 1), (V, 1, 1)):
            scale = torch.rand(shape, device=device)
            assert check(lambda d, s: ops.dequantize(d, s, "int8_tensor"), (0, 0), data, scale) == {"dequantize": 1}

    def test_errors_are_those_of_one_sample(self, device: torch.device) -> None:
        x, data = torch.zeros(V, 5, 7, device=device), torch.zeros(V, 5, 7, dtype=torch.int8, device=device)
        for bad in (
            lambda x, d: ops.quantize(x, "fp8_row", x[0, 0]),
            lambda x, d: ops.quantize(x, "fp8_128x128", scale_rounding="rceil"),
            lambda x, d: ops.dequantize(d, x[:, 0], "int8_row"),
            lambda x, d: ops.dequantize(d, x[:1, :1], "fp8_tensor"),
        ):
            with pytest.raises(RuntimeError, match=r"quantize: ") as alone:
                bad(x[0], data[0])
            with pytest.raises(RuntimeError) as mapped:
                torch.vmap(bad)(x, data)
            assert str(mapped.value) == str(alone.value)


class TestPacking:
    @pytest.mark.parametrize("rows", [0, *ROWS])
    @pytest.mark.parametrize("dtype", [torch.float8_e8m0fnu, torch.float8_e4m3fn, torch.uint8], ids=str)
    def test_is_one_call_there_and_back(self, device: torch.device, rows: int, dtype: torch.dtype) -> None:
        scale = torch.randint(0, 255, (rows, V, 6), dtype=torch.uint8, device=device).view(dtype)
        assert check(ops.pack_scales, (1,), scale) == {"pack_scales": 1}
        packed = torch.vmap(ops.pack_scales, 1, out_dims=2)(scale)
        assert check(lambda p: ops.unpack_scales(p, rows, 6), (2,), packed) == {"unpack_scales": 1}
        assert check(lambda p: ops.unpack_scales(p, rows // 2, 3), (2,), packed) == {"unpack_scales": 1}

    def test_errors_are_those_of_one_sample(self, device: torch.device) -> None:
        with pytest.raises(RuntimeError, match=r"^unpack_scales: `rows` must be at most 128"):
            torch.vmap(lambda p: ops.unpack_scales(p, 129, 1))(torch.zeros(V, 1, 1, 32, 4, 4, device=device).byte())
        with pytest.raises(RuntimeError, match=r"^pack_scales: `scale` must be 2-D .*got 1-D"):
            torch.vmap(ops.pack_scales)(torch.zeros(V, 4, device=device).byte())


KINDS = (("mxfp8", "mxfp8"), ("mxfp8", "mxfp4"), ("mxfp4", "mxfp4"), ("nvfp4", "nvfp4"))


def product(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Tensor | None = None) -> Tensor:
    return ops.block_scaled_matmul(a, b, scale_a, scale_b, bias, activation="relu", out_dtype=torch.float32)


class TestBlockScaledMatmul:
    """Products of small codes: every order of summation gives the same bits."""

    @pytest.mark.parametrize("kinds", KINDS, ids=str)
    @pytest.mark.parametrize("rows", ROWS)
    def test_is_one_call_where_one_operand_is_mapped(
        self, device: torch.device, rows: int, kinds: tuple[str, str]
    ) -> None:
        (a, scale_a), (b, scale_b) = self.exact(rows, kinds[0], device, 0), self.exact(rows, kinds[1], device, 1)
        bias = torch.arange(V * rows, device=device, dtype=torch.float32).view(V, rows)
        cases: list[tuple[tuple[int | None, ...], tuple[Tensor, ...]]] = [
            ((0, None, 0, None), (a, b[0], scale_a, scale_b[0])),
            ((0, None, 0, None, None), (a, b[0], scale_a, scale_b[0], bias[0])),
            ((0, None, None, None), (a, b[0], scale_a[0], scale_b[0])),
            ((None, None, 0, None), (a[0], b[0], scale_a, scale_b[0])),
            ((None, 0, None, 0), (a[0], b, scale_a[0], scale_b)),
            ((None, 0, None, 0, None), (a[0], b, scale_a[0], scale_b, bias[0])),
            ((None, 0, None, 0, 0), (a[0], b, scale_a[0], scale_b, bias)),
            ((None, 1, None, 3, 1), (a[0], b.movedim(0, 1), scale_a[0], scale_b.movedim(0, 3), bias.t())),
        ]
        for in_dims, tensors in cases:
            assert check(product, in_dims, *tensors)["block_scaled_matmul"] == 1, in_dims

    def exact(self, rows: int, fmt: str, device: torch.device, seed: int) -> tuple[Tensor, Tensor]:
        x = normal(V, rows, 64, dtype=torch.float32, device=device, seed=seed).round().clamp(-2, 2)
        data, scale = zip(*(ops.quantize(one, fmt) for one in x), strict=True)
        return torch.stack(data), torch.stack(scale)

    def test_is_a_call_for_each_otherwise(self, device: torch.device) -> None:
        (a, scale_a), (b, scale_b) = self.exact(5, "mxfp4", device, 0), self.exact(5, "mxfp4", device, 1)
        bias, global_scale = torch.ones(V, 5, device=device), torch.tensor([1.0, 2, 4], device=device)
        assert check(product, (0, 0, 0, 0), a, b, scale_a, scale_b)["block_scaled_matmul"] == V
        own_bias = ((0, None, 0, None, 0), (a, b[0], scale_a, scale_b[0], bias))
        assert check(product, own_bias[0], *own_bias[1])["block_scaled_matmul"] == V
        assert check(product, (None,) * 4 + (0,), a[0], b[0], scale_a[0], scale_b[0], bias)["block_scaled_matmul"] == V

        def scaled(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, global_scale: Tensor) -> Tensor:
            return ops.block_scaled_matmul(a, b, scale_a, scale_b, None, global_scale, out_dtype=torch.float8_e4m3fn)

        calls = check(scaled, (0, None, 0, None, 0), a, b[0], scale_a, scale_b[0], global_scale)
        assert calls["block_scaled_matmul"] == V

    def test_of_nested_maps_is_every_pair(self, device: torch.device) -> None:
        (a, scale_a), (b, scale_b) = self.exact(5, "mxfp8", device, 0), self.exact(7, "mxfp8", device, 1)
        pairs = torch.vmap(torch.vmap(product, (None, 0, None, 0)), (0, None, 0, None))
        actual, calls = counted(lambda: pairs(a, b, scale_a, scale_b))
        assert calls["block_scaled_matmul"] == 1
        for i, j in itertools.product(range(V), range(V)):
            assert torch.equal(actual[i, j], product(a[i], b[j], scale_a[i], scale_b[j]))

    def test_errors_are_those_of_one_sample(self, device: torch.device) -> None:
        (a, scale_a), (b, scale_b) = self.exact(5, "mxfp8", device, 0), self.exact(7, "mxfp8", device, 1)
        for bad in (
            (a[:, 0], b, scale_a, scale_b),
            (a, b[..., :32], scale_a, scale_b),
            (a, b, scale_a[..., 0], scale_b),
        ):
            with pytest.raises(RuntimeError, match=r"^block_scaled_matmul: ") as alone:
                product(*(t[0] for t in bad))
            for in_dims in itertools.product((None, 0), repeat=4):
                if any(d is not None for d in in_dims):
                    tensors = tuple(t[0] if d is None else t for t, d in zip(bad, in_dims, strict=True))
                    with pytest.raises(RuntimeError) as mapped:
                        torch.vmap(product, in_dims)(*tensors)
                    assert str(mapped.value) == str(alone.value)

    def test_out_is_refused(self, device: torch.device) -> None:
        (a, scale_a), (b, scale_b) = self.exact(5, "mxfp8", device, 0), self.exact(7, "mxfp8", device, 1)
        out = torch.zeros(V, 5, 7, dtype=torch.float16, device=device)
        with pytest.raises(RuntimeError, match=r"^block_scaled_matmul: `out` is not supported under vmap"):
            torch.vmap(lambda *t: ops.block_scaled_matmul.out(*t[:4], out=t[4]))(a, b, scale_a, scale_b, out)
        assert not out.any()


@pytest.mark.gpu
def test_a_prepared_weight_serves_all_samples() -> None:
    """Rows of one call, as without vmap."""
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("prepared weights are Hopper's")
    device = torch.device("cuda")
    x = normal(V, 200, 256, dtype=torch.float32, device=device)
    weight, weight_scale = ops.quantize(normal(128, 256, dtype=torch.float32, device=device, seed=1), "mxfp4")
    prepared = ops._prepare_block_scaled(weight, weight_scale, form="bfloat16")
    data, scale = torch.vmap(lambda x: ops.quantize(x, "mxfp4"))(x)

    def prepared_product(a: Tensor, scale_a: Tensor) -> Tensor:
        return ops._block_scaled_matmul_prepared(a, weight, scale_a, weight_scale, prepared, out_dtype=torch.float32)

    actual, calls = counted(lambda: torch.vmap(prepared_product)(data, scale))
    assert calls["_block_scaled_matmul_prepared"] == 1
    expected = torch.stack([prepared_product(a, s) for a, s in zip(data, scale, strict=True)])
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-4)
