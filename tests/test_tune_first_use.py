"""What tuning found, in a process that runs products: read at a GPU's first one, and with TILEON_TUNE=1 measured at a
problem's first one; with simulated GPUs and times."""

from __future__ import annotations

import inspect
import logging
import threading
import warnings

import pytest
import torch
from simulated_tuning import FASTER, NN, NT, SHAPE, SimulatedTuning, choice, load, simulated

import tileon_ops
from tileon_ops.tune import tuned_configs
from tileon_ops.tune.cache import DEFAULT, CacheFile, Choice

__all__ = ["simulated"]  # the fixture


class TestLoading:
    def test_unset_the_cache_is_read_once_for_all_gpus_of_a_model(
        self, simulated: SimulatedTuning, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        simulated.file.merge({NN: choice()})
        reads = []
        read = CacheFile.read

        def counted(file: CacheFile) -> dict[str, Choice]:
            reads.append(file.path)
            return read(file)

        monkeypatch.setattr(CacheFile, "read", counted)
        for _ in range(2):
            torch.ops.tileon._load_tuned_configs(0)
            torch.ops.tileon._load_tuned_configs(1)
        assert simulated.row(NN, 0) == simulated.row(NN, 1) == FASTER
        assert len(reads) == 1

    def test_with_0_the_cache_is_neither_read_nor_written(
        self, simulated: SimulatedTuning, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        simulated.file.merge({NN: choice()})
        before = simulated.file.path.read_bytes()
        monkeypatch.setenv("TILEON_TUNE", "0")
        load()
        assert simulated.row(NN) == ""
        report = tileon_ops.tune([SHAPE])
        assert report.cache is None
        assert simulated.row(NN) == simulated.row(NT) == FASTER
        assert simulated.file.path.read_bytes() == before

    def test_rows_that_no_table_has_are_passed_over_without_a_word(self, simulated: SimulatedTuning) -> None:
        simulated.file.merge({NN: choice("row_of_another_day"), NT: choice()})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            load()
        assert simulated.row(NN) == ""
        assert simulated.row(NT) == FASTER

    def test_a_corrupt_cache_costs_one_warning_and_sets_nothing(self, simulated: SimulatedTuning) -> None:
        simulated.file.merge({NN: choice()})
        simulated.file.path.write_text("{")
        with pytest.warns(UserWarning, match="is ignored") as caught:
            load()
        load()
        assert len(caught) == 1
        assert simulated.row(NN) == ""

    def test_a_failure_inside_costs_one_warning(
        self, simulated: SimulatedTuning, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(device: int) -> None:
            raise AttributeError("no such property")

        monkeypatch.setattr(torch.cuda, "get_device_properties", fail)
        with pytest.warns(UserWarning, match="ignored: AttributeError: no such property") as caught:
            load()
        load()
        assert len(caught) == 1

    def test_what_another_thread_finds_meanwhile_does_not_stop_it(
        self, simulated: SimulatedTuning, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        simulated.file.merge({NN: choice(), NT: choice()})
        set_row = tuned_configs._set

        def set_while_another_adds(device: int, problem: str, found: Choice) -> None:
            set_row(device, problem, found)
            tuned_configs._of(device).choices[f"found after {problem}"] = found

        monkeypatch.setattr(tuned_configs, "_set", set_while_another_adds)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            load()
        assert simulated.row(NN) == simulated.row(NT) == FASTER

    @pytest.mark.parametrize(("name", "value"), [("TILEON_HOPPER", "0"), ("TILEON_PDL", "0")])
    def test_switches_that_change_the_kernels_have_files_of_their_own(
        self, simulated: SimulatedTuning, monkeypatch: pytest.MonkeyPatch, name: str, value: str
    ) -> None:
        simulated.file.merge({NN: choice()})
        monkeypatch.setenv(name, value)
        tuned_configs.library_parts.cache_clear()
        load()
        assert simulated.row(NN) == ""


class TestAtFirstUse:
    """TILEON_TUNE=1: what the choice calls at the first product of a problem without a row."""

    @pytest.fixture(autouse=True)
    def _tunes(self, monkeypatch: pytest.MonkeyPatch, simulated: SimulatedTuning) -> None:
        monkeypatch.setenv("TILEON_TUNE", "1")

    def test_the_problem_is_measured_and_remembered(
        self, simulated: SimulatedTuning, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.INFO, logger="tileon_ops"):
            problem = simulated.first_product(*SHAPE)
        assert simulated.measured == [problem]
        assert simulated.row(problem) == FASTER
        assert simulated.file.read()[problem].row == FASTER
        assert caplog.messages == [f"tuned {problem}: {FASTER} 10.0 us, 100.0 % faster than {_chosen()}"]

    def test_a_problem_whose_default_is_best_has_a_row_too_so_that_nobody_asks_again(
        self, simulated: SimulatedTuning
    ) -> None:
        simulated.clock.seconds = {DEFAULT: 1e-5, FASTER: 1e-5}
        problem = simulated.first_product(*SHAPE)
        assert simulated.row(problem) == DEFAULT
        simulated.forget()
        load()
        assert simulated.row(problem) == DEFAULT

    def test_what_is_known_is_not_measured(self, simulated: SimulatedTuning) -> None:
        problem = simulated.first_product(*SHAPE)
        torch.ops.tileon._clear_tuned_configs()
        simulated.first_product(*SHAPE)
        assert simulated.row(problem) == FASTER
        assert simulated.measured == [problem]

    def test_a_row_that_no_table_has_is_measured_anew(self, simulated: SimulatedTuning) -> None:
        problem = "matmul float32->float32 1x64x96x128 a=k b=mn out=rows plain"
        simulated.file.merge({problem: choice("row_of_another_day")})
        assert simulated.first_product(*SHAPE) == problem
        assert simulated.row(problem) == FASTER

    def test_a_failure_costs_one_warning_and_the_problem_is_left_to_the_default(
        self, simulated: SimulatedTuning
    ) -> None:
        def fail() -> None:
            raise torch.OutOfMemoryError("no memory")

        simulated.clock.meanwhile = fail
        with pytest.warns(UserWarning, match="tuning at first use failed: OutOfMemoryError: no memory") as caught:
            problem = simulated.first_product(*SHAPE)
        assert simulated.row(problem) == DEFAULT
        other = simulated.first_product(64, 96, 256)
        assert simulated.row(other) == DEFAULT
        assert len(caught) == 1
        assert simulated.file.read() == {}

    def test_nothing_happens_while_a_graph_is_captured(
        self, simulated: SimulatedTuning, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
        problem = simulated.first_product(*SHAPE)
        assert simulated.measured == []
        assert simulated.row(problem) == ""

    def test_what_is_run_to_measure_is_not_measured_itself(self, simulated: SimulatedTuning) -> None:
        def nested() -> None:
            simulated.first_product(32, 32, 32)

        simulated.clock.meanwhile = nested
        problem = simulated.first_product(*SHAPE)
        tileon_ops.tune([SHAPE], layouts="NN")
        assert simulated.measured == [problem, NN]

    def test_two_threads_measure_one_after_the_other_and_a_problem_once(self, simulated: SimulatedTuning) -> None:
        inside, most = [], []

        def meanwhile() -> None:
            inside.append(threading.get_ident())
            most.append(len(set(inside)))
            threading.Event().wait(0.002)

        simulated.clock.meanwhile = meanwhile
        threads = [threading.Thread(target=simulated.first_product, args=SHAPE) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(simulated.measured) == 1
        assert set(most) == {1}

    def test_block_scaled_products_too(self, simulated: SimulatedTuning) -> None:
        x = torch.ones(64, 128)
        (a, scale_a), (b, scale_b) = (tileon_ops.quantize(x, "mxfp8") for _ in range(2))
        tuned_configs._tune_block_scaled_matmul(a, b, scale_a, scale_b, None, None, "none", 0.01, None, True)
        problem = "block_scaled_matmul mxfp8->float16 fast 64x64x128 scales=packed out=rows plain"
        assert simulated.measured == [problem]
        assert simulated.row(problem) == FASTER

    def test_products_of_an_a_without_a_scale_too(self, simulated: SimulatedTuning) -> None:
        b, scale_b = tileon_ops.quantize(torch.ones(64, 128), "mxfp4")
        a = torch.ones(32, 128, dtype=torch.bfloat16)
        tuned_configs._tune_block_scaled_matmul(a, b, None, scale_b, None, None, "none", 0.01, None, False)
        problem = "block_scaled_matmul bfloat16*mxfp4->bfloat16 32x64x128 a=k b=k out=rows plain"
        assert simulated.measured == [problem]
        assert simulated.row(problem) == FASTER


@pytest.mark.parametrize("name", ["_tune_matmul", "_tune_block_scaled_matmul"])
def test_the_tuners_ops_take_the_arguments_in_their_schemas_order(name: str) -> None:
    schema = getattr(torch.ops.tileon, name).default._schema
    assert list(inspect.signature(getattr(tuned_configs, name)).parameters) == [one.name for one in schema.arguments]


def _chosen() -> str:
    """What the default is called here: nothing has run."""
    return str(torch.ops.tileon._last_kernel())


class TestMode:
    @pytest.mark.parametrize(
        ("value", "announced"), [(None, (True, False)), ("", (True, False)), ("0", (False, False)), ("1", (True, True))]
    )
    def test_what_is_announced(
        self, value: str | None, announced: tuple[bool, bool], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if value is None:
            monkeypatch.delenv("TILEON_TUNE", raising=False)
        else:
            monkeypatch.setenv("TILEON_TUNE", value)
        heard: list[tuple[bool, bool]] = []
        monkeypatch.setattr(torch.ops.tileon, "_announce_tuner", lambda *given: heard.append(given))
        tuned_configs.announce()
        assert heard == [announced]

    def test_another_value_costs_one_warning_and_is_ignored(
        self, simulated: SimulatedTuning, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TILEON_TUNE", "yes")
        with pytest.warns(UserWarning, match="TILEON_TUNE must be 0 or 1, got 'yes'") as caught:
            assert tuned_configs.mode() == ""
        assert tuned_configs.mode() == ""
        assert len(caught) == 1
