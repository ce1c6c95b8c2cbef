"""The library's machine code, disassembled: once for each library, which takes half a minute of every core."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import importlib.util
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIBRARY = ROOT / "tileon_ops" / "_C.so"
KEPT = ROOT / "build" / "sass"
PORTABLE, HOPPER = "sm_90", "sm_90a"  # the images that are read
ADA = "sm_89"  # and of this one the fp8 kernels: it has the instructions that ptxas makes conversions of on sm_90
OPCODE = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Za-z0-9_.]*)", re.MULTILINE)
UPPER_WORD = re.compile(r"\s*/\* 0x([0-9a-f]{16}) \*/\s*")

Images = dict[str, dict[str, str]]  # of an architecture, by a kernel's mangled name: its instructions


def cuobjdump() -> str | None:
    candidates = [
        os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin", "cuobjdump"),
        shutil.which("cuobjdump"),
    ]
    triton = importlib.util.find_spec("triton")
    if triton is not None and triton.origin is not None:  # the triton wheel brings its own
        candidates.append(str(pathlib.Path(triton.origin).parent / "backends" / "nvidia" / "bin" / "cuobjdump"))
    return next((path for path in candidates if path and os.access(path, os.X_OK)), None)


def run_tool(*arguments: str, **options: object) -> str:
    tool = cuobjdump()
    assert tool is not None
    dump = subprocess.run([tool, *arguments], capture_output=True, text=True, timeout=600, **options)  # type: ignore[call-overload]
    assert dump.returncode == 0, dump.stderr
    return str(dump.stdout)


def disassembled() -> Images:
    """The library's images side by side: there is one for each source file."""
    with tempfile.TemporaryDirectory() as folder:
        run_tool("-xelf", "all", str(LIBRARY), cwd=folder)
        found = {path: path.name.split(".")[-2] for path in sorted(pathlib.Path(folder).glob("*.cubin"))}
        wanted = [
            path
            for path, architecture in found.items()
            if architecture in (PORTABLE, HOPPER) or (architecture == ADA and b"__nv_fp8" in path.read_bytes())
        ]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            dumps = list(pool.map(lambda path: run_tool("-sass", str(path)), wanted))
    result: Images = {}
    for path, dump in zip(wanted, dumps, strict=True):
        result.setdefault(found[path], {}).update(kernels_of(dump))
    return result


def kernels_of(dump: str) -> dict[str, str]:
    pieces = re.split(r"^\s*Function\s*:\s*(\S+)\s*$", dump, flags=re.MULTILINE)
    return {name: without_code(body) for name, body in zip(pieces[1::2], pieces[2::2], strict=True) if "tileon" in name}


def without_code(body: str) -> str:
    """A line for each instruction: up to its semicolon, and behind that its control bits (sass_schedule.py). The other
    bits are three quarters of the text."""
    lines = body.splitlines()
    return "\n".join(
        f"{line[: line.index(';') + 1]} {control_bits(behind):x}"
        for line, behind in itertools.pairwise([*lines, ""])
        if ";" in line
    )


def control_bits(line: str) -> int:
    """Bits 105 to 125 of an instruction: of its upper word, which stands in the line behind its own."""
    word = UPPER_WORD.fullmatch(line)
    assert word is not None, line
    return int(word[1], 16) >> 41 & 0x1FFFFF


@functools.cache
def images() -> Images:
    """SASS of every kernel, for each architecture that the library has an image for and that is read.

    Kept in build/ for the other files that read it and for later runs, under a checksum of what it comes from.
    """
    source = hashlib.sha256(LIBRARY.read_bytes() + pathlib.Path(__file__).read_bytes())
    source.update(run_tool("--version").encode())
    kept = KEPT / f"{source.hexdigest()[:16]}.json"
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a process disassembles, others wait
        if not kept.exists():
            for other in KEPT.glob("*.json"):
                other.unlink()
            partial = kept.with_suffix(".partial")
            partial.write_text(json.dumps(disassembled()))
            partial.rename(kept)
        found: Images = json.loads(kept.read_text())
    return found


@functools.cache
def instructions(body: str) -> frozenset[str]:
    """The opcodes of a kernel, with their modifiers: HMMA.16816.F32.BF16, LDGSTS.E.BYPASS.128, ..."""
    return frozenset(OPCODE.findall(body))


@functools.cache
def opcodes(body: str) -> frozenset[str]:
    return frozenset(instruction.split(".")[0] for instruction in instructions(body))
