"""`_quantized_linear`: what quantizing rows and `block_scaled_matmul` make of them, by one call. Who calls it:
test_quantized_linear_layers.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from layers import DTYPES, FORMATS, MX_FORMATS, each_format
from operands import normal
from reference import assert_matches
from scaled_operands import Scaled, expected
from small_float_operands import LAYOUTS, laid_out
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad

import tileon_ops

pytestmark = pytest.mark.usefixtures("no_programs_from_before")

ops = torch.ops.tileon
op = ops._quantized_linear.default
OPCHECK_TESTS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")

each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


@dataclass(frozen=True)
class Weight:
    """(n, k) in a layer's format; `form` is that of the rows."""

    form: str
    data: Tensor
    scale: Tensor
    values: Tensor  # float64

    def operands(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, str]:
        """The op's first arguments."""
        return x, self.data, self.scale, self.form


def weight(fmt: str, n: int, k: int, device: torch.device | str = "cpu", seed: int = 1) -> Weight:
    form, own = FORMATS[fmt]
    data, scale = tileon_ops.quantize(normal(n, k, dtype=torch.float32, device=device, seed=seed), own)
    return Weight(form, data, scale, tileon_ops.dequantize(data, scale, own).double())


def rows(m: int, k: int, dtype: torch.dtype, device: torch.device | str = "cpu") -> Tensor:
    return normal(m, k, dtype=dtype, device=device)


def quantized(x: Tensor, form: str, factor: Tensor | None, rounding: str) -> tuple[Tensor, Tensor, Tensor | None]:
    if form == "nvfp4":
        a, scale_a, factor = ops._quantize_nvfp4_rows(x, factor)
    else:
        a, scale_a = ops.quantize(x, form, scale_rounding=rounding)
    return a, scale_a, factor


def by_two_ops(
    x: Tensor,
    b: Tensor,
    scale_b: Tensor,
    form: str,
    bias: Tensor | None = None,
    factor: Tensor | None = None,
    *,
    scale_rounding: str = "floor",
    **options: Any,
) -> Tensor:
    a, scale_a, factor = quantized(x, form, factor, scale_rounding)
    result: Tensor = ops.block_scaled_matmul(a, b, scale_a, scale_b, bias, factor, out_dtype=x.dtype, **options)
    return result


def assert_product(
    x: Tensor, of: Weight, bias: Tensor | None = None, factor: Tensor | None = None, **options: Any
) -> None:
    """The bits of the two ops on a CPU. On a GPU another kernel may multiply: as near as docs/operands.md allows."""
    actual = op(*of.operands(x), bias, factor, **options)
    assert (actual.dtype, actual.shape) == (x.dtype, (x.shape[0], of.data.shape[0]))
    assert actual.is_contiguous()
    if x.device.type == "cpu":
        assert torch.equal(actual, by_two_ops(*of.operands(x), bias, factor, **options))
        return
    a, scale_a, factor = quantized(x, of.form, factor, options.pop("scale_rounding", "floor"))
    one, values = x.new_ones(1, 1, dtype=torch.float64), tileon_ops.dequantize(a, scale_a, of.form).double()
    operands = Scaled(a, scale_a, values, one), Scaled(of.data, of.scale, of.values, one)
    assert_matches(actual, expected(*operands, bias, factor, out_dtype=x.dtype, **options))


class TestProduct:
    @each_format
    @each_dtype
    def test_is_that_of_the_two_ops(self, device: torch.device, fmt: str, dtype: torch.dtype) -> None:
        of = weight(fmt, 70, 288, device)
        bias = normal(70, dtype=torch.float32, device=device, seed=2)
        for m in (1, 5, 130):
            x = rows(m, 288, dtype, device)
            assert_product(x, of)
            assert_product(x, of, bias, activation="gelu")
            assert_product(x, of, bias.to(dtype), activation="leaky_relu", slope=0.3)

    @each_format
    @each_dtype
    def test_under_a_global_scale(self, device: torch.device, fmt: str, dtype: torch.dtype) -> None:
        """Rows of nvfp4 have one each besides."""
        x, of = rows(5, 96, dtype, device), weight(fmt, 33, 96, device)
        bias, one = normal(33, dtype=torch.float32, device=device, seed=2), torch.tensor(0.3, device=device)
        for factor in (one, one.view(1), torch.rand(5, 1, device=device) + 0.1):
            assert_product(x, of, None, factor)
            assert_product(x, of, bias, factor, activation="silu")

    @pytest.mark.parametrize("fmt", MX_FORMATS)
    @each_dtype
    def test_under_scales_that_are_rounded_up(self, device: torch.device, fmt: str, dtype: torch.dtype) -> None:
        x, of = rows(5, 96, dtype, device), weight(fmt, 33, 96, device)
        x[:, 0] = 7.9  # which saturates under the scale of "floor"
        assert_product(x, of, scale_rounding="rceil")
        assert not torch.equal(op(*of.operands(x), scale_rounding="rceil"), op(*of.operands(x)))

    @each_format
    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_of_any_strides(self, device: torch.device, fmt: str, layout: str) -> None:
        of = weight(fmt, 33, 160, device)
        for dtype in DTYPES:
            x = rows(5, 160, dtype, device)
            assert_product(laid_out(x, **LAYOUTS[layout]), of)  # type: ignore[arg-type]
            assert_product(x[:1].expand(5, 160), of)

    @each_format
    @each_dtype
    def test_of_nothing(self, device: torch.device, fmt: str, dtype: torch.dtype) -> None:
        for m, n, k in ((0, 7, 64), (3, 0, 64), (3, 7, 0), (0, 0, 0)):
            of = Weight(*_empty_weight(fmt, n, k, device))
            bias = torch.ones(n, dtype=torch.float32, device=device)
            assert_product(torch.ones(m, k, dtype=dtype, device=device), of, bias, activation="relu")

    @each_format
    @each_dtype
    def test_what_is_not_finite_stays_in_its_row(self, device: torch.device, fmt: str, dtype: torch.dtype) -> None:
        x, of = rows(4, 96, dtype, device), weight(fmt, 33, 96, device)
        x[1, 5], x[2, 40] = torch.nan, -torch.inf
        result = op(*of.operands(x))
        assert result.isnan()[1:3].all()
        assert torch.equal(result[::3].isnan(), torch.zeros_like(result[::3], dtype=torch.bool))


@pytest.mark.gpu
@pytest.mark.skipif(
    torch.cuda.is_available() and torch.cuda.get_device_capability() != (9, 0), reason="of Hopper's kernels alone"
)
class TestWay:
    """The numbers of few rows are multiplied, and the codes of many."""

    def kernel(self, fmt: str, m: int, dtype: torch.dtype = torch.bfloat16) -> str:
        of = weight(fmt, 4096, 4096, "cuda")
        op(*of.operands(rows(m, 4096, dtype, "cuda")))
        return tileon_ops.last_kernel()

    @pytest.mark.parametrize("fmt", [*MX_FORMATS, "nvfp4"])
    def test_of_few_rows(self, fmt: str) -> None:
        form, own = FORMATS[fmt]
        assert self.kernel(fmt, 4).startswith("sm90_weight_direct_")
        assert ops._multiplies_numbers(0, 4, 4096, 4096, form, own, torch.bfloat16, False)

    @pytest.mark.parametrize("fmt", MX_FORMATS)
    def test_of_many_rows(self, fmt: str) -> None:
        form, own = FORMATS[fmt]
        assert not ops._multiplies_numbers(0, 1000, 4096, 4096, form, own, torch.bfloat16, False)
        op_kernel = self.kernel(fmt, 1000)
        by_two_ops(*weight(fmt, 4096, 4096, "cuda").operands(rows(1000, 4096, torch.bfloat16, "cuda")))
        assert op_kernel == tileon_ops.last_kernel()

    @pytest.mark.parametrize("fmt", ["fp8_row", "int8_row"])
    def test_of_scales_that_numbers_do_not_hold(self, fmt: str) -> None:
        assert "weight" not in self.kernel(fmt, 4)
        assert not ops._multiplies_numbers(0, 4, 4096, 4096, fmt, fmt, torch.bfloat16, False)

    def test_of_float32(self) -> None:
        assert "weight" not in self.kernel("mxfp8", 4, torch.float32)

    def test_under_batch_invariance(self) -> None:
        with tileon_ops.batch_invariant():
            assert "weight_direct" not in self.kernel("mxfp8", 4)


def _empty_weight(fmt: str, n: int, k: int, device: torch.device) -> tuple[str, Tensor, Tensor, Tensor]:
    form, own = FORMATS[fmt]
    x = torch.ones(n, k, device=device)
    return form, *tileon_ops.quantize(x, own), x.double()


class TestFake:
    @each_format
    @each_dtype
    def test_shape_dtype_strides_and_device_are_the_real_ones(
        self, device: torch.device, fmt: str, dtype: torch.dtype
    ) -> None:
        def results() -> list[tuple[object, ...]]:
            found = []
            for m, n, k in ((3, 5, 64), (0, 5, 64), (3, 0, 64), (130, 257, 160)):
                x = torch.ones(k, m, dtype=dtype, device=device).t()
                data, scale = ops.quantize(torch.ones(n, k, device=device), FORMATS[fmt][1])
                bias, factor = torch.ones(n, device=device), torch.ones((), device=device)
                for others in ((), (bias,), (bias.to(dtype), factor), (None, factor.expand(m, 1))):
                    y = op(x, data, scale, FORMATS[fmt][0], *others, activation="gelu", fast_accum=True)
                    found.append((y.shape, y.dtype, y.stride(), y.device.type))
            return found

        real = results()
        with FakeTensorMode():
            assert results() == real

    def test_meta_tensors_have_shapes_and_no_data(self) -> None:
        x = torch.empty(2**20, 2**20, dtype=torch.bfloat16, device="meta")
        result = op(x, *ops.quantize(x, "mxfp4"), "mxfp8")
        assert (result.shape, result.dtype, result.device.type) == (x.shape, x.dtype, "meta")


@pytest.mark.usefixtures("codes_compare_as_bytes")
class TestOpcheck:
    @each_format
    @each_dtype
    def test_of_every_format(self, device: torch.device, fmt: str, dtype: torch.dtype) -> None:
        of, bias = weight(fmt, 5, 64, device), torch.arange(5.0, device=device)
        rounding = {"scale_rounding": "rceil"} if fmt in MX_FORMATS else {}
        for x, others, options in (
            (rows(3, 64, dtype, device), (), {}),
            (rows(130, 64, dtype, device), (bias,), {"activation": "leaky_relu", "slope": 0.2, "fast_accum": True}),
            (laid_out(rows(3, 64, dtype, device), reverse=True), (None, bias[1]), rounding),
            (rows(0, 64, dtype, device), (bias,), {}),
        ):
            torch.library.opcheck(op, (*of.operands(x), *others), options, test_utils=OPCHECK_TESTS)


X, CODES = torch.ones(3, 64), torch.ones(5, 64).to(torch.float8_e4m3fn)
SCALES = torch.ones(5, 2).to(torch.float8_e8m0fnu)

# What is wrong with a call of op(X, CODES, SCALES, "mxfp8"), and how the message begins.
BAD_CALLS: dict[str, tuple[dict[str, Any], str]] = {
    "x of one dimension": ({"x": X[0]}, "quantize: `x` must be 2-D"),
    "x of float64": ({"x": X.double()}, "quantize: `x` must be float32, float16 or bfloat16, got float64"),
    "x of half a block": ({"x": X[:, :48]}, "quantize: `x` must have a multiple of 32 elements a row"),
    "format": ({"format": "fp4"}, "quantize: `format` must be one of mxfp8, "),
    "rounding": ({"scale_rounding": "nearest"}, "quantize: `scale_rounding` must be one of floor, rceil"),
    "rounding of nvfp4": ({"format": "nvfp4", "scale_rounding": "rceil"}, "quantize: `scale_rounding` must be floor"),
    "b of one dimension": ({"b": CODES[0]}, "block_scaled_matmul: `b` must be 2-D"),
    "b of another k": ({"b": CODES[:, :32]}, "block_scaled_matmul: `b` must have as many elements in a row as `a`"),
    "b without scales": ({"b": X.half()}, "block_scaled_matmul: operands `a` x `b` of dtypes "),
    "scales of another dtype": ({"scale_b": SCALES.view(torch.uint8).int()}, "block_scaled_matmul: `scale_b` must be "),
    "too few scales": ({"scale_b": SCALES[:, :1]}, "block_scaled_matmul: `scale_b` must have the shape "),
    "global scale": ({"global_scale": torch.ones(2)}, "block_scaled_matmul: `global_scale` must be one element"),
    "activation": ({"activation": "tanh"}, "block_scaled_matmul: `activation` must be one of none, "),
    "bias": ({"bias": torch.ones(4)}, "block_scaled_matmul: `bias` must "),
}


class TestErrors:
    @staticmethod
    def message(where: str, dtype: torch.dtype, **wrong: Any) -> str:
        arguments = {"x": X, "b": CODES, "scale_b": SCALES, "format": "mxfp8", **wrong}
        if arguments["x"].dtype == torch.float32:
            arguments["x"] = arguments["x"].to(dtype)
        on_device = {name: t.to(where) if isinstance(t, Tensor) else t for name, t in arguments.items()}
        with pytest.raises(RuntimeError) as raised:
            op(**on_device)
        return str(raised.value)

    @pytest.mark.parametrize("what", BAD_CALLS)
    @each_dtype
    def test_name_a_public_op_and_its_argument(self, what: str, dtype: torch.dtype) -> None:
        """And on the meta device they are the same."""
        wrong, begin = BAD_CALLS[what]
        text = self.message("cpu", dtype, **wrong)
        assert text.startswith(begin)
        assert self.message("meta", dtype, **wrong) == text

    @pytest.mark.parametrize("where", ["cpu", "meta"])
    def test_tensors_are_on_one_device(self, where: str) -> None:
        other = "meta" if where == "cpu" else "cpu"
        x, factor = X.to(where), torch.ones((), device=other)
        data, scale = ops.quantize(x, "nvfp4")
        with pytest.raises(RuntimeError, match=r"^quantize: `global_scale` must be on the device of `x`"):
            op(x, data, scale, "nvfp4", None, factor)

    def test_gradients_are_refused(self) -> None:
        of, bias = weight("mxfp8", 5, 64), torch.ones(5, requires_grad=True)
        with pytest.raises(RuntimeError, match=r"^_quantized_linear: `x` requires grad, and no gradient flows"):
            op(*of.operands(X.clone().requires_grad_()))
        with pytest.raises(RuntimeError, match=r"^_quantized_linear: `bias` requires grad"):
            op(*of.operands(X), bias)
        with forward_ad.dual_level(), pytest.raises(RuntimeError, match=r"^_quantized_linear: `x` has a tangent"):
            op(*of.operands(forward_ad.make_dual(X, X)))
        with torch.no_grad():
            assert not op(*of.operands(X), bias).requires_grad
