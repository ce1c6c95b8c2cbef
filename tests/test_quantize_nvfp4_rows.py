"""`_quantize_nvfp4_rows`: what `nvfp4_global_scale` of each row and `quantize` under it make, by one call."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import torch
from operands import normal
from small_float_operands import LAYOUTS, X_DTYPES, laid_out, wide_values
from small_float_reference import BYTE
from test_vmap_quantized import check
from torch import Tensor

import tileon_ops

op = torch.ops.tileon._quantize_nvfp4_rows.default
OPCHECK_TESTS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
# Of each way a GPU shares a row out: a warp, four, and eight, which hold 4096 numbers of 32 bits or 8192 of 16
COLUMNS = (16, 48, 512, 528, 2048, 2064, 4096, 4112, 8192, 8208, 14336, 20000)

each_dtype = pytest.mark.parametrize("dtype", X_DTYPES, ids=str)


def step_by_step(x: Tensor, factor: Tensor | None) -> tuple[Tensor, ...]:
    own = tileon_ops.nvfp4_global_scale(x, per_row=True)
    return *tileon_ops.quantize(x, "nvfp4", own), own if factor is None else own * factor


def assert_as_step_by_step(x: Tensor, factor: Tensor | None = None) -> None:
    for actual, expected in zip(op(x, factor), step_by_step(x, factor), strict=True):
        assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
        assert actual.is_contiguous()
        assert torch.equal(bits(actual), bits(expected))


def bits(tensor: Tensor) -> Tensor:
    return tensor.reshape(-1).view(BYTE) if tensor.numel() else torch.empty(0, dtype=BYTE)


def with_rare_rows(x: Tensor) -> Tensor:
    """Rows of zeros, with numbers that are not finite, and of nothing else."""
    x[0], x[1], x[2] = 0.0, torch.inf, -0.0
    x[3, ::7], x[4, 5], x[5] = torch.nan, -torch.inf, torch.nan
    x[6] = x[6].nan_to_num(0.0, 0.0, 0.0)
    return x


@each_dtype
class TestBits:
    @pytest.mark.parametrize("rows", [1, 3, 129])
    def test_of_any_size(self, device: torch.device, dtype: torch.dtype, rows: int) -> None:
        for k in COLUMNS[: 4 if rows > 3 else None]:
            assert_as_step_by_step(wide_values(rows, k, dtype, device, seed=k))

    def test_of_nothing(self, device: torch.device, dtype: torch.dtype) -> None:
        for shape in ((0, 32), (3, 0), (0, 0)):
            for factor in (None, torch.tensor(0.5, device=device)):
                assert_as_step_by_step(torch.ones(shape, dtype=dtype, device=device), factor)

    def test_of_rows_of_zeros_nan_and_infinity(self, device: torch.device, dtype: torch.dtype) -> None:
        for k in (48, 608, 4128, 9008):
            assert_as_step_by_step(with_rare_rows(wide_values(9, k, dtype, device)))

    def test_a_number_counts_wherever_it_stands(self, device: torch.device, dtype: torch.dtype) -> None:
        """The largest of a row, and beside it, in its block or not, infinity."""
        for k in (48, 1024, 4096, 9008):
            places = torch.arange(7, k, 331, device=device)
            x = torch.ones(len(places), k, dtype=dtype, device=device)
            x[torch.arange(len(places), device=device), places] = -100.0
            assert_as_step_by_step(x)
            x[torch.arange(len(places), device=device), places - 7] = torch.inf
            assert_as_step_by_step(x)

    def test_of_the_ends_of_the_dtype(self, device: torch.device, dtype: torch.dtype) -> None:
        info = torch.finfo(dtype)
        least = torch.tensor(1, dtype=torch.int32 if dtype == torch.float32 else torch.int16).view(dtype).item()
        ends = torch.tensor([info.max, info.tiny, least, 3 * least, info.eps, 2688.0], dtype=torch.float64)
        x = ends.unsqueeze(1) * torch.linspace(-1, 1, 64, dtype=torch.float64)
        assert_as_step_by_step(x.to(dtype).to(device))

    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_of_any_strides(self, device: torch.device, dtype: torch.dtype, layout: str) -> None:
        for rows, k in ((5, 48), (9, 624), (3, 4144), (131, 64)):
            x = laid_out(wide_values(rows, k, dtype, device), **LAYOUTS[layout])  # type: ignore[arg-type]
            assert_as_step_by_step(x)
        assert_as_step_by_step(wide_values(1, 64, dtype, device).expand(5, 64))
        assert_as_step_by_step(wide_values(5, 1, dtype, device).expand(5, 64))

    def test_under_any_factor(self, device: torch.device, dtype: torch.dtype) -> None:
        x = wide_values(130, 96, dtype, device)
        for value in (1.0, 0.3, -2.0, 0.0, 1e-38, 3e38, torch.inf):
            assert_as_step_by_step(x, torch.tensor(value, device=device))
        assert_as_step_by_step(x, torch.tensor([0.7], device=device))
        factors = torch.rand(130, 2, device=device)
        assert_as_step_by_step(x, factors[:, :1].contiguous())
        assert_as_step_by_step(x, factors[:, 1:])


def test_float32_of_any_bits(device: torch.device) -> None:
    """A NaN somewhere in most blocks of the second half, none in the first."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(-(2**31), 2**31, (300, 512), generator=generator).to(torch.int32).view(torch.float32)
    assert_as_step_by_step(torch.cat((x.masked_fill(~x.isfinite(), 1.0), x)).to(device))


class TestErrors:
    @pytest.mark.parametrize("where", ["cpu", "meta"])
    def test_are_those_of_quantize(self, where: str) -> None:
        good = torch.ones(3, 32, device=where)
        for x, factor in (
            (good[0], None),
            (good[:, :31], None),
            (good.double(), None),
            (good, torch.ones(2, device=where)),
            (good, torch.ones(3, 2, device=where)),
            (good, torch.ones((), dtype=torch.float64, device=where)),
            (good, torch.ones((), device="meta" if where == "cpu" else "cpu")),
        ):
            with pytest.raises(RuntimeError, match=r"^quantize: ") as alone:
                torch.ops.tileon.quantize(x, "nvfp4", factor)
            with pytest.raises(RuntimeError, match=f"^{re.escape(str(alone.value))}$"):
                op(x, factor)

    def test_a_gradient_is_refused(self) -> None:
        x = torch.ones(3, 32, requires_grad=True)
        with pytest.raises(RuntimeError, match=r"^_quantize_nvfp4_rows: `x` requires grad"):
            op(x)
        with torch.no_grad():
            assert not op(x)[2].requires_grad


class TestTransforms:
    @pytest.fixture(autouse=True)
    def _fresh_compiler(self) -> Iterator[None]:
        torch._dynamo.reset()
        yield
        torch._dynamo.reset()

    @each_dtype
    def test_opcheck(self, device: torch.device, dtype: torch.dtype) -> None:
        for shape, factor in (((3, 48), None), ((130, 64), torch.tensor(0.5, device=device)), ((0, 32), None)):
            torch.library.opcheck(
                op, (normal(*shape, dtype=dtype, device=device), factor), {}, test_utils=OPCHECK_TESTS
            )

    def test_vmap_is_one_call(self, device: torch.device) -> None:
        rows = torch.rand(3, 128, 1, device=device) + 0.1
        for shape, dim in (((3, 5, 96), 0), ((5, 3, 96), 1), ((5, 96, 3), 2), ((3, 128, 32), 0), ((3, 0, 32), 0)):
            x = normal(*shape, dtype=torch.bfloat16, device=device)
            assert check(op, (dim,), x)["_quantize_nvfp4_rows"] == 1
            assert check(op, (dim, None), x, rows[0, 0])["_quantize_nvfp4_rows"] == 1
            assert check(op, (dim, 0), x, rows[:, 0, 0])["_quantize_nvfp4_rows"] == 1
        x = normal(3, 128, 32, dtype=torch.bfloat16, device=device)
        assert check(op, (0, 0), x, rows) == {"_quantize_nvfp4_rows": 1}
        with pytest.raises(RuntimeError, match=r"^quantize: `x` must be 2-D"):
            torch.vmap(op)(x[0])


@pytest.mark.gpu
class TestOnAGpu:
    @each_dtype
    def test_the_bits_of_the_cpu(self, dtype: torch.dtype) -> None:
        for rows, k in ((1027, 1120), (37, 14336), (11, 20000), (257, 528), (9, 65536)):
            x = with_rare_rows(wide_values(rows, k, dtype))
            for given in (x, laid_out(x, reverse=True)):
                on_gpu = op(given.cuda() if given is x else laid_out(x.cuda(), reverse=True), None)
                for actual, expected in zip(on_gpu, op(given, None), strict=True):
                    assert torch.equal(bits(actual).cpu(), bits(expected))

    def test_is_one_launch(self) -> None:
        x = normal(64, 8192, dtype=torch.bfloat16, device="cuda")
        factor = torch.tensor(0.5, device="cuda")
        op(x, factor)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            op(x, factor)
            torch.cuda.synchronize()
        kernels = [event.key for event in profile.key_averages() if "kernel" in event.key or "nvfp4" in event.key]
        assert len(kernels) == 1, kernels
        assert "quantize_nvfp4_rows" in kernels[0]
