"""The marks of how near block-scaled products come to float64: see bars.py."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks.common.result_file import read_csv
from benchmarks.report.target import Bar
from benchmarks.subjects.bars_block_scaled import BLOCK_SCALED_FORMATS

SIZE = 8192  # m and n
ALL_K = (1024, 8192)

_BIT_EXACT = "mxfp4"  # on normal data
_LEAST_DB = 120.0  # of every format on normal data


@dataclass(frozen=True)
class Accuracy:
    """Of one product: signal to quantization noise in dB, and whether each element is float64's, rounded."""

    db: float
    bit_exact: bool


Found = dict[tuple[str, str, str], dict[int, Accuracy]]  # format, kind of data, provider: by k


def _read(source: Path) -> Found:
    found: Found = {}
    for row in read_csv(source)[1]:
        if row["m"] == row["n"] == str(SIZE):
            by_k = found.setdefault((row["format"], row["data"], row["provider"]), {})
            by_k[int(row["k"])] = Accuracy(float(row["sqnr_db"]), row["bit_exact"] == "yes")
    return found


def _of(found: Found, name: str, data: str, provider: str) -> dict[int, Accuracy] | None:
    """By k; None unless every k was measured."""
    by_k = found.get((name, data, provider), {})
    return {k: by_k[k] for k in ALL_K} if by_k.keys() >= set(ALL_K) else None


def _what(name: str, data: str) -> str:
    return f"{name} {data} {SIZE} x {SIZE} x k, against float64"


def _exact_bar(found: Found, name: str) -> Bar:
    what, asked = _what(name, "normal"), "each bit-exact"
    by_k = _of(found, name, "normal", "tileon")
    if by_k is None:
        return Bar(what, asked, "", None)
    missed = ", ".join(f"{k} {item.db:.2f} dB" for k, item in by_k.items() if not item.bit_exact)
    return Bar(what, asked, missed or f"at {', '.join(map(str, by_k))}", not missed)


def _least_bar(found: Found, name: str) -> Bar:
    what, asked = _what(name, "normal"), f"each >= {_LEAST_DB:.0f} dB"
    by_k = _of(found, name, "normal", "tileon")
    if by_k is None:
        return Bar(what, asked, "", None)
    worst = min(by_k, key=lambda k: by_k[k].db)
    below = ", ".join(f"{k} {item.db:.2f} dB" for k, item in by_k.items() if not item.db >= _LEAST_DB)  # so is NaN
    return Bar(what, asked, below or f"worst {by_k[worst].db:.2f} dB at {worst}", not below)


def _peer_bar(found: Found, name: str) -> Bar:
    what, asked = _what(name, "tutorial"), "each >= cuBLAS on bfloat16"
    ours, peer = (_of(found, name, "tutorial", who) for who in ("tileon", "torch_bf16"))
    if ours is None or peer is None:
        return Bar(what, asked, "", None)
    shown = ", ".join(f"{k} {ours[k].db:.2f} dB (cuBLAS {peer[k].db:.2f})" for k in ALL_K)
    return Bar(what, asked, shown, all(ours[k].db >= peer[k].db for k in ALL_K))


def block_scaled_accuracy_bars(results: Path) -> list[Bar]:
    """Nothing while there is no block_scaled_accuracy.csv."""
    source = results / "block_scaled_accuracy.csv"
    if not source.exists():
        return []
    found = _read(source)
    bars = [_exact_bar(found, _BIT_EXACT)]
    return bars + [bar(found, name) for bar in (_least_bar, _peer_bar) for name in BLOCK_SCALED_FORMATS]
