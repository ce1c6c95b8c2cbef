"""`tileon_ops.BlockScaledLinear`: a linear layer for inference whose weight is fp8 or fp4 with a scale per block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from tileon_ops._rules import autocast
from tileon_ops._rules.activations import ACTIVATIONS
from tileon_ops._rules.fake.checks import check, check_activation, dtype_name
from tileon_ops._rules.fake.scales import FORMATS, packed_scale_shape
from tileon_ops.nn.linear import Linear
from tileon_ops.ops.quantization import nvfp4_global_scale

# Registered when tileon_ops is imported. The overloads by name: a packet has to search for the right one at every call.
_quantize_op = torch.ops.tileon.quantize.default
_matmul_op = torch.ops.tileon.block_scaled_matmul.default


class _Pair(NamedTuple):
    """What `quantize` makes of the two operands of a layer."""

    input: str
    weight: str


LAYER_FORMATS = {
    "mxfp8": _Pair("mxfp8", "mxfp8"),
    "mxfp4": _Pair("mxfp4", "mxfp4"),
    "mixed": _Pair("mxfp8", "mxfp4"),
    "nvfp4": _Pair("nvfp4", "nvfp4"),
}


def check_layer_format(caller: str, format: str) -> None:
    check(format in LAYER_FORMATS, f'{caller}: `format` must be one of {", ".join(LAYER_FORMATS)}, got "{format}"')


def elements_a_scale(format: str) -> int:
    """What a layer's in_features must be a multiple of."""
    return FORMATS[LAYER_FORMATS[format].weight].vec


class BlockScaledLinear(nn.Module):
    """activation(x @ weight^T + bias) for inference, with both operands in a block-scaled format.

    `from_linear` makes one of a trained layer: the weight is quantized once, activations are quantized at each call.

    ======  ===========  =======  =====================  ===============
    format  activations  weight   in_features, multiple  bytes a weight
    ======  ===========  =======  =====================  ===============
    mxfp8   mxfp8        mxfp8    of 32                  1 + 1/32
    mxfp4   mxfp4        mxfp4    of 32                  1/2 + 1/32
    mixed   mxfp8        mxfp4    of 32                  1/2 + 1/32
    nvfp4   nvfp4        nvfp4    of 16                  1/2 + 1/16
    ======  ===========  =======  =====================  ===============

    Args:
        in_features, out_features, bias, activation, slope, device: as tileon_ops.Linear has them.
        format: "mxfp8", "mxfp4", "mixed" or "nvfp4".

    The constructor makes a layer whose weight and bias are 0, for load_state_dict; on the meta device it takes no
    memory, and load_state_dict(..., assign=True) fills it.

    The input is (..., in_features), float32, float16 or bfloat16. The output is (..., out_features), of the input's
    dtype; where autocast is on, of autocast's dtype, as torch.nn.Linear's is. Sums, bias and activation are float32 and
    rounded once. No gradient flows through it: while gradients are recorded, an input that requires grad is an error,
    so call a model that holds such layers under torch.no_grad() or torch.inference_mode().

    It has no parameters. Its buffers are `data` and `scale` as `quantize` makes them, `bias` (float32, which holds the
    16-bit dtypes exactly) and, of nvfp4, `global_scale`. They keep their dtypes whatever the module is converted to:
    `.half()` and `.to(dtype)` change nothing, `.to(device)` moves them.

    nvfp4 has a global scale for each operand. The weight's is made once. That of the activations is made of each call's
    largest magnitude, on the device, without waiting for it. A scale that is fixed in advance would save that pass over
    the input, but it needs sample data, and inputs beyond it saturate. So a row's result depends on the rows that it
    shares the call with, in nvfp4 alone (docs/modules.md says how much).

    The weight is held once, as `data` and `scale`, and each call multiplies what these hold then: whoever wrote them,
    and however (`.data`, torch.distributed, DLPack, another stream that the caller waited for), there is no second form
    that could be older. On a Hopper GPU a product of more than 64 rows (mxfp4: 128) decodes the weight at each call
    (docs/block_scaled_on_hopper.md).

    Raises:
        ValueError: where the format's block does not divide in_features.
        RuntimeError: "BlockScaledLinear: ..." for a format or an activation that there is not, and for an input of
            another width; calls raise as `quantize` and `block_scaled_matmul` do.
    """

    __module__ = "tileon_ops"  # what a pickled layer is found by

    data: Tensor
    scale: Tensor
    bias: Tensor | None
    global_scale: Tensor | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        format: str,
        activation: str = "none",
        slope: float = 0.01,
        device: torch.device | str | int | None = None,
    ) -> None:
        check_layer_format("BlockScaledLinear", format)
        check_activation("BlockScaledLinear", activation)
        vec = elements_a_scale(format)
        if in_features % vec != 0:
            rule = f"`in_features` must be a multiple of {vec}, as {format} has a scale for each {vec}"
            raise ValueError(f"BlockScaledLinear: {rule}, got {in_features}")
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.format = format
        self.activation = activation
        self.slope = slope
        weight = FORMATS[LAYER_FORMATS[format].weight]
        has_global_scale = weight.name == "nvfp4"

        def zeros(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=torch.uint8, device=device)

        packed = packed_scale_shape(out_features, in_features // vec)
        self.register_buffer("data", zeros(out_features, in_features // weight.per_byte).view(weight.elements[0]))
        self.register_buffer("scale", zeros(*(int(size) for size in packed)).view(weight.scales[0]))
        self.register_buffer("bias", torch.zeros(out_features, device=device, dtype=torch.float32) if bias else None)
        factor = torch.ones((), device=device, dtype=torch.float32) if has_global_scale else None
        self.register_buffer("global_scale", factor)

    @classmethod
    def from_linear(cls, linear: nn.Linear, format: str) -> BlockScaledLinear:
        """The layer with its weight quantized, on the device of `linear`, which stays as it is.

        Args:
            linear: a torch.nn.Linear, whose hooks stay behind, or a tileon_ops.Linear, whose activation comes along. Of
                float32, float16 or bfloat16.
            format: "mxfp8", "mxfp4", "mixed" or "nvfp4".

        Raises:
            ValueError: where the format's block does not divide in_features.
            RuntimeError: "BlockScaledLinear: ..." for another format or anything but a linear layer that has its
                parameters; "quantize: ..." for a weight of another dtype.
        """
        check(
            isinstance(linear, nn.Linear) and not nn.parameter.is_lazy(linear.weight),
            "BlockScaledLinear: `linear` must be a torch.nn.Linear that has its parameters, got "
            + type(linear).__name__,
        )
        activation, slope = (linear.activation, linear.slope) if isinstance(linear, Linear) else ("none", 0.01)
        out_features, in_features = linear.weight.shape
        has_bias = linear.bias is not None
        new = cls(in_features, out_features, has_bias, format=format, activation=activation, slope=slope, device="meta")
        # outside inference mode, whose tensors load_state_dict could not write later
        with torch.inference_mode(False), torch.no_grad():
            weight = linear.weight.detach()
            if new.global_scale is not None:
                new.global_scale = nvfp4_global_scale(weight)
            new.data, new.scale = _quantize_op(weight, LAYER_FORMATS[format].weight, new.global_scale)
            if linear.bias is not None:
                new.bias = linear.bias.detach().to(torch.float32, copy=True)
        return new.train(linear.training)

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() == 0 or input.shape[-1] != self.in_features:
            raise RuntimeError(
                f"BlockScaledLinear: `input` must be (..., in_features = {self.in_features}), got {tuple(input.shape)}"
            )
        rows = input.flatten(0, -2) if input.dim() > 2 else input.unsqueeze(0) if input.dim() == 1 else input
        buffers: dict[str, Any] = self._buffers  # which an attribute of a module finds last, and slowly
        global_scale = buffers["global_scale"]
        own_scale = factor = None
        if global_scale is not None:
            own_scale = nvfp4_global_scale(rows)
            factor = own_scale * global_scale
        a, scale_a = _quantize_op(rows, LAYER_FORMATS[self.format].input, own_scale)
        device_type = input.device.type
        dtype = torch.get_autocast_dtype(device_type) if autocast.is_on(device_type) else input.dtype
        output: Tensor = _matmul_op(
            a,
            buffers["data"],
            scale_a,
            buffers["scale"],
            buffers["bias"],
            factor,
            activation=self.activation,
            slope=self.slope,
            out_dtype=dtype,
        )
        return output if input.dim() == 2 else output.view(*input.shape[:-1], self.out_features)

    def extra_repr(self) -> str:
        text = (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}, "
            f"format={self.format}"
        )
        if self.activation != "none":
            text += f", activation={self.activation}"
        if ACTIVATIONS[self.activation].has_slope:
            text += f", slope={self.slope}"
        return text

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> BlockScaledLinear:
        """Moves the buffers as `fn` does, and keeps their dtypes: half precision of codes and scales is another weight,
        and the op wants its bias and global scale in float32."""

        def move(tensor: Tensor) -> Tensor:
            moved = fn(tensor)
            return moved if moved.dtype == tensor.dtype else tensor.to(moved.device)

        nn.Module._apply(self, move, recurse)
        return self

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        # a copy between dtypes would convert codes as if they were numbers
        for name, buffer in (("data", self.data), ("scale", self.scale)):
            given = state_dict.get(prefix + name)
            if isinstance(given, Tensor) and given.dtype != buffer.dtype:
                error_msgs.append(
                    f"dtype mismatch for {prefix}{name}: {self.format} has {dtype_name(buffer.dtype)}, got "
                    f"{dtype_name(given.dtype)}."
                )
                return
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )
