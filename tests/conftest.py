"""Devices, markers and the account of what was left out.

Every test that takes `device` runs on the CPU and, where there is one, on the GPU. Without a GPU the second half is not
run, and the summary says how many tests that were. `-m sanitizer` picks the small set that compute-sanitizer can go
through. A GPU test that does not end ends the run, and so does one that has cost the process its GPU.
"""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

# Threads that wait for work sleep: spinning they would take the cores from the other processes of a run. libgomp asks
# when torch loads it, in the processes that tests start too.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch
from torch import Tensor

ROOT = pathlib.Path(__file__).resolve().parent.parent
for folder in (ROOT, ROOT / "tests"):  # the package is used in place; no installation is needed
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

# What somebody tuned on this machine must not change which kernels the tests meet. The library asks when it is loaded.
os.environ["TILEON_TUNE"] = "0"

import hang_guard  # noqa: E402
import simulated_gpu  # noqa: E402

import tileon_ops  # noqa: E402, F401
from tileon_ops._rules import configs  # noqa: E402

if TYPE_CHECKING:
    from simulated_devices import Devices

if simulated_gpu.is_loaded():
    simulated_gpu.install()
HAS_GPU = torch.cuda.is_available()
LEFT_OUT = pytest.StashKey[int]()  # how many tests need a GPU where there is none


def pytest_configure(config: pytest.Config) -> None:
    if HAS_GPU:
        hang_guard.start()
    if simulated_gpu.is_loaded():
        config.pluginmanager.register(simulated_gpu)
    config.addinivalue_line("markers", "gpu: runs on a GPU; left out where there is none")
    config.addinivalue_line("markers", "slow: takes long or needs much memory (deselect with -m 'not slow')")
    config.addinivalue_line("markers", "sanitizer: the small set that runs under compute-sanitizer")


# Begun before the others, in this order, where there are several processes. Of two the first has the third file too,
# which takes what the first one builds.
LONGEST = ("test_simulated_library.py", "test_packaging.py", "test_simulation.py", "test_recipes.py", "test_aot.py")


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None, None, None]:
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.name, len(LONGEST)))
    for item in items:
        callspec = getattr(item, "callspec", None)
        if callspec is not None and callspec.params.get("device") == "cuda":
            item.add_marker(pytest.mark.gpu)
    yield  # -m and -k choose
    if HAS_GPU or config.option.collectonly:
        return
    # Not skipped one by one: they are most of all, and each would be reported from process to process.
    left_out = [item for item in items if item.get_closest_marker("gpu")]
    items[:] = [item for item in items if not item.get_closest_marker("gpu")]
    config.hook.pytest_deselected(items=left_out)
    config.stash[LEFT_OUT] = len(left_out)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A process of pytest-xdist has ended: each has collected all tests."""
    node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get("left_out", 0)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    left_out = session.config.stash.get(LEFT_OUT, 0)
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = left_out
    if left_out and exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = pytest.ExitCode.OK


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    with hang_guard.watch(item.nodeid if HAS_GPU and item.get_closest_marker("gpu") else None):
        return (yield)


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """After an illegal access every later call fails as well: the run ends where the first one was."""
    if call.excinfo is None or not HAS_GPU or not item.get_closest_marker("gpu"):
        return
    try:
        torch.cuda.synchronize()
    except RuntimeError as error:
        item.session.shouldstop = f"the GPU is lost to this process after {item.nodeid}: {str(error).splitlines()[0]}"


@pytest.fixture(scope="session", params=["cpu", "cuda"])
def device(request: pytest.FixtureRequest) -> torch.device:
    """The device of a test's tensors. Of session scope, so that hypothesis may use it."""
    return simulated_gpu.CPU if simulated_gpu.is_loaded() else torch.device(request.param)


@pytest.fixture
def gpu() -> torch.device:
    """The device of a test's tensors, for tests that run on a GPU alone."""
    return simulated_gpu.CPU if simulated_gpu.is_loaded() else torch.device("cuda")


@pytest.fixture(autouse=True)
def _exact_torch_matmul() -> None:
    """torch's own float32 products, which some tests compare with, are IEEE unless a test says otherwise."""
    torch.backends.cuda.matmul.allow_tf32 = False


@pytest.fixture(scope="module")
def meshes() -> Generator[dict[str, Devices], None, None]:
    """Four devices in this process, by the name of how they lie."""
    from simulated_devices import devices  # it loads torch.distributed, which few tests need

    with devices() as by_name:
        yield by_name


@pytest.fixture
def line(meshes: dict[str, Devices]) -> Devices:
    return meshes["line"]


@pytest.fixture
def square(meshes: dict[str, Devices]) -> Devices:
    return meshes["square"]


@pytest.fixture
def codes_compare_as_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """opcheck's schema test asks torch.allclose whether arguments were written, which knows no floats of 8 bits."""
    allclose = torch.allclose

    def compare(left: Tensor, right: Tensor, **options: Any) -> bool:
        if left.is_floating_point() and left.element_size() == 1:
            return torch.equal(left.view(torch.uint8), right.view(torch.uint8))
        return allclose(left, right, **options)

    monkeypatch.setattr(torch, "allclose", compare)


def pytest_report_header() -> list[str]:
    gpu = torch.cuda.get_device_name(0) if HAS_GPU else "none"
    rows = len(configs.dense())
    watchdog = "watchdog: yes" in torch.ops.tileon._build_info()
    library = "the watchdog library" if watchdog else "the library"
    return [f"torch {torch.__version__}, GPU: {gpu}, {library}'s tile table: {rows} rows, {os.cpu_count()} CPUs"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not HAS_GPU:
        left_out = terminalreporter.config.stash.get(LEFT_OUT, 0)
        terminalreporter.write_sep("-", f"no GPU here: {left_out} GPU tests were left out", yellow=True)
    reasons: dict[str, int] = {}
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reason = reason.removeprefix("Skipped: ")
        reasons[reason] = reasons.get(reason, 0) + 1
    for reason, count in sorted(reasons.items()):
        terminalreporter.write_line(f"left out: {count} x {reason}")


@pytest.fixture
def one_thread() -> Generator[None, None, None]:
    """One thread of torch: small products take longer on several."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def no_programs_from_before() -> Iterator[None]:
    """torch's compiler writes each program anew: what it keeps may be of another version of this library."""
    torch._dynamo.reset()
    with torch._inductor.config.patch(force_disable_caches=True):
        yield
    torch._dynamo.reset()
