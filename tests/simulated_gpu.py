"""GPU tests where the loaded library is the one of simulation/library.py, whose GPU's tensors are the CPU's.

What means a CUDA device to torch means the CPU here, and what a simulated GPU has not ends the test that asks for it as
left out. So does a product that would take a simulation too long: which tests run depends on no clock.
TILEON_SIMULATED_GPU=a100 simulates that one, TILEON_SIMULATED_SEED=<n> runs every test in that schedule, and
TILEON_SIMULATED_PART=3/8 runs the third of eight parts.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Callable
from typing import Any, NoReturn

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

NAMES = {"h200": (9, 0), "a100": (8, 0)}
NAME = os.environ.get("TILEON_SIMULATED_GPU", "h200")
SEED = int(os.environ.get("TILEON_SIMULATED_SEED", "0"))  # simulation/machine/schedule.h
PART, PARTS = map(int, os.environ.get("TILEON_SIMULATED_PART", "1/1").split("/"))
CPU = torch.device("cpu")

# What test_simulated_library.py asks for, so that its tests end within minutes.
IS_SHORT = os.environ.get("TILEON_SIMULATED_SIZES") == "few"

# Multiply-adds of one product, and of all in one test: a second is about 2^30 of them.
MOST_OF_A_PRODUCT = 1 << (26 if IS_SHORT else 28)
MOST_OF_A_TEST = 1 << (27 if IS_SHORT else 32)
PRODUCT_ITSELF = 1 << 21  # what a launch of its own costs beside them


def is_loaded() -> bool:
    return "cuda: simulated" in torch.ops.tileon._build_info()


def as_cpu(value: object) -> object:
    """The CPU in the place of a CUDA device; everything else as it is."""
    if isinstance(value, torch.device) and value.type == "cuda":
        return CPU
    return CPU if isinstance(value, str) and value.partition(":")[0] == "cuda" else value


def leave_out(reason: str) -> NoReturn:
    pytest.skip(f"a simulated GPU {reason}")


class Work:
    """What the products of the running test have cost."""

    def __init__(self) -> None:
        self.done = 0

    def add(self, multiply_adds: int) -> None:
        if multiply_adds > MOST_OF_A_PRODUCT:
            leave_out("is too slow for a product of this size")
        self.done += multiply_adds + PRODUCT_ITSELF
        if self.done > MOST_OF_A_TEST:
            leave_out("is too slow for all of this test; what came before was right")


work = Work()


def multiply_adds(a: Tensor, b: Tensor, shares_columns: bool) -> int:
    """Of a product of operands of these shapes, in whole tiles of 64 x 64; `shares_columns`: both have k columns."""
    if a.dim() < 2 or b.dim() < 2:
        return 0
    k = max(a.shape[-1], b.shape[-1]) if shares_columns else a.shape[-1]
    n = b.shape[-2] if shares_columns else b.shape[-1]
    batch = max(a.shape[0] if a.dim() == 3 else 1, b.shape[0] if b.dim() == 3 else 1)
    return batch * max(a.shape[-2], 64) * max(n, 64) * k


class OnTheCpu(TorchFunctionMode):
    def __torch_function__(
        self, func: Callable[..., Any], types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = str(func)
        if name.startswith("tileon.") and "matmul" in name and len(args) > 1:
            work.add(multiply_adds(args[0], args[1], "block_scaled" in name))
        if func is Tensor.cuda:
            return args[0]
        if func is torch.device and args and as_cpu(args[0]) is CPU:
            return CPU
        kwargs = {key: as_cpu(value) for key, value in (kwargs or {}).items()}
        return func(*map(as_cpu, args), **kwargs)


class CpuGenerator(torch.Generator):
    def __new__(cls, device: object = "cpu") -> CpuGenerator:
        return super().__new__(cls)


# What tests ask torch.cuda for, by what they are told here.
ANSWERS: dict[str, object] = {
    "is_available": True,
    "device_count": 1,
    "current_device": 0,
    "get_device_capability": NAMES[NAME],
    "get_device_name": f"simulated {NAME}",
    "synchronize": None,
    "init": None,
    "is_current_stream_capturing": False,
    "empty_cache": None,
    "_sleep": None,
}
LACKS = {
    "has no streams": ("Stream", "stream", "Event", "default_stream", "current_stream"),
    "has no graphs": ("CUDAGraph", "graph", "graphs"),
    "has no memory of its own": (
        *("mem_get_info", "set_per_process_memory_fraction", "memory_reserved", "memory_allocated"),
        *("max_memory_allocated", "reset_peak_memory_stats", "get_device_properties"),
    ),
    "is one alone": ("set_device", "device"),
    "never waits": ("set_sync_debug_mode",),
}


# What `make test` runs by test_simulated_library.py, in some minutes. On an H200: every row of every table in each of
# its layouts, and of each kind of test some. On an A100: its rows, and the choice among them.
SELECTION = {
    "h200": (
        "test_config_rows.py::test_every_size_class_exactly",
        "test_block_scaled_rows.py::test_every_size_class_exactly",
        "test_block_scaled_rows.py::test_nan_stays_in_its_row_and_column",
        "test_block_scaled_rows.py::test_strided_operands_run_or_are_refused_by_name",
        "test_block_scaled_extremes.py",
        "test_sanitizer.py",
        "test_block_scaled_sanitizer.py",
        "test_epilogue.py",
        "test_epilogue_backward.py",
        "test_block_scaled_epilogue.py",
        "test_block_scaled_strides.py",
        "test_out.py",
        "test_block_scaled_out.py",
        "test_quantize.py",
        "test_quantize_operands.py",
        "test_round_to_format.py",
        "test_quantized_linear.py::TestProduct",
        "test_scale_packing.py",
        "test_dequantize.py",
        "test_choice.py",
        "test_fp8_matmul.py",
        "test_hopper_block_scaled.py",
        "test_hopper_prepared.py",
        "test_hopper_few_rows.py",
        "test_hopper_weight_only.py::TestProducts::test_every_element_of_a_meets_its_own",
        "test_hopper_weight_only.py::TestProducts::test_what_is_not_finite_stays_in_its_row_or_column",
        "test_hopper_block_weights.py::test_operands_end_within_tiles",
        "test_hopper_float32_scaled_weight.py::TestProducts::test_small_whole_numbers_exactly",
        "test_hopper_float32_scaled_weight.py::TestProducts::test_what_is_not_finite_stays_in_its_row_or_column",
        "test_hopper_float32_scaled_weight.py::test_operands_end_within_tiles",
        "test_shared_tiles.py",
        "test_scaled_routes.py::test_a_weights_codes_become_what_a_is",
        "test_scaled_routes.py::test_every_code_of_a_weight_becomes_its_number",
        "test_scaled_codes.py::test_operands_end_within_tiles",
        "test_hopper_float32.py",
        "test_hopper_ragged.py",
        "test_hopper_rows.py",
        "test_dependent_launch.py::TestChains",
        "test_recorded_bits.py",
    ),
    "a100": (
        "test_config_rows.py::test_strides_that_only_some_rows_read",
        "test_block_scaled_rows.py::test_every_size_class_exactly",
        "test_block_scaled_rows.py::test_nan_stays_in_its_row_and_column",
        "test_sanitizer.py",
        "test_block_scaled_sanitizer.py",
        "test_choice.py",
        "test_fp8_matmul.py::TestError",
        "test_fp8_matmul.py::TestSpecialValues",
    ),
}
SMALLEST_COUNT = {"h200": 1500, "a100": 100}  # of tests that pass: not left out

# The sizes that these tests then go through: less than a tile, and more.
FEW_SIZES: dict[str, dict[str, object]] = {
    "test_config_rows": {
        "sizes": lambda tile: (1, tile + 1),
        "k_sizes": lambda block_k: (block_k + 1, 5 * 64),
    },
    "test_block_scaled_rows": {
        "sizes": lambda tile: (1, tile + 1),
        "k_sizes": lambda row: (row.k_step, 3 * row.tile[2] + row.k_step),
    },
    "test_shared_tiles": {"TILES_OF_FEW_CTAS": ()},
    "test_block_scaled_extremes": {"PARTNERS": (110, 136), "SMALL": (0, 2, 7), "LARGE": (252, 254)},
}

# Tests by a part of their name, and why they are left out.
LEFT_OUT = {
    "compile.py": "has no compiler for its tensors",
    "TestOpcheck": "has no compiler for its tensors",
    "test_compilers.py": "has no compiler for its tensors",
    "test_aot.py": "has no compiler for its tensors",
    "test_tune_gpu.py": "is not measured",
    "test_profiler.py": "is none to torch's profiler",
    "test_under_torchs_transformations": "has no compiler for its tensors",
    "opcheck": "has no compiler for its tensors",
    "elsewhere]": "has the CPU's tensors",
    "test_what_ran_is_known": "has the CPU's tensors",
    "test_a_module_trains": "has no driver, which torch's optimizers ask",
    "with_their_own_streams": "has no streams",
    "test_every_layer_keeps_the_accuracy": "has no driver, which torch's optimizers ask",
    "test_prints_a_table_of_passes": "has the CPU's tensors",
    "test_more_batches_than_a_grid_has_rows": "is too slow for so many CTAs",
    "many_tiles": "is too slow for so many CTAs",
}

# Tests by a part of their name, of sums as tensor cores cut them, which take the simulation longer: these two minutes.
LONG_WITH_CUT_SUMS = (
    "test_no_less_accurate_than_one_multiply_add_after_another",
    "test_e5m2_loses_no_more_than_its_bound_where_one_block_dominates",
)
WITH_CUT_SUMS = (
    "test_recorded_bits.py",
    "test_fp8_sums.py",
    "test_sums_leave_the_tensor_core_every_128_k",
    *LONG_WITH_CUT_SUMS,
)
# Of a test with more cases than MANY the selection runs half, with more than TOO_MANY a quarter; of these all, so that
# every row of a table runs, but half of those of float16, whose kernels are bfloat16's.
WHOLE = ("test_every_size_class_exactly", "sanitizer.py", "test_choice.py")
MANY, TOO_MANY = 8, 16

# Tests by a part of their name, which take a fifth of the time that is left and walk code that others of it walk.
LONG = (
    "test_agrees_with_a_row_that_does_not_split",
    "test_more_tiles_along_one_side_than_a_grid_has_rows",
    "test_the_bits_are_the_same_every_time",
    "test_of_every_16_bit_number",
    "test_the_stride_of_a_dimension_of_size_one_is_never_used",
)
if IS_SHORT:
    LEFT_OUT |= dict.fromkeys(LONG_WITH_CUT_SUMS, "takes long to cut sums")
    LEFT_OUT |= dict.fromkeys(LONG, "has it in make simulate")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("gpu") is None:
            item.add_marker(pytest.mark.skip(reason="not about a GPU"))
        for part, reason in LEFT_OUT.items():
            if part in item.nodeid:
                item.add_marker(pytest.mark.skip(reason=f"a simulated GPU {reason}"))
    if IS_SHORT:
        leave_out_cases(items)
    if PARTS > 1 and items:
        others = [item for number, item in enumerate(items) if number % PARTS != PART - 1]
        items[0].config.hook.pytest_deselected(items=others)
        items[:] = items[PART - 1 :: PARTS]


def half(items: list[pytest.Item]) -> list[pytest.Item]:
    """Those whose number has an even count of ones, which follows no dtype or layout."""
    return [item for number, item in enumerate(items) if number.bit_count() % 2 == 0]


def leave_out_cases(items: list[pytest.Item]) -> None:
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for name, of_test in cases.items():
        if any(part in name for part in WHOLE):
            of_float16 = [item for item in of_test if "-float16-" in item.name]
            left_out = set(of_float16) - set(half(of_float16))
        else:
            kept = half(of_test) if len(of_test) > MANY else of_test
            left_out = set(of_test) - set(half(kept) if len(of_test) > TOO_MANY else kept)
        for item in left_out:
            item.add_marker(pytest.mark.skip(reason="a simulated GPU has it in make simulate"))


def pytest_collection_finish(session: pytest.Session) -> None:
    if not IS_SHORT:
        return
    for module in {item.module for item in session.items}:  # type: ignore[attr-defined]
        for name, sizes in FEW_SIZES.get(module.__name__, {}).items():
            assert hasattr(module, name)
            setattr(module, name, sizes)


def pytest_runtest_setup(item: pytest.Item) -> None:
    work.done = 0
    # Not earlier: pytest-xdist begins by a question to uname.
    subprocess.run = lambda *_, **__: leave_out("is none to a process of its own")  # type: ignore[assignment]
    library = ctypes.CDLL(os.environ["TILEON_LIBRARY"])
    library.simulation_begin(ctypes.c_uint64(SEED))
    library.simulation_cut_sums(int(any(part in item.nodeid for part in WITH_CUT_SUMS)))


class Failures:
    """Shown as they come: all of the tests take long."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        terminal = self.config.pluginmanager.get_plugin("terminalreporter")  # where there are many processes, of one
        if report.failed and terminal is not None:
            crash = getattr(report.longrepr, "reprcrash", None)
            message = crash.message.partition("\n")[0] if crash is not None else report.when
            terminal.write_line(f"\n{report.nodeid}, seed {SEED}: {message}")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Failures(config))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line(f"TILEON_SIMULATED_GPU={NAME} TILEON_SIMULATED_SEED={SEED}")


def install() -> None:
    """For the rest of the process."""
    OnTheCpu().__enter__()
    torch.Generator = CpuGenerator  # type: ignore[misc]
    for name, answer in ANSWERS.items():
        setattr(torch.cuda, name, lambda *_, answer=answer, **__: answer)
    for reason, names in LACKS.items():
        for name in names:
            setattr(torch.cuda, name, lambda *_, reason=reason, **__: leave_out(reason))
    torch.compile = lambda *_, **__: leave_out("has no compiler for its tensors")  # type: ignore[assignment]
