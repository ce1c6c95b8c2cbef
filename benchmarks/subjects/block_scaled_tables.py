"""Block-scaled products: the tables of block_scaled_matmul.csv and block_scaled_portable.csv."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from pathlib import Path

from benchmarks.common.cases import DATA, Case
from benchmarks.common.markdown import microseconds, page_part, rates, ratio, table
from benchmarks.common.result_file import of_file
from benchmarks.common.target import Target
from benchmarks.common.times import Times, quotients, read_times, square
from benchmarks.subjects import block_scaled
from benchmarks.subjects.block_scaled import EVENTS, FORMATS, GRAPHS, PORTABLE, SOURCE, SQUARES, WEIGHT

CUBLAS = "cuBLAS on bfloat16"
PROVIDER_WORDS = {
    "tileon": "tileon",
    "tileon_fast": "tileon, `fast_accum`",
    "triton": "Triton",
    "torch_dequantize": "dequantize, cuBLAS",
    "torch_bf16": CUBLAS,
}
_RIVALS = ("triton", "torch_dequantize")
_PEER_SENTENCE = (
    "Triton is one kernel with `tl.dot_scaled`; the other peer turns each operand into bfloat16 by one kernel of "
    "`torch.compile` and has cuBLAS multiply them, bfloat16 out"
)

# What mxfp4 becomes (docs/block_scaled_on_hopper.md): data, provider, words.
_FORMS = (
    ("normal", "tileon", "mxfp4, normal: int8"),
    ("normal", "tileon_fast", "mxfp4, normal, `fast_accum`: int8, by the tile of e5m2"),
    ("tutorial", "tileon", "mxfp4, tutorial: bfloat16"),
    ("tutorial", "tileon_fast", "mxfp4, tutorial, `fast_accum`: e5m2"),
)


def _rates_and_rivals(times: Times, key: Case, providers: Iterable[str]) -> list[str]:
    """TFLOP/s of the providers, and how many times the rivals' rates ours is."""
    return [*rates(times, key, providers), *(ratio(times[key], who) for who in _RIVALS)]


def _columns(providers: Iterable[str]) -> list[str]:
    return [*(PROVIDER_WORDS[who] for who in providers), *(f"tileon / {PROVIDER_WORDS[who]}" for who in _RIVALS)]


def _nothing_to_compare(found: list[Target]) -> list[str]:
    """Why a peer's column is empty for a whole format."""
    lines = dict.fromkeys(f"{target.what.split()[0]}: {target.figure}." for target in found if target.no_peer)
    return [" ".join(lines), ""] if lines else []


@of_file(PORTABLE)
def portable_part(source: Path) -> list[str]:
    """Every product of the file."""
    head, times = read_times(source)
    providers, found = ("tileon", *_RIVALS), block_scaled.portable_targets(source.parent)
    shapes = dict.fromkeys((key.m, key.n, key.k) for key in times)
    rows = [
        [key.dtype, f"{key.m} x {key.n} x {key.k}", *_rates_and_rivals(times, key, providers)]
        for key in (Case(name, "NT", *shape) for name, shape in itertools.product(FORMATS, shapes))
        if "tileon" in times.get(key, {})
    ]
    words = f"By the portable kernels, TFLOP/s, float16 out ({head.get('timing', '')}). {_PEER_SENTENCE}:"
    lines = table(words, ["format", "m x n x k", *_columns(providers)], rows, 2)
    return page_part(source, lines + _nothing_to_compare(found), found)


@of_file(SOURCE)
def part(source: Path) -> list[str]:
    """Squares in both kinds of data, rates over k, and few and more rows of `a`."""
    head, found = read_times(source)[0], block_scaled.targets(source.parent)
    of_kind = {data: read_times(source, data)[1] for data in DATA}
    rows = [
        [name, data, str(key.m), *_rates_and_rivals(times, key, PROVIDER_WORDS)]
        for name in FORMATS
        for data, times in of_kind.items()
        for key in sorted((key for key in times if key.dtype == name and key.is_square), key=lambda key: -key.m)
        if "tileon" in times[key]
    ]
    words = (
        f"By Hopper's kernels, TFLOP/s, float16 out ({head.get('timing', '')}). {_PEER_SENTENCE}. `cuBLAS on bfloat16` "
        "multiplies operands that were dequantized beforehand:"
    )
    lines = [
        *table(words, ["format", "data", "m = n = k", *_columns(PROVIDER_WORDS)], rows, 2),
        *_sweep_table(of_kind["normal"]),
        *_few_rows_table(of_kind["normal"]),
        *_more_rows_table(of_kind["normal"]),
        *_nothing_to_compare(found),
    ]
    return page_part(source, lines, found)


def _sweep_table(times: Times) -> list[str]:
    """Rates over k, where a file has several at the same m and n."""
    mine = [key for key in times if key.m == key.n and "tileon" in times[key]]
    size = max((key.m for key in mine if not key.is_square), default=0)
    rows, all_k = [], sorted({key.k for key in mine if key.m == size})
    for name, who in itertools.product(FORMATS, EVENTS):
        keys = [Case(name, "NT", size, size, k) for k in all_k]
        rows.append([name, PROVIDER_WORDS[who], *(cell for key in keys for cell in rates(times, key, [who]))])
    words = f"TFLOP/s over k, m = n = {size}, normal data:"
    return table(words, ["format", "", *(f"k = {k}" for k in all_k)], rows, 2)


def _rows_table(times: Times, words: str, columns: list[str], providers: tuple[str, ...]) -> list[str]:
    """Microseconds of the products that all of these were measured in, and the last one's time over the others'."""
    rows = [
        [
            *(name, f"{key.n} x {key.k}", str(key.m), *microseconds(by, providers)),
            *(ratio(by, providers[-1], who) for who in providers[:-1]),
        ]
        for name in FORMATS
        for key, by in times.items()
        if key.dtype == name and {*providers} <= by.keys()
    ]
    return table(words, ["format", "weight, n x k", "rows", *columns], rows, 2)


def _few_rows_table(times: Times) -> list[str]:
    words = (
        "Few rows of `a`: microseconds by CUDA-graph replay, over weights that have left L2, normal data. The last "
        "column is cuBLAS's time over ours:"
    )
    return _rows_table(times, words, ["tileon", CUBLAS, f"{CUBLAS} / tileon"], GRAPHS)


def _more_rows_table(times: Times) -> list[str]:
    words = (
        "More rows of `a`: microseconds, normal data; the last columns are cuBLAS's time over ours. A prepared weight "
        "is that of the private op `_block_scaled_matmul_prepared`, which no layer uses today:"
    )
    columns = ["tileon", "tileon, prepared weight", CUBLAS, f"{CUBLAS} / tileon", f"{CUBLAS} / prepared"]
    return _rows_table(times, words, columns, ("tileon", "tileon_prepared", "torch_bf16"))


# README's.


@of_file(SOURCE)
def headline_part(source: Path) -> list[str]:
    """Rates of every format on large squares, and by rows of `a`."""
    size, of_kind = SQUARES[0], {data: read_times(source, data)[1] for data in DATA}
    rows = []
    for name, data in [*((name, "normal") for name in FORMATS), ("mxfp4", "tutorial")]:
        rows.append([name, data, *rates(of_kind[data], square(name, "NT", size), PROVIDER_WORDS)])
    words = (
        f"Block-scaled products, TFLOP/s at m = n = k = {size}, of normal random data; mxfp4 of random "
        "scales too (tutorial), which its route by int8 does not take. Triton is one kernel with `tl.dot_scaled`; the "
        "last column multiplies operands that were dequantized beforehand:"
    )
    squares = table(words, ["format", "data", *PROVIDER_WORDS.values()], rows, 2)
    return [*squares, *_by_rows_table(of_kind["normal"])][:-1]  # no empty line at its end


def _by_rows_table(times: Times) -> list[str]:
    """cuBLAS's time over ours by rows of `a`; nothing where none was measured."""
    mine = times.where(lambda key: key.n == key.k == WEIGHT)
    by_case = quotients(mine, *reversed(EVENTS)) | quotients(mine, *reversed(GRAPHS))
    found = {(key.dtype, key.m): ratio for key, ratio in by_case.items()}
    numbers = sorted({rows for _, rows in found})
    lines = [[name, *(f"{found[name, m]:.2f}" if (name, m) in found else "" for m in numbers)] for name in FORMATS]
    words = (
        f"By rows of `a`: the time of {CUBLAS} operands over ours, with a weight of {WEIGHT} x {WEIGHT}, normal data, "
        "up to 64 rows by CUDA-graph replay. Below 1 cuBLAS is the faster one:"
    )
    return table(words, ["format", *(f"{rows} rows" if rows > 1 else "1 row" for rows in numbers)], lines)


# Of docs/block_scaled_on_hopper.md.


def _forms(source: Path) -> list[str]:
    """TFLOP/s of mxfp4 on squares, by what its operands become; in brackets dequantization and cuBLAS."""
    lines = []
    for data, provider, words in _FORMS:
        times, keys = read_times(source, data)[1], [square("mxfp4", "NT", size) for size in SQUARES]
        pairs = [rates(times, key, (provider, "torch_dequantize")) for key in keys]
        lines.append([words, *(f"{ours} ({peer})" if ours and peer else "" for ours, peer in pairs)])
    words = (
        "TFLOP/s at m = n = k, preparing included; in brackets a compiled dequantization and cuBLAS in the same run. "
        "The tutorial's data do not fit int8:"
    )
    return table(words, ["format, data: form", *map(str, SQUARES)], lines)


def _page_part(lines_of: Callable[[Path], list[str]]) -> Callable[[Path], list[str]]:
    """A part with the sentence of where it is from."""
    return of_file(SOURCE)(lambda source: page_part(source, lines_of(source)))


few_rows_part = _page_part(lambda source: _few_rows_table(read_times(source, "normal")[1]))
prepared_part = _page_part(lambda source: _more_rows_table(read_times(source, "normal")[1]))
forms_part = _page_part(_forms)
