"""What does not fit in memory: torch's own error, in torch's words, and nothing on stderr beside it.

The decision which kernel runs where only scratch memory does not fit is tests/host/test_fit_memory.cpp's subject.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
from tile_table import last_config
from torch import Tensor

import tileon_ops
from tileon_ops._loading.library import torch_version
from tileon_ops._rules import errors
from tileon_ops._rules import out as out_rules
from tileon_ops._rules.autograd import kernel as autograd_kernel
from tileon_ops._rules.autograd import no_grad
from tileon_ops.tune import tuned_configs

TELLS_ITS_WORDS = torch_version() >= (2, 13)
OPS = torch.ops.tileon

HUGE = 1 << 25  # squared, some petabytes: more than any machine lends


def column(rows: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.ones(1, 1, dtype=dtype).expand(rows, 1)


def codes(rows: int) -> tuple[Tensor, Tensor]:
    """mxfp8 ones and their scales, in a few bytes of memory."""
    return torch.ones(1, 32).to(torch.float8_e4m3fn).expand(rows, 32), torch.full(
        (1, 1), 127, dtype=torch.uint8
    ).expand(rows, 1)


def block_scaled() -> Tensor:
    (a, scale_a), (b, scale_b) = codes(HUGE), codes(HUGE)
    return OPS.block_scaled_matmul(a, b, scale_a, scale_b)


TOO_LARGE: dict[str, Callable[[], object]] = {
    "the op": lambda: OPS.matmul(column(HUGE), column(HUGE).t()),
    "the wrapper": lambda: tileon_ops.matmul(column(HUGE), column(HUGE).t()),
    "16 bits, whose sums are larger": lambda: OPS.matmul(column(HUGE, torch.float16), column(HUGE, torch.float16).t()),
    "with gradients": lambda: OPS.matmul(column(HUGE).requires_grad_(), column(HUGE).t()),
    "block-scaled": block_scaled,
    "quantize": lambda: OPS.quantize(torch.ones(1, 1).expand(HUGE, HUGE), "mxfp8"),
    "dequantize": lambda: OPS.dequantize(
        torch.zeros(1, 1, dtype=torch.uint8).expand(HUGE, HUGE),
        torch.zeros(1, 1, dtype=torch.uint8).expand(HUGE, HUGE // 16),
        "mxfp4",
    ),
    "pack_scales": lambda: OPS.pack_scales(torch.zeros(1, 1, dtype=torch.uint8).expand(HUGE, HUGE)),
}


@pytest.mark.parametrize("what", TOO_LARGE)
@pytest.mark.parametrize("inference", [False, True], ids=["", "inference mode"])
def test_on_the_cpu_it_is_torchs_own_error(what: str, inference: bool, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError) as torchs:
        torch.empty(HUGE, HUGE, dtype=torch.float64)
    with torch.inference_mode(inference), pytest.raises(RuntimeError) as ours:
        TOO_LARGE[what]()
    assert type(ours.value) is type(torchs.value)
    if TELLS_ITS_WORDS:
        words, wanted = str(ours.value), str(torchs.value)
        assert "DefaultCPUAllocator: can't allocate memory: you tried to allocate" in words
        assert words.partition("you tried")[0] == wanted.partition("you tried")[0]
        assert "frame #" not in words
        assert capfd.readouterr().err == ""
    elif what != "an operand widened":
        assert str(ours.value).startswith("DefaultCPUAllocator: can't allocate memory: you tried to allocate")


def typed(error: BaseException) -> BaseException:
    """As whoever called a kernel raises it."""
    try:
        errors.raise_typed(error)
    except BaseException as raised:
        return raised
    return error


def test_a_gpus_words_get_their_type_back() -> None:
    words = "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 139.72 GiB"
    error = typed(RuntimeError(words))
    assert type(error) is torch.OutOfMemoryError
    assert str(error) == words


def test_every_other_error_stays_what_it_is() -> None:
    for error in (
        RuntimeError("matmul: `a` must be 2-D"),
        torch.OutOfMemoryError("CUDA out of memory. "),
        ValueError(),
    ):
        assert typed(error) is error
    interrupted = RuntimeError("matmul: the tuner was interrupted")
    assert typed(interrupted) is interrupted, "where nobody knows by what"


def refuse(*arguments: object, **options: object) -> None:
    """A kernel that ends as one does on a GPU whose memory is full."""
    raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB for matmul")


def one(dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.ones(2, 2, dtype=dtype)


class TestEveryWayToAKernelGivesTheType:
    @pytest.mark.parametrize("requires_grad", [False, True], ids=["", "recorded"])
    def test_the_op_matmul(self, monkeypatch: pytest.MonkeyPatch, requires_grad: bool) -> None:
        monkeypatch.setattr(autograd_kernel, "_redispatch", refuse)
        half = one(torch.float16)  # of float32 it is torch that records (autograd/of_torch.py)
        with pytest.raises(torch.OutOfMemoryError, match=r"2\.00 GiB"):
            OPS.matmul(half.requires_grad_(requires_grad), one(torch.float16))

    def test_the_function_matmul_under_inference_mode(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys.modules["tileon_ops._rules.autograd.shortcut"], "_call_op", refuse)
        with torch.inference_mode(), pytest.raises(torch.OutOfMemoryError):
            tileon_ops.matmul(one(), one())

    @pytest.mark.parametrize("inference", [False, True], ids=["", "inference mode"])
    @pytest.mark.parametrize("name", ["block_scaled", "quantize", "dequantize", "pack_scales", "unpack_scales"])
    def test_the_other_functions(self, monkeypatch: pytest.MonkeyPatch, name: str, inference: bool) -> None:
        module = sys.modules[f"tileon_ops.ops.{'block_scaled' if name == 'block_scaled' else 'quantization'}"]
        op = {"block_scaled": "_op", "pack_scales": "_pack_op", "unpack_scales": "_unpack_op"}.get(name, f"_{name}_op")
        monkeypatch.setattr(module, op, refuse)
        byte = torch.zeros(1, 32, dtype=torch.uint8)
        calls: dict[str, Callable[[], object]] = {
            "block_scaled": lambda: tileon_ops.block_scaled_matmul(byte, byte, byte, byte),
            "quantize": lambda: tileon_ops.quantize(one(), "mxfp8"),
            "dequantize": lambda: tileon_ops.dequantize(byte, byte, "mxfp4"),
            "pack_scales": lambda: tileon_ops.pack_scales(byte),
            "unpack_scales": lambda: tileon_ops.unpack_scales(byte, 1, 1),
        }
        with torch.inference_mode(inference), pytest.raises(torch.OutOfMemoryError):
            calls[name]()

    def test_the_ops_that_are_not_differentiable(self) -> None:
        overload = SimpleNamespace(redispatch=refuse, _handle=SimpleNamespace(redispatch_boxed=refuse))
        kernel = no_grad._kernel("quantize", overload, ["x", "format"])
        with pytest.raises(torch.OutOfMemoryError):
            kernel(torch._C.DispatchKeySet(torch._C.DispatchKey.CPU), one(), "mxfp8")

    def test_out(self) -> None:
        overload = SimpleNamespace(_handle=SimpleNamespace(redispatch_boxed=refuse))
        kernel = out_rules._autograd("matmul", overload, ["a", "b"])
        with pytest.raises(torch.OutOfMemoryError):
            kernel(torch._C.DispatchKeySet(torch._C.DispatchKey.CPU), one(), one(), out=one())


class TestInterruptedTuner:
    """What leaves the tuner inside a product, by its own type: a KeyboardInterrupt is not to be lost."""

    def test_it_ends_the_product_that_asked(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupted_kernel(*arguments: object, **options: object) -> None:
            with pytest.raises(KeyboardInterrupt):
                tuned_configs._tune("matmul", (), {})
            raise RuntimeError("matmul: the tuner was interrupted: KeyboardInterrupt: ")  # as csrc/cuda ends the call

        def press_ctrl_c() -> bool:
            raise KeyboardInterrupt

        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", press_ctrl_c)
        monkeypatch.setattr(autograd_kernel, "_redispatch", interrupted_kernel)
        with pytest.raises(KeyboardInterrupt):
            OPS.matmul(one(), one())
        monkeypatch.setattr(autograd_kernel, "_redispatch", refuse)
        with pytest.raises(torch.OutOfMemoryError):
            OPS.matmul(one(), one())

    def test_reading_the_cache_may_be_interrupted_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def press_ctrl_c(device: int) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(tuned_configs, "_of", press_ctrl_c)
        with pytest.raises(KeyboardInterrupt):
            tuned_configs.load(0)
        assert type(typed(RuntimeError("tileon::_load_tuned_configs: the tuner was interrupted"))) is KeyboardInterrupt
        assert type(typed(RuntimeError("matmul: the tuner was interrupted"))) is RuntimeError, "once"


@pytest.mark.gpu
class TestOnAGpu:
    """With a cap on what torch's allocator may take."""

    @pytest.fixture(autouse=True)
    def _cap(self) -> object:
        gc.collect()
        torch.cuda.empty_cache()
        total = torch.cuda.get_device_properties(0).total_memory
        self.gib = (1 << 30) / total
        yield
        torch.cuda.set_per_process_memory_fraction(1.0)
        gc.collect()
        torch.cuda.empty_cache()

    def cap(self, gib: float) -> None:
        used = torch.cuda.memory_reserved() / torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(used + gib * self.gib)

    @pytest.mark.parametrize("inference", [False, True], ids=["", "inference mode"])
    def test_a_result_that_does_not_fit(self, inference: bool) -> None:
        a = torch.ones(1 << 16, 8, dtype=torch.float16, device="cuda")
        self.cap(1)
        with torch.inference_mode(inference), pytest.raises(torch.OutOfMemoryError, match="CUDA out of memory"):
            tileon_ops.matmul(a, a.t())
        with pytest.raises(torch.OutOfMemoryError, match="CUDA out of memory"):
            OPS.matmul(a, a.t())

    def test_scratch_that_does_not_fit_leaves_the_result(self) -> None:
        """float32: 6 bytes of scratch for each number of both operands, here some 1.5 GiB."""
        a = torch.randn(8192, 8192, device="cuda").round()
        out = torch.empty(8192, 8192, device="cuda")
        wanted = tileon_ops.matmul(a, a)
        needs_scratch = last_config().route == "bf16x6"
        torch.cuda.empty_cache()
        self.cap(0.25)
        OPS.matmul.out(a, a, out=out)
        torch.cuda.set_per_process_memory_fraction(1.0)  # the comparison takes memory too
        assert tileon_ops.last_kernel().endswith("(short of memory)") == needs_scratch
        torch.testing.assert_close(out, wanted, rtol=1e-5, atol=1e-2)

    def test_block_scaled_scratch_that_does_not_fit_leaves_the_result(self) -> None:
        data, scale = tileon_ops.quantize(torch.randn(8192, 8192, device="cuda"), "mxfp8")
        out = torch.empty(8192, 8192, device="cuda")
        wanted = tileon_ops.block_scaled_matmul(data, data, scale, scale, out_dtype=torch.float32)
        torch.cuda.empty_cache()
        self.cap(0.0625)
        OPS.block_scaled_matmul.out(data, data, scale, scale, out_dtype=torch.float32, out=out)
        torch.cuda.set_per_process_memory_fraction(1.0)
        torch.testing.assert_close(out, wanted, rtol=1e-4, atol=1e-2)
