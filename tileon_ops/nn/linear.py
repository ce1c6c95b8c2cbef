"""`tileon_ops.Linear`: torch.nn.Linear with the activation in the product's own kernel."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tileon_ops._rules.activations import ACTIVATIONS, activate, listing_activations
from tileon_ops._rules.fake.checks import check_activation
from tileon_ops.ops.dense import linear, matmul


@listing_activations
class Linear(nn.Linear):
    """`activation(x @ weight^T + bias)`, in one kernel: a torch.nn.Linear that may have an activation.

    Parameters, their initial values and the state_dict are torch.nn.Linear's, so it takes the place of one, and
    ColwiseParallel and RowwiseParallel of torch.distributed.tensor.parallel apply to it.

    Args:
        in_features: k, the size of an input row.
        out_features: n, the size of an output row.
        bias: whether there is one.
        activation: {activations}.
        slope: of leaky_relu for negative arguments.
        device: of the parameters.
        dtype: of the parameters, float16, bfloat16, float32 or float64.

    The input is (..., in_features), of the weight's dtype unless autocast is on; the output is (..., out_features), of
    the same dtype. Sums, bias and activation are in float32 (float64 for float64) and rounded once.

    With DTensors, as parallelize_module makes them, an output sharded by columns or rows is computed where it lies,
    activation included. Where input and weight are both sharded along in_features, as RowwiseParallel has them, each
    device has a term of every sum; the bias is in the terms, and an activation follows in a kernel of its own, after
    the terms have been rounded to the output's dtype and added up.

    Raises:
        RuntimeError: "Linear: ...", for an activation that there is not; calls raise as `tileon_ops.matmul` does.
    """

    __module__ = "tileon_ops"  # what a pickled layer is found by

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        activation: str = "none",
        slope: float = 0.01,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        check_activation("Linear", activation)
        super().__init__(in_features, out_features, bias, device=device, dtype=dtype)
        self.activation = activation
        self.slope = slope

    @classmethod
    def from_linear(cls, linear: nn.Linear, *, activation: str = "none", slope: float = 0.01) -> Linear:
        """A Linear with the same parameters, not copies of them. Hooks stay behind.

        Args:
            linear: whose `weight` and `bias`, if it has one, are taken over, and whether it is in training mode.
            activation: as of the class.
            slope: as of the class.
        """
        has_bias = linear.bias is not None
        new = cls(linear.in_features, linear.out_features, has_bias, activation=activation, slope=slope, device="meta")
        new.weight = linear.weight
        new.bias = linear.bias
        return new.train(linear.training)

    def forward(self, input: Tensor) -> Tensor:
        if self.activation == "none" or not _gives_terms(input, self.weight):
            return linear(input, self.weight, self.bias, self.activation, self.slope)
        return activate(_added_up(matmul(input, self.weight.t(), self.bias)), self.activation, self.slope)

    def extra_repr(self) -> str:
        text = super().extra_repr()
        if self.activation != "none":
            text += f", activation={self.activation}"
        if ACTIVATIONS[self.activation].has_slope:
            text += f", slope={self.slope}"
        return text


def _gives_terms(x: Tensor, weight: Tensor) -> bool:
    """Whether both are DTensors sharded along in_features, so that each device has a term of every sum."""
    if not (hasattr(x, "placements") and hasattr(weight, "placements")):  # plain tensors: nothing to import
        return False
    pairs = zip(x.placements, weight.placements, strict=False)
    return any(of_x.is_shard(x.dim() - 1) and of_weight.is_shard(1) for of_x, of_weight in pairs)


def _added_up(terms: Tensor) -> Tensor:
    from torch.distributed.tensor import DTensor, Replicate

    assert isinstance(terms, DTensor)
    return terms.redistribute(placements=[Replicate() if one.is_partial() else one for one in terms.placements])
