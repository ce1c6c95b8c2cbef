"""BlockScaledLinear with `weight_only`: activations as they are, gradients of the input, adapters around it."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from layers import DTYPES, FORMATS, as_bytes, each_format, fresh_compiler, values_of  # noqa: F401
from operands import normal
from reference import assert_matches
from scaled_operands import Scaled, expected
from torch import Tensor, func, nn

import tileon_ops
from tileon_ops import BlockScaledLinear

ACTIVATIONS = ("none", "relu", "gelu", "silu")


def layer_of(fmt: str, device: torch.device | str = "cpu", **options: Any) -> BlockScaledLinear:
    torch.manual_seed(0)
    return BlockScaledLinear.from_linear(tileon_ops.Linear(96, 70, device=device, **options), fmt, weight_only=True)


def by_torch(layer: BlockScaledLinear, x: Tensor) -> Tensor:
    """In float64, differentiable."""
    z = x.double() @ values_of(layer).t() + layer.bias.double()
    return {"none": lambda z: z, "relu": torch.relu, "gelu": nn.functional.gelu, "silu": nn.functional.silu}[
        layer.activation
    ](z)


class TestProduct:
    @each_format
    @pytest.mark.parametrize("dtype", DTYPES, ids=str)
    def test_is_that_of_the_op_on_the_activations_as_they_are(
        self, device: torch.device, fmt: str, dtype: torch.dtype
    ) -> None:
        """float32 has a product of its own, which the float64 oracle of test_block_scaled_linear.py covers."""
        layer, x = layer_of(fmt, device, activation="gelu"), normal(5, 96, dtype=dtype, device=device)
        y = layer(x)
        assert y.dtype == dtype
        if dtype != torch.float32:
            operands = (x, layer.data, None, layer.scale, layer.bias, layer.global_scale)
            assert torch.equal(y, tileon_ops.block_scaled_matmul(*operands, activation="gelu", fast_accum=True))

    @each_format
    def test_float32_activations_are_not_rounded(self, device: torch.device, fmt: str) -> None:
        """An error of bfloat16 would be 2^-9 of a term; this is of float32's sum."""
        layer, x = layer_of(fmt, device), normal(5, 96, dtype=torch.float32, device=device)
        one = torch.ones(1, 1, dtype=torch.float64, device=device)
        a, b = Scaled(x, None, x.double(), one), Scaled(layer.data, layer.scale, values_of(layer), one)
        assert_matches(layer(x), expected(a, b, layer.bias, out_dtype=torch.float32))

    def test_mixed_is_mxfp4(self, device: torch.device) -> None:
        mixed, mxfp4 = layer_of("mixed", device), layer_of("mxfp4", device)
        x = normal(5, 96, dtype=torch.bfloat16, device=device)
        assert torch.equal(mixed(x), mxfp4(x))

    @each_format
    @pytest.mark.parametrize("shape", [(96,), (3, 96), (2, 1, 3, 96), (0, 96), (2, 0, 96)], ids=str)
    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
    def test_any_leading_dimensions(
        self, device: torch.device, fmt: str, shape: tuple[int, ...], dtype: torch.dtype
    ) -> None:
        layer, x = layer_of(fmt, device), normal(*shape, dtype=dtype, device=device)
        tolerance = 2e-2 if dtype == torch.bfloat16 else 1e-5
        torch.testing.assert_close(layer(x).double(), by_torch(layer, x), rtol=tolerance, atol=tolerance)

    @each_format
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
    def test_under_autocast_it_is_of_autocasts_dtype(self, device: torch.device, fmt: str, dtype: torch.dtype) -> None:
        layer, x = layer_of(fmt, device), normal(3, 96, dtype=dtype, device=device)
        with torch.autocast(device.type, torch.bfloat16):
            y = layer(x)
        assert y.dtype == torch.bfloat16
        assert torch.equal(y, layer(x.bfloat16()))

    def test_errs_less_than_with_quantized_activations(self) -> None:
        torch.manual_seed(0)
        linear, x = nn.Linear(512, 512), torch.randn(64, 512)
        exact = linear(x)
        for fmt in FORMATS:
            both, alone = (BlockScaledLinear.from_linear(linear, fmt, weight_only=only)(x) for only in (False, True))
            assert (alone - exact).norm() < (both - exact).norm(), fmt

    @each_format
    def test_maps_as_one_product(self, device: torch.device, fmt: str) -> None:
        layer = layer_of(fmt, device)
        for dtype in (torch.float32, torch.bfloat16):
            x = normal(5, 3, 96, dtype=dtype, device=device)
            torch.testing.assert_close(func.vmap(layer)(x), layer(x))


class TestGradient:
    @each_format
    @pytest.mark.parametrize("activation", ACTIVATIONS)
    @pytest.mark.parametrize("dtype", DTYPES, ids=str)
    def test_of_the_input_is_that_of_the_decoded_weight(
        self, device: torch.device, fmt: str, activation: str, dtype: torch.dtype
    ) -> None:
        layer = layer_of(fmt, device, activation=activation)
        x = normal(2, 5, 96, dtype=dtype, device=device).requires_grad_()
        grad = normal(2, 5, 70, dtype=dtype, device=device, seed=1)
        (mine,) = torch.autograd.grad(layer(x), x, grad)
        wide = x.detach().double().requires_grad_()
        (wanted,) = torch.autograd.grad(by_torch(layer, wide), wide, grad.double())
        tolerance = {torch.float32: 1e-5, torch.float16: 5e-3, torch.bfloat16: 4e-2}[dtype]
        assert mine.dtype == dtype
        torch.testing.assert_close(mine.double(), wanted, rtol=tolerance, atol=tolerance)

    @each_format
    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
    def test_of_the_second_order(self, device: torch.device, fmt: str, dtype: torch.dtype) -> None:
        layer, x = layer_of(fmt, device, activation="silu"), normal(3, 96, dtype=dtype, device=device).requires_grad_()
        wide = x.detach().double().requires_grad_()
        results = []
        for function, at in ((layer, x), (lambda x: by_torch(layer, x), wide)):
            (first,) = torch.autograd.grad(function(at).sum(), at, create_graph=True)
            results.append(torch.autograd.grad(first.square().sum(), at)[0].double())
        tolerance = 1e-4 if dtype == torch.float32 else 0.1
        torch.testing.assert_close(*results, rtol=tolerance, atol=tolerance)

    def test_by_torch_func_in_both_directions(self, device: torch.device) -> None:
        layer, x = layer_of("mxfp8", device, activation="gelu"), normal(96, dtype=torch.float32, device=device)
        reverse, forward = func.jacrev(layer)(x), func.jacfwd(layer)(x)
        wanted = func.jacrev(lambda x: by_torch(layer, x))(x.double())
        for jacobian in (reverse, forward):
            torch.testing.assert_close(jacobian.double(), wanted, rtol=1e-5, atol=1e-5)

    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
    def test_no_decoded_weight_waits_for_the_backward_pass(self, dtype: torch.dtype) -> None:
        layer, x = layer_of("mxfp4"), normal(3, 96, dtype=dtype, device="cpu").requires_grad_()
        saved: list[Tensor] = []

        def keep(tensor: Tensor) -> Tensor:
            saved.append(tensor)
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            layer(x)
        own = {tensor.data_ptr() for tensor in layer.buffers()}
        assert all(tensor.data_ptr() in own or tensor.numel() < 70 * 96 for tensor in saved)

    @each_format
    def test_compiled(self, device: torch.device, fmt: str) -> None:
        for dtype in (torch.float32, torch.bfloat16):
            layer, x = layer_of(fmt, device), normal(5, 96, dtype=dtype, device=device).requires_grad_()
            compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
            results = [torch.autograd.grad(function(x).sum(), x)[0] for function in (compiled, layer)]
            assert torch.equal(*results)

    def test_checkpointed(self) -> None:
        layer, x = layer_of("nvfp4"), normal(5, 96, dtype=torch.bfloat16, device="cpu").requires_grad_()
        again = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)
        assert torch.equal(torch.autograd.grad(again.sum(), x)[0], torch.autograd.grad(layer(x).sum(), x)[0])


class Adapted(nn.Module):
    """y = base(x) + (x a^T) b^T: QLoRA's layer. `a` and `b` train."""

    def __init__(self, base: nn.Module, rank: int = 4) -> None:
        super().__init__()
        self.base = base
        self.a = nn.Linear(96, rank, bias=False)
        self.b = nn.Linear(rank, 96, bias=False)
        nn.init.zeros_(self.b.weight)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.base(x) + self.b(self.a(x))
        return result


@each_format
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_adapters_of_two_layers_train(device: torch.device, fmt: str, dtype: torch.dtype) -> None:
    """The first one's gradient goes through the second layer's weight."""
    torch.manual_seed(0)
    bases = [BlockScaledLinear.from_linear(nn.Linear(96, 96), fmt, weight_only=True) for _ in range(2)]
    model = nn.Sequential(Adapted(bases[0]), nn.SiLU(), Adapted(bases[1])).to(device, dtype)
    teacher, x = copy.deepcopy(model), normal(64, 96, dtype=dtype, device=device)
    for layer in (teacher[0], teacher[2]):
        nn.init.normal_(layer.b.weight, std=0.5)
    target = teacher(x).detach()
    before = [tensor.clone() for tensor in model.buffers()]
    optimizer = torch.optim.SGD(model.parameters(), lr=10.0)
    losses = []
    for _ in range(20):
        loss = nn.functional.mse_loss(model(x).float(), target.float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    assert all(bool(parameter.grad.any()) for parameter in model.parameters())
    for tensor, old in zip(model.buffers(), before, strict=True):
        assert torch.equal(as_bytes(tensor), as_bytes(old)), "the base stays as it was"
