"""What the kernels for few rows by a weight alone scaled consist of, in the library's code."""

from __future__ import annotations

import re

from sass_images import instructions
from test_sass import DIRECT_WEIGHT, HOPPER, kernels, needs_sass, opcodes

from tileon_ops._rules.configs import block_scaled


@needs_sass
def test_codes_go_straight_into_registers() -> None:
    """No copies to shared memory, which has the sums alone; one kernel for each pair of formats."""
    found = {name: body for name, body in kernels(HOPPER).items() if DIRECT_WEIGHT in name}
    tiles = [row.tile[1] for row in block_scaled() if row.family == "direct_weight"]
    assert len(found) == 9 * tiles.count(16) + 4 * tiles.count(32), "fp4 alone has tiles of 32 rows"
    for name, body in found.items():
        there = opcodes(body)
        assert {"HMMA", "LDG", "STS"} <= there, name
        assert not there & {"HGMMA", "UTMALDG", "UBLKCP", "LDGSTS", "LDSM"}, name
        assert any(re.match(r"LDG\.E\.128\.CONSTANT", i) or "LTC256B" in i for i in instructions(body)), name
