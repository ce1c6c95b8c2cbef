"""The SASS of Hopper's kernels that fold a weight in their main loop."""

from __future__ import annotations

import re

from test_sass import FOLDED, HOPPER, kernels, needs_sass, opcodes

from tileon_ops._rules.configs import block_scaled


@needs_sass
def test_folded_codes_are_multiplied_as_fp8() -> None:
    """One kernel for each dtype of the output; codes by ldmatrix, and sums of four products of 32 k at a time."""
    found = {name: body for name, body in kernels(HOPPER).items() if FOLDED in name}
    assert len(found) == 2 * sum(row.name.startswith("sm90_folded_") for row in block_scaled())
    for name, body in found.items():
        products = re.findall(r"QGMMA\S*", body)
        assert len(products) == 4, name
        assert all(product.endswith("F32.E4M3.E4M3") for product in products), name
        assert {"LDSM", "F2FP", "UTMALDG", "UTMASTG", "UBLKCP"} <= opcodes(body), name
        assert not opcodes(body) & {"HGMMA", "HMMA", "LDGSTS"}, name


@needs_sass
def test_four_codes_of_e4m3_take_six_instructions() -> None:
    """Conversions of halves of a word, and of two into one: none of them is moved by an instruction of its own."""
    for name, body in kernels(HOPPER).items():
        if FOLDED not in name or "ELi8ELi1ELi1E" not in name:
            continue
        assert len(re.findall(r"UNPACK_B R\d+, R\d+\.H1", body)) >= 16, name
        assert len(re.findall(r"UNPACK_B_MERGE_C R\d+, R\d+(?:\.reuse)?, R\d", body)) >= 16, name
