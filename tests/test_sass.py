"""What the compiler made of the kernels: the instructions that must be there, and none that must not."""

from __future__ import annotations

import functools
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess

import pytest
import torch
from operands import config_rows

LIBRARY = pathlib.Path(__file__).resolve().parent.parent / "tileon_ops" / "_C.so"
IMAGE = "sm_90"

# The family of a row, as its enumerator appears in a mangled name; config.h.
MMA, GATHER, SIMT, DMMA = "0", "1", "2", "3"
FAMILIES = {"_gather_": GATHER, "_simt_": SIMT, "_dmma_": DMMA, "_mma_": MMA}  # by a word of the row's name, in order
DTYPE_IN_NAME = {"float16": "6__half", "bfloat16": "13__nv_bfloat16", "tf32": "f", "float32": "f", "float64": "d"}


def cuobjdump() -> str | None:
    candidates = [
        os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin", "cuobjdump"),
        shutil.which("cuobjdump"),
    ]
    triton = importlib.util.find_spec("triton")
    if triton is not None and triton.origin is not None:  # the triton wheel brings its own
        candidates.append(str(pathlib.Path(triton.origin).parent / "backends" / "nvidia" / "bin" / "cuobjdump"))
    return next((path for path in candidates if path and os.access(path, os.X_OK)), None)


@functools.cache
def kernels() -> dict[str, str]:
    """SASS by mangled name of every kernel in the library's image for IMAGE."""
    tool = cuobjdump()
    assert tool is not None
    dump = subprocess.run([tool, "-sass", "-arch", IMAGE, str(LIBRARY)], capture_output=True, text=True, timeout=600)
    assert dump.returncode == 0, dump.stderr
    pieces = re.split(r"^\s*Function\s*:\s*(\S+)\s*$", dump.stdout, flags=re.MULTILINE)
    return {name: body for name, body in zip(pieces[1::2], pieces[2::2], strict=True) if "tileon" in name}


def instructions(body: str) -> set[str]:
    """The opcodes of a kernel, with their modifiers: HMMA.16816.F32.BF16, LDGSTS.E.BYPASS.128, ..."""
    return set(re.findall(r"^\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)", body, flags=re.MULTILINE))


def opcodes(body: str) -> set[str]:
    return {instruction.split(".")[0] for instruction in instructions(body)}


def family(name: str) -> str | None:
    match = re.search(r"6FamilyE(\d)E", name)
    return match[1] if match else None


needs_sass = pytest.mark.skipif(
    not torch.ops.tileon._matmul_configs().strip() or cuobjdump() is None,
    reason="CPU-only build or no cuobjdump: no SASS to read",
)


def test_the_parser_reads_opcodes() -> None:
    """On a line of each form that cuobjdump prints."""
    body = """
        /*0000*/                   LDC R1, c[0x0][0x28] ;                   /* 0x00000a00ff017b82 */
                                                                            /* 0x000fe20000000a00 */
        /*0010*/              @!P0 LDGSTS.E.BYPASS.128 [R2], desc[UR4][R4.64] ;  /* 0x1 */
        /*0020*/               @P1 STL.64 [R1], R4 ;   /* 0x2 */
        /*0030*/              @UP0 UMOV UR4, 0x1 ;   /* 0x3 */
    """
    assert opcodes(body) == {"LDC", "LDGSTS", "STL", "UMOV"}


@needs_sass
class TestKernels:
    def test_there_is_an_image(self) -> None:
        assert len(kernels()) >= len(config_rows())

    def test_no_kernel_uses_local_memory(self) -> None:
        for name, body in kernels().items():
            assert not opcodes(body) & {"LDL", "STL"}, f"{name} spills or has an array in local memory"

    def test_no_kernel_calls_a_function(self) -> None:
        """A call means that something was not inlined. The slow path of a division is a relative call, and fine."""
        for name, body in kernels().items():
            if family(name) in (MMA, GATHER):
                assert not any(i.startswith("CALL.ABS") for i in instructions(body)), name

    @pytest.mark.parametrize(("index", "row", "kinds"), config_rows(), ids=[row for _, row, _ in config_rows()] or None)
    def test_every_row_has_its_kernels_for_every_dtype(self, index: int, row: str, kinds: tuple[str, ...]) -> None:
        tile = re.search(r"(\d+)x(\d+)x(\d+)", row)
        assert tile is not None
        sizes = "".join(f"Li{size}E" for size in tile.groups())
        word = next(word for word in FAMILIES if word in row)
        wanted_family = FAMILIES[word]
        same_tile = [name for name in kernels() if sizes in name and family(name) == wanted_family]
        assert same_tile, f"no kernel of {row}"
        if wanted_family in (MMA, GATHER):  # the other families are for one dtype each, and do not name it
            for kind in kinds:
                assert any(DTYPE_IN_NAME[kind] in name for name in same_tile), f"no kernel of {row} for {kind}"

    def test_tensor_core_kernels_hold_their_instructions(self) -> None:
        found = {name: body for name, body in kernels().items() if family(name) == MMA}
        assert found
        for name, body in found.items():
            assert {"HMMA", "LDGSTS"} <= opcodes(body), name
            assert any(re.match(r"LDGSTS\.E\.BYPASS.*\.128", i) for i in instructions(body)), (
                f"{name}: not 16 bytes at a time, past L1"
            )
            if "6__half" in name or "13__nv_bfloat16" in name:
                assert "LDSM" in opcodes(body), name
                assert any(i.startswith("HMMA.16816.F32") for i in instructions(body)), name
            else:
                assert any("TF32" in i for i in instructions(body)), name

    def test_gather_kernels_use_tensor_cores(self) -> None:
        found = [body for name, body in kernels().items() if family(name) == GATHER]
        assert found
        assert all("HMMA" in opcodes(body) for body in found)

    def test_simt_kernels_are_ieee(self) -> None:
        found = {name: body for name, body in kernels().items() if family(name) == SIMT}
        assert found
        for name, body in found.items():
            assert "FFMA" in opcodes(body), name
            assert "HMMA" not in opcodes(body), name
            assert not any(i.startswith("FFMA.FTZ") for i in instructions(body)), f"{name} flushes subnormal numbers"

    def test_float64_kernels_use_tensor_cores(self) -> None:
        found = {name: body for name, body in kernels().items() if family(name) == DMMA}
        assert found
        for name, body in found.items():
            assert "DMMA" in opcodes(body), name
