"""What the cost models are fitted to: fixed sets of cases for `matmul.py --rows .`, every row of the tile table.

sweep: the plain products of matmul.csv in one of the two dtypes (they take the same time), random rectangles, few tiles
    with a long k, many with a short one, and shapes in every dtype for the portable kernels.
random: many more of them, so that the fit does not learn shapes by heart: linear layers and rectangles, drawn from a
    seed, and layers of models (Hopper's rows; what the choice loses elsewhere is in tune_regret.csv, none of whose
    linear layers is among them).
rectangles: as tune_regret.py draws them, of another seed; rectangles_2 of a third one, and products of 8 to 48 rows or
    columns of which an operand is mn-major; rectangles_3 of a fourth one, linear layers, layers of models and squares;
    rectangles_4 of a sixth one; rectangles_5 of a seventh one, larger and with a longer k.
unseen_rectangles: of a fifth seed, which no fit reads.
float32_rows: for the cost model of Hopper's float32 rows: random rectangles, small squares, and the layers of float32.
"""

from __future__ import annotations

import random

from benchmarks.common.cases import LAYOUTS, Case, Shape, drawn, square_cases
from benchmarks.measure import tune_regret
from benchmarks.subjects.float32 import layer_cases
from benchmarks.subjects.squares16 import DTYPES, LINEAR_SHAPES, OTHER_LAYOUT_SQUARES, SQUARES

_LARGEST = 4096**3  # m * n * k of what is drawn

MODEL_ROWS = (1, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024, 2048, 4096)
MODEL_WEIGHTS = (  # n, k
    *((1024, 1024), (4096, 1024), (1024, 4096), (1536, 1536), (8960, 1536), (1536, 8960), (7168, 2048), (2048, 7168)),
    *((2560, 2560), (2560, 6912), (3072, 3072), (4608, 3584), (3584, 18944), (11008, 4096), (4096, 11008)),
    *((5120, 5120), (1536, 7168), (7168, 18432), (8192, 8192), (22016, 4096)),
)
PORTABLE_SWEEP_SHAPES: tuple[Shape, ...] = (
    *((size, size, size) for size in (128, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096)),
    *((rows, 4096, 4096) for rows in (1, 16, 64, 256)),
    *((8192, 1024, 1024), (4096, 64, 4096), (4096, 4096, 256), (256, 256, 16384), (1000, 1500, 2000)),
)

LONG_K_SHAPES: tuple[Shape, ...] = (  # of few tiles
    *((64, 64, 65536), (128, 128, 16384), (256, 256, 65536), (512, 512, 16384), (1024, 1024, 16384), (256, 1024, 8192)),
)
SHORT_K_SHAPES: tuple[Shape, ...] = (
    *((8192, 8192, k) for k in (64, 128, 256, 512, 1024)),
    *((4096, 4096, 128), (4096, 4096, 512), (2048, 8192, 256), (8192, 1024, 128)),
)


def rectangles(count: int = 24, seed: int = 0) -> list[Case]:
    """Random shapes, layouts and 16-bit dtypes in turn; sizes are multiples of 8 from 8 to 8192, spread evenly on a
    logarithmic scale."""

    def one(draw: random.Random, number: int) -> Case:
        m, n, k = (8 * round(2 ** draw.uniform(0, 10)) for _ in range(3))
        return Case(DTYPES[number // 4 % 2], LAYOUTS[number % 4], m, n, k)

    return drawn(count, seed, _LARGEST, one)


def long_rectangles(count: int, seed: int) -> list[Case]:
    """As `rectangles`, of sizes from 64 on, of k from 256 to 24576."""

    def one(draw: random.Random, number: int) -> Case:
        m, n, k = (8 * round(2 ** draw.uniform(least, largest)) for least, largest in ((3, 10), (3, 10), (5, 11.58)))
        return Case(DTYPES[number // 4 % 2], LAYOUTS[number % 4], m, n, k)

    return drawn(count, seed, _LARGEST, one)


def ragged_rectangles(count: int, seed: int = 0) -> list[Case]:
    """As `rectangles`, of outputs that TMA cannot write: n is no multiple of 8. In layouts that TMA can read all the
    same, NT, where m is any number too, and TT."""

    def one(draw: random.Random, number: int) -> Case | None:
        m, n, k = (round(2 ** draw.uniform(3, 13)) for _ in range(3))
        layout = ("NT", "TT")[number % 2]
        m, k = m if layout == "NT" else (m + 7) // 8 * 8, (k + 7) // 8 * 8
        return Case(DTYPES[number // 2 % 2], layout, m, n, k) if n % 8 else None

    return drawn(count, seed, _LARGEST, one)


def float32_rectangles(count: int) -> list[Case]:
    """As `rectangles`, in float32: any sizes from 32 on, aligned or not, and half as many products at most."""

    def one(draw: random.Random, number: int) -> Case:
        m, n, k = (round(2 ** draw.uniform(5, 13)) for _ in range(3))
        return Case("float32", LAYOUTS[number % 4], m, n, k)

    return drawn(count, 0, _LARGEST // 2, one)


def linear_layers(count: int, seed: int = 0) -> list[Case]:
    """Random linear layers: from 1 to 8192 rows, every other time at most 128; weights (n, k) of 1024 to 28672, all of
    it spread evenly on a logarithmic scale. Every fourth is NN, as in a backward pass."""

    def one(draw: random.Random, number: int) -> Case:
        m = round(2 ** draw.uniform(0, 7 if number % 2 == 0 else 13))
        n, k = (64 * round(2 ** draw.uniform(4, 8.8)) for _ in range(2))
        return Case("bfloat16", "NN" if number % 4 == 3 else "NT", m, n, k)

    return drawn(count, seed, 2**37, one)


def model_layers(rows_each: int, seed: int = 0) -> list[Case]:
    """Linear layers of models, NT: so many of MODEL_ROWS, drawn for each weight."""
    draw = random.Random(seed)
    return [
        Case("bfloat16", "NT", m, n, k) for n, k in MODEL_WEIGHTS for m in sorted(draw.sample(MODEL_ROWS, rows_each))
    ]


def _sweep() -> list[Case]:
    cases = (
        square_cases(SQUARES, ["float16"], ["NN", "NT"])
        + square_cases(OTHER_LAYOUT_SQUARES, ["float16"], ["TN", "TT"])
        + [Case("bfloat16", "NT", *shape) for shape in LINEAR_SHAPES]
        + rectangles()
        + [Case("bfloat16", layout, *shape) for layout in ("NN", "NT") for shape in LONG_K_SHAPES + SHORT_K_SHAPES]
        + [Case("bfloat16", layout, *shape) for layout in ("NN", "NT") for shape in PORTABLE_SWEEP_SHAPES]
        + [Case(dtype, "NN", *shape) for dtype in ("float32", "tf32", "float64") for shape in PORTABLE_SWEEP_SHAPES]
        + [Case("e4m3", "NT", *shape) for shape in PORTABLE_SWEEP_SHAPES]
    )
    return list(dict.fromkeys(cases))  # a few shapes are in two of the sets


def _random() -> list[Case]:
    first = linear_layers(200) + rectangles(460, seed=1) + model_layers(8)
    second = linear_layers(180, seed=1) + rectangles(400, seed=2) + model_layers(6, seed=1)
    third = linear_layers(600, seed=2) + rectangles(3200, seed=3)
    fourth = ragged_rectangles(600) + rectangles(2700, seed=4)
    return list(dict.fromkeys(first + second + third + fourth))


def _float32_rows() -> list[Case]:
    small = square_cases(range(128, 2049, 128), ["float32"], ["NN"])
    return list(dict.fromkeys(float32_rectangles(180) + small + layer_cases()))


def _rectangles() -> list[Case]:
    return tune_regret.rectangles(1300, seed=11)


def narrow_rectangles(count: int, seed: int = 0) -> list[Case]:
    """Products of 8 to 48 rows, or columns, whose narrow operand is mn-major: all CTAs ask for the same few lines of
    it. The other sizes are multiples of 8 from 256 to 8192, spread evenly on a logarithmic scale."""

    def one(draw: random.Random, number: int) -> Case:
        narrow = 8 * draw.randint(1, 6)
        wide, k = (8 * round(2 ** draw.uniform(5, 10)) for _ in range(2))
        layout, is_rows = (("TN", True), ("TT", True), ("NN", False), ("TN", False))[number % 4]
        return Case("bfloat16", layout, *((narrow, wide) if is_rows else (wide, narrow)), k)

    return drawn(count, seed, _LARGEST, one)


def _rectangles_3() -> list[Case]:
    """For clusters, which the sets before do not have: what they are for, and what other configs must keep."""
    squares = square_cases(SQUARES, ["bfloat16"], LAYOUTS)
    layers = linear_layers(120, seed=3) + model_layers(5, seed=2)
    return list(dict.fromkeys(tune_regret.rectangles(700, seed=13) + layers + squares))


def _unseen_rectangles() -> list[Case]:
    return tune_regret.rectangles(300, seed=14)


def _rectangles_2() -> list[Case]:
    return list(dict.fromkeys(tune_regret.rectangles(1200, seed=12) + narrow_rectangles(250)))


def _rectangles_4() -> list[Case]:
    """Every config's times on an H200, clusters of all tiles among them."""
    return tune_regret.rectangles(2000, seed=15)


def _rectangles_5() -> list[Case]:
    return long_rectangles(900, seed=17)


SETS = {
    "sweep": _sweep,
    "random": _random,
    "rectangles": _rectangles,
    "rectangles_2": _rectangles_2,
    "rectangles_3": _rectangles_3,
    "rectangles_4": _rectangles_4,
    "rectangles_5": _rectangles_5,
    "unseen_rectangles": _unseen_rectangles,
    "float32_rows": _float32_rows,
}
