"""When the machine code's instructions go: the control bits of each one, by which ptxas lets it wait for others.

Loads take as long as they take. Each one names one of six scoreboards, which counts those that have not arrived, and an
instruction that needs one waits until its scoreboard is at zero: for all the loads that are counted there.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_LINE = re.compile(r"^\s*/\*([0-9a-f]+)\*/\s+(@!?U?P\w+\s+)?([^;]*?)\s*; ([0-9a-f]+)$", re.MULTILINE)
_TARGET = re.compile(r"BRA(?:\.U(?!\w))? (?:!?UP\w+, )?0x([0-9a-f]+)$")  # not BRA.DIV, for lanes that went apart
NO_SCOREBOARD = 7
MOST_STEPS = 4000  # of a walk, in which a loop goes round: many rounds


class Scheduled(NamedTuple):
    address: int
    guarded: bool  # executed where a predicate says so
    text: str
    scoreboard: int  # that counts it until what it loads is there; or NO_SCOREBOARD
    waits_for: int  # scoreboards that have to be at zero before it goes, a bit each

    @property
    def target(self) -> int | None:
        found = _TARGET.match(self.text)
        return int(found[1], 16) if found else None

    @property
    def always_jumps(self) -> bool:
        return not self.guarded and self.text.startswith("BRA 0x")

    def waits_on(self, scoreboard: int) -> bool:
        return bool(self.waits_for >> scoreboard & 1)


def scheduled(body: str) -> list[Scheduled]:
    """The instructions of a kernel of sass_images. Of their control bits, from the lowest: stall (4), yield (1), the
    scoreboard of what is written (3), that of what is read (3), scoreboards waited for (6), reuse (4)."""
    return [
        Scheduled(int(address, 16), bool(guard), text, int(bits, 16) >> 5 & 7, int(bits, 16) >> 11 & 63)
        for address, guard, text, bits in _LINE.findall(body)
    ]


def is_in_a_loop(code: list[Scheduled], place: int) -> bool:
    return any(
        instruction.target is not None and instruction.target <= code[place].address for instruction in code[place:]
    )


def products_before_a_wait(code: list[Scheduled], place: int) -> int | None:
    """How many HMMA go between this load and the first instruction that waits on its scoreboard; None where none waits.

    One way through the code: jumps forward are not taken where a predicate decides, jumps back are, once there was a
    product. So a loop that does not wait goes round until the walk ends, and counts as many.
    """
    places = {instruction.address: at for at, instruction in enumerate(code)}
    scoreboard, products = code[place].scoreboard, 0
    assert scoreboard != NO_SCOREBOARD, code[place]
    at = place + 1
    for _ in range(MOST_STEPS):
        instruction = code[at]
        if instruction.waits_on(scoreboard):
            return products
        if instruction.text == "EXIT" and not instruction.guarded:
            return None
        products += instruction.text.startswith("HMMA")
        target = instruction.target
        jumps_back = target is not None and target < instruction.address and products > 0
        at = places[target] if target is not None and (instruction.always_jumps or jumps_back) else at + 1
    return products
