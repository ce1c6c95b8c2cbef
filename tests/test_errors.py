"""Bad calls: the same message on the CPU, on the GPU and under fake tensors, and nothing written."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from bad_calls import BAD_CALLS, BAD_OUTS, BAD_OVERLAPS, BF16, F16, F32, F64, BadCall, Call, Make
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

import tileon_ops


def parametrize(*tables: tuple[BadCall, ...]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("bad", [pytest.param(bad, id=bad.name[:60]) for table in tables for bad in table])


def message(op: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]) -> str:
    """The text of the RuntimeError that the call must raise, without what torch may put after it."""
    with pytest.raises(RuntimeError) as caught:
        op(*arguments, **options)
    assert type(caught.value) is RuntimeError
    return str(caught.value)


def functional_and_out(build: Callable[[Make], Call], device: torch.device) -> tuple[str, str, Tensor]:
    """The messages of both overloads for one bad call, and the `out` that the second one was given."""
    arguments, options = build(Make(device))
    out = torch.full(
        (2, 4),
        7.0,
        dtype=options.get("out_dtype") if options.get("out_dtype") in (F16, BF16, F64) else F32,
        device=device,
    )
    return (
        message(torch.ops.tileon.matmul, arguments, options),
        message(torch.ops.tileon.matmul.out, arguments, {**options, "out": out}),
        out,
    )


def skip_without_second_device(bad: BadCall) -> None:
    if bad.two_devices and not torch.cuda.is_available():
        pytest.skip("needs a GPU")


def neutral(text: str) -> str:
    """Device names out of the way: what is said of the CPU must be said of the GPU."""
    return re.sub(r"cuda:\d+|cuda|cpu", "DEVICE", text)


def test_the_tables_hold_at_least_fifty_bad_calls() -> None:
    names = [bad.name for bad in (*BAD_CALLS, *BAD_OUTS, *BAD_OVERLAPS)]
    assert len(names) >= 50
    assert len(set(names)) == len(names)


@parametrize(BAD_CALLS)
class TestArguments:
    def test_names_argument_rule_and_what_came(self, device: torch.device, bad: BadCall) -> None:
        skip_without_second_device(bad)
        functional, with_out, out = functional_and_out(bad.build, device)
        assert functional.startswith("matmul: ")
        for word in bad.words:
            assert re.search(word, functional), f"{word!r} is not in: {functional}"
        assert with_out == functional
        assert bool((out == 7).all()), "out was written"

    def test_reads_as_one_plain_line(self, device: torch.device, bad: BadCall) -> None:
        """No source file, no stack, no path of the machine that built the library."""
        skip_without_second_device(bad)
        functional, _, _ = functional_and_out(bad.build, device)
        assert "\n" not in functional
        assert not re.search(r"csrc|\.cpp|\.h:\d|Exception raised", functional)

    def test_is_the_same_under_fake_tensors(self, device: torch.device, bad: BadCall) -> None:
        skip_without_second_device(bad)
        real, _, _ = functional_and_out(bad.build, device)
        with FakeTensorMode():
            fake, fake_out, _ = functional_and_out_fake(bad.build, device)
        assert fake == real
        assert fake_out == real

    def test_is_the_same_through_the_wrapper_or_torchs_own_shapes_apply(
        self, device: torch.device, bad: BadCall
    ) -> None:
        """The wrapper takes more shapes; what it hands on and what it refuses itself are both `matmul: ...`."""
        skip_without_second_device(bad)
        arguments, options = bad.build(Make(device))
        refused = None
        try:
            tileon_ops.matmul(*arguments, **options)
        except RuntimeError as error:
            refused = str(error)
        if refused is not None:
            assert refused.startswith("matmul: ")
        else:
            assert (
                max((arguments[0].dim(), arguments[1].dim())) > 3 or min((arguments[0].dim(), arguments[1].dim())) == 1
            )


def functional_and_out_fake(build: Callable[[Make], Call], device: torch.device) -> tuple[str, str, None]:
    arguments, options = build(Make(device))
    out_dtype = options.get("out_dtype")
    out = torch.empty(2, 4, dtype=out_dtype if out_dtype in (F16, BF16, F64) else F32, device=device)
    return (
        message(torch.ops.tileon.matmul, arguments, options),
        message(torch.ops.tileon.matmul.out, arguments, {**options, "out": out}),
        None,
    )


@parametrize(BAD_OUTS, BAD_OVERLAPS)
class TestOut:
    def test_names_argument_rule_and_what_came(self, device: torch.device, bad: BadCall) -> None:
        skip_without_second_device(bad)
        arguments, options = bad.build(Make(device))
        before = [t.clone() for t in (*arguments, options["out"])]
        text = message(torch.ops.tileon.matmul.out, arguments, options)
        assert text.startswith("matmul: ")
        assert "\n" not in text
        for word in bad.words:
            assert re.search(word, text), f"{word!r} is not in: {text}"
        for tensor, was in zip((*arguments, options["out"]), before, strict=True):
            assert torch.equal(tensor, was), "something was written before the last check"

    def test_is_the_same_through_the_wrapper(self, device: torch.device, bad: BadCall) -> None:
        skip_without_second_device(bad)
        arguments, options = bad.build(Make(device))
        before = options["out"].clone()
        with pytest.raises(RuntimeError, match=r"^matmul: "):
            tileon_ops.matmul(*arguments, **options)
        assert torch.equal(options["out"], before)


@parametrize(BAD_OUTS)
def test_out_under_fake_tensors(device: torch.device, bad: BadCall) -> None:
    skip_without_second_device(bad)
    arguments, options = bad.build(Make(device))
    real = message(torch.ops.tileon.matmul.out, arguments, options)
    with FakeTensorMode():
        arguments, options = bad.build(Make(device))
        assert message(torch.ops.tileon.matmul.out, arguments, options) == real


@parametrize(tuple(bad for bad in (*BAD_CALLS, *BAD_OUTS) if bad.two_devices))
def test_two_devices_under_fake_tensors(bad: BadCall) -> None:
    """Needs no GPU: fake tensors may claim to be on one."""
    with FakeTensorMode():
        arguments, options = bad.build(Make(torch.device("cpu")))
        op = torch.ops.tileon.matmul.out if "out" in options else torch.ops.tileon.matmul
        text = message(op, arguments, options)
    assert text.startswith("matmul: ")
    for word in bad.words:
        assert re.search(word, text), f"{word!r} is not in: {text}"


@pytest.mark.gpu
@parametrize(BAD_CALLS)
def test_the_gpu_says_what_the_cpu_says(bad: BadCall) -> None:
    on_cpu, _, _ = functional_and_out(bad.build, torch.device("cpu"))
    on_gpu, _, _ = functional_and_out(bad.build, torch.device("cuda"))
    assert neutral(on_cpu) == neutral(on_gpu)


@pytest.mark.gpu
@parametrize(BAD_OUTS, BAD_OVERLAPS)
def test_the_gpu_says_of_out_what_the_cpu_says(bad: BadCall) -> None:
    texts = []
    for device in ("cpu", "cuda"):
        arguments, options = bad.build(Make(torch.device(device)))
        texts.append(neutral(message(torch.ops.tileon.matmul.out, arguments, options)))
    assert texts[0] == texts[1]


class TestBoundaries:
    """Calls just inside the rules must pass."""

    def test_out_right_behind_and_right_before_its_operands(self, device: torch.device) -> None:
        storage = torch.ones(48, device=device)
        a, out, b = (storage[i : i + 16].view(4, 4) for i in (0, 16, 32))
        torch.ops.tileon.matmul.out(a, b, out=out)
        assert torch.equal(out, torch.full_like(out, 4))

    def test_the_strides_of_dimensions_of_size_one_do_not_make_an_overlap(self, device: torch.device) -> None:
        a, b = torch.ones(1, 3, device=device), torch.ones(3, 4, device=device)
        out = torch.zeros(8, device=device).as_strided((1, 4), (0, 1))
        torch.ops.tileon.matmul.out(a, b, out=out)
        assert torch.equal(out, torch.full_like(out, 3))

    def test_an_empty_out_overlaps_nothing(self, device: torch.device) -> None:
        storage = torch.ones(16, device=device)
        a, b = storage[:0].view(0, 4), storage.view(4, 4)
        torch.ops.tileon.matmul.out(a, b, out=storage[4:4].view(0, 4))
        assert torch.equal(storage, torch.ones_like(storage)), "nothing was written"

    def test_a_bias_of_float32_suits_every_output(self, device: torch.device) -> None:
        for dtype in (F16, BF16, F32, F64):
            a = torch.ones(2, 2, dtype=dtype, device=device)
            assert torch.equal(torch.ops.tileon.matmul(a, a, torch.ones(2, device=device)), a * 3)


class TestSchema:
    """What the schema rules out, the dispatcher refuses; nothing of ours runs."""

    @pytest.mark.parametrize(
        ("arguments", "options"),
        [
            pytest.param((1, 2), {}, id="numbers"),
            pytest.param((torch.ones(2, 2),), {}, id="one operand"),
            pytest.param((torch.ones(2, 2), torch.ones(2, 2), None, "relu"), {}, id="positional activation"),
            pytest.param((torch.ones(2, 2), torch.ones(2, 2)), {"activation": 3}, id="activation 3"),
            pytest.param((torch.ones(2, 2), torch.ones(2, 2)), {"activation": None}, id="activation None"),
            pytest.param((torch.ones(2, 2), torch.ones(2, 2)), {"slope": "x"}, id="slope x"),
            pytest.param((torch.ones(2, 2), torch.ones(2, 2)), {"transposed": True}, id="unknown"),
        ],
    )
    def test_is_refused(self, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        with pytest.raises((RuntimeError, TypeError)):
            torch.ops.tileon.matmul(*arguments, **options)


class TestRowByIndex:
    def test_on_the_cpu_there_are_no_configurations(self) -> None:
        a = torch.ones(4, 4)
        with pytest.raises(RuntimeError, match=r"^matmul: .*(GPU|CUDA)"):
            torch.ops.tileon._matmul_with_config(a, a, config=0)

    @pytest.mark.gpu
    @parametrize(BAD_CALLS)
    def test_checks_its_arguments_as_the_op_does(self, bad: BadCall) -> None:
        arguments, options = bad.build(Make(torch.device("cuda")))
        options.pop("fast_accum", None)
        expected = message(torch.ops.tileon.matmul, arguments, options)
        assert message(torch.ops.tileon._matmul_with_config, arguments, {**options, "config": 0}) == expected
