"""tileon_ops.Linear in the place of torch.nn.Linear. With DTensors: test_sharding.py and test_tensor_parallel.py."""

from __future__ import annotations

import copy
import io

import pytest
import torch
from operands import integers, normal
from torch import Tensor, nn
from torch.nn import functional

import tileon_ops

TORCH_ACTIVATIONS = {
    "none": lambda x: x,
    "relu": functional.relu,
    "leaky_relu": lambda x: functional.leaky_relu(x, 0.5),
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "silu": functional.silu,
}


def of_integers(linear: nn.Linear) -> nn.Linear:
    """The layer with small integers for parameters: its sums are exact in any order."""
    with torch.no_grad():
        for seed, parameter in enumerate(linear.parameters()):
            parameter.copy_(integers(*parameter.shape, dtype=parameter.dtype, device=parameter.device, seed=seed))
    return linear


def of_torch(linear: tileon_ops.Linear, x: Tensor) -> Tensor:
    return TORCH_ACTIVATIONS[linear.activation](functional.linear(x, linear.weight, linear.bias))


def test_it_is_an_nn_linear() -> None:
    """parallelize_module, quantization tools and weight decay filters ask for one."""
    assert issubclass(tileon_ops.Linear, nn.Linear)


def test_initial_values_are_those_of_nn_linear() -> None:
    torch.manual_seed(0)
    ours = tileon_ops.Linear(5, 3, activation="relu")
    torch.manual_seed(0)
    theirs = nn.Linear(5, 3)
    assert torch.equal(ours.weight, theirs.weight)
    assert torch.equal(ours.bias, theirs.bias)


@pytest.mark.parametrize("bias", [True, False])
def test_state_dicts_go_either_way(bias: bool) -> None:
    ours, theirs = tileon_ops.Linear(5, 3, bias, activation="gelu"), nn.Linear(5, 3, bias)
    assert ours.load_state_dict(theirs.state_dict()) == theirs.load_state_dict(ours.state_dict())
    assert torch.equal(ours.weight, theirs.weight)


@pytest.mark.parametrize("activation", ["none", "relu", "leaky_relu"])
@pytest.mark.parametrize("shape", [(5,), (4, 5), (2, 4, 5), (2, 3, 1, 5), (0, 5)])
def test_any_leading_dimensions(device: torch.device, activation: str, shape: tuple[int, ...]) -> None:
    linear = tileon_ops.Linear(5, 3, activation=activation, slope=0.5, device=device)
    of_integers(linear)
    x = integers(*shape, dtype=torch.float32, device=device)
    assert torch.equal(linear(x), of_torch(linear, x))


@pytest.mark.parametrize("activation", TORCH_ACTIVATIONS)
def test_output_and_gradients_are_those_of_torch(device: torch.device, activation: str) -> None:
    ours = tileon_ops.Linear(8, 6, activation=activation, slope=0.5, device=device, dtype=torch.float64)
    theirs = copy.deepcopy(ours)
    x = normal(4, 8, dtype=torch.float64, device=device).requires_grad_()
    y = normal(4, 8, dtype=torch.float64, device=device).requires_grad_()
    output, expected = ours(x), of_torch(theirs, y)
    torch.testing.assert_close(output, expected)
    output.square().sum().backward()
    expected.square().sum().backward()
    torch.testing.assert_close(x.grad, y.grad)
    torch.testing.assert_close(ours.weight.grad, theirs.weight.grad)
    torch.testing.assert_close(ours.bias.grad, theirs.bias.grad)


def test_an_unknown_activation_is_refused_before_parameters_are_made() -> None:
    with pytest.raises(RuntimeError, match=r'^Linear: `activation` must be one of none, relu, .*, got "tanh"$'):
        tileon_ops.Linear(1 << 40, 1 << 40, activation="tanh")


def test_an_input_of_another_width_is_refused_in_the_words_of_the_op() -> None:
    with pytest.raises(RuntimeError, match=r"^matmul: `b` must have as many rows as `a` has columns, k = 4, got 5"):
        tileon_ops.Linear(5, 3)(torch.zeros(2, 4))


def test_repr_says_what_torch_says_and_the_activation() -> None:
    plain = repr(nn.Linear(5, 3))
    assert repr(tileon_ops.Linear(5, 3)) == plain
    assert repr(tileon_ops.Linear(5, 3, activation="silu")) == plain[:-1] + ", activation=silu)"
    leaky = tileon_ops.Linear(5, 3, activation="leaky_relu", slope=0.2)
    assert repr(leaky) == plain[:-1] + ", activation=leaky_relu, slope=0.2)"


@pytest.mark.parametrize("bias", [True, False])
def test_from_linear_takes_the_parameters_themselves(bias: bool) -> None:
    theirs = nn.Linear(5, 3, bias, dtype=torch.float64).eval()
    ours = tileon_ops.Linear.from_linear(theirs, activation="leaky_relu", slope=0.5)
    assert ours.weight is theirs.weight
    assert ours.bias is theirs.bias
    assert (ours.activation, ours.slope, ours.training) == ("leaky_relu", 0.5, False)
    assert (ours.in_features, ours.out_features) == (5, 3)


def test_copies_and_saved_layers_keep_their_activation() -> None:
    linear = tileon_ops.Linear(5, 3, activation="leaky_relu", slope=0.5)
    file = io.BytesIO()
    torch.save(linear, file)
    file.seek(0)
    x = torch.randn(4, 5)
    for other in (copy.deepcopy(linear), torch.load(file, weights_only=False)):
        assert other.weight is not linear.weight
        assert torch.equal(other(x), linear(x))


def test_on_the_meta_device_it_gives_shapes() -> None:
    linear = tileon_ops.Linear(5, 3, activation="gelu", device="meta", dtype=torch.bfloat16)
    y = linear(torch.empty(2, 4, 5, device="meta", dtype=torch.bfloat16))
    assert (tuple(y.shape), y.dtype, y.device.type) == ((2, 4, 3), torch.bfloat16, "meta")


def test_autocast_rules_as_in_torch(device: torch.device) -> None:
    linear = tileon_ops.Linear(8, 6, activation="relu", device=device)
    of_integers(linear)
    x = integers(4, 8, dtype=torch.float32, device=device).requires_grad_()
    with torch.autocast(device.type, torch.bfloat16):
        y = linear(x)
    assert y.dtype == torch.bfloat16
    assert torch.equal(y.float(), of_torch(linear, x))  # integers up to 34: exact in bfloat16
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.dtype == torch.float32


def test_compiles_as_a_whole_with_any_number_of_rows(device: torch.device) -> None:
    model = nn.Sequential(tileon_ops.Linear(8, 6, activation="relu"), tileon_ops.Linear(6, 4)).to(device)
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend="aot_eager")
    for rows in (3, 5):
        x = torch.randn(rows, 8, device=device)
        y = compiled(x)
        torch.testing.assert_close(y, model(x))
        y.sum().backward()
