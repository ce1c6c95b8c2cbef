"""The roofline: TFLOP/s over operations per byte, ours and the peers', below what the GPU can do at most."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common.gpu_roofs import GPU_ROOFS, GpuRoofs
from benchmarks.common.picture import Picture, Roof, RoofPanel, Series, caption_of
from benchmarks.common.result_file import read_csv
from benchmarks.common.times import Key, Times, read_times
from benchmarks.subjects.block_scaled_rows import FORMATS

SOURCES = ("matmul.csv", "fp8.csv", "block_scaled_matmul.csv", "float32.csv", "portable.csv")

# Bytes of an element of a, of b and of the result; of a block-scaled format the scales' share is in a's and b's.
ELEMENT_BYTES: dict[str, tuple[float, float, float]] = {
    "float16": (2, 2, 2),
    "bfloat16": (2, 2, 2),
    "float32": (4, 4, 4),
    "tf32": (4, 4, 4),
    "float64": (8, 8, 8),
    "e4m3": (1, 1, 2),
    "mxfp8": (1 + 1 / 32, 1 + 1 / 32, 2),
    "mxfp4": (1 / 2 + 1 / 32, 1 / 2 + 1 / 32, 2),
    "mixed": (1 + 1 / 32, 1 / 2 + 1 / 32, 2),
    "nvfp4": (1 / 2 + 1 / 16, 1 / 2 + 1 / 16, 2),
}
_ROOF_WORDS = {
    "16-bit": "16-bit",
    "8-bit": "fp8, int8",
    "tf32": "TF32",
    "float32": "fp32, fp64",
    "bf16x6": "fp32 as bf16x6",
}
_SPLIT_PRODUCTS = 6  # of bfloat16 for each of float32: docs/float32_on_hopper.md


def intensity(dtype: str, m: int, n: int, k: int) -> float:
    """Operations per byte where operands, scales and result each cross the memory bus once."""
    a, b, out = ELEMENT_BYTES[dtype]
    return 2 * m * n * k / (m * k * a + n * k * b + m * n * out)


def points(
    times: Times,
    label: str,
    style: str,
    provider: str,
    among: Callable[[Key], bool],
    *,
    operands: str = "",
    hollow: bool = False,
) -> list[Series]:
    """The provider's cases as a series, or nothing where it has none. `operands`: the dtype it reads, if another."""
    found = sorted(
        (intensity(operands or key.dtype, key.m, key.n, key.k), key.tflops(by[provider]))
        for key, by in times.items()
        if provider in by and key.epilogue == "none" and among(key)
    )
    if not found:
        return []
    xs, ys = zip(*found, strict=True)
    return [Series(label, style, xs, ys, line="", hollow=hollow)]


def _dense(source: Path) -> list[Series]:
    times = read_times(source)[1]

    def mine(key: Key) -> bool:
        return key.dtype == "bfloat16" and key.layout == "NT"

    words = {"tileon": "tileon", "torch": "torch (cuBLAS)"}
    triton = points(times, "Triton (NN)", "triton", "triton", lambda key: key.dtype == "bfloat16", hollow=True)
    ours_and_torch = [points(times, words[who], who, who, mine, hollow=who == "torch") for who in words]
    return [one for found in ours_and_torch for one in found] + triton


def _fp8(source: Path) -> list[Series]:
    times = read_times(source)[1]
    words = {
        "tileon": "tileon, precise",
        "tileon_fast": "tileon, fast_accum",
        "torch": "torch._scaled_mm, precise",
        "torch_fast": "torch._scaled_mm, fast",
    }
    series = []
    for who, label in words.items():
        series += points(times, label, who, who, lambda key: key.dtype == "e4m3", hollow=who.startswith("torch"))
    return series


def _block_scaled(source: Path) -> list[Series]:
    times, series = read_times(source, "normal")[1], []
    for place, name in enumerate(FORMATS):

        def mine(key: Key, name: str = name) -> bool:
            return key.dtype == name

        merged: Times = {
            key: {"tileon": by.get("tileon_graph", by.get("tileon", 0.0))}
            for key, by in times.items()
            if {"tileon", "tileon_graph"} & by.keys()
        }
        series += points(merged, f"tileon, {name}", f"part{place}", "tileon", mine)
    bf16: Times = {
        key: {"torch_bf16": by.get("torch_bf16_graph", by.get("torch_bf16", 0.0))}
        for key, by in times.items()
        if {"torch_bf16", "torch_bf16_graph"} & by.keys() and key.dtype == "mxfp4"
    }
    return series + points(bf16, "cuBLAS, bfloat16", "torch_bf16", "torch_bf16", lambda _: True, operands="bfloat16")


def _against_torch(source: Path, name: str, words: str, style: str, *, how: str = "") -> list[Series]:
    """Ours and torch's on squares NN of a dtype; `how` says by what ours is, if not by the library's choice."""
    times = read_times(source)[1]

    def mine(key: Key) -> bool:
        return (key.dtype, key.layout) == (name, "NN") and key.is_square

    ours = points(times, f"tileon, {words}{how}", style, "tileon", mine)
    return ours + points(times, f"torch, {words}", style, "torch", mine, hollow=True)


def _float32(source: Path) -> list[Series]:
    """By the kernels that the library chooses: those of bfloat16 triples but for small squares."""
    return _against_torch(source, "float32", "float32", "part1")


def _portable(source: Path) -> list[Series]:
    """Without float32, where float32.csv has it: on a GPU with kernels for it these are not what a call takes."""
    series = _against_torch(source, "tf32", "TF32", "part0")
    if not source.with_name("float32.csv").exists():
        series += _against_torch(source, "float32", "float32", "part1", how=", portable kernels")
    return series + _against_torch(source, "float64", "float64", "part2")


@dataclass(frozen=True)
class _Panel:
    """A panel's title, and its files, each with what makes its series and the names of the roofs above these."""

    title: str
    files: dict[str, tuple[Callable[[Path], list[Series]], tuple[str, ...]]]


_PANELS = (
    _Panel("bfloat16, NT: squares, and linear layers of 1 to 8192 rows", {"matmul.csv": (_dense, ("16-bit",))}),
    _Panel("fp8 (e4m3 x e4m3, float16 out), NT: squares", {"fp8.csv": (_fp8, ("8-bit",))}),
    _Panel(
        "block-scaled, normal data: 1 to 8192 rows",
        {"block_scaled_matmul.csv": (_block_scaled, ("16-bit", "8-bit"))},
    ),
    _Panel(
        "float32, TF32, float64, NN: squares",
        {"float32.csv": (_float32, ("float32", "bf16x6")), "portable.csv": (_portable, ("float32", "tf32"))},
    ),
)


def _roof(known: GpuRoofs, name: str) -> Roof:
    if name != "bf16x6":
        roof = known.compute[name]
        return Roof(f"{roof.peak:.0f} {_ROOF_WORDS[name]}", roof.peak, roof.sustained)
    whole = known.compute["16-bit"]
    peak = whole.peak / _SPLIT_PRODUCTS
    sustained = whole.sustained / _SPLIT_PRODUCTS if whole.sustained else None
    return Roof(f"{peak:.0f} {_ROOF_WORDS[name]}", peak, sustained)


def figure(results: Path) -> Picture | None:
    """Of whatever files of one GPU whose roofs are known are there."""
    heads, panels, gpu = {}, [], ""
    for panel in _PANELS:
        series: list[Series] = []
        roofs: dict[str, Roof] = {}
        for name, (series_of, roof_names) in panel.files.items():
            source = results / name
            head = read_csv(source)[0] if source.exists() else {}
            found = series_of(source) if head.get("gpu", "") in GPU_ROOFS else []
            if found:
                gpu, heads[name] = head["gpu"], head
                series += found
                roofs |= {roof: _roof(GPU_ROOFS[gpu], roof) for roof in roof_names}
        if series:
            panels.append(RoofPanel(panel.title, GPU_ROOFS[gpu].read_tb_s, tuple(roofs.values()), tuple(series)))
    if not panels:
        return None
    notes = [
        GPU_ROOFS[gpu].source,
        "Bytes: operands, scales and result once. Operands start outside L2. Under some 10 us a call is bound by its "
        "launch, which no roof knows. Block-scaled: up to 64 rows by CUDA-graph replay; cuBLAS reads bfloat16 "
        "operands, at their intensity. float32, without TF32: by the kernels that the library chooses, which but for "
        "small squares multiply it as six products of bfloat16, so that a sixth of the 16-bit roof is above it.",
    ]
    return Picture(
        "roofline",
        f"Roofline, {gpu}: TFLOP/s over arithmetic intensity",
        caption_of(heads, notes),
        tuple(panels),
        tuple(tuple(range(at, min(at + 2, len(panels)))) for at in range(0, len(panels), 2)),
        (3.4,) * -(-len(panels) // 2),
    )
