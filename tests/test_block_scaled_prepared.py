"""Prepared weights where no GPU is asked: bad calls, what the ops say on the CPU, their fakes, gradients, autocast."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from bad_calls import F32, BadCall, Make
from bad_calls_block_scaled import BAD_CALLS, build, good, of
from bad_calls_prepared import (
    BAD_ADDRESS,
    BAD_PREPARE,
    BAD_PRODUCTS,
    BFLOAT16_BYTES,
    INT8_BYTES,
    buffer,
    with_prepared,
)
from block_scaled_operands import MXFP4, MXFP8, Format, each_format, elements_of
from test_errors import message, neutral, parametrize, skip_without_second_device
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend
from torch._subclasses.fake_tensor import FakeTensorMode

from tileon_ops._rules.fake.prepared import prepared_bytes

prepare = torch.ops.tileon._prepare_block_scaled
multiply = torch.ops.tileon._block_scaled_matmul_prepared
block_scaled_matmul = torch.ops.tileon.block_scaled_matmul
CPU = torch.device("cpu")
ON_THE_CPU = "needs a GPU of compute capability 9.0, got operands on the CPU"


def assert_says(text: str, bad: BadCall) -> None:
    assert re.match(r"(_prepare_block_scaled|_block_scaled_matmul_prepared|block_scaled_matmul): ", text)
    assert "\n" not in text
    for word in bad.words:
        assert re.search(word, text), f"{word!r} is not in: {text}"


def op_of(bad: BadCall) -> Any:
    return prepare if bad in BAD_PREPARE else multiply


def weight(fmt: Format, device: torch.device = CPU) -> tuple[Tensor, Tensor]:
    arguments, _ = build(good(fmt), {})(Make(device))
    return arguments[1], arguments[3]


def test_the_tables_hold_every_rule() -> None:
    names = [bad.name for bad in (*BAD_PREPARE, *BAD_PRODUCTS, BAD_ADDRESS)]
    assert len(names) >= 45
    assert len(set(names)) == len(names)


@parametrize(BAD_PREPARE, BAD_PRODUCTS)
class TestBadCalls:
    def test_name_argument_rule_and_what_came(self, device: torch.device, bad: BadCall) -> None:
        skip_without_second_device(bad)
        arguments, options = bad.build(Make(device))
        assert_says(message(op_of(bad), arguments, options), bad)

    def test_are_the_same_under_fake_tensors(self, device: torch.device, bad: BadCall) -> None:
        skip_without_second_device(bad)
        real = message(op_of(bad), *bad.build(Make(device)))
        with FakeTensorMode():
            assert message(op_of(bad), *bad.build(Make(device))) == real

    @pytest.mark.gpu
    def test_are_the_same_on_the_gpu(self, bad: BadCall) -> None:
        texts = [neutral(message(op_of(bad), *bad.build(Make(torch.device(name))))) for name in ("cpu", "cuda")]
        assert texts[0] == texts[1]


@parametrize(tuple(bad for bad in (*BAD_PREPARE, *BAD_PRODUCTS) if bad.two_devices))
def test_two_devices_under_fake_tensors(bad: BadCall) -> None:
    """Needs no GPU: fake tensors may claim to be on one."""
    with FakeTensorMode():
        text = message(op_of(bad), *bad.build(Make(CPU)))
    assert_says(text, bad)


@parametrize(tuple(bad for bad in (*BAD_PREPARE, *BAD_PRODUCTS) if not bad.two_devices))
def test_bad_calls_are_the_same_without_data(bad: BadCall) -> None:
    real = message(op_of(bad), *bad.build(Make(CPU)))
    assert message(op_of(bad), *bad.build(Make(torch.device("meta")))) == real


def test_where_the_buffer_begins(device: torch.device) -> None:
    assert_says(message(multiply, *BAD_ADDRESS.build(Make(device))), BAD_ADDRESS)


@parametrize(BAD_CALLS)
def test_of_the_other_arguments_it_says_what_the_op_says(device: torch.device, bad: BadCall) -> None:
    skip_without_second_device(bad)
    arguments, options = bad.build(Make(device))
    expected = message(block_scaled_matmul, arguments, options)
    prepared = buffer(INT8_BYTES)(Make(device))
    assert message(multiply, with_prepared(arguments, prepared), options) == expected
    with FakeTensorMode():
        arguments, options = bad.build(Make(device))
        fake = with_prepared(arguments, buffer(INT8_BYTES)(Make(device)))
        assert message(multiply, fake, options) == expected


class TestOnTheCpu:
    """There are no kernels for it: good calls are refused, and by the fakes too."""

    @each_format
    def test_both_ops_are_refused(self, fmt: Format) -> None:
        for size, form in ((INT8_BYTES, "int8"), (BFLOAT16_BYTES, "bfloat16")):
            if form == "int8" and fmt != MXFP4:
                continue
            for mode in (torch.no_grad(), FakeTensorMode()):
                with mode:
                    arguments, _ = build(good(fmt), {})(Make(CPU))
                    b, scale_b = arguments[1], arguments[3]
                    assert message(prepare, (b, scale_b), {"form": form}) == f"_prepare_block_scaled: {ON_THE_CPU}"
                    product = with_prepared(arguments, buffer(size)(Make(CPU)))
                    assert message(multiply, product, {}) == f"_block_scaled_matmul_prepared: {ON_THE_CPU}"

    def test_of_no_rows_as_well(self) -> None:
        arguments, _ = build(good(MXFP4, m=0, n=0), {})(Make(CPU))
        assert ON_THE_CPU in message(prepare, (arguments[1], arguments[3]), {"form": "int8"})
        product = with_prepared(arguments, buffer(256)(Make(CPU)))
        assert ON_THE_CPU in message(multiply, product, {})


class TestFakes:
    @each_format
    def test_the_buffer_has_the_layouts_size(self, fmt: Format) -> None:
        for n, k in ((5, 64), (0, 64), (5, 0), (0, 0), (256, 544), (257, 1056), (2**20, 2**20)):
            columns = k if elements_of(fmt, "b") == "e4m3" else k // 2
            b = torch.empty(n, columns, dtype=weight(fmt)[0].dtype, device="meta")
            scale = torch.empty(n, k // fmt.vec, dtype=weight(fmt)[1].dtype, device="meta")
            for form, width in (("int8", 1), ("bfloat16", 2)):
                if form == "int8" and fmt != MXFP4:
                    continue
                prepared = prepare(b, scale, form=form)
                rows, words = -(-n // 256) * 256, 256 * width
                assert prepared.shape == (-(-n * k * width // 256) * 256 + rows + words,)
                assert (prepared.dtype, prepared.device.type) == (torch.uint8, "meta")
        assert (prepared_bytes("int8", 5, 64), prepared_bytes("bfloat16", 5, 64)) == (INT8_BYTES, BFLOAT16_BYTES)

    @pytest.mark.parametrize("out_dtype", [None, torch.bfloat16, F32, torch.float8_e4m3fn], ids=str)
    @each_format
    def test_the_products_shape_and_dtype_are_the_ops(self, fmt: Format, out_dtype: torch.dtype | None) -> None:
        t = Make(torch.device("meta"))
        for m, n, k in ((3, 5, 64), (0, 5, 64), (3, 0, 64), (3, 5, 0), (130, 257, 160)):
            arguments, _ = build({**good(fmt, m, n, k), "bias": of(n), "global_scale": of()}, {})(t)
            wanted = block_scaled_matmul(*arguments, out_dtype=out_dtype)
            for form in ("int8", "bfloat16"):
                if form == "int8" and fmt != MXFP4:
                    continue
                prepared = prepare(arguments[1], arguments[3], form=form)
                made = multiply(*with_prepared(arguments, prepared), out_dtype=out_dtype, fast_accum=True)
                assert (made.shape, made.dtype, made.stride()) == (wanted.shape, wanted.dtype, wanted.stride())

    def test_packed_scales(self) -> None:
        t = Make(torch.device("meta"))
        arguments, _ = build({**good(MXFP4), "scale_b": of(1, 1, 32, 4, 4, dtype=torch.uint8)}, {})(t)
        prepared = prepare(arguments[1], arguments[3], form="int8")
        assert multiply(*with_prepared(arguments, prepared)).shape == (3, 5)

    @each_format
    def test_dynamic_shapes_compile_once(self, fmt: Format) -> None:
        for form in ("int8", "bfloat16") if fmt == MXFP4 else ("bfloat16",):
            torch._dynamo.reset()
            counter = CompileCounterWithBackend("aot_eager")
            options = {"fullgraph": True, "dynamic": True, "backend": counter}
            preparing = torch.compile(lambda b, scale, form=form: prepare(b, scale, form=form), **options)
            multiplying = torch.compile(lambda *tensors: multiply(*tensors), **options)
            for m, n, k in ((130, 300, 640), (257, 129, 448), (600, 700, 1024)):
                arguments, _ = build(good(fmt, m, n, k), {})(Make(torch.device("meta")))
                prepared = preparing(arguments[1], arguments[3])
                assert prepared.shape == (prepared_bytes(form, n, k),)
                assert multiplying(*arguments[:4], prepared).shape == (m, n)
            assert counter.frame_count == 2, "each once"
        torch._dynamo.reset()


class TestGradients:
    """No gradient flows through quantized operands: what asks for one is told so."""

    def test_an_argument_that_requires_grad_is_refused(self) -> None:
        makers = {**good(MXFP8), "bias": of(5), "global_scale": of()}
        for at, name in ((0, "a"), (1, "b"), (4, "bias"), (5, "global_scale")):
            arguments, _ = build(makers, {})(Make(torch.device("meta")))
            asked = arguments[at]
            asked.requires_grad_()
            product = with_prepared(arguments, torch.empty(BFLOAT16_BYTES, dtype=torch.uint8, device="meta"))
            text = message(multiply, product, {})
            assert text.startswith(f"_block_scaled_matmul_prepared: `{name}` requires grad")
            with torch.no_grad():
                assert not multiply(*product).requires_grad
        b, scale_b = weight(MXFP8, torch.device("meta"))
        b.requires_grad_()
        assert message(prepare, (b, scale_b), {"form": "bfloat16"}).startswith("_prepare_block_scaled: `b` requires")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_autocast_leaves_the_operands_alone(dtype: torch.dtype) -> None:
    arguments, _ = build({**good(MXFP8), "bias": of(5)}, {})(Make(torch.device("meta")))
    with torch.autocast("cpu", dtype), torch.no_grad():
        prepared = prepare(arguments[1], arguments[3], form="bfloat16")
        assert multiply(*with_prepared(arguments, prepared)).dtype == torch.float16
