"""Why a product takes its config: for 16-bit products on Hopper, every config weighed, with the terms of its cost."""

from __future__ import annotations

import re
import sys

from tileon_ops.info.library import import_package

_LAYOUTS = ("NN", "NT", "TN", "TT")


def _complain(text: str) -> int:
    print(f"--explain: {text}", file=sys.stderr)
    return 2


def explain(size: str, dtype: str = "bfloat16", layout: str = "NT", *rest: str) -> int:
    """Prints the choice for a product of contiguous operands, the best config first.

    Args:
        size: MxNxK.
        dtype: of both operands, by torch's name.
        layout: N or T for a (m, k) and b (k, n); T is the transposed view of a contiguous matrix.

    Returns:
        0, or 2 where an argument is not understood.
    """
    import torch

    import_package()

    sizes = re.fullmatch(r"(\d+)x(\d+)x(\d+)", size)
    if sizes is None or layout not in _LAYOUTS or rest or not isinstance(getattr(torch, dtype, None), torch.dtype):
        return _complain(
            f"wanted MxNxK, a dtype and one of {', '.join(_LAYOUTS)}, got {' '.join((size, dtype, layout, *rest))}"
        )
    m, n, k = map(int, sizes.groups())

    def operand(rows: int, columns: int, is_view: bool) -> torch.Tensor:
        of_torch = getattr(torch, dtype)
        return torch.empty(columns, rows, dtype=of_torch).t() if is_view else torch.empty(rows, columns, dtype=of_torch)

    a, b = operand(m, k, layout[0] == "T"), operand(k, n, layout[1] == "T")
    capability, sms = 90, 132  # an H200
    if torch.cuda.is_available():
        major, minor = torch.cuda.get_device_capability()
        capability, sms = major * 10 + minor, torch.cuda.get_device_properties(0).multi_processor_count
    try:
        chosen, *weighed = torch.ops.tileon._explain_matmul(a, b, capability, sms).splitlines()
    except (NotImplementedError, RuntimeError) as error:
        return _complain(str(error).splitlines()[0])
    print(f"{m}x{n}x{k} {dtype} {layout}, compute capability {capability / 10}, {sms} SMs: {chosen}")
    for line in sorted(weighed, key=lambda line: float(line.split()[1])):
        name, nanoseconds, *terms = line.split()
        print(f"  {name:36} {float(nanoseconds) / 1000:10.2f} us  {'  '.join(terms)}")
    return 0
