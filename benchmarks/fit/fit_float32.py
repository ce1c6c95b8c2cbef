"""Fits the cost model of Hopper's float32 rows to a sweep, and says what the choice loses.

    python benchmarks/matmul.py --preset float32_rows --rows "bf16x6|simt|sm80_few" --csv sweep_float32.csv   # GPU
    python -m benchmarks.fit.fit_float32 benchmarks/results/h200/sweep_float32.csv.xz                        # anywhere

Prints each row's three numbers and the constants as csrc/cuda/sm90/heuristics/bf16x6.h wants them, and the regret of
choosing by them, among these rows and the portable ones, whose model is fit_portable.py's. The model is `bf16x6_ns` of
select.h.
"""

from __future__ import annotations

import re

import numpy as np

from benchmarks.common.times import Times
from benchmarks.fit import fit_portable
from benchmarks.fit.header_table import CSRC, LAUNCH_NS, Array, Pairs, Table, command_line, least_squares, report

HEADER = CSRC / "cuda" / "sm90" / "heuristics" / "bf16x6.h"
PANEL, PARTS = 64, 3  # k of a panel, bfloat16 numbers of a float32
L2_BYTES_PER_NS = 20000.0  # kLargestL2BytesPerNs of cost.h
PORTABLE_LAUNCH_NS = 4000.0  # kPortableLaunchNs of narrow.h
CONSTANTS = ("kSplitBytesPerNs", "kSingleStores")
_OF_ROW, _BYTES_PER_NS = (2, 3, 4), 5  # start, per_tile, per_k; memory_bytes: behind the tile, splits and ctas_per_sm
_PULL = (0.002, 0.001, 0.0)  # towards the numbers of bf16x6.h


def expected_ns(table: Table, pairs: Pairs, sm_count: int, of_rows: Array, constants: Array) -> Array:
    """Nanoseconds of every pair; `of_rows`: start, per_tile and per_k, [row][3]."""
    start, per_tile, per_k = of_rows[pairs.row].T
    tile_m, tile_n = table.tiles[pairs.row][:, :2].T
    splits, bytes_per_ns = table.numbers[pairs.row][:, (0, _BYTES_PER_NS)].T
    split_bytes_per_ns, single_stores = constants
    m, n = pairs.m, pairs.n
    tiles = np.ceil(m / tile_m) * np.ceil(n / tile_n)
    waves = np.ceil(tiles / (np.where(splits <= 2, sm_count, sm_count * 10 // 11) // splits))
    k = np.ceil(pairs.k / PANEL) * PANEL * PARTS  # of the operands in three parts
    moved = (m + n) * pairs.k * (4 + 2.0 * PARTS)  # by splitting them
    memory = ((m + n) * k * 2.0 + 4.0 * m * n) / bytes_per_ns
    delivery = tiles * (tile_m + tile_n) * k * 2.0 / L2_BYTES_PER_NS
    stored = np.where((n % 2 == 1) & (splits == 1), single_stores, 1.0)
    bound = np.maximum(waves * (stored * per_tile + per_k * k), np.maximum(memory, delivery))
    return start + moved / split_bytes_per_ns + bound


def main() -> None:
    arguments, table, (portable, portable_numbers) = command_line(__doc__), Table(HEADER), fit_portable.read_table()
    pairs, others = Pairs(arguments.sweep, table.names), Pairs(arguments.sweep, portable.names)
    found = dict(re.findall(r"constexpr double (k\w+) = ([\d.]+);", HEADER.read_text()))
    constants, rows = np.array([float(found[name]) for name in CONSTANTS]), len(table.names)

    def numbers(logs: Array) -> tuple[Array, Array]:
        return np.exp(logs[: 3 * rows]).reshape(rows, 3), np.exp(logs[3 * rows :])

    def model(logs: Array) -> Array:
        return expected_ns(table, pairs, arguments.sm_count, *numbers(logs)) + LAUNCH_NS

    before = np.log(np.concatenate([table.numbers[:, _OF_ROW].ravel(), constants]))
    pull = np.concatenate([np.tile(_PULL, rows) / rows, np.zeros(constants.size)])
    fitted = least_squares(model, before, pairs.ns, pull)
    of_rows, constants = numbers(fitted)
    for name, values in zip(table.names, of_rows, strict=True):
        print(f"{name:34} {values[0]:7.1f}f, {values[1]:8.1f}f, {values[2]:8.4f}f")
    print("\n".join(f"{name} = {value:.2f}" for name, value in zip(CONSTANTS, constants, strict=True)))

    others_ns = fit_portable.expected_ns(portable, others, arguments.sm_count, portable_numbers)
    of_others = others.by_case(others_ns + PORTABLE_LAUNCH_NS)
    both = Times((case, by | others.times[case]) for case, by in pairs.times.items() if case in others.times)
    for title, logs in (("bf16x6.h", before), ("fitted", fitted)):
        ours = pairs.by_case(model(logs))
        report(title, both.lost({case: ours[case] | of_others[case] for case in both}).items())


if __name__ == "__main__":
    main()
