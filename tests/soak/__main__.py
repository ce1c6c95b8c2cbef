"""Random calls of every public op, each checked to its documented bound: `python tests/soak --seconds 120`.

    python tests/soak --seconds 120 --processes 2 --seed 1
    python tests/soak --calls 20000 --ops matmul.out,quantize --out soak.txt
    python tests/soak --replay 1:0:4711

Shapes (0, 1, primes, edges of tiles, now and then a long k), strides, offsets, dtypes, formats, scales, epilogues and
`out` are drawn, through the ops and through the package's functions; of some calls the gradients. A result is compared
with a float64 oracle: it must lie within the bound that is documented for its sum, and be right to the last bit where
nothing can round. Every byte of every storage is compared with what it was, those around the elements of `out` too. A
share of the calls is bad, and must be refused by name, with nothing written.

Case i of process p under seed s is always the same: what is found is printed with the command that calls it again.
What nothing is specified of is left unchecked, by rules that the report names and counts.

The exit status is 0 where nothing was found, 1 where something was, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # tests/
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the top of the tree

from benchmarks.common.result_file import gpu_name, header, portable_path
from soak.cases import OPS, draw_case
from soak.processes import Outcome, Plan, Soak
from soak.run import run_case
from soak.tally import Name, Report, Tally, report_of

_SECONDS = 60.0  # unless told
_INTERRUPTED = 130  # as a shell says it


def _positive(text: str) -> int:
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not positive")
    return int(text)


def _seconds(text: str) -> float:
    if not 0 < float(text) < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is no positive number of seconds")
    return float(text)


def _ops(text: str) -> frozenset[str]:
    names = frozenset(text.split(","))
    if not names <= set(OPS):
        raise argparse.ArgumentTypeError(f"there are {', '.join(OPS)}")
    return names


def _name(text: str) -> Name:
    numbers = text.split(":")
    if len(numbers) != 3:
        raise argparse.ArgumentTypeError(f"{text!r} is not seed:process:index")
    return Name(*map(int, numbers))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=_seconds, help=f"of calls (default {_SECONDS:.0f}, without end with --calls)")
    parser.add_argument("--calls", type=_positive, help="stop after so many in all")
    parser.add_argument("--processes", type=_positive, default=1, help="each makes cases of its own (default 1)")
    parser.add_argument("--seed", type=int, default=1, help="of all cases (default 1)")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--ops", type=_ops, default=frozenset(OPS), help=f"some of {','.join(OPS)} (default: all)")
    parser.add_argument("--out", type=Path, help="write the report here too")
    parser.add_argument("--replay", type=_name, metavar="SEED:PROCESS:INDEX", help="call this one case alone")
    return parser


class _Progress:
    """A line on the standard error stream, from the first call on: each second in place on a terminal, else every five
    seconds."""

    def __init__(self) -> None:
        self._in_place = sys.stderr.isatty()
        self._next = 0.0

    def show(self, tally: Tally, seconds: float) -> None:
        if tally.total == 0 or seconds < self._next:
            return
        self._next = seconds + (1 if self._in_place else 5)
        sys.stderr.write(f"\r\033[K{tally.line(seconds)}" if self._in_place else f"{tally.line(seconds)}\n")
        sys.stderr.flush()

    def clear(self) -> None:
        if self._in_place:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


def _replay(name: Name, device: str) -> int:
    torch.set_num_threads(1)
    case = draw_case(name.seed, name.process, name.index)
    assert case is not None, "every op is drawn"
    verdict = run_case(case, torch.device(device))
    print(report_of(name, device, case, verdict).text)
    for rule, elements in verdict.unspecified.items():
        print(f"{elements} elements are not specified: {rule}")
    if not verdict.findings:
        print("nothing is wrong" if case.flaw is None else "refused, as it must be")
    return 1 if verdict.findings else 0


def _summary(plan: Plan, outcome: Outcome) -> str:
    """The report, but for what was found."""
    stopped = ", stopped by Ctrl-C" if outcome.interrupted else ""
    place = f"cuda, {gpu_name()}" if plan.device == "cuda" else "cpu"
    processes = f"{plan.processes} process{'es' * (plan.processes > 1)}"
    head = f"seed {plan.seed}, {processes} on {place}{stopped}"
    tally = outcome.tally
    return f"{head}\n\n{tally.table()}\n\n{tally.rules()}\nsoak: {tally.line(outcome.seconds)}\n"


def _run(plan: Plan, out: Path | None) -> int:
    progress = _Progress()

    def tell(report: Report) -> None:
        progress.clear()
        print(report, flush=True)

    outcome = Soak(plan, tell, progress.show).run()
    progress.clear()
    summary = _summary(plan, outcome)
    print(summary, end="", flush=True)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        reports = "".join(f"{report}\n" for report in outcome.reports)
        out.write_text(f"{header()}\n{reports}{summary}")
        print(f"report: {portable_path(out)}")
    if outcome.interrupted:
        return _INTERRUPTED
    return 1 if outcome.tally.findings or outcome.tally.total == 0 else 0


def main() -> int:
    parser = _parser()
    arguments = parser.parse_args()
    if arguments.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: there is no GPU that torch can use")
    if arguments.replay is not None:
        return _replay(arguments.replay, arguments.device)
    seconds = _SECONDS if arguments.seconds is None and arguments.calls is None else arguments.seconds
    plan = Plan(arguments.seed, arguments.processes, arguments.device, arguments.ops, seconds, arguments.calls)
    return _run(plan, arguments.out)


if __name__ == "__main__":
    sys.exit(main())
