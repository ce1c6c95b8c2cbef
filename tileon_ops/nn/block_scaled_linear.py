"""`tileon_ops.BlockScaledLinear`: a linear layer whose weight is fp8, fp4 or int8 with a scale per block."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tileon_ops._rules import autocast
from tileon_ops._rules.activations import ACTIVATIONS, activate
from tileon_ops._rules.fake.checks import check, check_activation, dtype_name, dtype_names
from tileon_ops._rules.fake.scales import Format, packed_scale_shape
from tileon_ops.nn import layer_ops
from tileon_ops.nn.decoded_weight import weight_of
from tileon_ops.nn.float32_product import float32_product
from tileon_ops.nn.layer_formats import (
    LAYER_FORMATS,
    NUMBERS,
    LayerFormat,
    check_layer_format,
    check_scale_rounding,
    elements_a_scale,
)
from tileon_ops.nn.layer_ops import LayerOps
from tileon_ops.nn.linear import Linear
from tileon_ops.nn.scale_search import quantize_weight
from tileon_ops.ops.quantization import nvfp4_global_scale

_dequantize_op = torch.ops.tileon.dequantize.default  # registered when tileon_ops is imported

# What a layer has that was pickled before there was a choice: it computes what it did then.
_BEFORE = {
    "weight_only": False,
    "fast_accum": False,
    "scale_rounding": "floor",
    "weight_dtype": torch.float32,
    "name_in_model": "",
}


class BlockScaledLinear(nn.Module):
    """activation(x @ weight^T + bias) for inference and adapters: the weight has 4 or 8 bits an element, and scales.

    `from_linear` makes one of a trained layer: the weight is quantized once. Activations are quantized at each call or,
    with `weight_only`, multiplied as they are.

    ===========  ===========  ===========  =====================  ======================
    format       activations  weight       in_features, multiple  bytes a weight
    ===========  ===========  ===========  =====================  ======================
    mxfp8        mxfp8        mxfp8        of 32                  1 + 1/32
    mxfp4        mxfp4        mxfp4        of 32                  1/2 + 1/32
    mixed        mxfp8        mxfp4        of 32                  1/2 + 1/32
    nvfp4        nvfp4        nvfp4        of 16                  1/2 + 1/16
    fp8_row      fp8_row      fp8_row      any                    1 + 4/in_features
    fp8_128x128  fp8_1x128    fp8_128x128  any                    1 + 1/4096
    int8_row     int8_row     int8_row     any                    1 + 4/in_features
    ===========  ===========  ===========  =====================  ======================

    Args:
        in_features, out_features, bias, activation, slope, device: as tileon_ops.Linear has them.
        format: one of the table.
        weight_only: whether activations stay as they are. "mixed" then is mxfp4.
        fast_accum: what `block_scaled_matmul` takes: sums that err more where that is faster on a GPU. Its description
            says by how much.
        scale_rounding: "rceil" or "floor", of the activations' scales in the mx formats, as `quantize` has them. Under
            "rceil" nothing saturates. The other formats have one rule alone.
        dtype: of the layer that it stands for, which `weight` shows; torch's default dtype unless given.

    The constructor makes a layer whose weight and bias are 0, for load_state_dict; on the meta device it takes no
    memory, and load_state_dict(..., assign=True) fills it.

    The input is (..., in_features), float32, float16 or bfloat16. The output is (..., out_features), of the input's
    dtype; where autocast is on, of autocast's dtype, as torch.nn.Linear's is. Sums, bias and activation are float32 and
    rounded once. A row's result does not depend on the rows beside it: each has scales of its own, in nvfp4 a global
    scale, too.

    With `weight_only` the gradient of the input flows, as often as wanted, so that adapters beside and below the layer
    train; no other form of the weight outlives the call for it. A float32 input is multiplied in float32: the weight
    is decoded to float32 for the call, which takes 4 bytes an element meanwhile, and `matmul` multiplies, by torch's
    own setting of TF32. Pass 16 bits, or use autocast, where that is too much. Without `weight_only` an input that
    requires grad is an error while gradients are recorded.

    It has no parameters. Its buffers are `data` and `scale` as `quantize` makes them, `bias` (float32, which holds the
    16-bit dtypes exactly) and, of nvfp4, `global_scale`. `.to(device)` moves them. They keep their dtypes whatever the
    module is converted to: `.half()` and `.to(dtype)` change the dtype that `weight` shows, and nothing else.

    The weight's scales are found by a search for the least squared error of each block, which is never above that of
    "floor" or "rceil" (mx formats) or of `quantize` (nvfp4); float32 scales are those of `quantize`.

    The weight is held once, as `data` and `scale`, and each call multiplies what these hold then: whoever wrote them,
    and however (`.data`, torch.distributed, DLPack, another stream that the caller waited for), there is no second form
    that could be older. On a Hopper GPU a product of more than 64 rows (mxfp4: 128) decodes the weight at each call
    (docs/block_scaled_on_hopper.md).

    Raises:
        ValueError: where the format's block does not divide in_features.
        RuntimeError: "BlockScaledLinear: ..." for a format, an activation or a rounding that there is not, for an input
            of another width or dtype, and for one that requires grad. Where `convert` made the layer, the message has
            its name in the model. Calls raise as `quantize` and `block_scaled_matmul` do.
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
        weight_only: bool = False,
        fast_accum: bool = True,
        scale_rounding: str = "rceil",
        dtype: torch.dtype | None = None,
    ) -> None:
        check_layer_format("BlockScaledLinear", format)
        check_activation("BlockScaledLinear", activation)
        check_scale_rounding("BlockScaledLinear", scale_rounding)
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
        self.weight_only = weight_only
        self.fast_accum = fast_accum
        self.scale_rounding = scale_rounding
        self.weight_dtype = torch.get_default_dtype() if dtype is None else dtype
        self.name_in_model = ""  # `convert` writes it, for errors
        own = LAYER_FORMATS[format]
        data, scale = _zeros(own.of_weight, out_features, in_features, device)
        self.register_buffer("data", data)
        self.register_buffer("scale", scale)
        self.register_buffer("bias", torch.zeros(out_features, device=device, dtype=torch.float32) if bias else None)
        factor = torch.ones((), device=device, dtype=torch.float32) if own.has_global_scale else None
        self.register_buffer("global_scale", factor)

    @classmethod
    def from_linear(
        cls,
        linear: nn.Linear,
        format: str,
        *,
        weight_only: bool = False,
        fast_accum: bool = True,
        scale_rounding: str = "rceil",
    ) -> BlockScaledLinear:
        """The layer with its weight quantized, on the device of `linear`, which stays as it is.

        Args:
            linear: a torch.nn.Linear, whose hooks stay behind, or a tileon_ops.Linear, whose activation comes along. Of
                float32, float16 or bfloat16.
            format: as of the class, and what follows as well.

        Raises:
            ValueError: where the format's block does not divide in_features.
            RuntimeError: "BlockScaledLinear: ..." for another format or rounding, for anything but a linear layer that
                has its parameters, and for a weight of another dtype.
        """
        check(
            isinstance(linear, nn.Linear) and not nn.parameter.is_lazy(linear.weight),
            "BlockScaledLinear: `linear` must be a torch.nn.Linear that has its parameters, got "
            + type(linear).__name__,
        )
        check(
            linear.weight.dtype in NUMBERS,
            f"BlockScaledLinear: the weight of `linear` must be {dtype_names(NUMBERS, ' or ')}, got "
            + dtype_name(linear.weight.dtype),
        )
        activation, slope = (linear.activation, linear.slope) if isinstance(linear, Linear) else ("none", 0.01)
        out_features, in_features = linear.weight.shape
        new = cls(
            in_features,
            out_features,
            linear.bias is not None,
            format=format,
            activation=activation,
            slope=slope,
            device="meta",
            weight_only=weight_only,
            fast_accum=fast_accum,
            scale_rounding=scale_rounding,
            dtype=linear.weight.dtype,
        )
        # outside inference mode, whose tensors load_state_dict could not write later
        with torch.inference_mode(False), torch.no_grad():
            weight = linear.weight.detach()
            if new.global_scale is not None:
                new.global_scale = nvfp4_global_scale(weight)
            new.data, new.scale = quantize_weight(weight, LAYER_FORMATS[format].weight, new.global_scale)
            if linear.bias is not None:
                new.bias = linear.bias.detach().to(torch.float32, copy=True)
        return new.train(linear.training)

    @property
    def weight(self) -> Tensor:
        """The weight with the shape, the dtype and the device of the layer that this one replaced.

        Its values are decoded when they are used, anew each time: to ask for its dtype costs nothing. It is no
        parameter, nothing of it is in the state_dict, and writing to it is an error. In compiled code it is decoded
        at once, and left out where its values are not used.
        """
        decode = functools.partial(
            _decoded, self.data, self.scale, LAYER_FORMATS[self.format].weight, self.global_scale, self.weight_dtype
        )
        return weight_of(decode, (self.out_features, self.in_features), self.weight_dtype, self.data.device)

    def forward(self, input: Tensor) -> Tensor:
        self._check_input(input)
        rows = input.flatten(0, -2) if input.dim() > 2 else input.unsqueeze(0) if input.dim() == 1 else input
        dtype, is_below = input.dtype, layer_ops.is_below(rows, *self._buffers.values())
        if not is_below and autocast.is_on(input.device.type):
            dtype = torch.get_autocast_dtype(input.device.type)
        if self.weight_only and dtype == torch.float32:
            output = self._in_float32(rows)
        else:
            if self.weight_only:
                product = self._of_numbers
            else:
                product = self._by_one_op if is_below and not layer_ops.is_watched() else self._of_quantized
            output = layer_ops.call_below(product, rows, dtype) if is_below else product(layer_ops.OPS, rows, dtype)
        return output if input.dim() == 2 else output.view(*input.shape[:-1], self.out_features)

    def _of_numbers(self, ops: LayerOps, rows: Tensor, dtype: torch.dtype) -> Tensor:
        a = rows if rows.dtype == dtype else rows.to(dtype)  # `to` takes 3 us to find that out
        return self._multiply(ops, a, None, self._buffers["global_scale"])

    def _by_one_op(self, ops: LayerOps, rows: Tensor, dtype: torch.dtype) -> Tensor:
        """As _of_quantized, where `dtype` is that of the rows, as it is without autocast."""
        form, buffers = LAYER_FORMATS[self.format], self._buffers
        options = self._options() | self._rounding(form)
        output: Tensor = ops.linear(
            rows, buffers["data"], buffers["scale"], form.input, buffers["bias"], buffers["global_scale"], **options
        )
        return output

    def _of_quantized(self, ops: LayerOps, rows: Tensor, dtype: torch.dtype) -> Tensor:
        form, factor = LAYER_FORMATS[self.format], self._buffers["global_scale"]
        if factor is not None:  # each row has a global scale of its own
            a, scale_a, factor = ops.quantize_rows(rows, factor)
        else:
            a, scale_a = ops.quantize(rows, form.input, **self._rounding(form))
        return self._multiply(ops, a, scale_a, factor, out_dtype=dtype)

    def _multiply(
        self, ops: LayerOps, a: Tensor, scale_a: Tensor | None, factor: Tensor | None, **options: Any
    ) -> Tensor:
        buffers: dict[str, Any] = self._buffers  # which an attribute of a module finds last, and slowly
        options |= self._options()
        output: Tensor = ops.multiply(a, buffers["data"], scale_a, buffers["scale"], buffers["bias"], factor, **options)
        return output

    def _rounding(self, form: LayerFormat) -> dict[str, Any]:
        rounds_up = form.rounds_input_scales and self.scale_rounding != "floor"
        return {"scale_rounding": self.scale_rounding} if rounds_up else {}

    def _options(self) -> dict[str, Any]:
        """Of a product, less those that have their defaults: each takes 0.4 us or more."""
        options: dict[str, Any] = {}
        if self.fast_accum:
            options["fast_accum"] = True
        if self.activation != "none":
            options |= {"activation": self.activation, "slope": self.slope}
        return options

    def _in_float32(self, rows: Tensor) -> Tensor:
        form = LAYER_FORMATS[self.format].weight
        sums = float32_product(rows, self.data, self.scale, self.global_scale, form)
        return activate(sums if self.bias is None else sums + self.bias, self.activation, self.slope)

    def _check_input(self, input: Tensor) -> None:
        """Before anything else speaks of operands that the caller does not know."""
        if input.dim() == 0 or input.size(-1) != self.in_features:  # a shape takes longer than a size
            raise RuntimeError(
                f"{self._named()}: `input` must be (..., in_features = {self.in_features}), got {tuple(input.shape)}"
            )
        if input.dtype not in NUMBERS:
            raise RuntimeError(
                f"{self._named()}: `input` must be {dtype_names(NUMBERS, ' or ')}, got {dtype_name(input.dtype)}"
            )
        if not self.weight_only and input.requires_grad and torch.is_grad_enabled():
            raise RuntimeError(
                f"{self._named()}: `input` requires grad, and no gradient flows through activations that are quantized "
                f"({self.format}, in_features = {self.in_features}, out_features = {self.out_features}); make the "
                "layer with weight_only=True, or call the model under torch.no_grad()"
            )

    def _named(self) -> str:
        return f"BlockScaledLinear ({self.name_in_model})" if self.name_in_model else "BlockScaledLinear"

    def extra_repr(self) -> str:
        text = (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}, "
            f"format={self.format}"
        )
        if self.weight_only:
            text += ", weight_only=True"
        if not self.fast_accum:
            text += ", fast_accum=False"
        if self.scale_rounding != "rceil":
            text += f", scale_rounding={self.scale_rounding}"
        if self.activation != "none":
            text += f", activation={self.activation}"
        if ACTIVATIONS[self.activation].has_slope:
            text += f", slope={self.slope}"
        return text

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({**_BEFORE, **state})  # type: ignore[no-untyped-call]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> BlockScaledLinear:
        """Moves the buffers as `fn` does, and keeps their dtypes: half precision of codes and scales is another weight,
        and the op wants its bias and global scale in float32. What `fn` makes of the dtype, `weight` shows."""

        def move(tensor: Tensor) -> Tensor:
            moved = fn(tensor)
            return moved if moved.dtype == tensor.dtype else tensor.to(moved.device)

        self.weight_dtype = fn(torch.zeros(1, dtype=self.weight_dtype, device=self.data.device)).dtype
        nn.Module._apply(self, move, recurse)
        return self

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        metadata = getattr(destination, "_metadata", {}).get(prefix[:-1])
        if metadata is not None:
            metadata["weight_dtype"] = dtype_name(self.weight_dtype)

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
        # as of torch.nn.Linear: what is assigned brings its dtype, what is copied takes the layer's
        if local_metadata.get("assign_to_params_buffers") and "weight_dtype" in local_metadata:
            self.weight_dtype = getattr(torch, local_metadata["weight_dtype"])
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


def _zeros(form: Format, rows: int, k: int, device: torch.device | str | int | None) -> tuple[Tensor, Tensor]:
    """Codes of 0 for a weight (rows, k), and scales to go with them."""

    def zeros(dtype: torch.dtype, *shape: Any) -> Tensor:
        as_bytes = torch.uint8 if dtype.itemsize == 1 else dtype  # torch fills no floats of 8 bits everywhere
        return torch.zeros(tuple(map(int, shape)), dtype=as_bytes, device=device).view(dtype)

    shape = packed_scale_shape(rows, k // form.vec) if form.has_packed_scales else form.scale_shape(rows, k)
    return zeros(form.elements[0], rows, k // form.per_byte), zeros(form.scales[0], *shape)


def _decoded(data: Tensor, scale: Tensor, format: str, global_scale: Tensor | None, dtype: torch.dtype) -> Tensor:
    """The numbers, rounded once to `dtype`."""
    return _dequantize_op(data, scale, format, global_scale, out_dtype=dtype if dtype in NUMBERS else None).to(dtype)
