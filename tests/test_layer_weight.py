"""BlockScaledLinear multiplies the weight that it holds, whoever wrote it and however: there is no other form of it.

Each test writes a layer's buffers in a way that torch's version counters do not see, or not in every mode, and compares
the layer with one that was made of the written weight. On a GPU the rows cover every kernel that reads a weight.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from operands import normal
from torch import Tensor, nn

from tileon_ops import BlockScaledLinear, convert

FORMATS = ("mxfp8", "mxfp4", "mixed", "nvfp4")
ROWS = (3, 70, 200)
IN_FEATURES, OUT_FEATURES = 96, 80

each_format = pytest.mark.parametrize("fmt", FORMATS)


def layer_of(seed: int, fmt: str, device: torch.device | str) -> BlockScaledLinear:
    torch.manual_seed(seed)
    return BlockScaledLinear.from_linear(nn.Linear(IN_FEATURES, OUT_FEATURES), fmt).to(device)


def assert_same_results(layer: nn.Module, other: nn.Module, device: torch.device | str) -> None:
    for rows in ROWS:
        x = normal(rows, IN_FEATURES, dtype=torch.float32, device=device)
        assert torch.equal(layer(x), other(x)), f"{rows} rows are multiplied by another weight"


def as_bytes(tensor: Tensor) -> Tensor:
    return tensor.view(torch.uint8) if tensor.dtype != torch.float32 else tensor


def by_data(target: Tensor, source: Tensor) -> None:
    target.data.copy_(source)


def by_dlpack(target: Tensor, source: Tensor) -> None:
    torch.from_dlpack(as_bytes(target)).copy_(as_bytes(source))


def by_storage(target: Tensor, source: Tensor) -> None:
    target.untyped_storage().copy_(source.untyped_storage())


def in_inference_mode(target: Tensor, source: Tensor) -> None:
    with torch.inference_mode():
        target.copy_(source)


def by_pointer(target: Tensor, source: Tensor) -> None:
    ctypes.memmove(target.data_ptr(), source.data_ptr(), source.nbytes)


def by_numpy(target: Tensor, source: Tensor) -> None:
    as_bytes(target).numpy()[...] = as_bytes(source).numpy()


def write(layer: nn.Module, other: nn.Module, copy: Callable[[Tensor, Tensor], None]) -> None:
    """All that a checkpoint has, each by its name."""
    sources = other.state_dict()
    for name, tensor in layer.state_dict().items():
        copy(tensor, sources[name])


@each_format
@pytest.mark.parametrize("copy", [by_data, by_dlpack, by_storage, in_inference_mode], ids=lambda copy: copy.__name__)
def test_a_write_that_no_version_counts_is_multiplied(
    device: torch.device, fmt: str, copy: Callable[[Tensor, Tensor], None]
) -> None:
    layer, other = layer_of(0, fmt, device), layer_of(1, fmt, device)
    layer(normal(200, IN_FEATURES, dtype=torch.float32, device=device))
    write(layer, other, copy)
    assert_same_results(layer, other, device)


@each_format
@pytest.mark.parametrize("copy", [by_pointer, by_numpy], ids=lambda copy: copy.__name__)
def test_a_write_by_the_host_is_multiplied(fmt: str, copy: Callable[[Tensor, Tensor], None]) -> None:
    layer, other = layer_of(0, fmt, "cpu"), layer_of(1, fmt, "cpu")
    layer(normal(200, IN_FEATURES, dtype=torch.float32, device="cpu"))
    write(layer, other, copy)
    assert_same_results(layer, other, "cpu")


@each_format
def test_a_layer_of_inference_mode_is_written_and_multiplied(device: torch.device, fmt: str) -> None:
    other = layer_of(1, fmt, device)
    with torch.inference_mode():
        layer = layer_of(0, fmt, device)
        layer(normal(200, IN_FEATURES, dtype=torch.float32, device=device))
        write(layer, other, by_data)
        assert_same_results(layer, other, device)


@each_format
def test_a_compiled_layer_multiplies_what_was_written(device: torch.device, fmt: str) -> None:
    torch._dynamo.reset()
    layer, other = layer_of(0, fmt, device), layer_of(1, fmt, device)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    x = normal(200, IN_FEATURES, dtype=torch.float32, device=device)
    with torch.no_grad():
        compiled(x)
        write(layer, other, by_data)
        assert torch.equal(compiled(x), other(x))
    torch._dynamo.reset()


@each_format
def test_the_weight_is_held_once(device: torch.device, fmt: str) -> None:
    """Nothing beside what a state_dict has: what is not there cannot be older than the weight."""
    layer = layer_of(0, fmt, device)
    layer(normal(200, IN_FEATURES, dtype=torch.float32, device=device))
    assert {name for name, _ in layer.named_buffers()} == set(layer.state_dict())
    assert not [name for name, value in vars(layer).items() if isinstance(value, (Tensor, tuple, list))]
    codes_per_byte = 1 if fmt == "mxfp8" else 2
    packed_scales = 128 * -(-IN_FEATURES // (16 if fmt == "nvfp4" else 32) // 4) * 4
    held = OUT_FEATURES * IN_FEATURES // codes_per_byte + packed_scales + 4 * OUT_FEATURES
    assert sum(buffer.nbytes for buffer in layer.buffers()) == held + (4 if fmt == "nvfp4" else 0)


@pytest.mark.gpu
@each_format
def test_two_streams_that_only_read_see_the_whole_weight(fmt: str) -> None:
    """A first call on a slow stream leaves nothing half made for a second call on another one."""
    device = torch.device("cuda")
    layer, other = layer_of(0, fmt, device), layer_of(1, fmt, device)
    x = normal(200, IN_FEATURES, dtype=torch.float32, device=device)
    wanted = other(x)
    write(layer, other, by_data)
    torch.cuda.synchronize()
    slow, fast = torch.cuda.Stream(), torch.cuda.Stream()
    with torch.cuda.stream(slow):
        torch.cuda._sleep(100_000_000)
        late = layer(x)
    with torch.cuda.stream(fast):
        early = layer(x)
    torch.cuda.synchronize()
    assert torch.equal(early, wanted)
    assert torch.equal(late, wanted)


_RANK = """
import sys
import torch
import torch.distributed as dist
from torch import nn
import tileon_ops

rank, store, operation = int(sys.argv[1]), sys.argv[2], sys.argv[3]
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
torch.manual_seed(rank)  # each rank begins with a weight of its own
model = tileon_ops.convert(nn.Sequential(nn.Linear(96, 80), nn.ReLU(), nn.Linear(80, 64)), sys.argv[4])
torch.manual_seed(2)
x = torch.randn(200, 96)
model(x)
with torch.inference_mode(operation == "recv in inference mode"):
    for tensor in model.state_dict().values():
        flat = tensor.view(torch.uint8) if tensor.dtype != torch.float32 else tensor
        if operation == "broadcast":
            dist.broadcast(flat, src=0)
        elif rank == 0:
            dist.send(flat, dst=1)
        else:
            dist.recv(flat, src=0)
result = model(x)
results = [torch.empty_like(result) for _ in range(2)]
dist.all_gather(results, result)
assert torch.equal(*results), "the ranks multiply different weights"
dist.destroy_process_group()
"""


@pytest.mark.parametrize("operation", ["broadcast", "recv", "recv in inference mode"])
def test_every_rank_multiplies_the_weight_that_rank_0_sent(tmp_path: Path, operation: str) -> None:
    arguments = [str(tmp_path / "store"), operation, "mxfp8"]
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", _RANK, str(rank), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=Path(__file__).resolve().parents[1],
        )
        for rank in range(2)
    ]
    for rank in ranks:
        output, _ = rank.communicate(timeout=120)
        assert rank.returncode == 0, output


def test_a_converted_model_holds_less_than_before() -> None:
    model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512)).to(torch.bfloat16)
    before = sum(tensor.nbytes for tensor in model.state_dict().values())
    after = sum(buffer.nbytes for buffer in convert(model, "mxfp8").buffers())
    assert after < 0.53 * before
