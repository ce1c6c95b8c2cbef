"""How near block-scaled products come to float64: targets and table of block_scaled_accuracy.csv."""

from __future__ import annotations

import math
from pathlib import Path

from benchmarks.common.markdown import page_part, table
from benchmarks.common.result_file import of_file, read_csv
from benchmarks.common.target import Target, each_target
from benchmarks.subjects.block_scaled import FORMATS
from benchmarks.subjects.block_scaled_tables import PROVIDER_WORDS

SOURCE = "block_scaled_accuracy.csv"
SIZE = 8192  # m and n
ALL_K = (1024, 8192)

_BIT_EXACT = "mxfp4"  # on normal data
_LEAST_DB = 120.0  # of every format on normal data


@of_file(SOURCE)
def targets(source: Path) -> list[Target]:
    """One format is bit-exact on normal data; every format is near enough, and as near as cuBLAS on bfloat16."""
    rows = {
        tuple(row[column] for column in ("format", "data", "provider", "m", "n", "k")): row
        for row in read_csv(source)[1]
    }

    def by_k(name: str, data: str, provider: str = "tileon") -> list[tuple[str, float, bool]]:
        """k, dB, and whether it is bit-exact; nothing unless every k was measured."""
        keys = [(name, data, provider, str(SIZE), str(SIZE), str(k)) for k in ALL_K]
        found = [rows[key] for key in keys if key in rows]
        by = [(row["k"], float(row["sqnr_db"]), row["bit_exact"] == "yes") for row in found]
        return by if len(by) == len(ALL_K) else []

    words = f"{{}} {{}} {SIZE} x {SIZE} x k, against float64"
    what, asked, mine = words.format(_BIT_EXACT, "normal"), "each bit-exact", by_k(_BIT_EXACT, "normal")
    missed = ", ".join(f"{k} {db:.2f} dB" for k, db, exact in mine if not exact)
    places = f"at {', '.join(k for k, _, _ in mine)}"
    found = [Target(what, asked, missed or places, not missed) if mine else Target(what, asked)]
    for name in FORMATS:
        decibels = [(k, db) for k, db, _ in by_k(name, "normal")]
        found.append(each_target(words.format(name, "normal"), decibels, _LEAST_DB, "{:.0f} dB", words="{:.2f} dB"))
    for name in FORMATS:
        what, asked = words.format(name, "tutorial"), "each >= cuBLAS on bfloat16"
        ours, peer = by_k(name, "tutorial"), by_k(name, "tutorial", "torch_bf16")
        pairs = [(k, mine, theirs) for (k, mine, _), (_, theirs, _) in zip(ours, peer, strict=False)]
        shown = ", ".join(f"{k} {mine:.2f} dB (cuBLAS {theirs:.2f})" for k, mine, theirs in pairs)
        holds = all(mine >= theirs for _, mine, theirs in pairs)
        found.append(Target(what, asked, shown, holds) if pairs else Target(what, asked))
    return found


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
