"""What tuning found, in this process: read from the cache at a GPU's first product, measured at a problem's first one.

`torch.ops.tileon._set_tuned_config` tells the choice, in C++, which config computes a problem on a GPU. This module
calls it: for what the cache holds, when the choice asks by `_load_tuned_configs`; for what `tileon_ops.tune` measures;
and with TILEON_TUNE=1 for what the choice meets and nobody has measured (`_tune_matmul`, `_tune_block_scaled_matmul`).

Nothing here breaks the product that caused it: a failure costs one warning, and the library chooses by itself.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from tileon_ops._loading import build_state, library
from tileon_ops._rules import configs
from tileon_ops._rules.errors import remember_interrupt
from tileon_ops._version import __version__
from tileon_ops.tune import cache
from tileon_ops.tune.cache import DEFAULT, CacheFile, Choice, Identity, warn_once

if TYPE_CHECKING:
    from tileon_ops.tune.measurement import Call, Measured

_log = logging.getLogger("tileon_ops")
_ops_library = torch.library.Library("tileon", "IMPL")

# Of the environment: they change which kernels run, or how.
_SWITCHES = ("TILEON_HOPPER", "TILEON_PDL")


def mode() -> str:
    """TILEON_TUNE: "0" leaves the cache alone, "1" measures what it does not hold, "" (not set) only reads it."""
    value = os.environ.get("TILEON_TUNE", "")
    if value not in ("", "0", "1"):
        warn_once("mode", f"TILEON_TUNE must be 0 or 1, got {value!r}, which is ignored")
        return ""
    return value


@functools.cache
def library_parts() -> dict[str, str]:
    """What of an Identity the library decides."""
    record = build_state.read_record(build_state.record_of(library.path()))
    return {
        "version": __version__,
        "sources": record.sources if record else "",
        "cuda": record.cuda if record else "",
        "switches": " ".join(f"{name}=0" for name in _SWITCHES if os.environ.get(name) == "0"),
    }


def identity(device: int) -> Identity:
    """What times on this GPU by this library depend on. Allowed while a graph is captured."""
    properties = torch.cuda.get_device_properties(device)
    return Identity(
        gpu=properties.name,
        capability=f"{properties.major}.{properties.minor}",
        multiprocessors=properties.multi_processor_count,
        **library_parts(),
    )


def _names() -> set[str]:
    """Of the configs of both products."""
    return {config.name for config in (*configs.dense(), *configs.block_scaled())}


class _Found:
    """The choices for one model of GPU: the cache's, and this process's own over them.

    Configs that the library does not have are left out: a file changed by hand, or a library that does not say what it
    was built from.
    """

    def __init__(self, file: CacheFile | None) -> None:
        names = {*_names(), DEFAULT}
        self.file = file
        self.choices = {
            problem: choice
            for problem, choice in (file.read() if file is not None else {}).items()
            if choice.row in names
        }


_found: dict[Identity, _Found] = {}
_found_lock = threading.RLock()  # a warning inside may run anything, products too


def _of(device: int) -> _Found:
    key = identity(device)
    with _found_lock:
        if key not in _found:
            folder = None if mode() == "0" else cache.directory()
            _found[key] = _Found(None if folder is None else CacheFile(folder, key))
        return _found[key]


def known(device: int, problem: str) -> Choice | None:
    """What was found for the problem on this model of GPU."""
    return _of(device).choices.get(problem)


def cache_path(device: int) -> Path | None:
    """The file for this model of GPU, whether or not there is one yet; None where none is used."""
    file = _of(device).file
    return None if file is None else file.path


def _set(device: int, problem: str, choice: Choice) -> None:
    """Tells the library. That the default is best it must know only where it would have the problem measured else."""
    row = choice.row if not choice.is_default or mode() == "1" else ""
    torch.ops.tileon._set_tuned_config(device, problem, row)


def remember(device: int, problem: str, choice: Choice, *, save: bool = True) -> None:
    """From now on `choice` holds on every GPU of this model here, and with `save` in later processes too."""
    found = _of(device)
    found.choices[problem] = choice
    for other in range(torch.cuda.device_count()):
        if other == device or identity(other) == identity(device):
            _set(other, problem, choice)
    if save and found.file is not None:
        found.file.merge({problem: choice})


def forget() -> None:
    """Forgets all that this process knows; whoever asks next reads the cache again."""
    with _found_lock:
        _found.clear()
    torch.ops.tileon._clear_tuned_configs()


def load(device: int) -> None:
    """Sets the configs that the cache holds for this GPU."""
    try:
        for problem, choice in list(_of(device).choices.items()):  # another thread may be adding to them
            _set(device, problem, choice)
    except Exception as error:
        warn_once("load", f"the tuning cache is ignored: {type(error).__name__}: {error}")
    except BaseException as error:  # Ctrl-C: the product that asked is ended by it
        remember_interrupt(error)
        raise


# One thread measures at a time: two would measure each other.
_measuring_lock = threading.Lock()
_this_thread = threading.local()


@contextlib.contextmanager
def measuring(device: int) -> Iterator[None]:
    """Alone in measuring, with this GPU as the current one. Products inside are not tuned themselves, nor cast."""
    with _measuring_lock, torch.cuda.device(device):
        _this_thread.measures = True
        try:
            # Nothing is recorded, and no kernel of autograd's is asked. Autocast would cast what the op multiplies, and
            # not what its configs do.
            with torch.inference_mode(), torch.autocast("cuda", enabled=False):
                yield
        finally:
            _this_thread.measures = False


def measure(call: Call, device: int, seconds: float | None = None) -> Measured:
    """Measures a call's problem, by the library's own choice and by every config; inside `measuring`. The
    problem is left to that choice; where measuring fails, what was set for the problem before is set again."""
    from tileon_ops.tune import measurement, timing  # at the first use: most programs never measure

    problem = call.problem()
    before = torch.ops.tileon._tuned_config(device, problem)
    try:
        call.run()  # the choice asks for this GPU's configs once, and that shall lie behind
        torch.ops.tileon._set_tuned_config(device, problem, DEFAULT)
        clock = timing.clock_of(call.device)
        return measurement.measure(call, clock, measurement.SECONDS if seconds is None else seconds)
    except BaseException:
        torch.ops.tileon._set_tuned_config(device, problem, before)
        raise


def _tune(op: str, tensors: tuple[Any, ...], options: dict[str, Any]) -> None:
    """What the choice calls at the first product of a problem that has no config."""
    if getattr(_this_thread, "measures", False):
        return
    device, problem = 0, ""
    try:
        if torch.cuda.is_current_stream_capturing():
            return
        from tileon_ops.tune.measurement import Call

        call = Call(op, tensors, options)
        device, problem = call.device.index, call.problem()
        with measuring(device):
            choice = known(device, problem)  # by another thread, meanwhile
            if choice is None:
                choice = measure(call, device).choice
                remember(device, problem, choice)
                _log.info("tuned %s: %s", problem, describe(choice))
            else:
                _set(device, problem, choice)
    except Exception as error:
        warn_once("tune", f"tuning at first use failed: {type(error).__name__}: {error}")
        if problem:  # not again at the next product
            torch.ops.tileon._set_tuned_config(device, problem, DEFAULT)
    except BaseException as error:  # Ctrl-C: the product that asked is ended by it
        remember_interrupt(error)
        raise


def describe(choice: Choice) -> str:
    """In words, for the log."""
    if choice.is_default:
        return f"{choice.default} {choice.default_us:.1f} us, the library's own choice"
    return f"{choice.row} {choice.us:.1f} us, {100 * choice.gain:.1f} % faster than {choice.default}"


def _tune_matmul(
    a: Any, b: Any, bias: Any, activation: str, slope: float, out_dtype: Any, allow_tf32: bool, fast_accum: bool
) -> None:
    options = {"activation": activation, "slope": slope, "out_dtype": out_dtype}
    _tune("matmul", (a, b, bias), {**options, "allow_tf32": allow_tf32, "fast_accum": fast_accum})


def _tune_block_scaled_matmul(
    a: Any,
    b: Any,
    scale_a: Any,
    scale_b: Any,
    bias: Any,
    global_scale: Any,
    activation: str,
    slope: float,
    out_dtype: Any,
    fast_accum: bool,
) -> None:
    options = {"activation": activation, "slope": slope, "out_dtype": out_dtype, "fast_accum": fast_accum}
    _tune("block_scaled_matmul", (a, b, scale_a, scale_b, bias, global_scale), options)


def announce() -> None:
    """Tells the choice what it may ask for."""
    how = mode()
    torch.ops.tileon._announce_tuner(how != "0", how == "1")


def register() -> None:
    _ops_library.impl("_load_tuned_configs", load, "CompositeExplicitAutograd")
    _ops_library.impl("_tune_matmul", _tune_matmul, "CUDA")
    _ops_library.impl("_tune_block_scaled_matmul", _tune_block_scaled_matmul, "CUDA")
    announce()
