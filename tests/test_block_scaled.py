"""`block_scaled_matmul` where any order of summation gives the same bits: small integers, structured operands."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch
from block_scaled_operands import (
    FORMATS,
    NVFP4,
    SCALE_PAIRS,
    Format,
    Operand,
    block_selector,
    constant,
    each_format,
    encode_integers,
    generator,
    identity,
    multiply,
    random_codes,
    small_integers,
)
from block_scaled_reference import assert_exact_product, dequantize, product
from torch import Tensor

from tileon_ops._rules.configs import block_scaled, config_of

each_scale_pair = pytest.mark.parametrize("forms", SCALE_PAIRS, ids="-".join)

ROWS = (1, 127, 128, 129)


def shapes() -> list[tuple[int, int, int]]:
    """(m, n, blocks of k): the edges of the packed layout's 128 rows and 4 columns, and longer ones."""
    around_128 = [(m, n, blocks) for m, n in itertools.product(ROWS, ROWS) for blocks in (1, 5)]
    around_4 = [(67, 33, blocks) for blocks in (1, 2, 3, 4, 6, 7, 8, 9)]
    return [*around_128, *around_4, (2, 3, 67), (257, 300, 13), (33, 400, 16)]


class TestExactIntegers:
    @each_scale_pair
    @each_format
    def test_every_size_category(self, device: torch.device, fmt: Format, forms: tuple[str, str]) -> None:
        for m, n, blocks in shapes():
            k = blocks * fmt.vec
            a, b = small_integers(fmt, "a", m, k).to(device), small_integers(fmt, "b", n, k, seed=1).to(device)
            actual = multiply(a, b, forms=forms, out_dtype=torch.float32)
            assert_exact_product(actual, a, b, f"{m}x{n}x{k}")

    @each_format
    def test_k_of_up_to_64_blocks_around_the_tiles_of_a_kernel(self, device: torch.device, fmt: Format) -> None:
        for blocks in (10, 11, 12, 15, 17, 31, 32, 33, 63, 64):
            k = blocks * fmt.vec
            a, b = small_integers(fmt, "a", 65, k).to(device), small_integers(fmt, "b", 70, k, seed=1).to(device)
            assert_exact_product(multiply(a, b, forms=("packed", "2d"), out_dtype=torch.float32), a, b, f"k {k}")

    @each_format
    def test_large_and_many_tiles(self, device: torch.device, fmt: Format) -> None:
        m, n = (2625, 1801) if device.type == "cuda" else (425, 825)
        k = 5 * fmt.vec
        a, b = small_integers(fmt, "a", m, k).to(device), small_integers(fmt, "b", n, k, seed=1).to(device)
        assert_exact_product(multiply(a, b, forms=("packed", "packed"), out_dtype=torch.float32), a, b)

    @each_format
    def test_the_bits_are_the_same_every_time(self, device: torch.device, fmt: Format) -> None:
        for m, n, blocks in ((65, 67, 33), (300, 200, 64), (1, 128, 100)):
            k = blocks * fmt.vec
            a, b = random_codes(fmt, "a", m, k).to(device), random_codes(fmt, "b", n, k, seed=1).to(device)
            first = multiply(a, b, activation="silu", out_dtype=torch.float32)
            for _ in range(4):
                again = multiply(a, b, activation="silu", out_dtype=torch.float32)
                assert torch.equal(again.view(torch.int32), first.view(torch.int32))


class TestStructured:
    """The cases that no wrong layout passes."""

    @each_scale_pair
    @each_format
    def test_identity_gives_back_the_other_operand(
        self, device: torch.device, fmt: Format, forms: tuple[str, str]
    ) -> None:
        """All finite codes at every position along k, under scales of many binades, come out bit for bit."""
        for rows, blocks in ((1, 1), (130, 5), (300, 8)):
            k = blocks * fmt.vec
            a, b = random_codes(fmt, "a", rows, k).to(device), random_codes(fmt, "b", rows, k).to(device)
            from_a = multiply(a, identity(fmt, "b", k).to(device), forms=forms, out_dtype=torch.float32)
            assert torch.equal(from_a.double(), dequantize(a)), f"a, {rows} rows, k {k}"
            from_b = multiply(identity(fmt, "a", k).to(device), b, forms=forms, out_dtype=torch.float32)
            assert torch.equal(from_b.double(), dequantize(b).t()), f"b, {rows} rows, k {k}"

    @each_scale_pair
    @each_format
    def test_ones_count_k(self, device: torch.device, fmt: Format, forms: tuple[str, str]) -> None:
        for m, n, blocks in ((1, 1, 1), (129, 130, 5), (64, 256, 32)):
            k = blocks * fmt.vec
            a, b = constant(fmt, "a", m, k).to(device), constant(fmt, "b", n, k).to(device)
            assert bool((multiply(a, b, forms=forms) == k).all()), f"{m}x{n}x{k}"

    @each_scale_pair
    @each_format
    def test_every_scale_reaches_its_block(self, device: torch.device, fmt: Format, forms: tuple[str, str]) -> None:
        """Against an operand that picks one block a column, the product is vec times the scales, one by one."""
        for rows, blocks in ((1, 1), (127, 3), (128, 4), (129, 5), (300, 21)):
            k = blocks * fmt.vec
            for side, other in (("a", "b"), ("b", "a")):
                operand = replace(constant(fmt, side, rows, k), scales=any_scales(fmt, rows, blocks)).to(device)
                pair = {side: operand, other: block_selector(fmt, other, k).to(device)}
                actual = multiply(pair["a"], pair["b"], forms=forms, out_dtype=torch.float32)
                assert_exact_product(actual, pair["a"], pair["b"], f"{side}, {rows} rows, {blocks} blocks")

    @each_scale_pair
    @each_format
    @pytest.mark.parametrize("what", ["block", "scale"])
    def test_one_change_reaches_one_row_or_column(
        self, device: torch.device, what: str, fmt: Format, forms: tuple[str, str]
    ) -> None:
        rows, blocks = 133, 6
        k = blocks * fmt.vec
        ones = {side: constant(fmt, side, rows, k) for side in ("a", "b")}
        for side, row, block in itertools.product(("a", "b"), (0, 31, 32, 127, 128, 132), (0, 3, 4, 5)):
            pair = dict(ones)
            pair[side] = doubled(ones[side], row, block, what)
            actual = multiply(pair["a"].to(device), pair["b"].to(device), forms=forms, out_dtype=torch.float32)
            wanted = torch.full((rows, rows), float(k), device=device)
            (wanted if side == "a" else wanted.t())[row] += fmt.vec
            assert torch.equal(actual, wanted), f"{side}, row {row}, block {block}"


def any_scales(fmt: Format, rows: int, blocks: int) -> Tensor:
    """Finite scales of nearly the whole range: their sums over a block are exact in float32."""
    source = generator("scales", rows, blocks)
    if fmt.scale == "e8m0":
        return torch.randint(4, 240, (rows, blocks), generator=source, dtype=torch.uint8)
    magnitude = torch.randint(0, 0x7F, (rows, blocks), generator=source, dtype=torch.uint8)
    return magnitude | torch.randint(0, 2, (rows, blocks), generator=source, dtype=torch.uint8) << 7


def doubled(operand: Operand, row: int, block: int, what: str) -> Operand:
    """An operand of ones with one block of twos, or a scale of 2."""
    codes, scales = operand.codes.clone(), operand.scales.clone()
    if what == "block":
        codes[row, block * operand.vec :][: operand.vec] = encode_integers(torch.tensor(2), operand.element)
    else:
        scales[row, block] += 8 if operand.scale == "e4m3" else 1
    return replace(operand, codes=codes, scales=scales)


class TestSizesOfZero:
    @each_scale_pair
    @each_format
    @pytest.mark.parametrize("shape", [(0, 5, 2), (5, 0, 2), (5, 7, 0), (0, 0, 0), (0, 5, 0)], ids=str)
    def test_follow_matmul(
        self, device: torch.device, shape: tuple[int, int, int], fmt: Format, forms: tuple[str, str]
    ) -> None:
        m, n, blocks = shape
        a = constant(fmt, "a", m, blocks * fmt.vec).to(device)
        b = constant(fmt, "b", n, blocks * fmt.vec).to(device)
        actual = multiply(a, b, forms=forms)
        assert actual.shape == (m, n)
        assert actual.dtype == torch.float16
        assert torch.equal(actual, torch.zeros_like(actual))

    @each_format
    def test_no_k_gives_the_activation_of_the_bias(self, device: torch.device, fmt: Format) -> None:
        a, b = constant(fmt, "a", 3, 0).to(device), constant(fmt, "b", 4, 0).to(device)
        bias = torch.tensor([-2.0, 0.0, 1.0, 3.0], device=device)
        factor = torch.tensor(5.0, device=device)
        actual = multiply(a, b, bias, factor, activation="leaky_relu", slope=0.5, out_dtype=torch.bfloat16)
        assert torch.equal(actual.float(), torch.tensor([-1.0, 0.0, 1.0, 3.0], device=device).expand(3, 4))


class TestResult:
    @each_format
    def test_is_fresh_and_contiguous(self, device: torch.device, fmt: Format) -> None:
        a, b = small_integers(fmt, "a", 5, 64).to(device), small_integers(fmt, "b", 6, 64).to(device)
        first, second = multiply(a, b), multiply(a, b)
        assert first.is_contiguous()
        assert first.data_ptr() != second.data_ptr()
        assert first.device.type == device.type

    @each_format
    def test_leaves_its_operands_alone(self, device: torch.device, fmt: Format) -> None:
        a, b = random_codes(fmt, "a", 70, 96).to(device), random_codes(fmt, "b", 65, 96, seed=1).to(device)
        tensors = [a.data(), b.data(), a.scale_tensor("packed"), b.scale_tensor()]
        tensors += [torch.ones(65, device=device), torch.tensor(2.0, device=device)]
        before = [t.clone() for t in tensors]
        torch.ops.tileon.block_scaled_matmul(*tensors, activation="relu")
        assert all(
            torch.equal(t.view(torch.uint8) if t.dim() else t, was.view(torch.uint8) if t.dim() else was)
            for t, was in zip(tensors, before, strict=True)
        )

    @each_format
    def test_what_ran_is_known(self, device: torch.device, fmt: Format) -> None:
        a, b = constant(fmt, "a", 64, 64).to(device), constant(fmt, "b", 64, 64).to(device)
        multiply(a, b)
        kernel = torch.ops.tileon._last_kernel()
        if device.type == "cpu":
            assert kernel.startswith("cpu_tiles_")
        else:
            assert config_of(kernel) in block_scaled()

    def test_the_same_tensor_twice(self, device: torch.device) -> None:
        for fmt in FORMATS:
            if fmt.a == fmt.b:
                a = small_integers(fmt, "a", 70, 96).to(device)
                data, scale = a.data(), a.scale_tensor()
                actual = torch.ops.tileon.block_scaled_matmul(data, data, scale, scale, out_dtype=torch.float32)
                assert_exact_product(actual, a, a, str(fmt))


class TestMakersAndOracle:
    """What the other tests rest on, checked against torch's own decoding and against numbers worked out by hand."""

    def test_the_tables_are_the_formats(self) -> None:
        from block_scaled_reference import VALUES

        codes = torch.arange(256, dtype=torch.uint8)
        e4m3 = codes.view(torch.float8_e4m3fn).double()
        torch.testing.assert_close(VALUES["e4m3"], e4m3, rtol=0, atol=0, equal_nan=True)
        e8m0 = codes.view(torch.float8_e8m0fnu).float().double()
        torch.testing.assert_close(VALUES["e8m0"][1:], e8m0[1:], rtol=0, atol=0, equal_nan=True)
        assert VALUES["e8m0"][0].item() == 2.0**-127
        assert VALUES["e2m1"][:8].tolist() == [0, 0.5, 1, 1.5, 2, 3, 4, 6]
        assert VALUES["e2m1"][8:16].tolist() == [-0.0, -0.5, -1, -1.5, -2, -3, -4, -6]

    def test_rounding_to_e4m3_is_torchs_inside_its_range(self) -> None:
        from block_scaled_reference import round_to_e4m3

        values = torch.cat((torch.linspace(-448, 448, 40001), torch.linspace(-0.05, 0.05, 4001))).double()
        assert torch.equal(round_to_e4m3(values), values.to(torch.float8_e4m3fn).double())
        outside = torch.tensor([449.0, 464.0, 465.0, 1e300, float("inf"), -465.0, -float("inf")], dtype=torch.float64)
        assert round_to_e4m3(outside).tolist() == [448.0] * 5 + [-448.0] * 2

    def test_nibbles_and_packed_scales(self) -> None:
        from block_scaled_operands import pack_nibbles, pack_scales, unpack_nibbles, unpack_scales

        codes = torch.tensor([[1, 2, 3, 4]], dtype=torch.uint8)
        assert pack_nibbles(codes).tolist() == [[0x21, 0x43]]
        assert torch.equal(unpack_nibbles(pack_nibbles(codes)), codes)
        scales = torch.randint(0, 255, (300, 7), dtype=torch.uint8)
        packed = pack_scales(scales)
        assert packed.shape == (3, 2, 32, 4, 4)
        for m, s in ((0, 0), (33, 1), (127, 3), (128, 4), (299, 6)):
            at = ((m // 128) * 2 + s // 4) * 512 + (m % 32) * 16 + (m % 128 // 32) * 4 + s % 4
            assert packed.view(-1)[at] == scales[m, s]
        assert torch.equal(unpack_scales(packed, 300, 7), scales)

    @each_format
    def test_integers_are_exact_in_float32(self, fmt: Format) -> None:
        """The sum of magnitudes, in units of the smallest product, fits 24 bits."""
        a, b = small_integers(fmt, "a", 20, 64 * fmt.vec), small_integers(fmt, "b", 20, 64 * fmt.vec, seed=1)
        unit = 2.0**-2
        assert float((dequantize(a) * 2).frac().abs().max()) == 0
        assert float(product(a, b).magnitude.max()) / unit < 2**24
        assert fmt.vec == (16 if fmt is NVFP4 else 32)
