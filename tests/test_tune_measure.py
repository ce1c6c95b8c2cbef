"""Which row the tuner takes, by made-up times: one that beats the library's choice beyond noise, twice; no other."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pytest
import torch
from simulated_tuning import FakeClock

from tileon_ops.tune import measurement
from tileon_ops.tune.cache import DEFAULT
from tileon_ops.tune.measurement import Call, Measured, compare
from tileon_ops.tune.timing import Arm, CpuClock, Samples

FIRST = 3  # runs of an arm before the first round: one alone, and two looks


def compared(seconds: Mapping[str, float | list[float]]) -> Measured:
    clock = FakeClock(seconds)
    return compare("chosen", {name: lambda: None for name in seconds}, clock, seconds=1e-6)


def test_the_fastest_row_is_taken() -> None:
    found = compared({DEFAULT: 2e-5, "slow": 2.2e-5, "fast": 1.5e-5, "faster": 1.4e-5})
    assert (found.choice.row, found.choice.default) == ("faster", "chosen")
    assert found.choice.us == pytest.approx(14)
    assert found.choice.default_us == pytest.approx(20)
    assert found.choice.gain == pytest.approx(2 / 1.4 - 1)


@pytest.mark.parametrize(
    ("default", "row", "taken"),
    [
        (100e-6, 98.9e-6, True),
        (100e-6, 99.1e-6, False),  # less than 1 %
        (3e-6, 2.95e-6, False),  # more than 1 %, and less than what events tell apart
        (4.8e-6, 4.64e-6, False),  # in another run it was the other way round
        (3e-6, 2.75e-6, True),
    ],
)
def test_a_gain_within_noise_is_none(default: float, row: float, taken: bool) -> None:
    choice = compared({DEFAULT: default, "row": row}).choice
    assert choice.is_default is not taken
    assert choice.row == ("row" if taken else DEFAULT)
    if not taken:
        assert choice.us == choice.default_us == pytest.approx(default * 1e6)


@dataclass
class LuckyClock:
    """The row `lucky` takes half its time in one of the two rounds; `steady` is always a little faster than others."""

    round_of_luck: int
    rounds: int = 0

    def measure(self, arms: Mapping[str, Arm], rounds: int, shuffle: random.Random) -> Samples:
        if rounds > 2:  # not a look
            self.rounds += 1
        lucky = self.rounds == self.round_of_luck
        times = {DEFAULT: 2e-5, "steady": 1.8e-5, "lucky": 1e-5 if lucky else 2e-5}
        return {name: [times[name]] * rounds for name in arms}


@pytest.mark.parametrize("round_of_luck", [1, 2])
@pytest.mark.parametrize(("others", "taken"), [((), DEFAULT), (("steady",), "steady")], ids=str)
def test_a_row_must_be_faster_in_both_rounds(
    round_of_luck: int, others: tuple[str, ...], taken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measurement, "warm", lambda *given: 1e-3)
    runs: dict[str, Callable[[], None]] = dict.fromkeys((DEFAULT, "lucky", *others), lambda: None)
    clock = LuckyClock(round_of_luck)
    assert compare("chosen", runs, clock, seconds=0.1).choice.row == taken
    assert clock.rounds == 2


def test_hopeless_rows_are_left_out_after_a_look_and_dreary_ones_after_one_run() -> None:
    seconds = {DEFAULT: 1e-3, "near": 1.25e-3, "hopeless": 1.4e-3, "dreary": 9e-3}
    clock = FakeClock(seconds)
    found = compare("chosen", {name: lambda: None for name in seconds}, clock, seconds=0.01)
    assert set(found.finals) == {DEFAULT, "near"}
    assert clock.rounds["dreary"] == 1
    assert clock.rounds["hopeless"] == FIRST
    assert clock.rounds["near"] > 2 * FIRST


def test_a_default_that_is_hopeless_is_measured_all_the_same() -> None:
    found = compared({DEFAULT: 50e-3, "row": 1e-3})
    assert found.choice.row == "row"
    assert found.choice.default_us == pytest.approx(50e3)


def test_without_other_rows_the_default_stays() -> None:
    choice = compared({DEFAULT: 1e-5}).choice
    assert choice.is_default
    assert choice.gain == 0


def test_the_second_round_has_the_best_three_and_the_default() -> None:
    seconds = {DEFAULT: 1e-3, **{f"row{number}": (1 + number / 100) * 1e-3 for number in range(6)}}
    clock = FakeClock(seconds)
    compare("chosen", {name: lambda: None for name in seconds}, clock, seconds=0.01)
    more = {name for name, rounds in clock.rounds.items() if rounds > clock.rounds["row5"]}
    assert more == {DEFAULT, "row0", "row1", "row2"}


def test_a_real_clock_finds_the_shorter_loop() -> None:
    def loop(turns: int) -> None:
        for _ in range(turns):
            pass

    runs = {DEFAULT: lambda: loop(30_000), "shorter": lambda: loop(10_000)}
    found = compare("loop", runs, CpuClock(), seconds=0.5)
    assert found.choice.row == "shorter"
    assert 0 < found.choice.us < found.choice.default_us


class TestCall:
    def test_a_row_runs_with_the_calls_arguments(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """All but fast_accum, which decides what the candidates are."""
        a, b = torch.ones(4, 8), torch.ones(8, 4)
        options = {"activation": "relu", "slope": 0.5, "out_dtype": None, "allow_tf32": False, "fast_accum": True}
        seen: list[object] = []
        monkeypatch.setattr(Call, "_ask", lambda call, what: {"candidates": "3 row_x\n17 row_y\n"}[what])
        monkeypatch.setattr(
            torch.ops.tileon, "_matmul_with_config", lambda *given, **named: seen.append((given, named))
        )
        rows = Call("matmul", (a, b, None), options).rows()
        assert list(rows) == ["row_x", "row_y"]
        rows["row_y"]()
        assert seen == [
            ((a, b, None), {"config": 17, "activation": "relu", "slope": 0.5, "out_dtype": None, "allow_tf32": False})
        ]

    def test_a_problem_is_named_as_the_library_names_it(self) -> None:
        a, b = torch.ones(64, 128, dtype=torch.bfloat16), torch.ones(128, 96, dtype=torch.bfloat16)
        call = Call("matmul", (a, b, None), {"activation": "none"})
        assert call.problem() == "matmul bfloat16->bfloat16 1x64x96x128 a=k b=mn out=rows plain"
        assert call.device == a.device

    def test_what_the_op_refuses_has_no_problem(self) -> None:
        with pytest.raises(RuntimeError, match=r"^matmul: `activation` must be one of"):
            Call("matmul", (torch.ones(2, 2), torch.ones(2, 2), None), {"activation": "elu"}).problem()
