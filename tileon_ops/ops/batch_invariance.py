"""`tileon_ops.batch_invariant`: a row's result does not depend on how many other rows there are."""

from __future__ import annotations

from types import TracebackType

import torch


class batch_invariant:
    """Results of a row that do not depend on the rows beside it, for a block of code or from here on.

    As a context manager it holds inside the block; as a call, `tileon_ops.batch_invariant()`, until it is called again
    with `False`. TILEON_BATCH_INVARIANT=1 in the environment sets it from the start.

    Where it holds, `a[i:j] @ b` has the bits of rows i to j of `a @ b`, in every op and layer. The order of each sum is
    chosen without regard to the number of rows and of matrices:

    - On the CPU float32, float64 and bfloat16 are multiplied by the package's own tiles, where torch's product may sum
      in another order for another number of rows. Every other dtype has that property without the setting too.
    - On a GPU the order is that of 256 rows (of operands with scales: of 512), whatever their number, and kernels that
      add in it differ in their tiles alone, which the number of rows decides. Few rows are slower so than by kernels
      that are made for them, above all of a weight alone scaled. What tuning found is not used.

    The setting is the process's, as torch's own of TF32 is: threads share it, and compiled functions read it when they
    run. It does not reach what torch multiplies itself.

    Args:
        on: False for results that may depend on the number of rows, which are faster.
    """

    def __init__(self, on: bool = True) -> None:
        self._before = bool(torch.ops.tileon._set_batch_invariant(on))

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        torch.ops.tileon._set_batch_invariant(self._before)
