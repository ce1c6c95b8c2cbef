"""How near block-scaled products come to float64: targets and table of block_scaled_accuracy.csv."""

from __future__ import annotations

import math
from pathlib import Path

from benchmarks.common.markdown import part as page_part
from benchmarks.common.markdown import table
from benchmarks.common.result_file import of_file, read_csv
from benchmarks.common.target import Target, each_target
from benchmarks.subjects.block_scaled import FORMATS
from benchmarks.subjects.block_scaled_tables import PROVIDER_WORDS

SOURCE = "block_scaled_accuracy.csv"
SIZE = 8192  # m and n
ALL_K = (1024, 8192)

_BIT_EXACT = "mxfp4"  # on normal data
_LEAST_DB = 120.0  # of every format on normal data

Row = dict[str, str]


@of_file(SOURCE)
def targets(source: Path) -> list[Target]:
    """One format is bit-exact on normal data; every format is near enough, and as near as cuBLAS on bfloat16."""
    rows = {
        (row["format"], row["data"], row["provider"], row["m"], row["n"], row["k"]): row for row in read_csv(source)[1]
    }

    def by_k(name: str, data: str, provider: str = "tileon") -> dict[int, Row] | None:
        """None unless every k was measured."""
        found = {k: rows.get((name, data, provider, str(SIZE), str(SIZE), str(k))) for k in ALL_K}
        return {k: row for k, row in found.items() if row} if all(found.values()) else None

    def exact(what: str, name: str) -> Target:
        found, asked = by_k(name, "normal"), "each bit-exact"
        if found is None:
            return Target(what, asked)
        missed = ", ".join(
            f"{k} {float(row['sqnr_db']):.2f} dB" for k, row in found.items() if row["bit_exact"] != "yes"
        )
        return Target(what, asked, missed or f"at {', '.join(map(str, found))}", not missed)

    def near(what: str, name: str) -> Target:
        decibels = [(str(k), float(row["sqnr_db"])) for k, row in (by_k(name, "normal") or {}).items()]
        return each_target(what, decibels, _LEAST_DB, "{:.0f} dB", words="{:.2f} dB")

    def as_near(what: str, name: str) -> Target:
        ours, peer = by_k(name, "tutorial"), by_k(name, "tutorial", "torch_bf16")
        asked = "each >= cuBLAS on bfloat16"
        if ours is None or peer is None:
            return Target(what, asked)
        pairs = {k: (float(ours[k]["sqnr_db"]), float(peer[k]["sqnr_db"])) for k in ALL_K}
        shown = ", ".join(f"{k} {mine:.2f} dB (cuBLAS {theirs:.2f})" for k, (mine, theirs) in pairs.items())
        return Target(what, asked, shown, all(mine >= theirs for mine, theirs in pairs.values()))

    words = f"{{}} {{}} {SIZE} x {SIZE} x k, against float64"
    found = [exact(words.format(_BIT_EXACT, "normal"), _BIT_EXACT)]
    found += [near(words.format(name, "normal"), name) for name in FORMATS]
    return found + [as_near(words.format(name, "tutorial"), name) for name in FORMATS]


@of_file(SOURCE)
def part(source: Path) -> list[str]:
    """Every case of the file."""
    by_case: dict[tuple[str, str, str], dict[str, str]] = {}
    for row in read_csv(source)[1]:
        db = float(row["sqnr_db"])
        case = (row["format"], row["data"], f"{row['m']} x {row['n']} x {row['k']}")
        by_case.setdefault(case, {})[row["provider"]] = "exact" if db == math.inf else f"{db:.1f}"
    providers = [who for who in PROVIDER_WORDS if any(who in by for by in by_case.values())]
    rows = [[*case, *(by.get(who, "") for who in providers)] for case, by in by_case.items()]
    rows.sort(key=lambda row: FORMATS.index(row[0]))
    words = (
        "How near the products come to float64: signal to noise in dB, float32 out. The operands count as they are, so "
        "what quantizing them lost is not in it:"
    )
    columns = ["format", "data", "m x n x k", *(PROVIDER_WORDS[who] for who in providers)]
    return page_part(source, table(words, columns, rows, 3), targets(source.parent))
