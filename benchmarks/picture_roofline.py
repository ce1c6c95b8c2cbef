"""The roofline: TFLOP/s over operations per byte, ours and the peers', below what the GPU can do at most."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bars_block_scaled import BLOCK_SCALED_FORMATS
from gpu_roofs import GPU_ROOFS, GpuRoofs
from picture import Picture, Roof, RoofPanel, Series, caption_of
from result_file import read_csv
from summary import Key, Times, read_times

SOURCES = ("matmul.csv", "fp8.csv", "block_scaled_matmul.csv", "portable.csv")

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
}


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
        (intensity(operands or key.dtype, key.m, key.n, key.k), 2e-6 * key.m * key.n * key.k / by[provider])
        for key, by in times.items()
        if provider in by and key.epilogue == "none" and among(key)
    )
    if not found:
        return []
    xs, ys = zip(*found, strict=True)
    return [Series(label, style, xs, ys, line="", hollow=hollow)]


def _dense(times: Times) -> list[Series]:
    def mine(key: Key) -> bool:
        return key.dtype == "bfloat16" and key.layout == "NT"

    words = {"tileon": "tileon", "torch": "torch (cuBLAS)"}
    triton = points(times, "Triton (NN)", "triton", "triton", lambda key: key.dtype == "bfloat16", hollow=True)
    ours_and_torch = [points(times, words[who], who, who, mine, hollow=who == "torch") for who in words]
    return [one for found in ours_and_torch for one in found] + triton


def _fp8(times: Times) -> list[Series]:
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


def _block_scaled(times: Times) -> list[Series]:
    series = []
    for place, name in enumerate(BLOCK_SCALED_FORMATS):

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


def _portable(times: Times) -> list[Series]:
    series = []
    for place, (name, words) in enumerate({"tf32": "TF32", "float32": "float32", "float64": "float64"}.items()):

        def mine(key: Key, name: str = name) -> bool:
            return key.dtype == name

        series += points(times, f"tileon, {words}", f"part{place}", "tileon", mine)
        series += points(times, f"torch, {words}", f"part{place}", "torch", mine, hollow=True)
    return series


_PANELS: tuple[tuple[str, str, Callable[[Times], list[Series]], tuple[str, ...]], ...] = (
    ("matmul.csv", "bfloat16: squares, and linear layers of 1 to 8192 rows", _dense, ("16-bit",)),
    ("fp8.csv", "fp8 (e4m3 x e4m3, float16 out): squares", _fp8, ("8-bit",)),
    ("block_scaled_matmul.csv", "block-scaled, normal data: 1 to 8192 rows", _block_scaled, ("16-bit", "8-bit")),
    ("portable.csv", "float32, TF32, float64: squares", _portable, ("float32", "tf32")),
)


def _roofs(known: GpuRoofs, names: tuple[str, ...]) -> tuple[Roof, ...]:
    found = []
    for name in names:
        roof = known.compute[name]
        found.append(Roof(f"{roof.peak:.0f} {_ROOF_WORDS[name]}", roof.peak, roof.sustained))
    return tuple(found)


def roofline_picture(results: Path) -> Picture | None:
    """Of whatever files of one GPU whose roofs are known are there."""
    heads, panels, gpu = {}, [], ""
    for name, title, series_of, names in _PANELS:
        source = results / name
        if not source.exists():
            continue
        head = read_csv(source)[0]
        known = GPU_ROOFS.get(head.get("gpu", ""))
        series = series_of(read_times(source, "normal" if "block_scaled" in name else None)[1])
        if known is None or not series:
            continue
        gpu, heads[name] = head["gpu"], head
        panels.append(RoofPanel(title, known.read_tb_s, _roofs(known, names), tuple(series)))
    if not panels:
        return None
    notes = [
        GPU_ROOFS[gpu].source,
        "Bytes: operands, scales and result once. Operands start outside L2. Under some 10 us a call is bound by its "
        "launch, which no roof knows. Block-scaled: up to 64 rows by CUDA-graph replay; cuBLAS reads bfloat16 "
        "operands, at their intensity.",
    ]
    return Picture(
        "roofline",
        f"Roofline, {gpu}: TFLOP/s over arithmetic intensity",
        caption_of(heads, notes),
        tuple(panels),
        tuple(tuple(range(at, min(at + 2, len(panels)))) for at in range(0, len(panels), 2)),
        (3.4,) * -(-len(panels) // 2),
    )
