"""What the Hopper choice's cost model does not know of a row, in Python: the counterpart of
csrc/cuda/sm90/correction.h and of `choose` in choice.h, for what fits and judges them.

A network of two hidden layers: the first sees the problem (PROBLEM_FEATURES), what the row's expected time is made of
(COST_FEATURES), and has a bias for each row; the result is the logarithm of a factor on the expected time.

tests/test_cost_model.py holds the two against each other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from benchmarks.common.times import Key
from benchmarks.fit.cost_model import SM90, Array, Cost, Features, Row, cost_of, read_constants

NUMBERS = SM90 / "correction_numbers.h"
HIDDEN = 32
# As correction.h orders them: `straddling`, `half_sector` and `missing` are of its Lines, once for each operand; of a
# k-major one and of an mn-major one, of which the other is 0.
PROBLEM_FEATURES = (
    *("log_m", "log_n", "log_k", "a_mn", "b_mn"),
    *("a_straddling_k", "a_straddling_mn", "a_half_sector_k", "a_half_sector_mn", "a_missing"),
    *("b_straddling_k", "b_straddling_mn", "b_half_sector_k", "b_half_sector_mn", "b_missing"),
    *("out_half_sector", "out_straddling", "out_by_lanes"),
)
COST_FEATURES = (
    *("compute", "memory", "delivery", "l2", "log_expected", "together"),
    *("last_wave", "share", "filled_m", "filled_n"),
)

_LINE_BYTES, _SECTOR_BYTES, _TMA_BYTES, _PANEL = 128, 32, 16, 64
_NEAR = re.compile(r"constexpr double kNear = (?P<value>[\d.]+);")


@dataclass(frozen=True)
class Network:
    """The numbers of correction_numbers.h, under the names that they have there."""

    of_problem: Array  # [features][HIDDEN]
    of_cost: Array
    of_row: Array  # [rows][HIDDEN]
    second: Array  # [HIDDEN][HIDDEN]
    second_bias: Array  # [HIDDEN]
    last: Array  # [HIDDEN]
    last_bias: Array  # []

    @classmethod
    def of_nothing(cls, rows: int) -> Network:
        """Whose factors are all 1."""
        sizes = {"of_problem": len(PROBLEM_FEATURES), "of_cost": len(COST_FEATURES), "of_row": rows, "second": HIDDEN}
        matrices = {name: np.zeros((size, HIDDEN)) for name, size in sizes.items()}
        return cls(**matrices, second_bias=np.zeros(HIDDEN), last=np.zeros(HIDDEN), last_bias=np.zeros(()))

    def corrections(self, of_problem: Array, of_cost: Array) -> Array:
        """Logarithms of the factors, [rows][cases], from features [cases][features] and [rows][cases][features]."""
        first = of_problem @ self.of_problem + of_cost @ self.of_cost + self.of_row[:, None]
        second = np.maximum(0, first) @ self.second + self.second_bias
        found: Array = np.maximum(0, second) @ self.last + self.last_bias
        return found


def _constant(field: str) -> str:
    return "k" + "".join(word.capitalize() for word in field.split("_"))


def read_network() -> Network:
    text, arrays = re.sub(r"//.*", "", NUMBERS.read_text()), {}
    for field in fields(Network):
        declared = re.search(rf"constexpr float {_constant(field.name)}((?:\[\w+\])*) = (.*?);", text, re.DOTALL)
        assert declared is not None, f"{NUMBERS.name} has no {_constant(field.name)}"
        values = np.array([float(value) for value in re.findall(r"-?\d[\d.e+-]*", declared[2])])
        columns = (-1, HIDDEN) if declared[1].count("[") == 2 else (-1,) if declared[1] else ()
        arrays[field.name] = values.reshape(columns)
    return Network(**arrays)


def rows_of_network() -> list[str]:
    """The names of the rows that it was fitted to, in order."""
    return re.findall(r"// (sm90_\w+)$", NUMBERS.read_text(), re.MULTILINE)


def _numbers(values: Array) -> str:
    return ", ".join(f"{value:.4g}f" if "." in f"{value:.4g}" else f"{float(f'{value:.4g}')}f" for value in values)


def write_network(network: Network, table: Sequence[Row]) -> None:
    labels = {"of_problem": PROBLEM_FEATURES, "of_cost": COST_FEATURES, "of_row": [row.name for row in table]}
    sizes = {"of_problem": "kProblemFeatures", "of_cost": "kCostFeatures", "of_row": "kCorrectedRows"}
    lines = [
        "// The numbers of correction.h. Written by benchmarks/fit/fit_correction.py: do not edit.",
        "#pragma once",
        "",
        "namespace tileon::sm90 {",
        "",
        f"constexpr int kHidden = {HIDDEN};",
        f"constexpr int kProblemFeatures = {len(PROBLEM_FEATURES)};",
        f"constexpr int kCostFeatures = {len(COST_FEATURES)};",
        f"constexpr int kCorrectedRows = {len(table)};",
        "",
        "// clang-format off",
    ]
    for field in fields(Network):
        values, name = getattr(network, field.name), _constant(field.name)
        if values.ndim == 0:
            lines.append(f"constexpr float {name} = {_numbers(values.reshape(1))};")
        elif values.ndim == 1:
            lines.append(f"constexpr float {name}[kHidden] = {{{_numbers(values)}}};")
        else:
            lines.append(f"constexpr float {name}[{sizes.get(field.name, 'kHidden')}][kHidden] = {{")
            for number, line in enumerate(values):
                label = f"  // {labels[field.name][number]}" if field.name in labels else ""
                lines.append(f"    {{{_numbers(line)}}},{label}")
            lines.append("};")
    NUMBERS.write_text("\n".join([*lines, "// clang-format on", "", "}  // namespace tileon::sm90", ""]))


def _lines(mn_major: bool, mn: int, k: int) -> tuple[float, ...]:
    """Of an operand without gaps that begins at a line of L2: the five features of it."""
    pitch, count = (2 * mn, k) if mn_major else (2 * k, mn)
    step = min(_LINE_BYTES, pitch & -pitch) if count > 1 else _LINE_BYTES
    straddling = 1 - step / _LINE_BYTES
    half_sector = float(step % _SECTOR_BYTES != 0)
    if mn_major:
        return 0.0, straddling, 0.0, half_sector, max(0, _PANEL - mn) / _PANEL
    return straddling, 0.0, half_sector, 0.0, 0.0


def problem_features(cases: Sequence[Key]) -> Array:
    """[cases][features]; of outputs in the operands' dtype."""
    lines = []
    for case in cases:
        a_mn, b_mn, out_bytes = case.layout[0] == "T", case.layout[1] == "N", 2 * case.n
        sizes = np.log([case.m, case.n, case.k])
        operands = _lines(a_mn, case.m, case.k) + _lines(b_mn, case.n, case.k)
        output = [float(out_bytes % unit != 0) for unit in (_SECTOR_BYTES, _LINE_BYTES, _TMA_BYTES)]
        lines.append([*sizes, float(a_mn), float(b_mn), *operands, *output])
    return np.array(lines).reshape(len(cases), len(PROBLEM_FEATURES))


def cost_features(table: Sequence[Row], cases: Sequence[Key], features: Features, cost: Cost, sm_count: int) -> Array:
    """[rows][cases][features]."""
    at_once = np.array([[row.splits * row.clusters_at_once(sm_count)] for row in table])
    tiles = np.array([[row.tiles(case) for case in cases] for row in table]).reshape(len(table), len(cases), 2)
    sizes = np.array([(case.m, case.n) for case in cases]).reshape(len(cases), 2)
    filled = sizes / (tiles * np.array([[(row.tile_m, row.tile_n)] for row in table]))
    parts = [part / cost.together for part in (cost.compute, cost.memory, cost.delivery, cost.l2)]
    last_wave = np.minimum(1, features.ctas / (at_once * features.waves))
    whole = [np.log(cost.ns), cost.together / cost.ns, last_wave, np.minimum(3, features.share)]
    return np.stack([*parts, *whole, filled[..., 0], filled[..., 1]], axis=-1)


def near() -> float:
    """Times the cheapest row: what the cost model expects of rows that are looked at again."""
    found = _NEAR.search((SM90 / "choice.h").read_text())
    assert found is not None
    return float(found["value"])


def corrected_ns(table: Sequence[Row], cases: Sequence[Key], sm_count: int) -> Array:
    """Nanoseconds of every row in every case, infinite for those that the choice does not look at again."""
    features = Features.of(table, cases, sm_count)
    cost = cost_of(features, np.array([row.numbers for row in table]), read_constants())
    of_cost = cost_features(table, cases, features, cost, sm_count)
    found = cost.ns * np.exp(read_network().corrections(problem_features(cases), of_cost))
    return np.where(cost.ns <= near() * cost.ns.min(axis=0), found, np.inf)
