"""The bits that an H200 made of given operands: made again by every GPU of its kind, and by the simulated one."""

from __future__ import annotations

import pytest
import recorded_bits
import simulated_gpu
import torch
from block_scaled_table import TABLE as BLOCK_SCALED_TABLE
from tile_table import HAS_HOPPER_GPU, TABLE

RECORDED = recorded_bits.recorded()
CHOSEN = [name for name in RECORDED if not (simulated_gpu.IS_SHORT and name.endswith("normal"))]
PROBLEMS = dict(recorded_bits.problems())


@pytest.mark.skipif(not TABLE, reason="CPU-only build: the tables are empty")
def test_every_problem_is_recorded() -> None:
    assert set(PROBLEMS) == set(RECORDED)
    rows = {str(row) for row in (*recorded_bits.MEASURED, *BLOCK_SCALED_TABLE)}
    assert rows == {name.split()[0] for name in RECORDED} & rows


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.is_available() and not HAS_HOPPER_GPU, reason="recorded on compute capability 9.0")
@pytest.mark.parametrize("name", CHOSEN)
def test_the_same_bits(name: str) -> None:
    operands, results = PROBLEMS[name]()
    assert recorded_bits.crc(operands) == RECORDED[name][0], "numpy drew other operands"
    assert recorded_bits.crc(results) == RECORDED[name][1]
