"""Of Hopper's machine code: kernels whose main loop decodes a weight."""

from __future__ import annotations

import re

import pytest
from test_sass import (
    DTYPE_IN_NAME,
    HOPPER,
    WEIGHT,
    WEIGHT_BLOCKS,
    WEIGHT_MXFP8,
    WEIGHT_ROWS,
    instructions,
    kernels,
    needs_sass,
    opcodes,
)

from tileon_ops._rules.configs import block_scaled

pytestmark = needs_sass

CLUSTERED = "ClusteredTiles"


@pytest.mark.parametrize(
    ("part", "family", "each"),
    [
        (WEIGHT, "sm90_weight_fp4", 6),
        (WEIGHT_MXFP8, "sm90_weight_mxfp8", 2),
        (WEIGHT_ROWS, "sm90_weight_codes", 4),
        (WEIGHT_BLOCKS, "sm90_weight_blocks", 2),
    ],
)
def test_decoded_weights_are_multiplied_as_16_bits(part: str, family: str, each: int) -> None:
    """One kernel for each dtype of `a`, and of block scales for each output beside bfloat16, and each code and scale;
    HGMMA without a dtype is of float16."""
    found = {name: body for name, body in kernels(HOPPER).items() if part in name}
    clustered = {name for name in found if CLUSTERED in name}
    assert len(found) - len(clustered) == each * sum(row.name.startswith(family) for row in block_scaled())
    assert len(clustered) >= each * 4, "of most widths, for clusters"
    for name, body in found.items():
        assert {"HGMMA", "UTMALDG", "UTMASTG"} <= opcodes(body), name
        assert not opcodes(body) & {"HMMA", "LDGSTS"}, name
        is_float16 = f"{DTYPE_IN_NAME['float16']}LNS_5MajorE" in name  # of `a`; the output's dtype comes later
        dtype = "F32" if is_float16 else "BF16"
        assert all(i.endswith(dtype) for i in instructions(body) if i.startswith("HGMMA")), name


def test_clusters_send_sums_without_a_fence() -> None:
    """Sixteen bytes at a time, which the receiver's barrier counts."""
    found = {name: body for name, body in kernels(HOPPER).items() if CLUSTERED in name}
    assert found
    for name, body in found.items():
        columns = int(re.search(r"Family\w\d+ELi(\d+)E", name)[1])  # type: ignore[index]
        assert len(re.findall(r"\bSTAS\.128\b", body)) == columns // 8, name
        assert not re.search(r"MEMBAR\S*\.GPU", body), name
