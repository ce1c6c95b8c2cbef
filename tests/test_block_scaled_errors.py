"""Bad calls of `block_scaled_matmul`: the same message on every device and under fake tensors, nothing written."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from bad_calls import BadCall, Make
from bad_calls_block_scaled import BAD_CALLS, BAD_OUTS, BAD_OVERLAPS, E4M3, FP4, U8, build, good, of
from block_scaled_operands import FORMATS, MXFP8, NVFP4, Format, each_format
from test_errors import message, neutral, parametrize, skip_without_second_device
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

op = torch.ops.tileon.block_scaled_matmul
OUTPUTS = (torch.float16, torch.bfloat16, torch.float32, E4M3)


def nothing_yet(device: torch.device, options: dict[str, Any]) -> Tensor:
    """An `out` that suits a call whose other arguments are wrong."""
    asked = options.get("out_dtype")
    return torch.ones(3, 5, device=device).to(asked if asked in OUTPUTS else torch.float16)


def both_messages(bad: BadCall, device: torch.device) -> tuple[str, str, Tensor]:
    arguments, options = bad.build(Make(device))
    out = nothing_yet(device, options)
    return message(op, arguments, options), message(op.out, arguments, {**options, "out": out}), out


def as_bytes(tensor: Tensor) -> Tensor:
    """For torch.equal, which float4 does not have."""
    return tensor.contiguous().view(U8) if tensor.dtype != FP4 and tensor.dim() else tensor


def test_the_tables_hold_at_least_forty_bad_calls() -> None:
    names = [bad.name for bad in (*BAD_CALLS, *BAD_OUTS, *BAD_OVERLAPS)]
    assert len(names) >= 40
    assert len(set(names)) == len(names)


@each_format
def test_the_call_that_the_bad_ones_start_from_is_good(device: torch.device, fmt: Format) -> None:
    whole = {**good(fmt), "bias": of(5), "global_scale": of()}
    arguments, options = build(whole, {"out": of(3, 5, dtype=torch.float16)})(Make(device))
    # nvfp4's products are 32 of 0.5 * 0.5; the others' scales are 2^-126, and the bias is all that is left
    wanted = torch.full((3, 5), 9.0 if fmt is NVFP4 else 1.0, dtype=torch.float16, device=device)
    assert torch.equal(op(*arguments), wanted)
    op.out(*arguments, **options)
    assert torch.equal(options["out"], wanted)


@parametrize(BAD_CALLS)
class TestArguments:
    def test_names_argument_rule_and_what_came(self, device: torch.device, bad: BadCall) -> None:
        skip_without_second_device(bad)
        functional, with_out, out = both_messages(bad, device)
        assert functional.startswith("block_scaled_matmul: ")
        for word in bad.words:
            assert re.search(word, functional), f"{word!r} is not in: {functional}"
        assert with_out == functional
        assert bool((out.float() == 1).all()), "out was written"
        assert "\n" not in functional
        assert not re.search(r"csrc|\.cpp|\.h:\d|Exception raised", functional)

    def test_is_the_same_under_fake_tensors(self, device: torch.device, bad: BadCall) -> None:
        skip_without_second_device(bad)
        real, _, _ = both_messages(bad, device)
        with FakeTensorMode():
            fake, fake_out, _ = both_messages(bad, device)
        assert fake == real
        assert fake_out == real


@parametrize(BAD_OUTS, BAD_OVERLAPS)
def test_a_bad_out_is_named_and_not_written(device: torch.device, bad: BadCall) -> None:
    skip_without_second_device(bad)
    arguments, options = bad.build(Make(device))
    tensors = [t for t in (*arguments, options["out"]) if t is not None]
    before = [t.clone() for t in tensors]
    text = message(op.out, arguments, options)
    assert text.startswith("block_scaled_matmul: ")
    assert "\n" not in text
    for word in bad.words:
        assert re.search(word, text), f"{word!r} is not in: {text}"
    for tensor, was in zip(tensors, before, strict=True):
        assert torch.equal(as_bytes(tensor), as_bytes(was)), "something was written before the last check"


@parametrize(BAD_OUTS)
def test_a_bad_out_under_fake_tensors(device: torch.device, bad: BadCall) -> None:
    skip_without_second_device(bad)
    real = message(op.out, *bad.build(Make(device)))
    with FakeTensorMode():
        assert message(op.out, *bad.build(Make(device))) == real


@parametrize(tuple(bad for bad in (*BAD_CALLS, *BAD_OUTS) if bad.two_devices))
def test_two_devices_under_fake_tensors(bad: BadCall) -> None:
    """Needs no GPU: fake tensors may claim to be on one."""
    with FakeTensorMode():
        arguments, options = bad.build(Make(torch.device("cpu")))
        text = message(op.out if "out" in options else op, arguments, options)
    assert text.startswith("block_scaled_matmul: ")
    for word in bad.words:
        assert re.search(word, text), f"{word!r} is not in: {text}"


@pytest.mark.gpu
@parametrize(BAD_CALLS, BAD_OUTS, BAD_OVERLAPS)
def test_the_gpu_says_what_the_cpu_says(bad: BadCall) -> None:
    texts = []
    for device in ("cpu", "cuda"):
        arguments, options = bad.build(Make(torch.device(device)))
        texts.append(neutral(message(op.out if "out" in options else op, arguments, options)))
    assert texts[0] == texts[1]


@pytest.mark.gpu
@parametrize(BAD_CALLS)
def test_a_row_by_index_checks_its_arguments_as_the_op_does(bad: BadCall) -> None:
    arguments, options = bad.build(Make(torch.device("cuda")))
    expected = message(op, arguments, options)
    by_index = torch.ops.tileon._block_scaled_matmul_with_config
    assert message(by_index, arguments, {**options, "config": 0}) == expected


def test_on_the_cpu_there_are_no_rows() -> None:
    arguments, _ = build(good(), {})(Make(torch.device("cpu")))
    with pytest.raises(RuntimeError, match=r"^block_scaled_matmul: .*(GPU|CUDA)"):
        torch.ops.tileon._block_scaled_matmul_with_config(*arguments, config=0)


class TestGradients:
    """No gradient flows through quantized operands: what asks for one is told so, and only then."""

    NAMES = ("bias", "global_scale")

    @pytest.mark.parametrize("name", NAMES)
    @each_format
    def test_an_argument_that_requires_grad_is_refused(self, device: torch.device, fmt: Format, name: str) -> None:
        arguments, options = build({**good(fmt), "bias": of(5), "global_scale": of()}, {})(Make(device))
        asked = arguments[4 + self.NAMES.index(name)]
        asked.requires_grad_()
        out = nothing_yet(device, options)
        for refused in (message(op, arguments, {}), message(op.out, arguments, {"out": out})):
            assert refused.startswith("block_scaled_matmul: ")
            assert f"`{name}`" in refused
            assert "grad" in refused
        assert bool((out == 1).all()), "out was written"
        with torch.no_grad():
            assert not op(*arguments).requires_grad
            op.out(*arguments, out=out)
        with torch.inference_mode():
            op(*arguments)

    @pytest.mark.parametrize("name", ["a", "b", "scale_a", "scale_b"])
    def test_a_narrow_operand_that_requires_grad_is_refused(self, device: torch.device, name: str) -> None:
        for fmt in (MXFP8, NVFP4):
            arguments, _ = build(good(fmt), {})(Make(device))
            asked = arguments[("a", "b", "scale_a", "scale_b").index(name)]
            if not asked.is_floating_point():
                continue
            asked.requires_grad_()
            text = message(op, arguments, {})
            assert text.startswith(f"block_scaled_matmul: `{name}` requires grad")
            with torch.no_grad():
                op(*arguments)

    def test_an_out_that_requires_grad_is_refused(self, device: torch.device) -> None:
        arguments, _ = build(good(), {})(Make(device))
        out = torch.ones(3, 5, device=device, dtype=torch.float16, requires_grad=True)
        with pytest.raises(RuntimeError):
            op.out(*arguments, out=out)
        assert bool((out == 1).all())


class TestBoundaries:
    """Calls just inside the rules must pass."""

    def test_an_empty_out_overlaps_nothing(self, device: torch.device) -> None:
        arguments, _ = build(good(m=0), {})(Make(device))
        storage = torch.ones(5, 64, device=device).to(E4M3)
        inside = storage.view(-1)[7:7].view(0, 5)
        op.out(arguments[0], storage, *arguments[2:], out_dtype=E4M3, out=inside)
        assert bool((storage.float() == 1).all()), "nothing was written"

    def test_scales_of_zero_rows_may_be_packed(self, device: torch.device) -> None:
        for fmt in FORMATS:
            arguments, _ = build(good(fmt, m=0), {})(Make(device))
            packed = torch.empty(0, 1, 32, 4, 4, device=device, dtype=U8).view(arguments[2].dtype)
            assert op(*arguments[:2], packed, arguments[3]).shape == (0, 5)

    def test_the_operands_may_overlap_each_other(self, device: torch.device) -> None:
        storage = torch.full((8 * 64,), 119, dtype=U8, device=device)  # 240 as an element, 2^-8 as a scale
        a, b = storage[: 3 * 64].view(3, 64).view(E4M3), storage[64 : 64 * 6].view(5, 64).view(E4M3)
        product = op(a, b, storage[:6].view(3, 2), storage[3:13].view(5, 2))
        assert bool((product == 64 * (240 / 256) ** 2).all())
