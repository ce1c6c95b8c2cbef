"""Of Hopper's machine code: that nothing touches the sums of products that are still under way."""

from __future__ import annotations

import re

import pytest
from test_sass import HOPPER, HOPPER_ROWS, ROWS, kernels, needs_sass

_LINE = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Za-z0-9_.]*)\s*([^;]*);", re.MULTILINE)


def touching_sums_under_way(body: str) -> list[str]:
    """Instructions that read or write registers which wgmma's sums are still on their way to, in the order of the code.

    A product with gsb0 closes a group, and DEPBAR waits until no more than so many groups are left. The compiler keeps
    copies of registers wherever it likes, unless told: such a copy is of numbers that are not there yet.
    """
    groups: list[set[int]] = []
    group: set[int] = set()
    under_way: set[str] = set()
    found = []
    for opcode, arguments in _LINE.findall(body):
        if "GMMA." in opcode:
            columns, first = re.search(r"\.64x(\d+)x", opcode), re.match(r"R(\d+)", arguments)
            assert columns is not None
            assert first is not None
            group |= set(range(int(first[1]), int(first[1]) + int(columns[1]) // 2))
            if "gsb0" in arguments:
                groups.append(group)
                group = set()
        elif opcode == "WARPGROUP.DEPBAR.LE":
            left = re.search(r"gsb0, 0x([0-9a-f]+)", arguments)
            assert left is not None
            groups = groups[max(0, len(groups) - int(left[1], 16)) :]
        elif opcode == "EXIT":
            groups, group = [], set()
        else:
            if under_way and not under_way.isdisjoint(re.findall(r"\bR\d+\b", arguments)):
                found.append(f"{opcode} {arguments.strip()}")
            continue
        under_way = {f"R{number}" for number in group.union(*groups)}
    return found


def test_the_parser_follows_sums() -> None:
    body = """
        /*0000*/                   HGMMA.64x8x16.F32.BF16 R24, gdesc[UR8], RZ, !UPT, gsb0 ;
        /*0010*/                   HGMMA.64x8x16.F32.BF16 R28, gdesc[UR8], R28, gsb0 ;
        /*0020*/                   IMAD.MOV.U32 R2, RZ, RZ, R27 ;
        /*0030*/                   WARPGROUP.DEPBAR.LE gsb0, 0x1 ;
        /*0040*/                   FADD R3, R3, R24 ;
        /*0050*/              @!P0 MOV R28, RZ ;
        /*0060*/                   WARPGROUP.DEPBAR.LE gsb0, 0x0 ;
        /*0070*/                   FADD R3, R3, R28 ;
    """
    assert touching_sums_under_way(body) == ["IMAD.MOV.U32 R2, RZ, RZ, R27", "MOV R28, RZ"]


@needs_sass
@pytest.mark.skipif(bool(ROWS) and not HOPPER_ROWS, reason="this library has no Hopper kernels")
def test_no_instruction_touches_sums_under_way() -> None:
    for name, body in kernels(HOPPER).items():
        assert not touching_sums_under_way(body), f"{name}: {touching_sums_under_way(body)[:3]}"
