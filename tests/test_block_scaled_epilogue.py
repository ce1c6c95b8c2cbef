"""What `block_scaled_matmul` does to its sums: global_scale, bias, activation, the rounding to the output's dtype."""

from __future__ import annotations

import pytest
import torch
from block_scaled_operands import (
    MIXED,
    MXFP8,
    NVFP4,
    Format,
    constant,
    each_format,
    generator,
    multiply,
    small_integers,
)
from block_scaled_reference import VALUES, assert_product, expected, product, round_to_e4m3
from reference import ACTIVATIONS

E4M3 = torch.float8_e4m3fn
OUT_DTYPES = (torch.float16, torch.bfloat16, torch.float32, E4M3)
NAN, INF = float("nan"), float("inf")


def bias_dtypes(out_dtype: torch.dtype) -> tuple[torch.dtype, ...]:
    return (torch.float32,) if out_dtype == E4M3 else tuple({out_dtype, torch.float32})


def random_bias(n: int, dtype: torch.dtype) -> torch.Tensor:
    return (4 * torch.randn(n, generator=generator("bias", n))).to(dtype)


@each_format
@pytest.mark.parametrize("out_dtype", OUT_DTYPES, ids=str)
def test_every_combination(device: torch.device, out_dtype: torch.dtype, fmt: Format) -> None:
    m, n, k = 67, 131, 96
    a, b = small_integers(fmt, "a", m, k).to(device), small_integers(fmt, "b", n, k, seed=1).to(device)
    total = product(a, b)
    biases = [None, *(random_bias(n, dtype).to(device) for dtype in bias_dtypes(out_dtype))]
    factors = [None, *(torch.tensor(value, device=device) for value in (0.01, -0.3, 2.0**-6))]
    for bias in biases:
        for factor in factors:
            for activation in ACTIVATIONS:
                options = {"activation": activation, "slope": 0.2, "out_dtype": out_dtype}
                wanted = expected(total, bias, factor, **options)  # type: ignore[arg-type]
                what = f"bias {None if bias is None else bias.dtype}, global_scale {factor}, {activation}"
                assert_product(multiply(a, b, bias, factor, **options), wanted, what)


@each_format
def test_the_default_output_is_float16(device: torch.device, fmt: Format) -> None:
    a, b = constant(fmt, "a", 3, 64).to(device), constant(fmt, "b", 4, 64).to(device)
    assert multiply(a, b).dtype == torch.float16


class TestGlobalScale:
    @each_format
    def test_multiplies_the_sum_and_not_the_bias(self, device: torch.device, fmt: Format) -> None:
        a, b = constant(fmt, "a", 3, 64).to(device), constant(fmt, "b", 4, 64).to(device)
        bias, factor = torch.tensor([1.0, 2.0, 3.0, 4.0], device=device), torch.tensor(0.25, device=device)
        actual = multiply(a, b, bias, factor, out_dtype=torch.float32)
        assert actual.tolist() == [[17.0, 18.0, 19.0, 20.0]] * 3
        assert multiply(a, b, None, -factor, activation="relu").abs().max().item() == 0

    @each_format
    def test_of_no_and_of_one_dimension_is_the_same(self, device: torch.device, fmt: Format) -> None:
        a, b = small_integers(fmt, "a", 33, 64).to(device), small_integers(fmt, "b", 34, 64).to(device)
        factor = torch.tensor(0.3, device=device)
        first = multiply(a, b, None, factor)
        assert torch.equal(multiply(a, b, None, factor.view(1)), first)
        among_others = torch.tensor([NAN, 0.3, NAN], device=device)
        assert torch.equal(multiply(a, b, None, among_others[1]), first)
        assert torch.equal(multiply(a, b, None, among_others[1:2]), first)
        assert torch.equal(multiply(a, b, None, factor.expand(1)), first)

    def test_of_every_size(self, device: torch.device) -> None:
        """Powers of two are exact over all of float32's range; NaN and infinity do as IEEE has it."""
        a, b = constant(NVFP4, "a", 2, 64).to(device), constant(NVFP4, "b", 3, 64).to(device)
        for value in (0.0, -1.0, 2.0**-149, 2.0**-126, -(2.0**-60), 2.0**121, INF, -INF):
            factor = torch.tensor(value, dtype=torch.float32, device=device)
            assert bool((multiply(a, b, None, factor, out_dtype=torch.float32) == 64 * value).all()), value
        factor = torch.tensor(NAN, device=device)
        assert bool(multiply(a, b, None, factor).isnan().all())
        zeros = constant(NVFP4, "a", 2, 64, value=0).to(device)
        factor = torch.tensor(INF, device=device)
        assert bool(multiply(zeros, b, None, factor).isnan().all())


class TestBias:
    @each_format
    def test_of_any_stride(self, device: torch.device, fmt: Format) -> None:
        a, b = small_integers(fmt, "a", 9, 64).to(device), small_integers(fmt, "b", 130, 64, seed=1).to(device)
        total = product(a, b)
        for dtype in (torch.float16, torch.float32):
            values = random_bias(401, dtype).to(device)
            for bias in (values[1:131], values[1::3][:130], values[7:8].expand(130)):
                wanted = expected(total, bias, out_dtype=torch.float16)
                assert_product(multiply(a, b, bias), wanted, f"{dtype} stride {bias.stride()}")


class TestE4M3Output:
    """Zero sums and a float32 bias: every value passes through the output's rounding as it is."""

    def rounded(self, device: torch.device, values: torch.Tensor) -> torch.Tensor:
        a = constant(MXFP8, "a", 2, 32, value=0).to(device)
        b = constant(MXFP8, "b", len(values), 32).to(device)
        actual = multiply(a, b, values.to(device), out_dtype=E4M3)
        assert torch.equal(actual[0].view(torch.uint8), actual[1].view(torch.uint8))
        return actual[0].cpu()

    def test_rounds_to_nearest_even(self, device: torch.device) -> None:
        """Every value of the format, every middle between two of them, and float32's neighbours of those."""
        steps = VALUES["e4m3"][:0x7F].float()
        exact = torch.cat((steps, (steps[1:] + steps[:-1]) / 2))
        around = torch.cat((exact, exact.nextafter(torch.tensor(INF)), exact.nextafter(torch.tensor(-INF))))
        values = torch.cat((around, -around))
        assert torch.equal(self.rounded(device, values).double(), round_to_e4m3(values.double()))

    def test_saturates_and_keeps_nan(self, device: torch.device) -> None:
        values = torch.tensor([448.0, 463.9, 464.0, 480.0, 512.0, 1e38, INF, -464.0, -1e38, -INF])
        assert self.rounded(device, values).tolist() == [448.0] * 7 + [-448.0] * 3
        codes = self.rounded(device, torch.tensor([NAN, 1.0])).view(torch.uint8).tolist()
        assert codes[0] in (0x7F, 0xFF)
        assert codes[1] == 0x38


@pytest.mark.parametrize("out_dtype", [torch.float16, torch.bfloat16], ids=str)
def test_16_bit_outputs_round_to_nearest_even(device: torch.device, out_dtype: torch.dtype) -> None:
    """Sums that lie in the middle between two values of the output: 2049 of float16, 257 of bfloat16."""
    a = constant(MIXED, "a", 60, 2400).to(device)
    a.codes[:] = (torch.arange(2400, device=device) < 40 * torch.arange(1, 61, device=device)[:, None] + 1) * 0x38
    b = constant(MIXED, "b", 5, 2400).to(device)
    sums = torch.arange(1, 61, device=device) * 40 + 1
    actual = multiply(a, b, out_dtype=out_dtype)
    assert torch.equal(actual, sums.clamp(max=2400).to(out_dtype)[:, None].expand(60, 5))
