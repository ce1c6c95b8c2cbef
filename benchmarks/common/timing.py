"""Times several ways ("arms") of computing the same thing, by the clocks of tileon_ops/tune/timing.py.

Warming goes on until the times stop moving (a GPU takes a while to reach its power limit), up to a cap. The figure is
the median; the quartiles' distance over the median says how far it can be trusted. For small sizes a CUDA graph of many
launches takes the host out altogether: back to back over a few operand sets that stay in L2 (`warm_graph_arm`), or over
so many that each has left it (`cold_graph_arm`).

Arms take turns in a random order. A kernel that ran one or two launches before finds its instructions in the SMs'
caches, which emptying L2 leaves alone: 0.1 to 0.6 us of a portable kernel's time on an H100. In a fixed order one of
two arms with the same kernel, say the choice and the config that it chooses, would always be ahead.
"""

# mypy: allow-untyped-calls
# (torch.cuda's streams have no annotations)

from __future__ import annotations

import random
import statistics
from collections import deque
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

import tileon_ops  # noqa: F401  (registers torch.ops.tileon)
from tileon_ops.tune.timing import Arm as Arm
from tileon_ops.tune.timing import clock_of, warm
from tileon_ops.tune.timing import l2_bytes as l2_bytes


@dataclass(frozen=True)
class Timing:
    """Median time of one launch in microseconds, (third - first quartile) / median, and how many runs it rests on."""

    median_us: float
    spread: float
    samples: int


def clock_words(device: torch.device) -> str:
    """How arms are timed on this device, for the head of a result file."""
    return "CUDA events, cold L2" if device.type == "cuda" else "perf_counter, warm caches"


def time_arms(
    arms: Mapping[str, Arm],
    device: torch.device,
    *,
    seconds: float = 0.5,
    warmup_seconds: float = 1.0,
    min_rounds: int = 7,
    max_rounds: int = 300,
    hopeless: float | None = None,
    keep: Container[str] = (),
) -> dict[str, Timing]:
    """Times all arms against each other; returns their timings by name. Each has its inputs bound and works on the
    device's current stream; all run once before anything is timed: what one raises comes through.

    Args:
        seconds: about how long the timed part may take, all arms together, with what surrounds them; but `min_rounds`
            are taken, and never more than `max_rounds`. `warmup_seconds` is a cap on the warming before it.
        hopeless: arms that take more than this many times the quickest one's time are left out after a first look,
            except those named in `keep`.
    """
    if not arms:
        return {}
    for arm in arms.values():
        arm.run()  # module load, run-time compilation, autotuning, library handles
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    clock = clock_of(device)
    shuffle = random.Random(0)
    if hopeless is not None:  # by the better of two runs
        looks = {name: min(values) / arms[name].launches for name, values in clock.measure(arms, 2, shuffle).items()}
        most = hopeless * min(looks.values())
        arms = {name: arm for name, arm in arms.items() if name in keep or looks[name] <= most}
    round_seconds = warm(clock, arms, shuffle, warmup_seconds)
    rounds = max(min_rounds, min(max_rounds, int(seconds / round_seconds)))
    found = {}
    for name, values in clock.measure(arms, rounds, shuffle).items():
        median, (first, _, third) = statistics.median(values), statistics.quantiles(values, n=4)
        found[name] = Timing(median * 1e6 / arms[name].launches, (third - first) / median, len(values))
    return found


_WARM_SETS = 8
_WARM_LAUNCHES = 200  # a replay's own start, some microseconds, is then a hundredth of it or less


def cold_sets(bytes_per_call: int, device: torch.device) -> int:
    """How many operand sets a graph must go round so that each is out of L2 when its turn comes again (4 to 400)."""
    return max(4, min(400, -(-2 * l2_bytes(device) // max(1, bytes_per_call))))


def warm_sets(bytes_per_call: int, l2: int) -> int:
    """How many operand sets a graph goes round that shall find them in an L2 of `l2` bytes: 8, or as many as fill a
    quarter of it, at least 1."""
    return max(1, min(_WARM_SETS, l2 // 4 // max(1, bytes_per_call)))


def cold_graph_arm(calls: Sequence[Callable[[], torch.Tensor]], launches: int = 1) -> Arm:
    """An arm that replays one CUDA graph in which the calls are launched in turn, back to back: as often as it takes
    for at least so many launches; once, where the rotation is longer.

    Each call has operands of its own, and the results stay apart: between two uses of the same memory lies the
    whole rotation.
    """
    turns = -(-launches // len(calls))
    return Arm(_replay([*calls] * turns, results_apart=len(calls)), launches=turns * len(calls))


def warm_graph_arm(calls: Sequence[Callable[[], torch.Tensor]]) -> Arm:
    """An arm that replays one CUDA graph of some 200 launches, the calls in turn, back to back.

    The results take turns in as many buffers as there are calls and one more, so that they stay in L2 too.
    """
    return replace(cold_graph_arm(calls, _WARM_LAUNCHES), warm=True)


def _replay(calls: Sequence[Callable[[], torch.Tensor]], results_apart: int) -> Callable[[], None]:
    """Captures the calls; a result's memory is free for another after `results_apart` more."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        calls[0]()  # what a first call sets up may not happen under capture
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    results: deque[torch.Tensor] = deque(maxlen=results_apart)
    with torch.cuda.graph(graph):
        for call in calls:
            results.append(call())

    def replay(_kept_alive: object = calls) -> None:  # with the operands, which the graph reads and does not own
        graph.replay()

    return replay
