"""Bad calls of quantize, dequantize and the packing ops: one message on the CPU, the GPU, fake and meta tensors."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from bad_calls import BadCall, Make
from bad_calls_quantize import BAD_CALLS_BY_OP, E8M0, U8
from small_float_reference import FORMATS, NVFP4, Format, assert_quantized, expected_quantize
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

import tileon_ops

ALL = [(op, bad) for op, table in BAD_CALLS_BY_OP.items() for bad in table]
TWO_DEVICES = [(op, bad) for op, bad in ALL if bad.two_devices]


def parametrize(rows: list[tuple[str, BadCall]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("op", "bad"), [pytest.param(*row, id=f"{row[0]}-{row[1].name[:60]}") for row in rows]
    )


def message(op: str, bad: BadCall, device: torch.device | str, function: Callable[..., Any] | None = None) -> str:
    """The text of the RuntimeError that the call must raise."""
    arguments, options = bad.build(Make(torch.device(device)))
    with pytest.raises(RuntimeError) as caught:
        (function or getattr(torch.ops.tileon, op))(*arguments, **options)
    assert type(caught.value) is RuntimeError
    return str(caught.value)


def assert_says(text: str, op: str, bad: BadCall) -> None:
    assert text.startswith(f"{op}: ")
    for word in bad.words:
        assert re.search(word, text), f"{word!r} is not in: {text}"


@pytest.fixture
def _second_device(bad: BadCall) -> None:
    if bad.two_devices and not torch.cuda.is_available():
        pytest.skip("needs a GPU")


def neutral(text: str) -> str:
    return re.sub(r"cuda:\d+|cuda|cpu|meta", "DEVICE", text)


def test_the_tables_hold_at_least_twenty_five_bad_calls() -> None:
    assert len(ALL) >= 25
    for op, table in BAD_CALLS_BY_OP.items():
        names = [bad.name for bad in table]
        assert len(set(names)) == len(names), op


@pytest.mark.usefixtures("_second_device")
@parametrize(ALL)
class TestMessages:
    def test_name_argument_rule_and_what_came(self, device: torch.device, op: str, bad: BadCall) -> None:
        assert_says(message(op, bad, device), op, bad)

    def test_read_as_one_plain_line(self, device: torch.device, op: str, bad: BadCall) -> None:
        """No source file, no stack, no path of the machine that built the library; arguments in backquotes."""
        text = message(op, bad, device)
        assert "\n" not in text
        assert not re.search(r"csrc|\.cpp|\.h:\d|Exception raised", text)
        assert re.match(rf"{op}: .*`\w+`", text)

    def test_are_the_same_under_fake_tensors(self, device: torch.device, op: str, bad: BadCall) -> None:
        real = message(op, bad, device)
        with FakeTensorMode():
            assert message(op, bad, device) == real

    def test_are_the_same_through_the_python_function(self, device: torch.device, op: str, bad: BadCall) -> None:
        assert message(op, bad, device, getattr(tileon_ops, op)) == message(op, bad, device)


@parametrize([row for row in ALL if not row[1].two_devices])
def test_meta_tensors_get_the_same_messages(op: str, bad: BadCall) -> None:
    assert message(op, bad, "meta") == message(op, bad, "cpu")


@parametrize(TWO_DEVICES)
def test_two_devices_under_fake_tensors(op: str, bad: BadCall) -> None:
    """Needs no GPU: fake tensors may claim to be on one."""
    with FakeTensorMode():
        assert_says(message(op, bad, "cpu"), op, bad)


@pytest.mark.gpu
@parametrize(ALL)
def test_the_gpu_says_what_the_cpu_says(op: str, bad: BadCall) -> None:
    assert neutral(message(op, bad, "cpu")) == neutral(message(op, bad, "cuda"))


class TestGradients:
    """No gradient flows through quantized values: what requires one is refused while gradients are recorded."""

    @staticmethod
    def refuses(name: str, op: str, *arguments: Any) -> None:
        for function in (getattr(torch.ops.tileon, op), getattr(tileon_ops, op)):
            with pytest.raises(RuntimeError, match=rf"^{op}: `{name}` requires grad, and no gradient flows"):
                function(*arguments)
            with torch.no_grad():
                results = function(*arguments)
            for result in results if isinstance(results, tuple) else (results,):
                assert not result.requires_grad

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
    @pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
    def test_of_x(self, device: torch.device, form: Format, dtype: torch.dtype) -> None:
        self.refuses("x", "quantize", torch.ones(3, 64, dtype=dtype, device=device, requires_grad=True), form.name)

    def test_of_a_view_of_x(self, device: torch.device) -> None:
        x = torch.ones(64, 3, device=device, requires_grad=True)
        self.refuses("x", "quantize", x.t() * 2, "mxfp8")

    def test_of_global_scale(self, device: torch.device) -> None:
        global_scale = torch.ones((), device=device, requires_grad=True)
        x = torch.ones(3, 64, device=device)
        self.refuses("global_scale", "quantize", x, "nvfp4", global_scale)
        data, scale = torch.ops.tileon.quantize(x, "nvfp4")
        self.refuses("global_scale", "dequantize", data, scale, "nvfp4", global_scale)

    def test_of_fp8_data(self, device: torch.device) -> None:
        data, scale = torch.ops.tileon.quantize(torch.ones(3, 64, device=device), "mxfp8")
        self.refuses("data", "dequantize", data.requires_grad_(), scale, "mxfp8")

    def test_of_fp8_scales(self, device: torch.device) -> None:
        data, scale = torch.ops.tileon.quantize(torch.ones(3, 64, device=device), "nvfp4")
        self.refuses("scale", "dequantize", data, scale.requires_grad_(), "nvfp4")

    def test_under_inference_mode_nothing_is_refused(self, device: torch.device) -> None:
        x = torch.ones(3, 64, device=device, requires_grad=True)
        with torch.inference_mode():
            data, scale = torch.ops.tileon.quantize(x, "mxfp4")
            assert bool((torch.ops.tileon.dequantize(data, scale, "mxfp4") == 1).all())

    def test_a_bad_argument_that_requires_grad_is_an_error_of_the_op(self, device: torch.device) -> None:
        with pytest.raises(RuntimeError, match=r"^quantize: .*`x`"):
            torch.ops.tileon.quantize(torch.ones(3, 31, device=device, requires_grad=True), "mxfp8")


class TestJustInside:
    """Calls at the edge of the rules must pass."""

    def test_a_global_scale_of_either_shape(self, device: torch.device) -> None:
        for shape in ((), (1,)):
            global_scale = torch.ones(shape, device=device)
            x = torch.full((2, 16), 6.0, device=device)
            data, scale = torch.ops.tileon.quantize(x, NVFP4.name, global_scale)
            assert torch.equal(torch.ops.tileon.dequantize(data, scale, NVFP4.name, global_scale), x)

    def test_floor_may_be_said_to_nvfp4(self, device: torch.device) -> None:
        x = torch.arange(32.0, device=device).view(2, 16)
        quantized = torch.ops.tileon.quantize(x, NVFP4.name, scale_rounding="floor")
        assert_quantized(quantized, expected_quantize(x, NVFP4))

    def test_as_many_rows_and_cols_as_the_blocks_hold(self, device: torch.device) -> None:
        packed = torch.ones(2, 3, 32, 4, 4, device=device).to(E8M0)
        assert torch.ops.tileon.unpack_scales(packed, 256, 12).shape == (256, 12)
        assert torch.ops.tileon.unpack_scales(packed, 0, 0).shape == (0, 0)

    def test_packed_and_plain_scales_of_one_operand(self, device: torch.device) -> None:
        data = torch.zeros(2, 32, dtype=U8, device=device)
        for shape in ((2, 2), (1, 1, 32, 4, 4)):
            scale = torch.zeros(shape, dtype=U8, device=device)
            assert torch.ops.tileon.dequantize(data, scale, "mxfp4").shape == (2, 64)


@pytest.mark.parametrize(
    ("op", "arguments", "options"),
    [
        pytest.param("quantize", (torch.ones(2, 32),), {}, id="no format"),
        pytest.param("quantize", (torch.ones(2, 32), "mxfp8", None, "floor"), {}, id="positional rounding"),
        pytest.param("quantize", (torch.ones(2, 32), "nvfp4", "0.5"), {}, id="global_scale a string"),
        pytest.param("dequantize", (torch.ones(2, 32), "mxfp8"), {}, id="no scale"),
        pytest.param("pack_scales", (), {}, id="nothing"),
        pytest.param("unpack_scales", (torch.zeros(1, 1, 32, 4, 4), 1), {}, id="no cols"),
        pytest.param("unpack_scales", (torch.zeros(1, 1, 32, 4, 4), "1", 1), {}, id="rows a string"),
    ],
)
def test_what_the_schema_rules_out_is_refused(op: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    with pytest.raises((RuntimeError, TypeError)):
        getattr(torch.ops.tileon, op)(*arguments, **options)


def test_nothing_is_written_by_a_refused_call(device: torch.device) -> None:
    def bytes_of(tensor: Tensor) -> Tensor:
        return tensor.view(U8).clone()

    for op, bad in ALL:
        if bad.two_devices:
            continue
        arguments, options = bad.build(Make(device))
        tensors = [t for t in arguments if isinstance(t, Tensor) and t.dim() > 0]
        before = [bytes_of(t) for t in tensors]
        with pytest.raises(RuntimeError):
            getattr(torch.ops.tileon, op)(*arguments, **options)
        assert all(torch.equal(bytes_of(t), was) for t, was in zip(tensors, before, strict=True)), bad.name
