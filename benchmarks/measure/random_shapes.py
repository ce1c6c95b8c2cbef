"""Times products that nobody chose against torch: `python -m benchmarks.measure.random_shapes --csv out.csv`.

    python -m benchmarks.measure.random_shapes                        # other products at every run; the seed is printed
    python -m benchmarks.measure.random_shapes --seed 7 --count 300   # the same ones again
    python -m benchmarks.measure.random_shapes --groups fp8,batch --largest 2048
    python -m benchmarks.measure.random_shapes --dtypes float32,nvfp4 --dry-run
    python -m benchmarks.measure.random_shapes --summary-of benchmarks/results/h200/random_shapes.csv

The other benchmarks measure sizes that somebody picked. Here sizes from 1 to 16384, alignment, layout, dtype, batch and
epilogue are drawn from a seed: random_shapes_draw.py says how. Each product is timed by its two providers in one
interleaved run (timing.py): who they are says peers/random_shapes.py.

The CSV's columns are matmul.py's, op,dtype,layout,m,n,k,epilogue,provider,median_us,tflops, a block-scaled format being
a dtype, and batch, 1 where the operands are 2-D. The head has the seed, and the command that draws the same products.
What is printed at the end, torch's time over ours by group and class, is made of these rows alone: --summary-of prints
it again, and random_shapes_summary.py says what it holds.
"""

from __future__ import annotations

import argparse
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch

from benchmarks.common.command import names_among
from benchmarks.common.result_file import CsvWriter, portable_path, read_csv
from benchmarks.common.timing import Arm, Timing, clock_words, time_arms
from benchmarks.measure.matmul import COLUMNS as MATMUL_COLUMNS
from benchmarks.measure.peers.dense import NotOffered
from benchmarks.measure.peers.random_shapes import PROVIDERS, calls
from benchmarks.measure.random_shapes_draw import ALL_DTYPES, GROUPS, Bounds, Product, chosen_groups, draw
from benchmarks.measure.random_shapes_summary import comparisons, summary_text

COLUMNS = (*MATMUL_COLUMNS, "batch")

# By default no product is beyond these. On a GPU operands and result are at most 2 GiB or a 32nd of its memory: the
# float32 numbers that operands are rounded from, and torch's bfloat16 copies, lie beside them. A product is at most
# that of squares of 8192, which is 16 ms of float32 or float64 at an H200's peak (gpu_roofs.py). On a CPU, where half
# precision is slow, torch's too, it is at most that of squares of 256.
_GPU_LARGEST, _GPU_BYTES, _GPU_MEMORY_SHARE, _GPU_FLOPS = 16384, 2 << 30, 32, 2 * 8192**3
_CPU_BOUNDS = Bounds(largest=256, bytes=16 << 20, flops=2 * 256**3)

_SETUP_SECONDS = 0.1  # of a case besides warming and timing: operands and first calls, but for compilation


def _at_least(least: int) -> Callable[[str], int]:
    """What reads, for argparse, a whole number from `least` on."""

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
        return number

    return parse


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_argument_group("what is drawn")
    what.add_argument("--count", type=_at_least(1), default=60, help="products (default 60)")
    what.add_argument("--seed", type=_at_least(0), help="of the draw (default: another one at every run)")
    what.add_argument("--groups", type=names_among(tuple(GROUPS)), help=f"some of {','.join(GROUPS)} (default all)")
    what.add_argument("--dtypes", type=names_among(ALL_DTYPES), help=f"some of {','.join(ALL_DTYPES)} (default all)")
    what.add_argument("--largest", type=_at_least(1), help=f"size (default {_GPU_LARGEST}; of a CPU 256)")
    what.add_argument(
        "--max-bytes",
        type=_at_least(1),
        help="of operands and result (default 2 GiB, or a 32nd of the GPU's memory if that is less; of a CPU 16 MiB)",
    )
    what.add_argument(
        "--max-flops", type=_at_least(1), help="of a product (default those of 8192 squares; of a CPU 256 squares)"
    )
    how = parser.add_argument_group("how")
    how.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    how.add_argument("--seconds", type=float, default=0.2, help="timed part of one case, both providers (default 0.2)")
    how.add_argument("--warmup-seconds", type=float, default=0.2, help="cap on warming for one case (default 0.2)")
    how.add_argument("--dry-run", action="store_true", help="list the products and about what they cost, run nothing")
    how.add_argument("--csv", type=Path, help="write the figures here")
    how.add_argument("--summary-of", type=Path, metavar="CSV", help="only sum up a file that this script wrote")
    return parser


def _device(name: str) -> torch.device:
    """The device of that name, as tensors on it have it.

    Raises:
        ValueError: torch has no such device, or it is neither a CPU nor a GPU.
    """
    try:
        device = torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"--device {name}: {str(error).splitlines()[0]}") from error
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f"--device {name}: the ops run on cpu and cuda")
    return device


def _bounds(arguments: argparse.Namespace, device: torch.device) -> Bounds:
    """The device's, where the command line does not say otherwise."""
    default = _CPU_BOUNDS
    if device.type == "cuda":
        share = torch.cuda.get_device_properties(device).total_memory // _GPU_MEMORY_SHARE
        default = Bounds(_GPU_LARGEST, min(_GPU_BYTES, share), _GPU_FLOPS)
    return Bounds(
        largest=arguments.largest or default.largest,
        bytes=arguments.max_bytes or default.bytes,
        flops=arguments.max_flops or default.flops,
    )


def _groups(arguments: argparse.Namespace, device: torch.device) -> dict[str, tuple[str, ...]]:
    """What is drawn from: every dtype that the device has, where the command line does not name them.

    Raises:
        ValueError: there is nothing.
    """
    offered = [name for name in ALL_DTYPES if name != "tf32" or device.type == "cuda"]
    groups, dtypes = arguments.groups or list(GROUPS), arguments.dtypes or offered
    chosen = chosen_groups(groups, dtypes)
    if not chosen:
        raise ValueError(f"nothing is of groups {','.join(groups)} and of dtypes {','.join(dtypes)}")
    return chosen


def _repeating_command(seed: int, count: int, bounds: Bounds, groups: Mapping[str, Sequence[str]]) -> str:
    """The command that draws the same products on any device, whatever is default there."""
    dtypes = dict.fromkeys(dtype for names in groups.values() for dtype in names)
    words = ["python -m benchmarks.measure.random_shapes", f"--seed {seed}", f"--count {count}"]
    words += [f"--largest {bounds.largest}", f"--max-bytes {bounds.bytes}", f"--max-flops {bounds.flops}"]
    return " ".join([*words, f"--groups {','.join(groups)}", f"--dtypes {','.join(dtypes)}"])


def _cost_words(products: Sequence[Product], device: torch.device, seconds: float) -> str:
    """About what it all takes, with so many seconds of warming and timing a case."""
    words = f"{len(products)} products, about {len(products) * (seconds + _SETUP_SECONDS):.0f} s"
    compiled = sum(product.is_block_scaled for product in products) if device.type == "cuda" else 0
    return words + (f", and torch.compile's for two dequantizations of {compiled} of them" if compiled else "")


def measure(product: Product, device: torch.device, seconds: float, warmup_seconds: float) -> dict[str, Timing]:
    """Times both providers; the operands are gone when it returns."""
    torch.set_float32_matmul_precision("high" if product.dtype == "tf32" else "highest")
    arms = {name: Arm(call) for name, call in calls(product, device).items()}
    return time_arms(arms, device, seconds=seconds, warmup_seconds=warmup_seconds)


def rows(product: Product, timings: dict[str, Timing]) -> list[list[str]]:
    """The rows of a product in the file, one a provider."""
    found = []
    for provider in PROVIDERS:
        microseconds = timings[provider].median_us
        figures = [f"{microseconds:.2f}", f"{product.tflops(microseconds):.4g}"]
        what = [product.op, product.dtype, product.layout, *(str(size) for size in product.shape), product.epilogue]
        found.append([*what, provider, *figures, str(product.batch)])
    return found


def run(
    products: Sequence[Product], device: torch.device, arguments: argparse.Namespace, head: dict[str, str]
) -> tuple[list[dict[str, str]], int]:
    """Measures all products; returns the rows of the file, and how many products failed."""
    written: list[dict[str, str]] = []
    failed = 0
    with torch.inference_mode(), CsvWriter(arguments.csv, COLUMNS, head) as writer:
        for done, product in enumerate(products, start=1):
            print(f"[{done}/{len(products)}] {product}", end="", flush=True)
            try:
                timings = measure(product, device, arguments.seconds, arguments.warmup_seconds)
            except (RuntimeError, NotOffered) as error:  # the others are still worth measuring
                failed += 1
                print(f"  failed: {error}", flush=True)
                continue
            for row in rows(product, timings):
                writer.write(row)
                written.append(dict(zip(COLUMNS, row, strict=True)))
            ours, peer = (timings[name].median_us for name in PROVIDERS)
            print(f"  {ours:.2f} us, torch {peer:.2f}, torch / tileon {peer / ours:.2f}", flush=True)
    return written, failed


def _timing_words(arguments: argparse.Namespace, device: torch.device) -> str:
    words = f"{clock_words(device)}, interleaved arms, median of about {arguments.seconds:g} s a case, "
    return words + "normal random data, quantized for block-scaled formats"


def _rows_of(path: Path) -> list[dict[str, str]]:
    """The rows of a file that this script wrote.

    Raises:
        OSError: it cannot be read.
        ValueError: it has other columns.
    """
    found = read_csv(path)[1]
    lacking = [name for name in COLUMNS if found and name not in found[0]]
    if lacking:
        raise ValueError(f"{portable_path(path)} has no column {', '.join(lacking)}")
    return found


def _measure_all(arguments: argparse.Namespace) -> int:
    """Draws, measures and sums up; returns how many products failed.

    Raises:
        ValueError: of what was asked for nothing can be drawn.
    """
    device = _device(arguments.device)
    bounds, groups = _bounds(arguments, device), _groups(arguments, device)
    seed = secrets.randbelow(2**32) if arguments.seed is None else arguments.seed
    products = draw(seed, arguments.count, bounds, groups)
    head = {
        "timing": _timing_words(arguments, device),
        "seed": str(seed),
        "draw": _repeating_command(seed, arguments.count, bounds, groups),
    }
    print(f"seed {seed}: {head['draw']}")
    print(_cost_words(products, device, arguments.seconds + arguments.warmup_seconds), flush=True)
    if arguments.dry_run:
        print("\n".join(str(product) for product in products))
        return 0
    written, failed = run(products, device, arguments, head)
    print(f"\n{summary_text(comparisons(written))}\n\n{head['timing']}\nseed {seed}")
    if arguments.csv:
        print(f"figures: {portable_path(arguments.csv)}")
    if failed:
        print(f"{failed} of {len(products)} products failed")
    return failed


def main() -> int:
    parser = _parser()
    arguments = parser.parse_args()
    try:
        if arguments.summary_of:
            print(summary_text(comparisons(_rows_of(arguments.summary_of))))
            return 0
        failed = _measure_all(arguments)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
