"""The tuning cache among several processes: writers take turns, readers see whole files, and nobody waits for long."""

from __future__ import annotations

import fcntl
import pathlib
import subprocess
import sys
import time
import warnings
from dataclasses import replace

import pytest
from simulated_tuning import choice
from test_tune_cache import HERE, MATMUL, merges_twice

from tileon_ops.tune import cache, whole_files
from tileon_ops.tune.cache import CacheFile, Identity

ROOT = pathlib.Path(__file__).resolve().parent.parent


@pytest.fixture(autouse=True)
def _warns_and_waits_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_warned", set())
    monkeypatch.setattr(cache, "_held_too_long", set())


@pytest.fixture
def file(tmp_path: pathlib.Path) -> CacheFile:
    return CacheFile(tmp_path / "new" / "folder", HERE)


WRITER = """
import sys
from pathlib import Path
from tileon_ops.tune.cache import CacheFile, Choice, Identity
file = CacheFile(Path(sys.argv[1]), Identity("GPU X", "9.0", 132, version="1", sources="5", cuda="13.0"))
print("ready", flush=True)
sys.stdin.readline()
for number in range(20):
    assert file.merge({f"{sys.argv[2]} {number}": Choice("row", 1.0 + number, "default row", 50.0)})
"""

# The cache's modules alone: torch takes a second to import, in each process.
ALONE = """
import sys, types, importlib.machinery
package = types.ModuleType("tileon_ops")
package.__path__ = [sys.argv[3]]
sys.modules["tileon_ops"] = package
"""


def test_of_several_writers_none_loses_anothers_entries(tmp_path: pathlib.Path) -> None:
    """Four processes, 20 entries each, one write an entry; readers meanwhile see whole files."""
    command = [sys.executable, "-c", ALONE + WRITER, str(tmp_path)]
    writers = [
        subprocess.Popen(
            [*command, name, str(ROOT / "tileon_ops")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for name in "abcd"
    ]
    file = CacheFile(tmp_path, Identity("GPU X", "9.0", 132, version="1", sources="5", cuda="13.0"))
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdin is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    seen = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        while any(writer.poll() is None for writer in writers):
            now = len(file.read())
            assert now >= seen
            seen = now
        assert not cache._warned
    assert [writer.wait() for writer in writers] == [0] * 4
    for writer in writers:
        writer.communicate()
    assert set(file.read()) == {f"{name} {number}" for name in "abcd" for number in range(20)}


def test_a_lock_that_another_process_holds_is_waited_for_so_long(
    file: CacheFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "LOCK_SECONDS", 0.05)
    file.merge({MATMUL: choice()})
    with open(file.path.parent / ".lock") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        start = time.monotonic()
        with pytest.warns(UserWarning, match=r"another process has held .lock for 0.05 s"):
            assert not file.merge({"b": choice()})
        assert 0.05 <= time.monotonic() - start < 5
        assert file.read() == {MATMUL: choice()}, "readers wait for nobody"
    assert file.merge({"b": choice()})


def test_a_lock_that_was_waited_for_in_vain_is_not_waited_for_again(
    file: CacheFile, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With TILEON_TUNE=1 each first product of a problem merges: whoever keeps the lock would stop them."""
    monkeypatch.setattr(cache, "LOCK_SECONDS", 0.3)
    file.merge({MATMUL: choice()})
    other = CacheFile(tmp_path / "other", HERE)
    other.merge({MATMUL: choice()})
    with open(file.path.parent / ".lock") as held, open(other.path.parent / ".lock") as other_held:
        fcntl.flock(held, fcntl.LOCK_EX)
        fcntl.flock(other_held, fcntl.LOCK_EX)
        with pytest.warns(UserWarning, match=r"another process has held .lock for 0.3 s"):
            assert not file.merge({"b": choice()})
        start = time.monotonic()
        assert not merges_twice(file)
        assert not merges_twice(CacheFile(file.path.parent, replace(HERE, gpu="another, in the same folder")))
        assert time.monotonic() - start < 0.9, "four times 0.3 s"
        with pytest.warns(UserWarning, match=r"another process has held .lock for 0.3 s"):
            assert not other.merge({"b": choice()}), "another folder's lock is waited for, once"
    assert file.merge({"b": choice()})


def test_without_locks_files_are_written_all_the_same(file: CacheFile, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(descriptor: int, how: int) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    assert file.merge({MATMUL: choice()})
    monkeypatch.setitem(sys.modules, "fcntl", None)  # a system that has no such module
    assert file.merge({"b": choice()})
    assert set(file.read()) == {MATMUL, "b"}


def test_the_lock_is_free_after_an_error(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="inside"), whole_files.locked(tmp_path, 1.0):
        raise ValueError("inside")
    with whole_files.locked(tmp_path, 0.0):
        pass
