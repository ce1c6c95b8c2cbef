"""`pack_scales` and `unpack_scales`: every byte where the formula of the packed layout puts it."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_float_operands import LAYOUTS, as_data, dtype_name, laid_out, random_bytes
from small_float_reference import BYTE, E4M3, E8M0, ceil_div, pack, packed_shape, same_bytes
from torch import Tensor

pack_scales, unpack_scales = torch.ops.tileon.pack_scales, torch.ops.tileon.unpack_scales

SCALE_DTYPES = (E8M0, E4M3, BYTE)
SIZES = ((1, 1), (1, 4), (31, 3), (32, 4), (33, 5), (127, 7), (128, 8), (129, 9), (256, 1), (300, 257), (1031, 2))
EMPTY = ((0, 0), (0, 1), (0, 9), (1, 0), (129, 0))

each_dtype = pytest.mark.parametrize("dtype", SCALE_DTYPES, ids=dtype_name)
each_layout = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)

examples = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def assert_bytes(actual: Tensor, expected: Tensor, dtype: torch.dtype, what: str = "") -> None:
    """A contiguous tensor of that dtype with these very bytes."""
    assert (actual.dtype, actual.shape) == (dtype, expected.shape), what
    assert actual.is_contiguous(), what
    assert same_bytes(actual, expected), what


class TestPack:
    @each_dtype
    @pytest.mark.parametrize(("rows", "cols"), SIZES)
    def test_every_byte_is_where_the_formula_says(
        self, device: torch.device, rows: int, cols: int, dtype: torch.dtype
    ) -> None:
        """The padding included, which is zero."""
        scale = random_bytes(rows, cols, seed=rows)
        assert_bytes(pack_scales(as_data(scale, dtype, device)), pack(scale), dtype)

    def test_by_hand(self, device: torch.device) -> None:
        """Row 128 + 2 * 32 + 5, column 4 + 3 is byte ((1 * 2 + 1) * 32 + 5) * 16 + 2 * 4 + 3."""
        scale = torch.zeros(200, 8, dtype=BYTE, device=device)
        scale[197, 7] = 9
        packed = pack_scales(scale)
        assert packed.shape == (2, 2, 32, 4, 4)
        assert packed[1, 1, 5, 2, 3].item() == 9
        assert packed.flatten().nonzero().item() == ((1 * 2 + 1) * 32 + 5) * 16 + 2 * 4 + 3

    def test_all_bytes_pass_unchanged(self, device: torch.device) -> None:
        """The NaN codes, both signs of zero and subnormal ones too: nothing is computed."""
        scale = torch.arange(256).to(BYTE).reshape(32, 8)
        for dtype in SCALE_DTYPES:
            assert_bytes(pack_scales(as_data(scale, dtype, device)), pack(scale), dtype)

    @each_layout
    @each_dtype
    def test_any_strides(self, device: torch.device, dtype: torch.dtype, layout: dict[str, object]) -> None:
        scale = random_bytes(141, 11, seed=1)
        strided = laid_out(as_data(scale, dtype, device), **layout)  # type: ignore[arg-type]
        assert_bytes(pack_scales(strided), pack(scale), dtype)

    @each_dtype
    def test_stride_zero(self, device: torch.device, dtype: torch.dtype) -> None:
        for shape in ((1, 6), (130, 1), (1, 1)):
            narrow = random_bytes(*shape, seed=2)
            wide = as_data(narrow, dtype, device).expand(130, 6)
            assert_bytes(pack_scales(wide), pack(narrow.expand(130, 6)), dtype, f"{shape}")

    @each_dtype
    @pytest.mark.parametrize(("rows", "cols"), EMPTY)
    def test_without_rows_or_columns(self, device: torch.device, rows: int, cols: int, dtype: torch.dtype) -> None:
        packed = pack_scales(torch.empty(rows, cols, dtype=BYTE, device=device).view(dtype))
        assert packed.shape == packed_shape(rows, cols)
        assert packed.dtype == dtype
        assert packed.numel() == 0


class TestUnpack:
    @each_dtype
    @pytest.mark.parametrize(("rows", "cols"), SIZES)
    def test_round_trip(self, device: torch.device, rows: int, cols: int, dtype: torch.dtype) -> None:
        scale = random_bytes(rows, cols, seed=rows)
        operand = as_data(scale, dtype, device)
        assert_bytes(unpack_scales(pack_scales(operand), rows, cols), scale, dtype)

    @each_dtype
    @pytest.mark.parametrize(("rows", "cols"), SIZES)
    def test_reads_what_the_formula_says(self, device: torch.device, rows: int, cols: int, dtype: torch.dtype) -> None:
        """From bytes that the oracle packed, with 0xFF in the padding."""
        scale = random_bytes(rows, cols, seed=cols)
        assert_bytes(unpack_scales(as_data(pack(scale, fill=0xFF), dtype, device), rows, cols), scale, dtype)

    def test_crops_to_any_size_the_blocks_hold(self, device: torch.device) -> None:
        """The whole padded matrix is there, and every size up to it."""
        whole = random_bytes(256, 12, seed=3)
        packed = as_data(pack(whole), BYTE, device)
        for rows in (0, 1, 31, 33, 100, 128, 129, 255, 256):
            for cols in (0, 1, 3, 4, 5, 11, 12):
                assert_bytes(unpack_scales(packed, rows, cols), whole[:rows, :cols].contiguous(), BYTE)

    @each_layout
    @each_dtype
    def test_any_strides(self, device: torch.device, dtype: torch.dtype, layout: dict[str, object]) -> None:
        scale = random_bytes(150, 10, seed=4)
        strided = laid_out(as_data(pack(scale, fill=0xFF), dtype, device), **layout)  # type: ignore[arg-type]
        assert_bytes(unpack_scales(strided, 150, 10), scale, dtype)

    def test_any_order_of_the_dimensions(self, device: torch.device) -> None:
        scale = random_bytes(150, 10, seed=5)
        packed = as_data(pack(scale), E8M0, device)
        for order in ((0, 1, 2, 3, 4), (4, 3, 2, 1, 0), (2, 0, 4, 1, 3), (3, 4, 0, 2, 1), (0, 3, 2, 1, 4)):
            inverse = sorted(range(5), key=order.__getitem__)
            strided = packed.view(BYTE).permute(order).contiguous().permute(inverse).view(E8M0)
            assert_bytes(unpack_scales(strided, 150, 10), scale, E8M0, f"{order}")

    def test_stride_zero(self, device: torch.device) -> None:
        one = torch.full((1, 1, 1, 1, 1), 77, dtype=BYTE, device=device)
        assert_bytes(unpack_scales(one.expand(2, 3, 32, 4, 4), 256, 12), torch.full((256, 12), 77, dtype=BYTE), BYTE)

    @each_dtype
    @pytest.mark.parametrize(("rows", "cols"), EMPTY)
    def test_without_rows_or_columns(self, device: torch.device, rows: int, cols: int, dtype: torch.dtype) -> None:
        empty = torch.empty(packed_shape(rows, cols), dtype=BYTE, device=device).view(dtype)
        unpacked = unpack_scales(empty, rows, cols)
        assert (unpacked.shape, unpacked.dtype) == ((rows, cols), dtype)

    def test_more_than_the_blocks_hold_is_an_error(self, device: torch.device) -> None:
        packed = torch.zeros(2, 3, 32, 4, 4, dtype=BYTE, device=device)
        for rows, cols, name, value in ((257, 12, "rows", 257), (256, 13, "cols", 13), (-1, 2, "rows", -1)):
            with pytest.raises(RuntimeError, match=rf"^unpack_scales: .*`{name}`.*{value}"):
                unpack_scales(packed, rows, cols)


@examples
@given(
    rows=st.integers(0, 300),
    cols=st.integers(0, 40),
    dtype=st.sampled_from(SCALE_DTYPES),
    layouts=st.tuples(st.sampled_from(list(LAYOUTS.values())), st.sampled_from(list(LAYOUTS.values()))),
    spare=st.tuples(st.integers(0, 140), st.integers(0, 9)),
)
def test_any_size_and_any_strides(
    device: torch.device,
    rows: int,
    cols: int,
    dtype: torch.dtype,
    layouts: tuple[dict[str, object], dict[str, object]],
    spare: tuple[int, int],
) -> None:
    """There and back through strided tensors on both sides, cropped by any amount."""
    scale = random_bytes(rows, cols, seed=rows * 1000 + cols)
    packed = pack_scales(laid_out(as_data(scale, dtype, device), **layouts[0]))  # type: ignore[arg-type]
    assert_bytes(packed, pack(scale), dtype)
    rows, cols = max(rows - spare[0], 0), max(cols - spare[1], 0)
    strided = laid_out(packed, **layouts[1])  # type: ignore[arg-type]
    assert_bytes(unpack_scales(strided, rows, cols), scale[:rows, :cols].contiguous(), dtype)


@each_dtype
def test_the_same_bytes_as_torchaos_to_blocked(device: torch.device, dtype: torch.dtype) -> None:
    utils = pytest.importorskip("torchao.prototype.mx_formats.utils")
    for rows, cols in SIZES:
        scale = random_bytes(rows, cols, seed=6)
        blocked = utils.to_blocked(scale.to(device))
        assert blocked.numel() == 512 * ceil_div(rows, 128) * ceil_div(cols, 4)
        assert torch.equal(pack_scales(as_data(scale, dtype, device)).view(BYTE).flatten(), blocked.flatten())
