"""Writes the measured parts of README.md from the committed results: `python benchmarks/readme_tables.py`.

What stands between `<!-- begin: NAME -->` and `<!-- end: NAME -->` in README.md is replaced. Where a result file is
missing, its part is left out. `--check` changes nothing and exits with 1 where README.md is not what the results say.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from commit import ROOT
from readme_block_scaled import block_scaled_part
from readme_format import link, source_line, table
from readme_fp8 import fp8_part
from readme_matmul import peers_part
from readme_training import layer_part, parallel_part
from result_file import read_csv

RESULTS = ROOT / "benchmarks" / "results" / "h200"
README = ROOT / "README.md"
SIZE = "4096"  # m = n = k of the table

_DTYPE_ORDER = ("bfloat16", "float16", "float32", "tf32", "float64")
_DTYPE_WORDS = {"tf32": "float32, TF32 allowed"}
_STATE_WORDS = {
    "inference_mode": "`torch.inference_mode`",
    "grad_unneeded": "grad mode, nothing requires a gradient",
    "grad_recorded": "a gradient is recorded",
}


def plot_part(results: Path) -> list[str]:
    """The picture of matmul.csv, or while there is none that of portable.csv."""
    for name, what in (("matmul", "float16 and bfloat16 against torch and Triton"), ("portable", "by dtype")):
        picture, source = results / f"{name}.png", results / f"{name}.csv"
        if picture.exists() and source.exists():
            head, _ = read_csv(source)
            return [f"![Rate over size on one {head['gpu']}, {what}]({link(picture)})"]
    return []


def speed_part(results: Path) -> list[str]:
    """TFLOP/s at 4096 x 4096 x 4096, NN, by dtype and epilogue; of float16 and bfloat16 matmul.csv says more."""
    source = results / "portable.csv"
    if not source.exists():
        return []
    head, rows = read_csv(source)
    if (results / "matmul.csv").exists():
        rows = [row for row in rows if row["dtype"] not in ("float16", "bfloat16")]
    rates: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows:
        if row["layout"] == "NN" and row["m"] == row["n"] == row["k"] == SIZE:
            rates.setdefault((row["dtype"], row["epilogue"]), {})[row["provider"]] = float(row["tflops"])
    lines = []
    for dtype, epilogue in sorted(rates, key=lambda key: _DTYPE_ORDER.index(key[0])):  # stable: epilogues as measured
        rate = rates[dtype, epilogue]
        cells = [f"{rate[name]:.1f}" if name in rate else "" for name in ("tileon", "torch", "triton")]
        ratio = f"{rate['tileon'] / rate['torch']:.2f}" if {"tileon", "torch"} <= rate.keys() else ""
        lines.append([_DTYPE_WORDS.get(dtype, dtype), f"`{epilogue}`", *cells, ratio])
    columns = ["dtype", "epilogue", "tileon", "torch", "triton", "tileon / torch"]
    return [
        f"By the portable kernels, TFLOP/s at m = n = k = {SIZE}, NN, {head.get('timing', '')}:",
        "",
        *table(columns, lines, 2),
        "",
        source_line(source, head),
    ]


def accuracy_part(results: Path) -> list[str]:
    """Errors of the float32 product against float64."""
    source = results / "accuracy.csv"
    if not source.exists():
        return []
    head, rows = read_csv(source)
    found: dict[str, dict[str, dict[str, str]]] = {}
    for row in rows:
        if row["dtype"] == "float32":
            found.setdefault(f"{row['m']} x {row['n']} x {row['k']}", {})[row["provider"]] = row
    lines = [
        [shape, *(by[name][error] for error in ("max_error", "rms_error") for name in ("tileon", "torch"))]
        for shape, by in found.items()
        if {"tileon", "torch"} <= by.keys()
    ]
    columns = ["m x n x k", "tileon, max", "torch, max", "tileon, rms", "torch, rms"]
    return [
        "Error of the float32 product (no TF32) against float64:",
        "",
        *table(columns, lines, 1),
        "",
        source_line(source, head),
    ]


def host_part(results: Path) -> list[str]:
    """Host time of one eager call."""
    source = results / "host.csv"
    if not source.exists():
        return []
    head, rows = read_csv(source)
    times: dict[str, dict[str, str]] = {}
    for row in rows:
        times.setdefault(row["state"], {})[row["provider"]] = f"{float(row['median_us']):.1f}"
    providers = {"tileon": "torch.ops.tileon.matmul", "tileon_python": "tileon_ops.matmul", "torch": "torch.matmul"}
    lines = [[_STATE_WORDS.get(state, state), *(by.get(name, "") for name in providers)] for state, by in times.items()]
    return [
        f"Microseconds of host time for one eager call ({head.get('timing', '')}):",
        "",
        *table(["state", *(f"`{name}`" for name in providers.values())], lines, 1),
        "",
        source_line(source, head),
    ]


def proven_part(results: Path) -> list[str]:
    """What the suite and the sanitizers said on the GPU, in their own words."""
    tests, sanitizers = results / "tests.txt", results / "sanitizer.txt"
    if not tests.exists() or not sanitizers.exists():
        return []
    head, _ = read_csv(tests)
    counts = re.findall(r"^=* ?(\d+ (?:passed|failed).*?) in [\d.]+s", tests.read_text(), re.MULTILINE)
    verdicts = re.findall(r"^(memcheck|racecheck|synccheck): (.+), \d+ s$", sanitizers.read_text(), re.MULTILINE)
    said = "; ".join(f"{tool} {verdict}" for tool, verdict in verdicts)
    sentence = (
        f"On the {head['gpu']} (driver {head['driver']}, torch {head['torch']}, commit `{head['commit'][:12]}`): "
        f"{counts[-1] if counts else 'no counts'} ([tests.txt]({link(tests)})); over the reduced set for "
        f"compute-sanitizer: {said} ([sanitizer.txt]({link(sanitizers)}))."
    )
    return [sentence]


def numbers_part(results: Path) -> list[str]:
    """The whole section, or nothing while there is no result."""
    makers = (peers_part, fp8_part, speed_part, accuracy_part, layer_part, parallel_part, host_part)
    parts = [part for part in (make(results) for make in makers) if part]
    if not parts:
        return []
    lines = [
        "## Measured",
        "",
        "`make evidence` makes these figures again, and `python benchmarks/readme_tables.py` writes them here;",
        "each names what it was measured with.",
        "",
    ]
    for part in parts:
        lines += [*part, ""]
    return lines[:-1]


_PARTS = {"plot": plot_part, "proven": proven_part, "numbers": numbers_part, "block_scaled": block_scaled_part}


def filled(text: str, results: Path) -> str:
    """README's text with every part replaced.

    Raises:
        ValueError: where a part's marks are missing.
    """
    for name, part in _PARTS.items():
        lines = part(results)
        begin, end = f"<!-- begin: {name} -->", f"<!-- end: {name} -->"
        pattern = re.compile(re.escape(begin) + r"\n.*?" + re.escape(end), re.DOTALL)
        if len(pattern.findall(text)) != 1:
            raise ValueError(f"README.md must hold {begin} and {end} once, each on a line of its own")
        body = "\n".join([begin, *lines, end])
        text = pattern.sub(body.replace("\\", r"\\"), text)
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only say whether README.md is up to date")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the result files")
    arguments = parser.parse_args()
    before = README.read_text()
    after = filled(before, arguments.results.resolve())
    if after == before:
        return 0
    if arguments.check:
        print("README.md does not say what benchmarks/results says: run `python benchmarks/readme_tables.py`")
        return 1
    README.write_text(after)
    print("README.md: the measured parts were written anew")
    return 0


if __name__ == "__main__":
    sys.exit(main())
