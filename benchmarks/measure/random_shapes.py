"""Times products that nobody chose against torch: `python -m benchmarks.measure.random_shapes --csv out.csv`.

    python -m benchmarks.measure.random_shapes                        # other products at every run; the seed is printed
    python -m benchmarks.measure.random_shapes --seed 7 --count 300   # the same ones again
    python -m benchmarks.measure.random_shapes --groups fp8,batch --largest 2048
    python -m benchmarks.measure.random_shapes --dtypes float32,nvfp4 --dry-run

The other benchmarks measure sizes that somebody picked. Here sizes from 1 to 16384, alignment, layout, dtype, batch and
epilogue are drawn from a seed: random_shapes_draw.py says how. Each product is timed by its two providers in one
interleaved run (timing.py): who they are says user_call of peers/providers.py.

The CSV's columns are matmul.py's, op,dtype,layout,m,n,k,epilogue,provider,median_us,tflops, a block-scaled format being
a dtype, and batch, 1 where the operands are 2-D. The head has the seed, and the command that draws the same products.
What is printed at the end, torch's time over ours by group and class, is made of these rows alone:
random_shapes_summary.py says what it holds.
"""

from __future__ import annotations

import argparse
import secrets
import sys
from collections.abc import Mapping, Sequence

import torch

from benchmarks.common.cases import COLUMNS as MATMUL_COLUMNS
from benchmarks.common.cases import Case, make_operands
from benchmarks.common.command import at_least, command_line, finish, for_each, some_of
from benchmarks.common.result_file import CsvWriter
from benchmarks.common.timing import Arm, Timing, clock_words, time_arms
from benchmarks.measure.peers.providers import Call, tileon_call, user_call
from benchmarks.measure.random_shapes_draw import ALL_DTYPES, GROUPS, Bounds, chosen_groups, draw
from benchmarks.measure.random_shapes_summary import comparisons, summary_text

COLUMNS = (*MATMUL_COLUMNS, "batch")
PROVIDERS = ("tileon", "torch")

# By default no product is beyond these. On a GPU operands and result are at most 2 GiB or a 32nd of its memory: the
# float32 numbers that operands are rounded from, and torch's bfloat16 copies, lie beside them. A product is at most
# that of squares of 8192, which is 16 ms of float32 or float64 at an H200's peak (66.9 TFLOP/s). On a CPU, where half
# precision is slow, torch's too, it is at most that of squares of 256.
_GPU_LARGEST, _GPU_BYTES, _GPU_MEMORY_SHARE, _GPU_FLOPS = 16384, 2 << 30, 32, 2 * 8192**3
_CPU_BOUNDS = Bounds(largest=256, bytes=16 << 20, flops=2 * 256**3)

_SETUP_SECONDS = 0.1  # of a case besides warming and timing: operands and first calls, but for compilation


def _parser() -> argparse.ArgumentParser:
    parser = command_line(__doc__, seconds=0.2, warmup=0.2)
    parser.add_argument("--count", type=at_least(1), default=60, help="products (default 60)")
    parser.add_argument("--seed", type=at_least(0), help="of the draw (default: another one at every run)")
    some_of(parser, "--groups", GROUPS)
    some_of(parser, "--dtypes", ALL_DTYPES)
    parser.set_defaults(dtypes=None)  # all that the device has
    parser.add_argument("--largest", type=at_least(1), help=f"size (default {_GPU_LARGEST}; of a CPU 256)")
    memory = "2 GiB, or a 32nd of the GPU's memory if that is less; of a CPU 16 MiB"
    parser.add_argument("--max-bytes", type=at_least(1), help=f"of operands and result (default {memory})")
    squares = "those of 8192 squares; of a CPU 256 squares"
    parser.add_argument("--max-flops", type=at_least(1), help=f"of a product (default {squares})")
    parser.add_argument("--dry-run", action="store_true", help="list the products and about what they cost")
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
    dtypes = arguments.dtypes or [name for name in ALL_DTYPES if name != "tf32" or device.type == "cuda"]
    chosen = chosen_groups(arguments.groups, dtypes)
    if not chosen:
        raise ValueError(f"nothing is of groups {','.join(arguments.groups)} and of dtypes {','.join(dtypes)}")
    return chosen


def _repeating_command(seed: int, count: int, bounds: Bounds, groups: Mapping[str, Sequence[str]]) -> str:
    """The command that draws the same products on any device, whatever is default there."""
    dtypes = dict.fromkeys(dtype for names in groups.values() for dtype in names)
    words = ["python -m benchmarks.measure.random_shapes", f"--seed {seed}", f"--count {count}"]
    words += [f"--largest {bounds.largest}", f"--max-bytes {bounds.bytes}", f"--max-flops {bounds.flops}"]
    return " ".join([*words, f"--groups {','.join(groups)}", f"--dtypes {','.join(dtypes)}"])


def _cost_words(cases: Sequence[Case], device: torch.device, seconds: float) -> str:
    """About what it all takes, with so many seconds of warming and timing a case."""
    words = f"{len(cases)} products, about {len(cases) * (seconds + _SETUP_SECONDS):.0f} s"
    compiled = sum(case.is_block_scaled for case in cases) if device.type == "cuda" else 0
    return words + (f", and torch.compile's for two dequantizations of {compiled} of them" if compiled else "")


def calls(case: Case, device: torch.device, seed: int = 0) -> dict[str, Call]:
    """The call of each provider, on the same random operands.

    Raises:
        NotOffered: TF32 where there is no GPU.
    """
    operands = make_operands(case, device, seed)
    return {"tileon": tileon_call(case, operands), "torch": user_call(case, operands)}


def measure(case: Case, device: torch.device, seconds: float, warmup_seconds: float) -> dict[str, Timing]:
    """Times both providers; the operands are gone when it returns."""
    torch.set_float32_matmul_precision("high" if case.allow_tf32 else "highest")
    arms = {name: Arm(call) for name, call in calls(case, device).items()}
    return time_arms(arms, device, seconds=seconds, warmup_seconds=warmup_seconds)


def _measure_all(arguments: argparse.Namespace) -> int:
    """Draws, measures and sums up; returns how many products failed.

    Raises:
        ValueError: of what was asked for nothing can be drawn.
    """
    device = _device(arguments.device)
    bounds, groups = _bounds(arguments, device), _groups(arguments, device)
    seed = secrets.randbelow(2**32) if arguments.seed is None else arguments.seed
    cases = draw(seed, arguments.count, bounds, groups)
    timing = f"{clock_words(device)}, interleaved arms, median of about {arguments.seconds:g} s a case, "
    timing += "normal random data, quantized for block-scaled formats"
    head = {"timing": timing, "seed": str(seed), "draw": _repeating_command(seed, arguments.count, bounds, groups)}
    print(f"seed {seed}: {head['draw']}")
    print(_cost_words(cases, device, arguments.seconds + arguments.warmup_seconds), flush=True)
    if arguments.dry_run:
        print("\n".join(map(str, cases)))
        return 0

    def one(case: Case) -> list[str]:
        timings = measure(case, device, arguments.seconds, arguments.warmup_seconds)
        ours, torchs = (timings[name].median_us for name in PROVIDERS)
        for provider in PROVIDERS:
            writer.write([*case.cells(provider, timings[provider].median_us), str(case.batch)])
        return [f"{case}  {ours:.2f} us, torch {torchs:.2f}, torch / tileon {torchs / ours:.2f}"]

    with torch.inference_mode(), CsvWriter(arguments.csv, COLUMNS, head) as writer:
        failed = for_each(cases, str, one)
    written = [dict(zip(COLUMNS, row, strict=True)) for row in writer.written[1:]]
    print(f"\n{summary_text(comparisons(written))}")
    finish(f"{timing}\nseed {seed}", arguments.csv)
    return failed


def main() -> int:
    parser = _parser()
    arguments = parser.parse_args()
    try:
        return 1 if _measure_all(arguments) else 0
    except ValueError as error:
        parser.error(str(error))


if __name__ == "__main__":
    sys.exit(main())
