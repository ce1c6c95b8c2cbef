"""The files under benchmarks/results: a head of `# key: value` lines, then a CSV (or a log)."""

from __future__ import annotations

import csv
import lzma
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Generic, TypeVar

from benchmarks.common.commit import ROOT, commit

RESULTS = ROOT / "benchmarks" / "results" / "h200"  # what the pages show


def gpu_name(field: str = "name") -> str:
    """The name of the GPU that torch uses by default, or another field of nvidia-smi's answer, or `none`. Makes no CUDA
    context."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    if shutil.which("nvidia-smi") is None or visible in ("", "-1"):  # hidden from torch
        return "none"
    command = ["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader", f"--id={visible}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return "none"
    return done.stdout.strip() or "none"


def _cpu_name() -> str:
    cpus = Path("/proc/cpuinfo")
    model = re.search(r"^model name\s*:\s*(.*)$", cpus.read_text() if cpus.exists() else "", re.MULTILINE)
    return f"{model[1] if model else platform.machine()}, {os.cpu_count()} threads"


def _version(module: str) -> str:
    try:
        return str(__import__(module).__version__)
    except Exception:  # a broken installation of a peer is no reason to have no results
        return "none"


def _build_line() -> str:
    """What the library says of its own build, on one line."""
    try:
        import torch

        import tileon_ops  # noqa: F401

        return "; ".join(torch.ops.tileon._build_info().splitlines())
    except Exception as error:  # the suite's log is worth having just when the library does not load
        return f"not loaded ({type(error).__name__})"


def portable_path(path: str | Path) -> str:
    """The path as seen from the top of the tree; of a path outside it the last part alone."""
    resolved = Path(path).resolve()
    return str(resolved.relative_to(ROOT)) if resolved.is_relative_to(ROOT) else resolved.name


def portable_command(arguments: Sequence[str]) -> str:
    """A command line as a reader would type it at the top of the tree, without this machine's paths."""
    words = ["python" if word == sys.executable else word for word in arguments]
    parts = (word.rpartition("=") for word in words)  # of --csv=/tmp/a.csv the value
    return shlex.join("".join((*parts, portable_path(path) if path[:1] == "/" else path)) for *parts, path in parts)


_SWITCHES = ("TILEON_HOPPER", "TILEON_PDL")  # of the environment, that change which kernels run or how


def own_command() -> str:
    """The running script's command line, portable, behind the switches that are set."""
    switches = "".join(f"{name}={os.environ[name]} " for name in _SWITCHES if name in os.environ)
    script = Path(portable_path(sys.argv[0]))
    # benchmarks/matmul.py is a command by its path; what lies deeper is run as a module.
    words = [str(script)] if len(script.parts) < 3 else ["-m", ".".join(script.with_suffix("").parts)]
    return switches + portable_command([sys.executable, *words, *sys.argv[1:]])


def header(command: str | None = None, extra: Mapping[str, str] | None = None) -> str:
    """The `# key: value` lines, each ended by a newline. `command` is the running script's unless given."""
    import torch

    gpu = gpu_name()
    fields = {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": commit(),
        "gpu": gpu,
        "driver": gpu_name("driver_version"),
        "torch": torch.__version__,
        "cuda": torch.version.cuda or "none",
        "command": command or own_command(),
        "triton": _version("triton"),
        "python": platform.python_version(),
        "tileon": _build_line(),
        **({"cpu": _cpu_name()} if gpu == "none" else {}),
        **(extra or {}),
    }
    return "".join(f"# {key}: {value}\n" for key, value in fields.items())


class CsvWriter:
    """Writes head and rows as they come, so that a run that is cut short leaves what it measured.

    With path None it writes nothing. `written` has columns and rows, for the terminal.
    """

    def __init__(self, path: Path | None, columns: Sequence[str], extra: Mapping[str, str] | None = None) -> None:
        self._path = path
        self.written: list[list[str]] = []
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(header(extra=extra))
        self.write(columns)

    def write(self, row: Iterable[object]) -> None:
        self.written.append([str(cell) for cell in row])
        if self._path is not None:
            with self._path.open("a", newline="") as file:
                csv.writer(file, lineterminator="\n").writerow(self.written[-1])


def read_csv(path: Path) -> tuple[dict[str, str], list[dict[str, str]]]:
    """The head as a dict, and the rows by column. A file whose name ends with .xz is read as what it holds."""
    head: dict[str, str] = {}
    lines = []
    text = lzma.decompress(path.read_bytes()).decode() if path.suffix == ".xz" else path.read_text()
    for line in text.splitlines():
        if line.startswith("# "):
            key, _, value = line[2:].partition(": ")
            head[key] = value
        elif line:
            lines.append(line)
    return head, list(csv.DictReader(lines))


T = TypeVar("T")


@dataclass(frozen=True)
class OfFile(Generic[T]):
    """A function of a result file, called with the results folder: nothing while there is no such file."""

    name: str
    make: Callable[[Path], list[T]]

    def __call__(self, results: Path) -> list[T]:
        return self.make(results / self.name) if (results / self.name).exists() else []


def of_file(name: str) -> Callable[[Callable[[Path], list[T]]], OfFile[T]]:
    return lambda make: OfFile(name, make)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """A table for the terminal: the first row is the head, columns padded to their widest entry."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
