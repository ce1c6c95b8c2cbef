"""How many files of csrc one call crosses (simulation/crossed_files.py, which counts them, and its record)."""

from __future__ import annotations

import json
import pathlib
import sys
from collections import defaultdict

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "simulation"))

import crossed_files  # noqa: E402

RECORD = crossed_files.read_record(crossed_files.RECORD)


def test_the_record_has_every_call() -> None:
    assert RECORD.keys() == crossed_files.CALLS.keys() == crossed_files.MAX_FILES.keys()


@pytest.mark.parametrize("call", crossed_files.CALLS)
def test_a_call_crosses_no_more_files_than_allowed(call: str) -> None:
    assert len(RECORD[call]) <= crossed_files.MAX_FILES[call]


@pytest.mark.parametrize("call", crossed_files.CALLS)
def test_the_record_is_of_files_that_exist(call: str) -> None:
    """Otherwise it is stale: crossed_files.py --write makes it anew."""
    lacking = [name for name in RECORD[call] if not (ROOT / "csrc" / name).is_file()]
    assert not lacking


def test_lines_that_ran_count_once_under_the_name_in_csrc(tmp_path: pathlib.Path) -> None:
    def report(name: str, **counts: int) -> str:
        lines = [{"line_number": int(line[1:]), "count": count} for line, count in counts.items()]
        return json.dumps({"files": [{"file": str(tmp_path / name), "lines": lines}]})

    reports = (
        report("csrc/core/problem.h", n3=1, n4=0) + "\n" + report("library/core/problem.h", n3=2, n7=1),
        report("csrc/cuda/ptx/wgmma.cuh", n5=9),
        report("csrc/core/formats.h", n1=0),  # nothing of it ran
        report("machine/machine.h", n1=1),  # not csrc
        "",
    )
    lines: crossed_files.Lines = defaultdict(set)
    for each in reports:
        crossed_files.add_lines(each, (tmp_path / "csrc", tmp_path / "library"), lines)
    assert lines == {"core/problem.h": {3, 7}, "cuda/ptx/wgmma.cuh": {5}}


def test_a_record_reads_as_it_was_written(tmp_path: pathlib.Path) -> None:
    counts = {"one": {"ops.cpp": 3, "core/problem.h": 1}, "other": {"ops.cpp": 2}}
    crossed_files.write_record(tmp_path / "record.csv", counts)
    assert crossed_files.read_record(tmp_path / "record.csv") == counts
