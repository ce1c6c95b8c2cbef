"""The Hopper choice's cost model in Python: the counterpart of csrc/cuda/sm90/cost.h, for what fits and judges it.

The model is `cost_of` there:
start + kFullGpuNs * (share of SMs) + sqrt(compute^2 + memory^2 + delivery^2 + l2^2), with
compute = waves * (per_tile + per_k * k, in whole blocks), memory = bytes / bytes_per_ns,
delivery = waves * (bytes that a CTA loads) / sm_bytes_per_ns, l2 = (bytes that all CTAs load) / kL2BytesPerNs.

tests/test_cost_model.py holds the two against each other.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.common.times import Key

SM90 = Path(__file__).resolve().parents[2] / "csrc" / "cuda" / "sm90"
NUMBERS = ("start", "per_tile", "per_k", "per_k_mn", "bytes_per_ns", "sm_bytes_per_ns")  # of a row
# Of cost.h, and where the fit of each begins.
CONSTANTS = {
    "kStraddlingK": 1.0,
    "kStraddlingMn": 1.0,
    "kStraddlingPanel": 1.0,
    "kStraddlingMemory": 1.0,
    "kL2BytesPerNs": 6000.0,
    "kFullGpuNs": 200.0,
}

_ROW = re.compile(
    r'\{"(?P<name>sm90_\w+)",\s*\{Family::k(?P<family>\w+),\s*(?P<tile>\d+(?:,\s*\d+)*)(?:,\s*true)?\},'
    r"\s*(?P<splits>\d+),\s*(?P<resident>\d+),(?P<numbers>(?:\s*[\d.]+f,?){6})\}"
)
_CONSTANT = re.compile(rf"constexpr double (?P<name>{'|'.join(CONSTANTS)}) = (?P<value>[\d.]+);")
_PANEL = 64  # mn-major operands come in panels of so many

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Row:
    """A row of the table: the tile, the CTAs that share a tile's k, those that an SM holds, and the model's numbers."""

    name: str
    family: str
    tile_m: int
    tile_n: int
    block_k: int
    splits: int
    resident: int
    numbers: tuple[float, ...]  # as NUMBERS has them

    def wide_operand_is_k_major(self, case: Key) -> bool:
        """Of the operand whose tile may be of any width: b, and a where the operands are swapped."""
        return case.layout[0] == "N" if self.family == "Swapped" else case.layout[1] == "T"

    def tiles(self, case: Key) -> tuple[int, int]:
        """Along m and n."""
        return math.ceil(case.m / self.tile_m), math.ceil(case.n / self.tile_n)

    def clusters_at_once(self, sm_count: int) -> int:
        usable = sm_count if self.splits <= 2 else sm_count * 10 // 11  # clusters leave some of a GPC's SMs over
        return usable // self.splits

    def waves(self, case: Key, sm_count: int) -> float:
        tiles = math.prod(self.tiles(case))
        if self.resident > 1:
            return max(1.0, tiles * self.splits / sm_count)
        return math.ceil(tiles / self.clusters_at_once(sm_count))

    def ctas(self, case: Key) -> int:
        return math.prod(self.tiles(case)) * self.splits

    def loads(self, case: Key) -> Array:
        """What LOADS lists, of both operands together."""
        a_k_major, b_k_major = case.layout[0] == "N", case.layout[1] == "T"
        return _loads(a_k_major, case.m, case.k, self.tile_m, self.splits) + _loads(
            b_k_major, case.n, case.k, self.tile_n, self.splits
        )


# Bytes. What a CTA loads: all of it, lines that straddle along k, along mn, and the latter by the panels of a tile;
# and the part of the operand that such lines take from memory once more.
LOADS = ("loaded", "straddling_k", "straddling_mn", "straddling_panel", "straddling_memory")


def _loads(k_major: bool, mn: int, k: int, tile_mn: int, splits: int) -> Array:
    """Of one operand."""
    most = min(tile_mn, mn)
    panels = math.ceil(most / _PANEL)
    loaded = (most if k_major else panels * _PANEL) * k / splits * 2.0
    pitch, lines = (k, mn) if k_major else (mn, k)
    straddles = lines > 1 and 2 * pitch % 128 != 0  # lines begin within lines of L2
    along_k, along_mn = straddles and k_major, straddles and not k_major
    return np.array(
        [loaded, loaded * along_k, loaded * along_mn, loaded / panels * along_mn, 2.0 * mn * k / panels * along_mn]
    )


def read_table() -> list[Row]:
    rows = []
    for match in _ROW.finditer((SM90 / "config.h").read_text()):
        tile_m, tile_n, block_k, *_ = (int(number) for number in match["tile"].split(","))
        numbers = tuple(float(number) for number in re.findall(r"([\d.]+)f", match["numbers"]))
        sizes = (tile_m, tile_n, block_k, int(match["splits"]), int(match["resident"]))
        rows.append(Row(match["name"], match["family"], *sizes, numbers))
    return rows


def read_constants() -> tuple[float, ...]:
    """In the order of CONSTANTS."""
    found = {match["name"]: float(match["value"]) for match in _CONSTANT.finditer((SM90 / "cost.h").read_text())}
    return tuple(found[name] for name in CONSTANTS)


def write(table: Sequence[Row], numbers: Array, constants: Sequence[float]) -> None:
    """Puts numbers, [rows][6], into config.h, and constants into cost.h."""
    by_name = {row.name: values for row, values in zip(table, numbers, strict=True)}

    def line(match: re.Match[str]) -> str:
        start, per_tile, per_k, per_k_mn, memory, sm = by_name[match["name"]]
        text = f"  {start:7.1f}f, {per_tile:7.1f}f, {per_k:7.4f}f, {per_k_mn:7.4f}f, {memory:6.1f}f, {sm:6.1f}f"
        return match[0][: match.start("numbers") - match.start()] + text + "}"

    config, cost = SM90 / "config.h", SM90 / "cost.h"
    config.write_text(_ROW.sub(line, config.read_text()))
    values = dict(zip(CONSTANTS, constants, strict=True))
    text = cost.read_text()
    for name, value in values.items():
        text = re.sub(rf"(constexpr double {name}) = [\d.]+;", rf"\g<1> = {value:.3f};", text)
    cost.write_text(text)


@dataclass(frozen=True)
class Features:
    """What the model needs of the cases, as arrays of rows by cases or of cases alone."""

    waves: Array
    k: Array  # in whole blocks
    k_major: Array
    bytes: Array  # of both operands and the output, each once
    ctas: Array
    share: Array  # of them for each SM
    loads: Array  # LOADS by rows by cases

    @classmethod
    def of(cls, table: Sequence[Row], cases: Sequence[Key], sm_count: int) -> Features:
        ctas = np.array([[float(row.ctas(case)) for case in cases] for row in table])
        loads = np.array([[row.loads(case) for case in cases] for row in table])
        return cls(
            waves=np.array([[row.waves(case, sm_count) for case in cases] for row in table]),
            k=np.array([[float(math.ceil(case.k / row.block_k) * row.block_k) for case in cases] for row in table]),
            k_major=np.array([[row.wide_operand_is_k_major(case) for case in cases] for row in table]),
            bytes=np.array([2.0 * (case.m * case.k + case.k * case.n + case.m * case.n) for case in cases]),
            ctas=ctas,
            share=ctas / sm_count,
            loads=loads.reshape(len(table), len(cases), len(LOADS)).transpose(2, 0, 1),
        )


@dataclass(frozen=True)
class Cost:
    """What the time of every row in every case is made of, in nanoseconds: arrays of rows by cases."""

    start: Any
    compute: Any
    memory: Any
    delivery: Any
    l2: Any

    @property
    def together(self) -> Any:
        return (self.compute**2 + self.memory**2 + self.delivery**2 + self.l2**2) ** 0.5

    @property
    def ns(self) -> Any:
        return self.start + self.together


def cost_of(features: Any, numbers: Any, constants: Sequence[Any], where: Any = np.where) -> Cost:
    """`numbers` is [rows][6]. Of numpy's arrays or, with torch.where, of torch's tensors."""
    start, per_tile, per_k, per_k_mn, bytes_per_ns, sm_bytes_per_ns = (numbers[:, i : i + 1] for i in range(6))
    straddling_k, straddling_mn, straddling_panel, straddling_memory, l2_bytes_per_ns, full_gpu_ns = constants
    loads = dict(zip(LOADS, features.loads, strict=True))
    loaded = loads["loaded"] + straddling_k * loads["straddling_k"] + straddling_mn * loads["straddling_mn"]
    loaded = loaded + straddling_panel * loads["straddling_panel"]
    return Cost(
        start=start + full_gpu_ns * features.share.clip(max=1.0),
        compute=features.waves * (per_tile + where(features.k_major, per_k, per_k_mn) * features.k),
        memory=(features.bytes + straddling_memory * loads["straddling_memory"]) / bytes_per_ns,
        delivery=features.waves * loaded / sm_bytes_per_ns,
        l2=features.ctas * loaded / l2_bytes_per_ns,
    )


def expected_ns(table: Sequence[Row], cases: Sequence[Key], sm_count: int) -> Array:
    """Nanoseconds of every row in every case, by the numbers in config.h."""
    numbers = np.array([row.numbers for row in table])
    found: Array = cost_of(Features.of(table, cases, sm_count), numbers, read_constants()).ns
    return found
