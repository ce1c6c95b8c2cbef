"""Four devices of DTensor's in one process: torch's LocalTensorMode calls each op once for every device in turn.

What DTensor decides and computes is what it would with four processes; only communication is simulated.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed._local_tensor import LocalTensor, LocalTensorMode
from torch.distributed.tensor import DeviceMesh, DTensor, Partial, Replicate, Shard, distribute_tensor, init_device_mesh
from torch.distributed.tensor.placement_types import Placement
from torch.testing._internal.distributed.fake_pg import FakeStore

DEVICES = 4

_LETTERS: dict[str, Placement] = {"R": Replicate(), "P": Partial(), "0": Shard(0), "1": Shard(1), "2": Shard(2)}


def placements(text: str) -> tuple[Placement, ...]:
    """A letter for each dimension of the mesh: R replicated, P partial sums, a digit the dimension that is sharded."""
    return tuple(_LETTERS[letter] for letter in text)


@dataclass
class Result:
    """What the op gave on the devices, and what on the whole operands."""

    placed: str
    whole: Tensor
    expected: Tensor
    dtensor: DTensor

    @property
    def is_exact(self) -> bool:
        return self.whole.dtype == self.expected.dtype and torch.equal(self.whole.double(), self.expected.double())


def _text(of: Sequence[Placement]) -> str:
    return "".join(next(letter for letter, placement in _LETTERS.items() if placement == one) for one in of)


def _as_tuple(outputs: Any) -> tuple[Any, ...]:
    return outputs if isinstance(outputs, tuple) else (outputs,)


@dataclass
class Devices:
    """A mesh of four devices, (4,) or (2, 2)."""

    mesh: DeviceMesh

    def call(self, op: Any, *operands: tuple[Tensor, str] | None, **options: Any) -> Result:
        """The op on operands, each with its placements; None is an optional one left out."""
        (result,) = self.call_all(op, *operands, **options)
        return result

    def call_all(self, op: Any, *operands: tuple[Tensor, str] | None, **options: Any) -> list[Result]:
        """The same of an op with any number of outputs."""
        expected = op(*(None if operand is None else operand[0] for operand in operands), **options)
        pairs = zip(self.on_devices(op, *operands, **options), _as_tuple(expected), strict=True)
        return [Result(_text(result.placements), gathered, whole, result) for (result, gathered), whole in pairs]

    def on_devices(self, op: Any, *operands: tuple[Tensor, str] | None, **options: Any) -> list[tuple[DTensor, Tensor]]:
        """Every output as it lies on the devices, and gathered."""
        with LocalTensorMode(DEVICES):
            sharded = [
                None if operand is None else distribute_tensor(operand[0], self.mesh, placements(operand[1]))
                for operand in operands
            ]
            results = _as_tuple(op(*sharded, **options))
            gathered = [result.full_tensor() for result in results]
        whole = [one.reconcile() if isinstance(one, LocalTensor) else one for one in gathered]
        return list(zip(results, whole, strict=True))


@contextmanager
def devices() -> Generator[dict[str, Devices], None, None]:
    """The meshes "line", (4,), and "square", (2, 2)."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=DEVICES)
    try:
        yield {
            "line": Devices(init_device_mesh("cpu", (DEVICES,))),
            "square": Devices(init_device_mesh("cpu", (2, 2))),
        }
    finally:
        dist.destroy_process_group()
