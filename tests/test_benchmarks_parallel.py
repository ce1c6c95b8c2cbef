"""Smoke: benchmarks/measure/parallel.py and examples/tensor_parallel.py run on two processes of the CPU."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest
from benchmark_files import HEAD_KEYS, ROOT, read, run

from benchmarks.measure import parallel

SIZE = ("16", "8", "24")

# Runs the example, and leaves before the interpreter is taken down. Gloo's threads outlive destroy_process_group, and
# one may still hold the tensors of the last collective. It asks for the GIL to release them; Python before 3.14 ends a
# thread that asks so late by pthread_exit, here in the middle of a destructor of torch's: std::terminate, SIGABRT.
RUN_EXAMPLE = """
import os, runpy, sys
runpy.run_path("examples/tensor_parallel.py", run_name="__main__")
sys.stdout.flush()
sys.stderr.flush()
os._exit(0)
"""


def test_writes_a_row_for_each_direction_provider_and_number_of_devices(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "parallel.csv"
    result = run(
        "--sizes", "x".join(SIZE), "--dtype", "float32", "--rounds", "2",
        "--device", "cpu", "--csv", str(path), script="measure/parallel.py",
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    assert "unwaited collective" not in result.stderr, "a round ended before its all-reduce"
    head, rows = read(path)
    assert head.keys() >= HEAD_KEYS
    assert head["devices"] == "2 x CPU process"
    assert "NCCL_NVLS_ENABLE=" in head["nccl"]
    measured = [(row["direction"], row["provider"], row["devices"]) for row in rows]
    assert sorted(measured) == [
        (direction, provider, devices)
        for direction in ("forward", "forward_backward")
        for provider in ("tileon", "torch")
        for devices in ("1", "2")
    ]
    times = {key: float(row["median_us"]) for key, row in zip(measured, rows, strict=True)}
    for (direction, provider, devices), row in zip(measured, rows, strict=True):
        assert (row["op"], row["dtype"], row["activation"]) == ("mlp", "float32", "gelu_tanh")
        assert (row["m"], row["features"], row["hidden"]) == SIZE
        products = 2 if direction == "forward" else 6
        operations = products * 2 * 16 * 8 * 24
        microseconds = times[direction, provider, devices]
        assert float(row["tflops"]) == pytest.approx(operations / microseconds / 1e6, rel=0.01)
        speedup = times[direction, provider, "1"] / microseconds
        assert float(row["speedup"]) == pytest.approx(speedup, rel=0.01, abs=1e-3)


@pytest.mark.parametrize("arguments", [("--sizes", "8x8"), ("--sizes", "0"), ("--devices", "1")], ids=str)
def test_nonsense_is_refused_before_a_process_is_started(
    arguments: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*given: object, **named: object) -> None:
        raise AssertionError("started")

    monkeypatch.setattr(parallel, "spawn", never)
    monkeypatch.setattr(sys, "argv", ["parallel.py", *arguments])
    with pytest.raises(SystemExit) as ended:
        parallel.main()
    assert ended.value.code == 2


def test_a_split_mlp_that_differs_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    x = torch.randn(4, 4)
    whole = torch.nn.Linear(4, 4)
    parallel._check("tileon", whole, whole, x)
    with pytest.raises(RuntimeError, match="tileon: the split MLP differs"):
        parallel._check("tileon", torch.nn.Linear(4, 4), whole, x)


def test_the_example_agrees_with_the_whole_mlp() -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--no-python"]
    done = subprocess.run(
        [*command, sys.executable, "-c", RUN_EXAMPLE],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=ROOT,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "agree with the whole one's" in done.stdout
    assert "0.weight: (256, 64), S(0), of which a device has (128, 64)" in done.stdout.replace("Shard(dim=0)", "S(0)")
