"""Of Hopper's machine code: nothing touches registers that products still under way write or read."""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Iterator
from itertools import zip_longest
from typing import NamedTuple

import pytest
from test_sass import (
    CLASSIFIES,
    DIRECT_WEIGHT,
    FOLDED,
    HOPPER,
    HOPPER_ROWS,
    PREPARES,
    ROWS,
    SMALL_M,
    SPLITS,
    WEIGHT,
    WEIGHT_BLOCKS,
    WEIGHT_MXFP8,
    WEIGHT_ROWS,
    kernels,
    needs_sass,
    of_row,
)

from tileon_ops._rules.configs import block_scaled

_LINE = re.compile(
    r"^\s*/\*([0-9a-f]+)\*/\s+(@!?U?P\w+\s+)?([A-Z][A-Za-z0-9_.]*)\s*([^;]*);",
    re.MULTILINE,
)
_REGISTER = re.compile(r"\bR(\d+)\b")
_PRODUCT = re.compile(r"\.64x(\d+)x")
# wgmma's operands: the sums, the rows of a where they come from registers, and the rest
_OPERANDS = re.compile(r"R(\d+), (?:R(\d+), )?gdesc\[")
_WRITTEN = re.compile(r"(?:!?U?P(?:\d|T), )*R(\d+)\b")  # the first operand but for predicates
_WRITES_NONE = re.compile(r".*SETP|FCHK|BAR|BRX|RET|WARPSYNC|NANOSLEEP")  # of those whose operands may begin so
_TARGET = re.compile(r"0x([0-9a-f]+)\s*$")

OPERAND_REGISTERS = 4  # of a thread: its part of 64 rows of 32 bytes
MOST_GROUPS = 8  # that are told apart; no wait leaves as many


class Instruction(NamedTuple):
    address: int
    guarded: bool  # executed where a predicate says so
    opcode: str
    arguments: str

    @property
    def is_product(self) -> bool:
        return "GMMA." in self.opcode

    def __str__(self) -> str:
        return f"{self.opcode} {self.arguments}".strip()


class Group(NamedTuple):
    """Registers of products that are waited for together."""

    sums: frozenset[int] = frozenset()
    operands: frozenset[int] = frozenset()

    def __or__(self, other: Group) -> Group:
        return Group(self.sums | other.sums, self.operands | other.operands)


# The groups that may be under way at an instruction, the newest last; the very last one is not closed yet.
UnderWay = tuple[Group, ...]
NOTHING: UnderWay = (Group(),)


def parsed(body: str) -> list[Instruction]:
    return [
        Instruction(int(address, 16), bool(guard), opcode, arguments.strip())
        for address, guard, opcode, arguments in _LINE.findall(body)
    ]


def registers_of(product: Instruction) -> Group:
    columns, operands = _PRODUCT.search(product.opcode), _OPERANDS.match(product.arguments)
    assert columns is not None, product
    assert operands is not None, product
    first, count = int(operands[1]), int(columns[1]) // 2
    from_registers = range(int(operands[2]), int(operands[2]) + OPERAND_REGISTERS) if operands[2] else ()
    return Group(frozenset(range(first, first + count)), frozenset(from_registers))


def oldest_as_one(groups: UnderWay) -> UnderWay:
    """A loop without a wait would have ever more of them."""
    surplus = len(groups) - 1 - MOST_GROUPS
    return groups if surplus <= 0 else (functools.reduce(operator.or_, groups[: surplus + 1]), *groups[surplus + 1 :])


def after(instruction: Instruction, before: UnderWay) -> UnderWay:
    """A product with gsb0 closes a group, and DEPBAR waits until no more than so many closed ones are left."""
    if instruction.is_product:
        *closed, opened = before
        groups = (*closed, opened | registers_of(instruction))
        return oldest_as_one((*groups, Group())) if "gsb0" in instruction.arguments else groups
    if instruction.opcode == "WARPGROUP.DEPBAR.LE":
        left = re.fullmatch(r"gsb0, 0x([0-9a-f]+)", instruction.arguments)
        assert left is not None, instruction
        assert int(left[1], 16) < MOST_GROUPS, instruction
        return before[-1 - int(left[1], 16) :]
    return before


def joined(one: UnderWay, other: UnderWay) -> UnderWay:
    """What may be under way where two paths meet: a wait counts groups from the newest."""
    pairs = zip_longest(reversed(one), reversed(other), fillvalue=Group())
    return tuple(reversed([mine | theirs for mine, theirs in pairs]))


def successors(code: list[Instruction], places: dict[int, int], place: int) -> Iterator[int]:
    """The places of the instructions that may come next. BSYNC stands right before the place where paths meet again."""
    instruction = code[place]
    name = instruction.opcode.split(".")[0]
    if name in ("BRA", "WARPSYNC"):
        target = _TARGET.search(instruction.arguments)
        if target is not None:
            yield places[int(target[1], 16)]
    always_jumps = name == "BRA" and instruction.arguments.startswith("0x")
    if (instruction.guarded or not (always_jumps or name in ("EXIT", "BRX", "BRXU"))) and place + 1 < len(code):
        yield place + 1


def touches(instruction: Instruction, under_way: UnderWay) -> bool:
    """Whether it reads or writes sums under way, or writes operands of products under way.

    A wide operand is named by its first register; sums and operands begin and end where wide ones do.
    """
    sums = frozenset().union(*(group.sums for group in under_way))
    operands = frozenset().union(*(group.operands for group in under_way))
    if instruction.is_product:  # may add to sums under way
        mine = registers_of(instruction)
        return not (mine.operands.isdisjoint(sums) and mine.sums.isdisjoint(operands))
    if instruction.opcode.startswith(("BRX", "CALL")):  # goes where the code does not say
        return bool(sums)
    named = {int(number) for number in _REGISTER.findall(instruction.arguments)}
    written = None if _WRITES_NONE.match(instruction.opcode) else _WRITTEN.match(instruction.arguments)
    return not named.isdisjoint(sums) or (written is not None and int(written[1]) in operands)


def touching_registers_under_way(body: str) -> list[str]:
    """Instructions that touch registers of products under way on some path to them, in the order of the code.

    To the compiler sums are complete once their products are issued, and it keeps copies of registers wherever it
    likes, unless told: such a copy is of numbers that are not there yet.
    """
    code = parsed(body)
    places = {instruction.address: place for place, instruction in enumerate(code)}
    before = {place: NOTHING for place, instruction in enumerate(code) if instruction.is_product}
    waiting = list(before)
    while waiting:
        place = waiting.pop()
        behind = after(code[place], before[place])
        if behind == NOTHING:
            continue
        for successor in successors(code, places, place):
            merged = joined(before.get(successor, NOTHING), behind)
            if merged != before.get(successor):
                before[successor] = merged
                waiting.append(successor)
    return [str(code[place]) for place in sorted(before) if touches(code[place], before[place])]


def kernels_of_products() -> dict[str, str]:
    others = (CLASSIFIES, PREPARES, SPLITS, DIRECT_WEIGHT)
    return {name: body for name, body in kernels(HOPPER).items() if not any(word in name for word in others)}


class TestTheParser:
    def test_follows_sums_to_their_wait(self) -> None:
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
        assert touching_registers_under_way(body) == ["IMAD.MOV.U32 R2, RZ, RZ, R27", "MOV R28, RZ"]

    def test_follows_sums_from_a_loops_end_to_its_start(self) -> None:
        body = """
            /*0000*/                   MOV R24, RZ ;
            /*0010*/                   FADD R3, R3, R24 ;
            /*0020*/                   HGMMA.64x8x16.F32.BF16 R24, gdesc[UR8], RZ, !UPT, gsb0 ;
            /*0030*/              @!P0 BRA 0x10 ;
            /*0040*/                   WARPGROUP.DEPBAR.LE gsb0, 0x0 ;
            /*0050*/                   FADD R3, R3, R24 ;
            /*0060*/               @P1 BRA 0x0 ;
            /*0070*/                   EXIT ;
        """
        assert touching_registers_under_way(body) == ["FADD R3, R3, R24"]

    def test_follows_sums_past_a_wait_that_some_threads_jump_over(self) -> None:
        body = """
            /*0000*/                   HGMMA.64x8x16.F32.BF16 R24, gdesc[UR8], RZ, !UPT, gsb0 ;
            /*0010*/               @P0 BRA 0x40 ;
            /*0020*/                   WARPGROUP.DEPBAR.LE gsb0, 0x0 ;
            /*0030*/                   FADD R3, R3, R24 ;
            /*0040*/                   FADD R4, R4, R24 ;
            /*0050*/                   EXIT ;
            /*0060*/                   FADD R5, R5, R24 ;
        """
        assert touching_registers_under_way(body) == ["FADD R4, R4, R24"]

    def test_does_not_go_on_behind_a_jump(self) -> None:
        body = """
            /*0000*/                   HGMMA.64x8x16.F32.BF16 R24, gdesc[UR8], RZ, !UPT, gsb0 ;
            /*0010*/                   BRA 0x30 ;
            /*0020*/                   FADD R3, R3, R24 ;
            /*0030*/                   WARPGROUP.DEPBAR.LE gsb0, 0x0 ;
        """
        assert touching_registers_under_way(body) == []

    def test_operands_may_be_read_and_not_written_until_their_wait(self) -> None:
        body = """
            /*0000*/                   HGMMA.64x8x16.F32 R24, R56, gdesc[UR8], RZ, !UPT ;
            /*0010*/                   HGMMA.64x8x16.F32 R24, R60, gdesc[UR8], R24, gsb0 ;
            /*0020*/                   FADD R3, R56, R60 ;
            /*0030*/                   ISETP.GE.AND P0, PT, R57, R2, PT ;
            /*0040*/                   STS.128 [R2], R56 ;
            /*0050*/               @P0 LDS.128 R56, [R2] ;
            /*0060*/                   LOP3.LUT P0, R63, R63, 0x1, RZ, 0xc0, !PT ;
            /*0070*/                   HGMMA.64x8x16.F32 R32, R24, gdesc[UR8], RZ, !UPT, gsb0 ;
            /*0080*/                   WARPGROUP.DEPBAR.LE gsb0, 0x1 ;
            /*0090*/                   MOV R60, RZ ;
        """
        assert touching_registers_under_way(body) == [
            "LDS.128 R56, [R2]",
            "LOP3.LUT P0, R63, R63, 0x1, RZ, 0xc0, !PT",
            "HGMMA.64x8x16.F32 R32, R24, gdesc[UR8], RZ, !UPT, gsb0",
        ]

    def test_nothing_jumps_where_the_code_does_not_say_with_sums_under_way(self) -> None:
        body = """
            /*0000*/                   HGMMA.64x8x16.F32.BF16 R24, gdesc[UR8], RZ, !UPT, gsb0 ;
            /*0010*/                   BRX R2 -0x30 ;
            /*0020*/                   WARPGROUP.DEPBAR.LE gsb0, 0x0 ;
            /*0030*/                   BRX R2 -0x30 ;
        """
        assert touching_registers_under_way(body) == ["BRX R2 -0x30"]


@needs_sass
@pytest.mark.skipif(bool(ROWS) and not HOPPER_ROWS, reason="this library has no Hopper kernels")
class TestKernels:
    def test_every_row_has_kernels_and_they_have_products_and_waits(self) -> None:
        """So that the other test has something to look at."""
        scaled = [row for row in block_scaled() if row.backend == "sm90"]
        found = kernels_of_products()
        assert len(found) >= len(HOPPER_ROWS) + len(scaled)
        for row in HOPPER_ROWS:
            assert found.keys() & of_row(HOPPER, row), row
        for name, body in found.items():
            code = parsed(body)
            assert any(instruction.is_product for instruction in code), name
            assert any(instruction.opcode == "WARPGROUP.DEPBAR.LE" for instruction in code), name
            operands = [registers_of(instruction).operands for instruction in code if instruction.is_product]
            of_registers = any(
                word in name
                for word in (SMALL_M, WEIGHT, WEIGHT_ROWS, WEIGHT_BLOCKS, WEIGHT_MXFP8, FOLDED, "MnMajorRowsMainLoop")
            )
            assert any(operands) == of_registers, f"{name}: products of registers"

    def test_no_instruction_touches_registers_under_way(self) -> None:
        for name, body in kernels_of_products().items():
            found = touching_registers_under_way(body)
            assert not found, f"{name}: {found[:3]}"
