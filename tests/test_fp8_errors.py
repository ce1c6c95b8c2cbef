"""`matmul` of fp8 operands: what it refuses, and what torch's transformations make of it."""

from __future__ import annotations

import pytest
import torch
from bad_calls import BadCall, Make, call
from operands import integers, normal
from reference import assert_exact
from test_errors import message, parametrize, skip_without_second_device
from test_fp8_matmul import BF16, E4M3, E5M2, F16, F32, FP8, OUT_DTYPES, each_pair
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad

import tileon_ops
from tileon_ops._rules.configs import config_of, dense

matmul = torch.ops.tileon.matmul
F64 = torch.float64

NARROW_OFFERED = ("float8_e4m3fn", "float8_e5m2")
BAD_CALLS = (
    *(
        BadCall(
            f"{x} x {y}".replace("torch.", ""),
            lambda t, x=x, y=y: call(t(2, 3, dtype=x), t(3, 4, dtype=y)),  # type: ignore[misc]
            ("`a`", "`b`", str(x)[6:], str(y)[6:], *NARROW_OFFERED),
        )
        for x, y in (
            (E4M3, F16),
            (F16, E4M3),
            (E5M2, BF16),
            (F32, E5M2),
            (E4M3, F64),
            (E4M3, torch.uint8),
            (torch.float8_e4m3fnuz, torch.float8_e4m3fnuz),
            (torch.float8_e5m2fnuz, E5M2),
        )
    ),
    *(
        BadCall(
            f"{x} to {out}".replace("torch.", ""),
            lambda t, x=x, out=out: call(t(2, 3, dtype=x), t(3, 4, dtype=x), out_dtype=out),  # type: ignore[misc]
            ("out_dtype", str(x)[6:], str(out)[6:], "float16", "bfloat16", "float32"),
        )
        for x, out in ((E4M3, F64), (E5M2, E5M2), (E4M3, E4M3), (E5M2, torch.int8))
    ),
    BadCall("k differs", lambda t: call(t(2, 3, dtype=E4M3), t(4, 5, dtype=E5M2)), ("`a`", "`b`", "3", "4")),
    BadCall("a 1-D", lambda t: call(t(3, dtype=E4M3), t(3, 5, dtype=E5M2)), ("`a`", "1-D")),
    BadCall(
        "bias e4m3",
        lambda t: call(t(2, 3, dtype=E4M3), t(3, 4, dtype=E4M3), t(4, dtype=E4M3)),
        ("`bias`", "float16", "float32", "float8_e4m3fn"),
    ),
    BadCall(
        "bias bfloat16 with float16",
        lambda t: call(t(2, 3, dtype=E4M3), t(3, 4, dtype=E5M2), t(4, dtype=BF16)),
        ("`bias`", "float16", "bfloat16"),
    ),
    BadCall(
        "activation",
        lambda t: call(t(2, 3, dtype=E4M3), t(3, 4, dtype=E5M2), activation="swish"),
        ("activation", "swish"),
    ),
    BadCall(
        "b elsewhere",
        lambda t: call(t(2, 3, dtype=E4M3), t.elsewhere(3, 4).to(E4M3)),
        ("`b`", "cuda", "cpu"),
        two_devices=True,
    ),
)


@parametrize(BAD_CALLS)
def test_a_bad_call_names_argument_rule_and_what_came(device: torch.device, bad: BadCall) -> None:
    skip_without_second_device(bad)
    arguments, options = bad.build(Make(device))
    asked = options.get("out_dtype")
    out = torch.full((2, 4), 7.0, dtype=asked if asked in OUT_DTYPES else F16, device=device)
    text = message(matmul, arguments, options)
    assert text.startswith("matmul: ")
    for word in bad.words:
        assert word in text, f"{word!r} is not in: {text}"
    assert message(matmul.out, arguments, {**options, "out": out}) == text
    assert bool((out == 7).all()), "out was written"
    with FakeTensorMode():
        arguments, options = bad.build(Make(device))
        assert message(matmul, arguments, options) == text


class TestGradients:
    @pytest.mark.parametrize("dtype", FP8, ids=str)
    def test_operands_that_require_grad_are_refused(self, device: torch.device, dtype: torch.dtype) -> None:
        plain, asked = (torch.ones(4, 4, device=device).to(dtype) for _ in range(2))
        asked.requires_grad_()
        out = torch.full((4, 4), 7.0, dtype=F16, device=device)
        for name, pair in (("a", (asked, plain)), ("b", (plain, asked))):
            for op in (matmul, tileon_ops.matmul):
                text = message(op, pair, {})
                assert text.startswith("matmul: ")
                assert f"`{name}`" in text
                assert "grad" in text
            with pytest.raises(RuntimeError):
                matmul.out(*pair, out=out)
            assert bool((out == 7).all())
            with torch.no_grad():
                assert bool((matmul(*pair) == 4).all())

    def test_a_bias_that_requires_grad_gets_the_sum_over_the_rows(self, device: torch.device) -> None:
        a = torch.ones(4, 4, device=device).to(E4M3)
        bias = torch.ones(4, device=device, requires_grad=True)
        (gradient,) = torch.autograd.grad(matmul(a, a, bias, activation="relu", out_dtype=F32).sum(), bias)
        assert torch.equal(gradient, torch.full((4,), 4.0, device=device))

    def test_an_operand_with_a_tangent_is_refused(self, device: torch.device) -> None:
        a = torch.ones(4, 4, device=device).to(E4M3)
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(a, a)
            for name, pair in (("a", (dual, a)), ("b", (a, dual))):
                with pytest.raises(RuntimeError, match=f"^matmul: `{name}` has a tangent"):
                    matmul(*pair)


class TestTransformations:
    OPCHECK_TESTS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")

    @pytest.mark.usefixtures("codes_compare_as_bytes")
    @each_pair
    def test_opcheck(self, device: torch.device, dtype_a: torch.dtype, dtype_b: torch.dtype) -> None:
        a, b = integers(3, 4, dtype=dtype_a, device=device), integers(4, 5, dtype=dtype_b, device=device)
        bias = torch.ones(5, device=device)
        for arguments, options in (
            ((a, b), {}),
            ((a, b, bias), {"activation": "gelu", "out_dtype": F32, "fast_accum": True}),
            ((a.expand(2, 3, 4), b.t().contiguous().t()), {"out_dtype": BF16}),
        ):
            torch.library.opcheck(matmul.default, arguments, options, test_utils=self.OPCHECK_TESTS)
            out = torch.empty_like(matmul(*arguments, **options))
            torch.library.opcheck(matmul.out, arguments, {**options, "out": out}, test_utils=self.OPCHECK_TESTS)

    @pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
    def test_compiles_with_dynamic_shapes(self, device: torch.device, backend: str) -> None:
        def model(a: Tensor, b: Tensor) -> Tensor:
            return matmul(a, b, activation="relu", out_dtype=F32) * 2

        torch._dynamo.reset()
        compiled = torch.compile(model, fullgraph=True, dynamic=True, backend=backend)
        for m, n, k in ((5, 6, 7), (64, 17, 33), (129, 256, 16)):
            a, b = integers(m, k, dtype=E4M3, device=device), integers(k, n, dtype=E5M2, device=device, seed=1)
            assert_exact(compiled(a, b), 2 * (a.double() @ b.double()).relu(), F32)
        torch._dynamo.reset()

    @each_pair
    def test_autocast_leaves_the_operands_alone(
        self, device: torch.device, dtype_a: torch.dtype, dtype_b: torch.dtype
    ) -> None:
        a, b = normal(9, 70, dtype=dtype_a, device=device), normal(70, 10, dtype=dtype_b, device=device, seed=1)
        wanted = matmul(a, b, out_dtype=F32)
        with torch.autocast(device.type, BF16):
            assert torch.equal(matmul(a, b, out_dtype=F32), wanted)
            assert tileon_ops.matmul(a, b).dtype == F16

    def test_meta_tensors_have_shapes_and_no_data(self) -> None:
        a = torch.empty(10**6, 10**6, device="meta", dtype=E4M3)
        actual = matmul(a, a.to(E5M2))
        assert (actual.shape, actual.dtype) == ((10**6, 10**6), F16)

    @each_pair
    def test_what_ran_is_known(self, device: torch.device, dtype_a: torch.dtype, dtype_b: torch.dtype) -> None:
        a = torch.ones(64, 64, device=device)
        matmul(a.to(dtype_a), a.to(dtype_b))
        kernel = torch.ops.tileon._last_kernel()
        if device.type == "cpu":
            assert kernel.startswith("cpu_tiles_")
        else:
            assert config_of(kernel) in dense()
