"""The Hopper choice's cost model for what fits and judges it: the C++ of csrc/cuda/sm90/heuristics, compiled
for the host (cost_library.cpp), and its numbers as arrays.

The numbers are the fields of config.h's CostNumbers and of operand_loads.h's GpuNumbers, in their order. The configs'
stand in their table, tables.h, and those of the GPUs in cost_numbers.h.
"""

from __future__ import annotations

import ctypes
import math
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.common.cases import Case
from benchmarks.common.commit import ROOT
from benchmarks.common.result_file import read_csv
from benchmarks.common.times import By, read_row_times

HEURISTICS = ROOT / "csrc" / "cuda" / "sm90" / "heuristics"
_WIDTHS = (8, 8, 8, 8, 8, 10, 11, 9)  # of the columns that a config's numbers have in tables.h
SM_COUNT = 132  # of an H200, and of an H100
GPUS = ("H200", "H100")  # as result files name them, in the order of cost_numbers.h
_LEFT_OUT = 3.0  # times the best one: what a config counts that was left out of a case as hopeless

Array = npt.NDArray[Any]
_FIELDS = [("m", "i8"), ("n", "i8"), ("k", "i8"), ("a_mn_major", "i4"), ("b_mn_major", "i4"), ("gpu", "i4")]
_CASE = np.dtype(_FIELDS, align=True)
_COMPILER = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")


def _pointer(array: Array) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


class Model:
    """The compiled model. `configs` are the names of the table's, in its order."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        library.config_name.restype = library.choose_block_scaled.restype = ctypes.c_char_p
        self.configs: list[str] = [library.config_name(config).decode() for config in range(library.config_count())]

    def tiles(self) -> Array:
        """Of each config: family, as a number, tile_m, tile_n, splits, whether it is for a few rows, and the CTAs that
        load together."""
        found = np.zeros((len(self.configs), 6), np.int32)
        for config, line in enumerate(found):
            self._library.config_tile(config, _pointer(line))
        return found

    def numbers(self) -> tuple[Array, Array]:
        """Those in the tree: of the configs, [config][number], and of the GPUs, [gpu][number]."""
        of_configs = np.zeros((len(self.configs), self._library.config_number_count()), np.float32)
        of_gpus = np.zeros((self._library.gpu_count(), self._library.gpu_number_count()), np.float32)
        self._library.read_numbers(_pointer(of_configs), _pointer(of_gpus))
        return of_configs.astype(float), of_gpus.astype(float)

    def expected_ns(self, config: Array, case: Array, cases: Array, of_configs: Array, of_gpus: Array) -> Array:
        """Nanoseconds of pairs of a config and a case, each by number; `cases` is `as_array`'s."""
        config, case = (np.ascontiguousarray(numbers, np.int32) for numbers in (config, case))
        of_configs, of_gpus = (np.ascontiguousarray(numbers, np.float32) for numbers in (of_configs, of_gpus))
        ns = np.zeros(len(config))
        config_at, case_at, cases_at, *numbers_at = map(_pointer, (config, case, cases, of_configs, of_gpus, ns))
        self._library.expected_ns(len(config), config_at, case_at, len(cases), cases_at, SM_COUNT, *numbers_at)
        return ns

    def chosen(self, cases: Array, sm_count: int = SM_COUNT) -> Array:
        """By case of `as_array`: the number of the config that the library chooses."""
        found = np.zeros(len(cases), np.int32)
        self._library.choose_all(len(cases), _pointer(cases), sm_count, _pointer(found))
        return found

    def chosen_block_scaled(self, format: str, m: int, n: int, k: int) -> str:
        """The config that the library chooses on an H200 for two operands of the format, with packed scales."""
        sizes = (ctypes.c_int64(size) for size in (m, n, k))
        a_is_e4m3, b_is_e4m3 = format in ("mxfp8", "mixed"), format == "mxfp8"
        name: bytes = self._library.choose_block_scaled(*sizes, a_is_e4m3, b_is_e4m3, format == "nvfp4")
        return name.decode()


def as_array(cases: Sequence[Case], gpu: int = 0) -> Array:
    """On the GPU of that number."""
    lines = [(case.m, case.n, case.k, case.layout[0] == "T", case.layout[1] == "N", gpu) for case in cases]
    return np.array(lines, _CASE)


@cache
def model() -> Model:
    """Compiled once a process, in a few seconds."""
    if _COMPILER is None:
        raise RuntimeError("the cost model is C++: this needs g++ or clang++, or CXX that names a compiler")
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "cost_model.so"
        source = Path(__file__).with_name("cost_library.cpp")
        options = ["-std=c++20", "-O3", "-fno-trapping-math", "-shared", "-fPIC", f"-I{ROOT / 'csrc'}"]
        subprocess.run([_COMPILER, *options, str(source), "-o", str(library)], check=True)
        return Model(ctypes.CDLL(str(library)))


class Sweep:
    """Measured times, as arrays of configs by cases. `weight` is what a case counts in a fit: where several GPUs were
    measured, the cases of each together count as much as those of any other one."""

    def __init__(self, measured: Mapping[Case, By], configs: Sequence[str], gpu: int = 0) -> None:
        """Of one file, and of the GPU of that number."""
        self.configs, self.cases, self.by_provider = configs, list(measured), list(measured.values())
        times = [[1e3 * by.get(name, math.nan) for by in self.by_provider] for name in configs]
        self.measured = np.array(times).reshape(len(configs), len(self.cases))
        self.weight = np.ones(len(self.cases))
        # A config that no case has was not there yet when the file was measured: nobody knows what it takes.
        self.is_known = ~np.isnan(self.measured).all(axis=1, keepdims=True) & np.ones_like(self.measured, bool)
        self.as_array = as_array(self.cases, gpu)
        self._complete()

    def _complete(self) -> None:
        self.best = np.nanmin(self.measured, axis=0) if self.cases else np.zeros(0)
        self.times = np.where(np.isnan(self.measured), _LEFT_OUT * self.best, self.measured)

    @classmethod
    def read(cls, paths: Sequence[Path]) -> Sweep:
        """Of several files; what a later one has of a case on the same GPU stands. A GPU that the model has no numbers
        of counts as the first."""
        configs, files = model().configs, list[tuple[int, dict[Case, By]]]()
        for path in paths:
            name = read_csv(path)[0].get("gpu", GPUS[0])
            gpu = next((number for number, known in enumerate(GPUS) if known in name), 0)
            measured = read_row_times(path, configs)
            for of_gpu, before in files:
                for case in measured if of_gpu == gpu else ():
                    before.pop(case, None)
            files.append((gpu, measured))
        return cls._joined([cls(measured, configs, gpu) for gpu, measured in files])

    @classmethod
    def _joined(cls, sweeps: Sequence[Sweep]) -> Sweep:
        """Of several files."""
        found = cls({}, sweeps[0].configs)
        for sweep in sweeps:
            found.cases += sweep.cases
            found.by_provider += sweep.by_provider
        found.measured = np.hstack([sweep.measured for sweep in sweeps])
        found.is_known = np.hstack([sweep.is_known for sweep in sweeps])
        found.as_array = np.concatenate([sweep.as_array for sweep in sweeps])
        of_gpu = np.bincount(found.as_array["gpu"], minlength=len(GPUS))
        found.weight = len(found.cases) / np.count_nonzero(of_gpu) / of_gpu[found.as_array["gpu"]]
        found._complete()
        return found

    def some(self, wanted: Sequence[bool]) -> Sweep:
        """The cases that are wanted; each counts as before."""
        found, kept = Sweep({}, self.configs), np.flatnonzero(wanted)
        found.cases = [self.cases[case] for case in kept]
        found.by_provider = [self.by_provider[case] for case in kept]
        found.measured, found.is_known = self.measured[:, kept], self.is_known[:, kept]
        found.weight, found.as_array = self.weight[kept], self.as_array[kept]
        found._complete()
        return found

    def chosen(self) -> Array:
        """By case: the number of the config that the library chooses."""
        return model().chosen(self.as_array)

    def expected(self, of_configs: Array, of_gpus: Array) -> Array:
        """Nanoseconds by these numbers, [configs][cases]; infinite where nobody knows what a config takes."""
        shape = self.measured.shape
        config, case = (numbers.ravel() for numbers in np.indices(shape))
        found = model().expected_ns(config, case, self.as_array, of_configs, of_gpus).reshape(shape)
        return np.where(self.is_known, found, np.inf)

    def regrets(self, chosen: Array) -> Array:
        """By case: time of the chosen config over that of the best one; NaN where nobody knows it, or other kernels are
        chosen (-1)."""
        places = chosen, np.arange(len(self.cases))
        return np.where(self.is_known[places] & (chosen >= 0), self.times[places] / self.best, np.nan)

    def lost(self, chosen: Array) -> list[tuple[Case, float]]:
        """What is known of it."""
        regrets = self.regrets(chosen).tolist()
        return [(case, ratio) for case, ratio in zip(self.cases, regrets, strict=True) if not math.isnan(ratio)]


def write_numbers(of_configs: Array, of_gpus: Array, folder: Path = HEURISTICS) -> None:
    """Puts these numbers in the place of those that tables.h and cost_numbers.h in the folder have."""
    tables, gpu_numbers = folder / "tables.h", folder / "cost_numbers.h"
    before, table, rows = tables.read_text().partition("constexpr KernelConfig kDenseConfigs[] = {\n")
    for name, values in zip(model().configs, of_configs, strict=True):
        row = next(line for line in rows.splitlines() if line.startswith(f'    {{"{name}",'))
        numbers = ", ".join(f"{_float(value):>{width}}" for value, width in zip(values, _WIDTHS, strict=True))
        rows = rows.replace(row, f"{row[: row.rindex('{')]}{{{numbers}}}}},")
    tables.write_text(before + table + rows)
    texts, text = map(_float, of_gpus.ravel()), gpu_numbers.read_text()
    gpu_numbers.write_text(re.sub(r"(?m)^(    \.\w+ = ).*,$", lambda line: f"{line[1]}{next(texts)},", text))


def _float(value: float) -> str:
    """Four digits, as C++ writes a float."""
    text = f"{float(f'{value:.4g}'):.10f}".rstrip("0")
    return f"{text}0f" if text.endswith(".") else f"{text}f"
