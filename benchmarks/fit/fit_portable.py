"""Fits the portable tile table's cost model to a sweep, and says what the choice loses.

    python benchmarks/matmul.py --preset sweep --rows . --csv sweep.csv        # on the GPU
    python -m benchmarks.fit.fit_portable sweep.csv                            # anywhere

Prints each row's numbers as csrc/cuda/sm80/heuristics/config.h wants them, and the regret: the time of the row
that the model chooses over the time of the best row, for the numbers there and for the new ones. The model is
`expected_ns` of choice.h beside it. Other backends' rows in the sweep are passed over, and those of narrow products,
which stand at the end of the table and have a model of their own (csrc/cuda/common/narrow.h).
"""

from __future__ import annotations

import numpy as np

from benchmarks.common.cases import Case
from benchmarks.fit.header_table import CSRC, LAUNCH_NS, Array, Pairs, Table, command_line, least_squares, report

HEADER = CSRC / "cuda" / "sm80" / "heuristics" / "config.h"
DEFAULTS = (1.0, 0.0, 0.0)  # of by_elements, ns_per_element and bytes_per_ns, which is not fitted
_MOST_STORED = 360e3  # config.h's kMostStoredElements
_PULL = 1e-4  # towards the numbers of config.h, where the sweep does not tell them apart


def read_table() -> tuple[Table, Array]:
    """And the numbers that are fitted: ns_per_k, ns_fixed, the shares of an SM and ns_per_element, [row][5]."""
    table = Table(HEADER, DEFAULTS)
    return table, np.column_stack([table.numbers, np.maximum(table.extra[:, 1], 1e-6)])


def is_read_by_elements(case: Case) -> bool:
    """Whether some line of an operand is no multiple of 16 bytes."""
    lines = (case.k if case.layout[0] == "N" else case.m, case.n if case.layout[1] == "N" else case.k)
    return any(line * case.torch_dtypes[0].itemsize % 16 != 0 for line in lines)


def expected_ns(table: Table, pairs: Pairs, sm_count: int, numbers: Array) -> Array:
    """Nanoseconds of every pair; `numbers` as read_table's."""
    ns_per_k, ns_fixed, *shares, ns_per_element = numbers[pairs.row].T
    by_elements = np.array([is_read_by_elements(case) for case in pairs.keys], bool)
    ns_per_k = ns_per_k * np.where(by_elements, table.extra[pairs.row, 0], 1.0)
    tile_m, tile_n, resident = table.tiles[pairs.row][:, (0, 1, 7)].T
    whole, left = np.divmod(np.ceil(pairs.m / tile_m) * np.ceil(pairs.n / tile_n), sm_count * resident)
    last = np.ceil(left / sm_count)

    def turns(share: Array) -> Array:
        share = np.where(resident > 1, np.minimum(share, 1.0), 1.0)
        return whole * np.maximum(1.0, resident * share) + np.where(last > 0, np.maximum(1.0, last * share), 0.0)

    waiting = np.where(resident > 1, np.maximum(0.0, 1 - resident * shares[1]), 0.0)  # in the first wave alone
    fixed = turns(shares[1]) - np.maximum(whole - (left == 0), 0) * waiting
    stored = ns_per_element * np.minimum(pairs.m * pairs.n, _MOST_STORED)
    return turns(shares[0]) * ns_per_k * pairs.k + fixed * ns_fixed + stored


def main() -> None:
    arguments, (table, numbers) = command_line(__doc__), read_table()
    pairs = Pairs(arguments.sweep, [name for name in table.names if not name.startswith("sm80_narrow_")])
    logs, shape = np.log(numbers).ravel(), numbers.shape

    def model(logs: Array) -> Array:
        return expected_ns(table, pairs, arguments.sm_count, np.exp(logs).reshape(shape)) + LAUNCH_NS

    fitted = least_squares(model, logs, pairs.ns, np.full(logs.size, _PULL))
    for row, (ns_per_k, ns_fixed, *shares, stored) in enumerate(np.exp(fitted).reshape(shape)):
        both = ", ".join(f"{min(share, 1.0):.2f}f" for share in shares)
        others = f"true, {table.extra[row, 0]:.2f}f, {stored:.5f}f"
        others += f", {table.extra[row, 2]:.1f}f" if table.extra[row, 2] else ""
        print(f"{table.names[row]:28} {{{ns_per_k:.2f}f}}, {ns_fixed:7.1f}f, {both}, {others}")
    for title, numbers in (("config.h", logs), ("fitted", fitted)):
        report(title, pairs.times.lost(pairs.by_case(model(numbers))).items())


if __name__ == "__main__":
    main()
