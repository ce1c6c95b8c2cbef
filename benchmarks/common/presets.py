"""Fixed sets of cases: what results/<gpu>/*.csv hold, and what the demo shows.

demo: a few squares, as large as the machine does quickly.
portable: squares of every dtype, and every epilogue and layout at 4096.
hopper: float16 and bfloat16 against their peers, for matmul.csv. Squares from 256 to 4096 in steps of 128 and 8192, NN
    and NT, up to 1408 in float16 by CUDA-graph replay as well; TN and TT at every 512; a fused epilogue from 1024 to
    8192; and linear layers, NT: from 1 to 8192 rows against four weights.
fp8: every pairing of fp8 against torch, precise and with fast accumulation, for fp8.csv. Squares from 1024 to 8192 in
    steps of 512, NT: torch and wgmma take operands that are contiguous along k. About a minute of a GPU's time.
float32: float32 without TF32 against torch, for float32.csv. Squares from 256 to 4096 in steps of 256 and 8192, NN and
    NT; TN, TT and a fused epilogue from 1024; linear layers, NT: from 1 to 8192 rows against five weights; and
    gradients of weights, TN. About a minute of a GPU's time.
sweep: what the cost models are fitted to, every row of the tile table (sweep.py). The plain products of hopper in one
    of the two dtypes (they take the same time), random rectangles, few tiles with a long k, many with a short one, and
    shapes in every dtype for the portable kernels.
random: many more of them, so that the fit does not learn shapes by heart: linear layers and rectangles, drawn from a
    seed, and layers of models (for sweep.py, Hopper's rows; what the choice loses elsewhere is in tune_regret.csv, none
    of whose linear layers is among them).
float32_rows: what the cost model of Hopper's float32 rows is fitted to, for sweep_float32.csv: random rectangles, small
    squares, and the layers of float32.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from benchmarks.common.cases import FP8_PAIRINGS, Case

Shape = tuple[int, int, int]  # m, n, k

PRESETS = ("demo", "portable", "hopper", "fp8", "float32", "sweep", "random", "float32_rows")

SQUARES = (*range(256, 4097, 128), 8192)
GRAPH_SQUARES = tuple(range(256, 1409, 128))  # beyond, a launch takes far longer than its gap
OTHER_LAYOUT_SQUARES = (*range(512, 4097, 512), 8192)
FP8_SQUARES = tuple(range(1024, 8193, 512))
EPILOGUE_SQUARES = (1024, 2048, 4096, 8192)
FLOAT32_SQUARES = (*range(256, 4097, 256), 8192)
FLOAT32_OTHER_LAYOUT_SQUARES = (1024, 2048, 4096)
LINEAR_ROWS = (1, 8, 16, 32, 64, 128, 512, 2048, 8192)
LINEAR_WEIGHTS = ((4096, 4096), (14336, 4096), (4096, 14336), (28672, 8192))  # n, k
MODEL_ROWS = (1, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024, 2048, 4096)
MODEL_WEIGHTS = (  # n, k
    *((1024, 1024), (4096, 1024), (1024, 4096), (1536, 1536), (8960, 1536), (1536, 8960), (7168, 2048), (2048, 7168)),
    *((2560, 2560), (2560, 6912), (3072, 3072), (4608, 3584), (3584, 18944), (11008, 4096), (4096, 11008)),
    *((5120, 5120), (1536, 7168), (7168, 18432), (8192, 8192), (22016, 4096)),
)
LINEAR_SHAPES: tuple[Shape, ...] = tuple((m, n, k) for n, k in LINEAR_WEIGHTS for m in LINEAR_ROWS)
FLOAT32_LINEAR_ROWS = (1, 16, 64, 128, 512, 2048, 8192)
FLOAT32_WEIGHTS = ((768, 768), (3072, 768), (768, 3072), (4096, 4096), (14336, 4096))  # n, k
FLOAT32_GRADIENTS: tuple[Shape, ...] = (  # of weights: k is the number of rows
    *((768, 768, 8192), (3072, 768, 8192), (4096, 4096, 8192), (512, 512, 16384)),
)

PORTABLE_SWEEP_SHAPES: tuple[Shape, ...] = (
    *((size, size, size) for size in (128, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096)),
    *((rows, 4096, 4096) for rows in (1, 16, 64, 256)),
    *((8192, 1024, 1024), (4096, 64, 4096), (4096, 4096, 256), (256, 256, 16384), (1000, 1500, 2000)),
)

_PEERS = ("tileon", "torch", "triton")
_FP8_PEERS = ("tileon", "tileon_fast", "torch", "torch_fast")  # torch's of what it offers: providers.py


@dataclass(frozen=True)
class Work:
    """A case, and who computes it; None is matmul.py's default."""

    case: Case
    providers: tuple[str, ...] | None = None


def parse_names(text: str) -> list[str]:
    """Names with commas between them."""
    return text.split(",")


def names_among(known: Sequence[str]) -> Callable[[str], list[str]]:
    """What reads, for argparse, names with commas between them, and refuses one that is not known."""

    def parse(text: str) -> list[str]:
        names = parse_names(text)
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"unknown {name!r}; there are {', '.join(known)}")
        return names

    return parse


def parse_shapes(text: str) -> list[Shape]:
    """`MxNxK`, several with commas."""
    shapes = []
    for part in text.split(","):
        numbers = part.split("x")
        if len(numbers) != 3:
            raise argparse.ArgumentTypeError(f"{part!r} is not MxNxK")
        shapes.append((int(numbers[0]), int(numbers[1]), int(numbers[2])))
    return shapes


def squares(
    sizes: Sequence[int], dtypes: Sequence[str], layouts: Sequence[str], epilogues: Sequence[str]
) -> list[Case]:
    """Every combination, m = n = k."""
    return [
        Case(dtype, layout, size, size, size, epilogue)
        for dtype in dtypes
        for layout in layouts
        for epilogue in epilogues
        for size in sizes
    ]


# Few tiles and a long k.
LONG_K_SHAPES: tuple[Shape, ...] = (
    *((64, 64, 65536), (128, 128, 16384), (256, 256, 65536), (512, 512, 16384), (1024, 1024, 16384), (256, 1024, 8192)),
)
SHORT_K_SHAPES: tuple[Shape, ...] = (
    *((8192, 8192, k) for k in (64, 128, 256, 512, 1024)),
    *((4096, 4096, 128), (4096, 4096, 512), (2048, 8192, 256), (8192, 1024, 128)),
)


def rectangles(count: int = 24, seed: int = 0) -> list[Case]:
    """Random shapes, layouts and 16-bit dtypes in turn.

    Sizes are multiples of 8 from 8 to 8192, spread evenly on a logarithmic scale; products of more than 4096^3 are
    drawn again.
    """
    draw = random.Random(seed)
    cases: list[Case] = []
    while len(cases) < count:
        m, n, k = (8 * round(2 ** draw.uniform(0, 10)) for _ in range(3))
        if m * n * k <= 4096**3:
            dtype, layout = ("float16", "bfloat16")[len(cases) // 4 % 2], ("NN", "NT", "TN", "TT")[len(cases) % 4]
            cases.append(Case(dtype, layout, m, n, k))
    return cases


def ragged_rectangles(count: int, seed: int = 0) -> list[Case]:
    """As `rectangles`, of outputs that TMA cannot write: n is no multiple of 8. In layouts that TMA can read all the
    same, NT, where m is any number too, and TT."""
    draw = random.Random(seed)
    cases: list[Case] = []
    while len(cases) < count:
        m, n, k = (round(2 ** draw.uniform(3, 13)) for _ in range(3))
        layout = ("NT", "TT")[len(cases) % 2]
        m, k = m if layout == "NT" else (m + 7) // 8 * 8, (k + 7) // 8 * 8
        if n % 8 != 0 and m * n * k <= 4096**3:
            cases.append(Case(("float16", "bfloat16")[len(cases) // 2 % 2], layout, m, n, k))
    return cases


def float32_rectangles(count: int, seed: int = 0) -> list[Case]:
    """As `rectangles`, in float32: any sizes from 32 on, aligned or not, and half as many products at most."""
    draw = random.Random(seed)
    cases: list[Case] = []
    while len(cases) < count:
        m, n, k = (round(2 ** draw.uniform(5, 13)) for _ in range(3))
        if m * n * k <= 4096**3 // 2:
            cases.append(Case("float32", ("NN", "NT", "TN", "TT")[len(cases) % 4], m, n, k))
    return cases


def float32_layers() -> list[Case]:
    """Linear layers and gradients of weights."""
    shapes = [(m, n, k) for n, k in FLOAT32_WEIGHTS for m in FLOAT32_LINEAR_ROWS]
    gradients = [Case("float32", "TN", *shape) for shape in FLOAT32_GRADIENTS]
    return [Case("float32", "NT", *shape) for shape in shapes] + gradients


def linear_layers(count: int, seed: int = 0) -> list[Case]:
    """Random linear layers: from 1 to 8192 rows, every other time at most 128; weights (n, k) of 1024 to 28672, all of
    it spread evenly on a logarithmic scale. Every fourth is NN, as in a backward pass. None beyond 2^37 products."""
    draw = random.Random(seed)
    cases: list[Case] = []
    while len(cases) < count:
        m = round(2 ** draw.uniform(0, 7 if len(cases) % 2 == 0 else 13))
        n, k = (64 * round(2 ** draw.uniform(4, 8.8)) for _ in range(2))
        if m * n * k <= 2**37:
            cases.append(Case("bfloat16", "NN" if len(cases) % 4 == 3 else "NT", m, n, k))
    return cases


def model_layers(rows_each: int, seed: int = 0) -> list[Case]:
    """Linear layers of models, NT: so many of MODEL_ROWS, drawn for each weight."""
    draw = random.Random(seed)
    return [
        Case("bfloat16", "NT", m, n, k) for n, k in MODEL_WEIGHTS for m in sorted(draw.sample(MODEL_ROWS, rows_each))
    ]


def _demo(device: torch.device) -> list[Case]:
    if device.type != "cuda":
        return squares([256, 512, 1024], ["float32"], ["NN"], ["none", "bias+leaky_relu"])
    plain = squares([512, 1024, 2048, 4096], ["float16", "float32"], ["NN"], ["none"])
    return plain + squares([4096], ["float16"], ["NN"], ["bias+leaky_relu"])


def _portable() -> list[Case]:
    dtypes = ["bfloat16", "float16", "float32", "tf32", "float64"]
    return (
        squares([256, 512, 1024, 2048, 4096], dtypes, ["NN"], ["none"])
        + squares([4096], dtypes, ["NN"], ["leaky_relu", "bias", "bias+leaky_relu"])
        + squares([4096], ["bfloat16"], ["NT", "TN", "TT"], ["none"])
    )


def _hopper() -> list[Work]:
    dtypes = ["float16", "bfloat16"]
    work = []
    for case in squares(SQUARES, dtypes, ["NN", "NT"], ["none"]):
        graphs = ("tileon_graph", "torch_graph") if case.dtype == "float16" and case.m in GRAPH_SQUARES else ()
        work.append(Work(case, (*_PEERS, *graphs)))
    work += [Work(case, ("tileon", "torch")) for case in squares(OTHER_LAYOUT_SQUARES, dtypes, ["TN", "TT"], ["none"])]
    fused = squares(EPILOGUE_SQUARES, dtypes, ["NN"], ["bias+leaky_relu"])
    work += [Work(case, ("tileon", "tileon_plain", "torch")) for case in fused]
    return work + [Work(Case("bfloat16", "NT", *shape), ("tileon", "torch")) for shape in LINEAR_SHAPES]


def _fp8() -> list[Work]:
    """Size by size: pairings are held against each other, and a drift of clocks meets neighbours alike."""
    return [Work(Case(name, "NT", size, size, size), _FP8_PEERS) for size in FP8_SQUARES for name in FP8_PAIRINGS]


def _float32() -> list[Work]:
    dtype = ["float32"]
    cases = (
        squares(FLOAT32_SQUARES, dtype, ["NN", "NT"], ["none"])
        + squares(FLOAT32_OTHER_LAYOUT_SQUARES, dtype, ["TN", "TT"], ["none"])
        + squares(EPILOGUE_SQUARES, dtype, ["NN"], ["bias+leaky_relu"])
        + float32_layers()
    )
    return [Work(case, ("tileon", "torch")) for case in cases]


def _sweep() -> list[Case]:
    cases = (
        squares(SQUARES, ["float16"], ["NN", "NT"], ["none"])
        + squares(OTHER_LAYOUT_SQUARES, ["float16"], ["TN", "TT"], ["none"])
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
    small = squares(range(128, 2049, 128), ["float32"], ["NN"], ["none"])
    return list(dict.fromkeys(float32_rectangles(180) + small + float32_layers()))


def preset_work(name: str, device: torch.device) -> list[Work]:
    """The work of a preset; see the head of this file."""
    with_providers = {"hopper": _hopper, "fp8": _fp8, "float32": _float32}
    if name in with_providers:
        return with_providers[name]()
    cases = {
        "demo": lambda: _demo(device),
        "portable": _portable,
        "sweep": _sweep,
        "random": _random,
        "float32_rows": _float32_rows,
    }[name]()
    return [Work(case) for case in cases]
