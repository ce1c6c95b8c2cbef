"""The bits that an H200 made of given operands: made again by every GPU of its kind, and by the simulated one."""

from __future__ import annotations

from collections import defaultdict

import pytest
import recorded_bits
import simulated_gpu
import torch
from block_scaled_table import TABLE as BLOCK_SCALED_TABLE
from tile_table import HAS_HOPPER_GPU, TABLE

from tileon_ops._rules.configs import Config

RECORDED = recorded_bits.recorded()
CHOSEN = [name for name in RECORDED if not (simulated_gpu.IS_SHORT and name.endswith("normal"))]
PROBLEMS = dict(recorded_bits.problems())


@pytest.mark.skipif(not TABLE, reason="CPU-only build: the tables are empty")
def test_every_problem_is_recorded() -> None:
    assert set(PROBLEMS) == set(RECORDED)
    rows = {str(row) for row in (*recorded_bits.MEASURED, *BLOCK_SCALED_TABLE)}
    assert rows == {name.split()[0] for name in RECORDED} & rows


def order_of_sums(config: Config) -> tuple[object, ...] | None:
    """What configs have in common that add alike, as the choice has it where results are batch invariant: add_alike of
    csrc/cuda/sm90/heuristics/alike.h, and order_of_sums of csrc/cuda/sm80/heuristics/choice.h. None: of its own."""
    if config.family in ("small_m", "narrow", "skinny") or config.name.startswith("sm80_direct_split"):
        return None
    if config.backend == "sm90":
        return config.backend, config.route, config.splits, config.tile[2] if config.splits > 1 else 0
    return config.backend, config.family == "mma" and config.operands[0].startswith("float8")


@pytest.mark.skipif(not TABLE, reason="CPU-only build: the tables are empty")
def test_configs_that_add_alike_have_the_same_bits() -> None:
    """An H200's, of numbers whose sums are rounded."""
    of_order = defaultdict[object, dict[str, str]](dict)
    kinds = [(row, row.kind, row.config) for row in recorded_bits.MEASURED]
    kinds += [(row, str(row.fmt), row.config) for row in BLOCK_SCALED_TABLE]
    for row, kind, config in kinds:
        for data in ("normal", "wide"):
            order = order_of_sums(config)
            if order is not None:
                of_order[kind, data, order][str(row)] = RECORDED[f"{row} {data}"][1]
    assert max(len(bits) for bits in of_order.values()) > 40, "of bfloat16"
    for names, bits in ((sorted(of_rows), set(of_rows.values())) for of_rows in of_order.values()):
        assert len(bits) == 1, names


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.is_available() and not HAS_HOPPER_GPU, reason="recorded on compute capability 9.0")
@pytest.mark.parametrize("name", CHOSEN)
def test_the_same_bits(name: str) -> None:
    operands, results = PROBLEMS[name]()
    assert recorded_bits.crc(operands) == RECORDED[name][0], "numpy drew other operands"
    assert recorded_bits.crc(results) == RECORDED[name][1]
