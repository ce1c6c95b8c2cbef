"""How near block-scaled products come to float64: targets and table of block_scaled_accuracy.csv."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common.markdown import not_met, source_line, table
from benchmarks.common.result_file import of_file, read_csv
from benchmarks.common.target import Target, each_target
from benchmarks.subjects.block_scaled import PROVIDER_WORDS
from benchmarks.subjects.block_scaled_rows import FORMATS

SOURCE = "block_scaled_accuracy.csv"
SIZE = 8192  # m and n
ALL_K = (1024, 8192)

_BIT_EXACT = "mxfp4"  # on normal data
_LEAST_DB = 120.0  # of every format on normal data


@dataclass(frozen=True)
class _Accuracy:
    """Of one product: signal to quantization noise in dB, and whether each element is float64's, rounded."""

    db: float
    bit_exact: bool


_Found = dict[tuple[str, str, str], dict[int, _Accuracy]]  # format, kind of data, provider: by k


def _read(source: Path) -> _Found:
    found: _Found = {}
    for row in read_csv(source)[1]:
        if row["m"] == row["n"] == str(SIZE):
            by_k = found.setdefault((row["format"], row["data"], row["provider"]), {})
            by_k[int(row["k"])] = _Accuracy(float(row["sqnr_db"]), row["bit_exact"] == "yes")
    return found


def _of(found: _Found, name: str, data: str, provider: str) -> dict[int, _Accuracy] | None:
    """By k; None unless every k was measured."""
    by_k = found.get((name, data, provider), {})
    return {k: by_k[k] for k in ALL_K} if by_k.keys() >= set(ALL_K) else None


def _what(name: str, data: str) -> str:
    return f"{name} {data} {SIZE} x {SIZE} x k, against float64"


def _exact_target(found: _Found, name: str) -> Target:
    what, asked = _what(name, "normal"), "each bit-exact"
    by_k = _of(found, name, "normal", "tileon")
    if by_k is None:
        return Target(what, asked)
    missed = ", ".join(f"{k} {item.db:.2f} dB" for k, item in by_k.items() if not item.bit_exact)
    return Target(what, asked, missed or f"at {', '.join(map(str, by_k))}", not missed)


def _least_target(found: _Found, name: str) -> Target:
    by_k = _of(found, name, "normal", "tileon") or {}
    decibels = [(str(k), item.db) for k, item in by_k.items()]
    asked = f"each >= {_LEAST_DB:.0f} dB"
    return each_target(_what(name, "normal"), asked, decibels, lambda db: db >= _LEAST_DB, words="{:.2f} dB")


def _peer_target(found: _Found, name: str) -> Target:
    what, asked = _what(name, "tutorial"), "each >= cuBLAS on bfloat16"
    ours, peer = (_of(found, name, "tutorial", who) for who in ("tileon", "torch_bf16"))
    if ours is None or peer is None:
        return Target(what, asked)
    shown = ", ".join(f"{k} {ours[k].db:.2f} dB (cuBLAS {peer[k].db:.2f})" for k in ALL_K)
    return Target(what, asked, shown, all(ours[k].db >= peer[k].db for k in ALL_K))


@of_file(SOURCE)
def targets(source: Path) -> list[Target]:
    """One format is bit-exact on normal data; every format is near enough, and as near as cuBLAS on bfloat16."""
    found = _read(source)
    of_formats = [make(found, name) for make in (_least_target, _peer_target) for name in FORMATS]
    return [_exact_target(found, _BIT_EXACT), *of_formats]


@of_file(SOURCE)
def part(source: Path) -> list[str]:
    """Every case of the file."""
    head, found = read_csv(source)
    by_case: dict[tuple[str, str, str], dict[str, str]] = {}
    for row in found:
        db = float(row["sqnr_db"])
        case = (row["format"], row["data"], f"{row['m']} x {row['n']} x {row['k']}")
        by_case.setdefault(case, {})[row["provider"]] = "exact" if db == math.inf else f"{db:.1f}"
    providers = [who for who in PROVIDER_WORDS if any(who in by for by in by_case.values())]
    rows = [
        [*case, *(by.get(who, "") for who in providers)]
        for name in FORMATS
        for case, by in by_case.items()
        if case[0] == name
    ]
    return [
        "How near the products come to float64: signal to noise in dB, float32 out. The operands count as they are, so "
        "what quantizing them lost is not in it:",
        "",
        *table(["format", "data", "m x n x k", *(PROVIDER_WORDS[who] for who in providers)], rows, 3),
        "",
        *not_met(targets(source.parent)),
        source_line(source, head),
    ]
