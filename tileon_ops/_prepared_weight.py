"""A layer's weight in the form in which Hopper's kernels multiply it: where that is offered, in which form, made once.

docs/block_scaled_on_hopper.md tells what it saves; csrc/prepared_weight.h is its layout.
"""

from __future__ import annotations

import os

import torch
from torch import Tensor

# Registered when tileon_ops is imported. The overload by name: a packet has to search for the right one at every call.
_prepare_op = torch.ops.tileon._prepare_block_scaled.default

_HOPPER = (9, 0)
_LEAST_ROWS = 65  # of a weight; fewer take the portable kernels, which read the codes (csrc/cuda/sm90/block_scaled)
_WORD_FROM_END = 256  # of an int8 form: the word that is not 0 where a row does not fit


def is_offered(data: Tensor) -> bool:
    """Whether a weight of these codes has a prepared form that a product would read.

    Not where TILEON_HOPPER=0 leaves the portable kernels, and not for a tensor that only stands for one (fake tensors,
    DTensors).
    """
    return (
        type(data) is Tensor
        and data.device.type == "cuda"
        and data.shape[0] >= _LEAST_ROWS
        and data.shape[1] > 0
        and os.environ.get("TILEON_HOPPER") != "0"
        and torch.cuda.get_device_capability(data.device) == _HOPPER
        and " sm90_" in torch.ops.tileon._block_scaled_matmul_configs()
    )


def make(data: Tensor, scale: Tensor, format: str) -> Tensor:
    """The form that serves the layer's products: int8 of mxfp4 weights that fit it, else bfloat16. Activations of mxfp8
    multiply no int8: the weight of a mixed layer is mxfp4 as well, and becomes bfloat16.

    Args:
        data, scale: the weight, on a GPU that offers it.
        format: the layer's, "mxfp8", "mxfp4", "mixed" or "nvfp4".

    Returns:
        (bytes,) of uint8, ready for any stream: about 1 byte for each element as int8, 2 as bfloat16.
    """
    prepared: Tensor
    if format == "mxfp4":
        prepared = _prepare_op(data, scale, form="int8")
        if not prepared[-_WORD_FROM_END:][:4].any():  # waits for the device
            return prepared
        del prepared  # its memory before the next takes more
    prepared = _prepare_op(data, scale, form="bfloat16")
    torch.cuda.current_stream(data.device).synchronize()  # the next call may be on another stream
    return prepared
