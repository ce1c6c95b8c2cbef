"""A small MLP split over the devices, column-parallel and then row-parallel, trained beside the same MLP unsplit.

    torchrun --nproc-per-node=2 examples/tensor_parallel.py

Each process takes a GPU (NCCL, bfloat16 by autocast) or, where there are not enough, the CPU (gloo, float32). The first
layer's activation is in its product's kernel, on the columns that a device has; the second layer's partial sums are
added up once, by one all-reduce. Prints the losses of both MLPs, what was checked, and the time of a step.
"""

from __future__ import annotations

import copy
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # the package in place; not needed once installed

import tileon_ops

STEPS = 10


def make_mlp(features: int, hidden: int, device: torch.device) -> nn.Sequential:
    torch.manual_seed(0)  # every process makes the same one
    return nn.Sequential(
        tileon_ops.Linear(features, hidden, activation="gelu_tanh", device=device),
        tileon_ops.Linear(hidden, features, device=device),
    )


def train(mlp: nn.Module, x: Tensor, target: Tensor) -> tuple[list[float], float]:
    """The loss of each step, and the median seconds of one."""
    optimizer = torch.optim.SGD(mlp.parameters(), lr=0.5)
    losses, seconds = [], []
    for _ in range(STEPS):
        dist.barrier()
        start = time.perf_counter()
        with torch.autocast(x.device.type, torch.bfloat16, enabled=x.is_cuda):
            output = mlp(x)
        loss = nn.functional.mse_loss(output.float(), target)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())  # waits for the device
        seconds.append(time.perf_counter() - start)
    return losses, sorted(seconds)[STEPS // 2]


def check(split: nn.Module, whole: nn.Module, start: dict[str, Tensor]) -> None:
    """Raises where a parameter of the split MLP has not moved as that of the whole one has."""
    for name, parameter in split.named_parameters():
        assert isinstance(parameter, DTensor)
        moved, expected = parameter.full_tensor() - start[name], whole.get_parameter(name) - start[name]
        error = float((moved - expected).norm() / expected.norm())
        if not error < 0.05:  # of the gradients' rounding to bfloat16; in float32 it is far less
            raise RuntimeError(f"{name}: moved by training otherwise than the whole one's, by {error:.1%}")


def main() -> None:
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")  # NVLink multicast is not everywhere; an all-reduce does without
    rank, world, local_rank = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    on_gpu = torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])
    device = torch.device("cuda", local_rank) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if on_gpu else "gloo")
    features, hidden, rows = (4096, 16384, 4096) if on_gpu else (64, 256, 32)

    whole = make_mlp(features, hidden, device)
    start = copy.deepcopy(whole.state_dict())
    mesh = init_device_mesh(device.type, (world,))
    split = parallelize_module(copy.deepcopy(whole), mesh, {"0": ColwiseParallel(), "1": RowwiseParallel()})
    x, target = torch.randn(2, rows, features, device=device).unbind()
    whole_losses, whole_seconds = train(whole, x, target)
    losses, seconds = train(split, x, target)
    torch.testing.assert_close(torch.tensor(losses), torch.tensor(whole_losses), rtol=1e-3, atol=0.0)
    check(split, whole, start)

    if rank == 0:
        for name, parameter in split.named_parameters():
            assert isinstance(parameter, DTensor)
            shape, part = tuple(parameter.shape), tuple(parameter.to_local().shape)
            print(f"{name}: {shape}, {parameter.placements[0]}, of which a device has {part}")
        print(f"losses, split: {' '.join(f'{loss:.5f}' for loss in losses)}")
        print(f"losses, whole: {' '.join(f'{loss:.5f}' for loss in whole_losses)}")
        print(f"The split MLP's losses and its parameters after {STEPS} steps agree with the whole one's.")
        print(f"one step: {seconds * 1e3:.2f} ms on {world} x {device.type}, {whole_seconds * 1e3:.2f} ms on one")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
