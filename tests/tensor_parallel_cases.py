"""What test_tensor_parallel.py claims, as functions that two processes run together, each with a device of its own.

Starting two processes takes longer than all the cases, so they are started once for all.
"""

from __future__ import annotations

import copy
import datetime
import json
import os
import pathlib
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch import Tensor, nn
from torch.distributed.tensor import DeviceMesh, DTensor, Partial, Replicate, Shard, distribute_tensor, init_device_mesh
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

ROOT = pathlib.Path(__file__).resolve().parent.parent
for folder in (ROOT, ROOT / "tests"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from operands import integers  # noqa: E402

import tileon_ops  # noqa: E402

PROCESSES = 2
SECONDS = 100  # a deadlock ends here; hang_guard.py would end all after 120

ALL_REDUCE = torch.ops.c10d_functional.all_reduce
REDUCE_SCATTER = torch.ops.c10d_functional.reduce_scatter_tensor

WIDTH, HIDDEN = 8, 14


@dataclass
class Place:
    mesh: DeviceMesh
    device: torch.device


CASES: dict[str, Callable[[Place], None]] = {}


def case(function: Callable[[Place], None]) -> Callable[[Place], None]:
    CASES[function.__name__] = function
    return function


def make_mlp(
    place: Place,
    first: str = "leaky_relu",
    second: str = "none",
    bias: bool = True,
    dtype: torch.dtype = torch.float64,
) -> nn.Sequential:
    """Two layers of integers: their sums are exact however they are split."""
    options: dict[str, Any] = {"slope": 0.5, "device": place.device, "dtype": dtype}
    mlp = nn.Sequential(
        tileon_ops.Linear(WIDTH, HIDDEN, bias, activation=first, **options),
        tileon_ops.Linear(HIDDEN, WIDTH, bias, activation=second, **options),
    )
    with torch.no_grad():
        for seed, parameter in enumerate(mlp.parameters()):
            parameter.copy_(integers(*parameter.shape, dtype=parameter.dtype, device=place.device, seed=seed))
    return mlp


def by_columns_then_rows(mlp: nn.Sequential, place: Place, **of_second: Any) -> nn.Sequential:
    parallelize_module(mlp, place.mesh, {"0": ColwiseParallel(), "1": RowwiseParallel(**of_second)})
    return mlp


def make_input(place: Place, *leading: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return integers(*(leading or (6,)), WIDTH, dtype=dtype, device=place.device, seed=9).requires_grad_()


def whole(tensor: Tensor | None) -> Tensor | None:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def expect_same(ours: Any, expected: Any) -> None:
    torch.testing.assert_close(whole(ours), whole(expected))


def expect_same_training_step(mlp: nn.Module, expected: nn.Module, place: Place, x: Tensor) -> None:
    y = x.detach().clone().requires_grad_()
    output, expected_output = mlp(x), expected(y)
    expect_same(output, expected_output)
    output.square().sum().backward()
    expected_output.square().sum().backward()
    expect_same(x.grad, y.grad)
    for parameter, expected_parameter in zip(mlp.parameters(), expected.parameters(), strict=True):
        expect_same(parameter.grad, expected_parameter.grad)


def communication(function: Callable[[], object]) -> dict[Any, int]:
    with CommDebugMode() as counts:
        function()
    return dict(counts.get_comm_counts())


def every_pair_trains_like_the_whole(place: Place, pairs: list[tuple[str, str]]) -> None:
    for first, second in pairs:
        whole_mlp = make_mlp(place, first, second)
        split = by_columns_then_rows(copy.deepcopy(whole_mlp), place)
        expect_same_training_step(split, whole_mlp, place, make_input(place))


@case
def an_mlp_by_columns_then_rows_trains_like_the_whole_one(place: Place) -> None:
    pairs = [(first, "none") for first in ("none", "relu", "leaky_relu", "gelu", "gelu_tanh", "silu")]
    every_pair_trains_like_the_whole(place, pairs)


@case
def an_activation_after_rows_follows_the_sum(place: Place) -> None:
    pairs = [("relu", second) for second in ("relu", "leaky_relu", "gelu", "gelu_tanh", "silu")]
    every_pair_trains_like_the_whole(place, pairs)


@case
def the_bias_after_rows_is_added_once(place: Place) -> None:
    whole_mlp = make_mlp(place)
    split = by_columns_then_rows(copy.deepcopy(whole_mlp), place)
    x = make_input(place)
    assert torch.equal(split(x), whole_mlp(x)), "these sums are exact"


@case
def layers_without_bias_train_too(place: Place) -> None:
    whole_mlp = make_mlp(place, bias=False)
    split = by_columns_then_rows(copy.deepcopy(whole_mlp), place)
    expect_same_training_step(split, whole_mlp, place, make_input(place))


@case
def inputs_may_have_leading_dimensions(place: Place) -> None:
    whole_mlp = make_mlp(place)
    split = by_columns_then_rows(copy.deepcopy(whole_mlp), place)
    expect_same_training_step(split, whole_mlp, place, make_input(place, 2, 3))


@case
def one_all_reduce_forward_and_one_backward(place: Place) -> None:
    for second in ("none", "relu"):
        mlp = by_columns_then_rows(make_mlp(place, "gelu_tanh", second), place)
        x = make_input(place)
        outputs = []
        assert communication(lambda mlp=mlp, x=x, outputs=outputs: outputs.append(mlp(x))) == {ALL_REDUCE: 1}
        assert communication(lambda outputs=outputs: outputs[0].sum().backward()) == {ALL_REDUCE: 1}


@case
def an_output_sharded_by_rows_is_reduced_and_scattered_at_once(place: Place) -> None:
    whole_mlp = make_mlp(place)
    split = by_columns_then_rows(copy.deepcopy(whole_mlp), place, output_layouts=Shard(0), use_local_output=False)
    x = make_input(place)
    outputs: list[Tensor] = []
    assert communication(lambda: outputs.append(split(x))) == {REDUCE_SCATTER: 1}
    assert torch.equal(whole(outputs[0]), whole_mlp(x))


@case
def a_single_layer_by_rows_takes_a_whole_input(place: Place) -> None:
    layer = make_mlp(place, second="relu")[1]
    split = parallelize_module(copy.deepcopy(layer), place.mesh, RowwiseParallel(input_layouts=Replicate()))
    x = integers(6, HIDDEN, dtype=layer.weight.dtype, device=place.device)
    assert torch.equal(split(x), layer(x))


@case
def parameters_lie_in_parts_and_are_saved_as_they_were_named(place: Place) -> None:
    whole_mlp = make_mlp(place)
    split = by_columns_then_rows(copy.deepcopy(whole_mlp), place)
    placements = {name: parameter.placements for name, parameter in split.state_dict().items()}
    assert placements == {
        "0.weight": (Shard(0),),
        "0.bias": (Shard(0),),
        "1.weight": (Shard(1),),
        "1.bias": (Replicate(),),
    }
    assert split[0].weight.to_local().shape == (HIDDEN // PROCESSES, WIDTH)
    for name, parameter in whole_mlp.state_dict().items():
        assert torch.equal(whole(split.state_dict()[name]), parameter)


@case
def uneven_parts_are_exact(place: Place) -> None:
    layer = tileon_ops.Linear(5, 7, activation="relu", device=place.device)
    with torch.no_grad():
        for seed, parameter in enumerate(layer.parameters()):
            parameter.copy_(integers(*parameter.shape, dtype=parameter.dtype, device=place.device, seed=seed))
    x = integers(3, 5, dtype=torch.float32, device=place.device)
    columns = ColwiseParallel(output_layouts=Replicate())
    for style in (columns, RowwiseParallel(input_layouts=Replicate())):
        split = parallelize_module(copy.deepcopy(layer), place.mesh, style)
        assert torch.equal(split(x), layer(x))


@case
def without_linear_the_op_itself_has_the_same_gradients(place: Place) -> None:
    a, b, bias = (
        integers(*shape, dtype=torch.float64, device=place.device, seed=seed)
        for seed, shape in enumerate(((6, WIDTH), (WIDTH, HIDDEN), (HIDDEN,)))
    )
    for of_a, of_b, of_bias in ((Shard(0), Replicate(), Replicate()), (Replicate(), Shard(1), Shard(0))):
        given = [a, b, bias]
        parts = [
            distribute_tensor(tensor, place.mesh, [placement]).requires_grad_()
            for tensor, placement in zip(given, (of_a, of_b, of_bias), strict=True)
        ]
        leaves = [tensor.clone().requires_grad_() for tensor in given]
        ours = torch.ops.tileon.matmul(*parts, activation="silu")
        expected = torch.ops.tileon.matmul(*leaves, activation="silu")
        ours.square().sum().backward()
        expected.square().sum().backward()
        for part, leaf in zip(parts, leaves, strict=True):
            expect_same(part.grad, leaf.grad)


@case
def autocast_casts_parts_as_it_casts_the_whole(place: Place) -> None:
    whole_mlp = make_mlp(place, "relu", dtype=torch.float32)
    split = by_columns_then_rows(copy.deepcopy(whole_mlp), place)
    x = make_input(place, dtype=torch.float32)
    with torch.autocast(place.device.type, torch.bfloat16):
        output, expected = split(x), whole_mlp(x)
    assert output.dtype == expected.dtype == torch.bfloat16
    torch.testing.assert_close(output, expected, rtol=2**-6, atol=2**-6 * expected.abs().max().item())


@case
def it_compiles_as_a_whole(place: Place) -> None:
    for second in ("none", "relu"):
        whole_mlp = make_mlp(place, "relu", second)
        split = by_columns_then_rows(copy.deepcopy(whole_mlp), place)
        compiled = torch.compile(split, fullgraph=True, backend="aot_eager")
        expect_same_training_step(compiled, whole_mlp, place, make_input(place))


@case
def fully_sharded_parameters_train_like_the_whole(place: Place) -> None:
    from torch.distributed.fsdp import fully_shard

    whole_mlp = make_mlp(place, "gelu")
    split = fully_shard(copy.deepcopy(whole_mlp), mesh=place.mesh)
    expect_same_training_step(split, whole_mlp, place, make_input(place))


@case
def terms_are_partial_until_the_style_reduces_them(place: Place) -> None:
    split = by_columns_then_rows(make_mlp(place), place)
    hidden = split[0](make_input(place))
    terms = tileon_ops.Linear.forward(split[1], DTensor.from_local(hidden, place.mesh, [Shard(1)]))
    assert isinstance(terms, DTensor)
    assert terms.placements == (Partial(),)


def _run(rank: int, backend: str, folder: str) -> None:
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    torch.set_num_threads(1)
    torch.backends.cuda.matmul.allow_tf32 = False
    device = torch.device("cuda", rank) if backend == "nccl" else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group(
        backend,
        init_method=f"file://{folder}/store",
        rank=rank,
        world_size=PROCESSES,
        timeout=datetime.timedelta(seconds=60),
    )
    place = Place(init_device_mesh(device.type, (PROCESSES,)), device)
    outcomes = {}
    for name, function in CASES.items():
        try:
            function(place)
            outcomes[name] = ""
        except Exception:
            outcomes[name] = f"process {rank}:\n{traceback.format_exc()}"
        pathlib.Path(folder, f"{rank}.json").write_text(json.dumps(outcomes))
    dist.destroy_process_group()
    os._exit(0)  # a thread that torch has left may end the process by SIGABRT while the interpreter is taken down


def run_all(backend: str, folder: pathlib.Path) -> dict[str, str]:
    """What went wrong in each case, the empty string where nothing did."""
    processes = torch.multiprocessing.spawn(_run, (backend, str(folder)), nprocs=PROCESSES, join=False)
    deadline = time.monotonic() + SECONDS
    failure = ""
    try:
        while not processes.join(timeout=1):
            if time.monotonic() > deadline:
                failure = f"the processes took more than {SECONDS} s"
                break
    except Exception as error:
        failure = str(error)
    for process in processes.processes:
        process.kill()
    outcomes = dict.fromkeys(CASES, "")
    for rank in range(PROCESSES):
        path = folder / f"{rank}.json"
        reached = json.loads(path.read_text()) if path.is_file() else {}
        for name in CASES:
            outcomes[name] += reached.get(name, f"process {rank} did not get here; {failure}\n")
    return outcomes
