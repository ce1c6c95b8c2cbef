"""`matmul.out`: an output of any strides, and nothing outside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from operands import Placed, integers, normal, place
from reference import DTYPE_PAIRS, MATMUL_DTYPES, OUT_DTYPES, assert_exact
from torch import Tensor

import tileon_ops

matmul = torch.ops.tileon.matmul

OUTPUTS: dict[str, Callable[[Tensor], Placed]] = {
    "contiguous": lambda values: place(values),
    "odd offset": lambda values: place(values, offset=1),
    "offset 3": lambda values: place(values, offset=3),
    "odd pad": lambda values: place(values, pad=5),
    "pad 8": lambda values: place(values, pad=8),
    "step 2": lambda values: place(values, step=2),
    "step 3, offset 1": lambda values: place(values, step=3, pad=1, offset=1),
    "transposed": lambda values: place(values, transposed=True),
    "transposed, odd pad": lambda values: place(values, transposed=True, pad=3, offset=1),
    "transposed, step 2": lambda values: place(values, transposed=True, step=2),
}


class TestOut:
    """`out` of any strides, surrounded by NaNs that must stay, filled with NaNs that must go."""

    @pytest.mark.parametrize(("dtype", "out_dtype"), DTYPE_PAIRS, ids=str)
    @pytest.mark.parametrize("where", OUTPUTS)
    def test_writes_the_view_and_nothing_else(
        self, device: torch.device, where: str, dtype: torch.dtype, out_dtype: torch.dtype
    ) -> None:
        for m, n, k in ((1, 1, 1), (64, 64, 32), (65, 67, 33), (130, 129, 0), (3, 200, 40), (200, 3, 40)):
            a, b = integers(m, k, dtype=dtype, device=device), integers(k, n, dtype=dtype, device=device, seed=1)
            out = OUTPUTS[where](torch.full((m, n), float("nan"), dtype=out_dtype, device=device))
            assert matmul.out(a, b, out_dtype=out_dtype, out=out.view) is None
            assert_exact(out.view, a.double() @ b.double(), out_dtype, f"{m}x{n}x{k}")
            assert out.margin_is_intact(), f"{m}x{n}x{k}: something outside out was written"

    @pytest.mark.parametrize("where", OUTPUTS)
    @pytest.mark.parametrize("dtype", MATMUL_DTYPES, ids=str)
    def test_batched(self, device: torch.device, where: str, dtype: torch.dtype) -> None:
        a, b = integers(3, 65, 33, dtype=dtype, device=device), integers(3, 33, 67, dtype=dtype, device=device, seed=1)
        bias = integers(67, dtype=dtype, device=device, seed=2)
        out = OUTPUTS[where](torch.full((3, 65, 67), float("nan"), dtype=dtype, device=device))
        matmul.out(a, b, bias, activation="relu", out=out.view)
        assert_exact(out.view, (a.double() @ b.double() + bias.double()).relu(), dtype)
        assert out.margin_is_intact()

    def test_batch_as_the_fastest_dimension(self, device: torch.device) -> None:
        for dtype in MATMUL_DTYPES:
            a, b = integers(3, 65, 33, dtype=dtype, device=device), integers(33, 67, dtype=dtype, device=device, seed=1)
            out = place(torch.full((3, 65, 67), float("nan"), dtype=dtype, device=device), batch_last=True)
            matmul.out(a, b, out=out.view)
            assert_exact(out.view, a.double() @ b.double(), dtype)
            assert out.margin_is_intact()

    @pytest.mark.parametrize("shape", [(0, 5, 3), (5, 0, 3), (0, 0, 0)], ids=str)
    def test_empty(self, device: torch.device, shape: tuple[int, int, int]) -> None:
        m, n, k = shape
        out = place(torch.full((m, n), float("nan"), device=device))
        matmul.out(torch.ones(m, k, device=device), torch.ones(k, n, device=device), out=out.view)
        assert out.margin_is_intact()

    @pytest.mark.parametrize("dtype", MATMUL_DTYPES, ids=str)
    def test_gives_the_bits_of_the_functional_form(self, device: torch.device, dtype: torch.dtype) -> None:
        a, b = normal(129, 300, dtype=dtype, device=device), normal(300, 130, dtype=dtype, device=device, seed=1)
        for out_dtype in OUT_DTYPES[dtype]:
            out = torch.empty(129, 130, dtype=out_dtype, device=device)
            matmul.out(a, b, activation="gelu", out_dtype=out_dtype, out=out)
            assert torch.equal(out, matmul(a, b, activation="gelu", out_dtype=out_dtype))

    def test_may_lie_in_the_same_storage_apart_from_the_inputs(self, device: torch.device) -> None:
        storage = torch.zeros(3 * 64 * 64, device=device)
        a, b, out = (storage[i * 4096 : (i + 1) * 4096].view(64, 64) for i in range(3))
        a.fill_(2)
        b.fill_(3)
        matmul.out(a, b, out=out)
        assert torch.equal(out, torch.full_like(out, 384))

    def test_a_lazy_clone_shares_no_memory_once_it_is_written(self, device: torch.device) -> None:
        """torch copies what it shares with its source at the first write."""
        source = torch.ones(4, 4, device=device)
        clone = torch._lazy_clone(source)
        matmul.out(source, source, out=clone)
        assert torch.equal(clone, torch.full_like(clone, 4))
        clone = torch._lazy_clone(source)
        matmul.out(clone, clone, out=source)
        assert torch.equal(source, torch.full_like(source, 4))
        assert torch.equal(clone, torch.ones_like(clone))

    def test_bumps_the_version(self, device: torch.device) -> None:
        a, out = torch.ones(4, 4, device=device), torch.empty(4, 4, device=device)
        version = out._version
        matmul.out(a, a, out=out)
        assert out._version > version


def operands_of_ones(op: str, device: torch.device) -> tuple[Tensor, ...]:
    """A product of 4 x 4 elements, each of them 64."""
    ones = torch.ones(4, 64, device=device)
    if op == "matmul":
        return ones, ones.t()
    codes, scales = ones.to(torch.float8_e4m3fn), torch.full((4, 2), 127, dtype=torch.uint8, device=device)
    return codes, codes, scales, scales


@pytest.mark.parametrize("face", [torch.ops.tileon, tileon_ops], ids=["op", "wrapper"])
@pytest.mark.parametrize("op", ["matmul", "block_scaled_matmul"])
class TestInferenceTensors:
    """torch counts no writes of these, and so lets nobody write them outside inference mode."""

    def write(self, face: Any, op: str, operands: tuple[Tensor, ...], out: Tensor) -> None:
        call = getattr(face, op)
        (call.out if face is torch.ops.tileon else call)(*operands, out_dtype=torch.float32, out=out)

    def test_are_refused_before_anything_is_written(self, device: torch.device, face: Any, op: str) -> None:
        with torch.inference_mode():
            out, of_that_mode = torch.full((4, 4), 7.0, device=device), operands_of_ones(op, device)
        for operands in (operands_of_ones(op, device), of_that_mode):
            for view in (out, out.t()):
                with pytest.raises(RuntimeError, match=rf"^{op}: `out` must not be an inference tensor outside"):
                    self.write(face, op, operands, view)
        assert torch.equal(out, torch.full_like(out, 7))

    def test_are_written_in_inference_mode(self, device: torch.device, face: Any, op: str) -> None:
        with torch.inference_mode():
            out, of_that_mode = torch.zeros(4, 4, device=device), operands_of_ones(op, device)
            for operands in (operands_of_ones(op, device), of_that_mode):
                self.write(face, op, operands, out.zero_())
                assert torch.equal(out, torch.full_like(out, 64))

    def test_others_are_written_in_inference_mode_and_that_is_counted(
        self, device: torch.device, face: Any, op: str
    ) -> None:
        out = torch.zeros(4, 4, device=device)
        version = out._version
        with torch.inference_mode():
            self.write(face, op, operands_of_ones(op, device), out)
        assert torch.equal(out, torch.full_like(out, 64))
        assert out._version > version


@pytest.mark.parametrize("merges", [True, False], ids=["merging", "not merging"])
def test_an_inference_tensor_of_more_dimensions_is_refused_before_anything_is_written(
    device: torch.device, merges: bool
) -> None:
    a, b = torch.ones(2, 3, 4, 8, device=device), torch.ones(8, 4, device=device)
    with torch.inference_mode():
        storage = torch.full((2, 4, 3, 4), 7.0, device=device)
        out = storage.view(2, 3, 4, 4) if merges else storage.transpose(1, 2)
    with pytest.raises(RuntimeError, match=r"^matmul: `out` must not be an inference tensor outside"):
        tileon_ops.matmul(a, b, out=out)
    assert torch.equal(out, torch.full_like(out, 7))
