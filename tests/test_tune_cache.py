"""The tuning cache: whole files, of one GPU and library, that never break or slow a call whatever is in them."""

from __future__ import annotations

import json
import os
import pathlib
import sys
import time
import warnings
from dataclasses import replace

import pytest
from simulated_tuning import FASTER, choice

from tileon_ops.tune import cache
from tileon_ops.tune.cache import DEFAULT, SCHEMA, CacheFile, Choice, Identity

HERE = Identity("GPU X", "9.0", 132, version="1.2.3", sources="5" * 64, cuda="13.0")
MATMUL = "matmul bfloat16->bfloat16 1x64x96x128 a=k b=mn out=rows plain"


@pytest.fixture(autouse=True)
def _warns_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_warned", set())
    monkeypatch.setattr(cache, "_held_too_long", set())


@pytest.fixture
def file(tmp_path: pathlib.Path) -> CacheFile:
    return CacheFile(tmp_path / "new" / "folder", HERE)


def written(file: CacheFile, **changes: object) -> None:
    """A good file of one choice, but for what is changed at its top."""
    assert file.merge({MATMUL: choice()})
    document = {**json.loads(file.path.read_text()), **changes}
    file.path.write_text(json.dumps(document))


def merges_twice(file: CacheFile) -> bool:
    """Whether one of two attempts says that it wrote."""
    first, second = (file.merge({problem: choice()}) for problem in ("b", "c"))
    return first or second


class TestReading:
    def test_what_was_written_is_read(self, file: CacheFile) -> None:
        kept = {MATMUL: choice(), "other problem": choice(DEFAULT, 20.0)}
        assert file.merge(kept)
        assert CacheFile(file.path.parent, HERE).read() == kept

    def test_no_file_is_no_choice_and_no_warning(self, file: CacheFile) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert file.read() == {}

    @pytest.mark.parametrize(
        "change",
        [
            {"gpu": "GPU Y"},
            {"capability": "10.0"},
            {"multiprocessors": 66},
            {"version": "1.2.4"},
            {"sources": "6" * 64},
            {"cuda": "13.1"},
            {"switches": "TILEON_HOPPER=0"},
        ],
        ids=str,
    )
    def test_another_gpu_or_library_has_a_file_of_its_own(self, file: CacheFile, change: dict[str, object]) -> None:
        other = CacheFile(file.path.parent, replace(HERE, **change))  # type: ignore[arg-type]
        file.merge({MATMUL: choice()})
        assert other.path != file.path
        assert other.read() == {}
        file.path.rename(other.path)  # a file under a false name, silently, too
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert other.read() == {}

    @pytest.mark.parametrize("schema", [SCHEMA - 1, SCHEMA + 1])
    def test_another_schema_is_ignored_without_a_warning(self, file: CacheFile, schema: int) -> None:
        written(file, schema=schema)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert file.read() == {}

    @pytest.mark.parametrize(
        "text",
        [
            pytest.param(b"", id="empty"),
            pytest.param(b"{", id="begun"),
            pytest.param(b"\x00\xff\xfe garbage", id="no text"),
            pytest.param(b"[1, 2]", id="list"),
            pytest.param(b"null", id="null"),
            pytest.param(b"{}", id="no schema"),
            pytest.param(b'{"schema": "1"}', id="schema is text"),
            pytest.param(b'{"schema": true}', id="schema is bool"),
            pytest.param(b"[" * 100_000, id="nested too deeply"),
        ],
    )
    def test_a_corrupt_file_costs_one_warning(self, file: CacheFile, text: bytes) -> None:
        file.path.parent.mkdir(parents=True)
        file.path.write_bytes(text)
        with pytest.warns(UserWarning, match=rf"^tileon_ops: the tuning cache {file.path} is ignored: ") as caught:
            assert file.read() == file.read() == {}
        assert len(caught) == 1

    @pytest.mark.parametrize("kept", [0.1, 0.5, 0.9, 0.999])
    def test_a_truncated_file_costs_one_warning(self, file: CacheFile, kept: float) -> None:
        written(file)
        whole = file.path.read_text()
        file.path.write_text(whole[: int(len(whole.rstrip()) * kept)])
        with pytest.warns(UserWarning, match="is ignored") as caught:
            assert file.read() == file.read() == {}
        assert len(caught) == 1

    @pytest.mark.parametrize(
        "problems",
        [
            None,
            [],
            "text",
            {MATMUL: None},
            {MATMUL: FASTER},
            {MATMUL: {"row": FASTER}},
            {MATMUL: {"row": 7, "us": 1.0, "default": "x", "default_us": 1.0}},
            {MATMUL: {"row": "", "us": 1.0, "default": "x", "default_us": 1.0}},
            {MATMUL: {"row": "x", "us": "1", "default": "x", "default_us": 1.0}},
            {MATMUL: {"row": "x", "us": True, "default": "x", "default_us": 1.0}},
            {MATMUL: {"row": "x", "us": 0, "default": "x", "default_us": 1.0}},
            {MATMUL: {"row": "x", "us": float("nan"), "default": "x", "default_us": 1.0}},
            {MATMUL: {"row": "x", "us": float("-inf"), "default": "x", "default_us": 1.0}},
            {MATMUL: {"row": "x", "us": 1.0, "default": None, "default_us": 1.0}},
        ],
        ids=str,
    )
    def test_values_of_wrong_types_cost_one_warning(self, file: CacheFile, problems: object) -> None:
        written(file, problems=problems)
        with pytest.warns(UserWarning, match="is ignored") as caught:
            assert file.read() == file.read() == {}
        assert len(caught) == 1

    @pytest.mark.parametrize(
        "us", ["1e999", "1" + "0" * 309, "-1" + "0" * 309, "1" * 4300, "1" * 10_000, "[" * 500 + "]" * 500], ids=len
    )
    @pytest.mark.parametrize("name", ["us", "default_us"])
    def test_times_beyond_float64_cost_one_short_warning(self, file: CacheFile, name: str, us: str) -> None:
        """JSON has numbers of any size, and Python makes integers of them."""
        written(file, problems={MATMUL: {"row": FASTER, "us": 1, "default": "x", "default_us": 1, name: "HERE"}})
        file.path.write_text(file.path.read_text().replace('"HERE"', us))
        with pytest.warns(UserWarning, match="is ignored") as caught:
            assert file.read() == file.read() == {}
        assert len(caught) == 1
        assert len(str(caught[0].message)) < 300 + len(str(file.path))
        assert file.merge({MATMUL: choice()})
        assert file.read() == {MATMUL: choice()}

    def test_the_largest_time_that_float64_holds_is_one(self, file: CacheFile) -> None:
        largest = int(sys.float_info.max)
        written(file, problems={MATMUL: {"row": FASTER, "us": largest, "default": "x", "default_us": 1}})
        assert file.read() == {MATMUL: Choice(FASTER, sys.float_info.max, "x", 1.0)}
        written(file, problems={MATMUL: {"row": FASTER, "us": largest + 1, "default": "x", "default_us": 1}})
        with pytest.warns(UserWarning, match="is ignored"):
            assert file.read() == {}

    def test_what_a_later_version_added_to_an_entry_is_no_harm(self, file: CacheFile) -> None:
        entry = {"row": FASTER, "us": 10.0, "default": "x", "default_us": 20, "note": [1]}
        written(file, problems={MATMUL: entry}, note="more")
        assert file.read() == {MATMUL: Choice(FASTER, 10.0, "x", 20.0)}

    def test_a_folder_in_the_files_place_costs_one_warning(self, file: CacheFile) -> None:
        file.path.mkdir(parents=True)
        with pytest.warns(UserWarning, match="is ignored: Is a directory") as caught:
            assert file.read() == file.read() == {}
        assert len(caught) == 1

    def test_a_warning_stays_one_where_warnings_are_errors(self, file: CacheFile) -> None:
        file.path.parent.mkdir(parents=True)
        file.path.write_text("{")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert file.read() == {}


class TestWriting:
    def test_others_entries_stay_and_ones_own_are_replaced(self, file: CacheFile) -> None:
        file.merge({"a": choice(us=1.0), "b": choice(us=2.0)})
        CacheFile(file.path.parent, HERE).merge({"b": choice(us=3.0), "c": choice(us=4.0)})
        assert {problem: found.us for problem, found in file.read().items()} == {"a": 1.0, "b": 3.0, "c": 4.0}

    def test_a_corrupt_file_is_replaced(self, file: CacheFile) -> None:
        file.path.parent.mkdir(parents=True)
        file.path.write_text("{")
        assert file.merge({MATMUL: choice()})
        assert file.read() == {MATMUL: choice()}

    def test_a_file_of_a_newer_schema_is_left_alone(self, file: CacheFile) -> None:
        written(file, schema=SCHEMA + 1)
        before = file.path.read_bytes()
        with pytest.warns(UserWarning, match="not kept beyond this process, in .*its schema is 2"):
            assert not file.merge({MATMUL: choice()})
        assert file.path.read_bytes() == before

    def test_the_folder_holds_the_file_and_the_lock_alone(self, file: CacheFile) -> None:
        file.merge({MATMUL: choice()})
        file.merge({"b": choice()})
        assert sorted(path.name for path in file.path.parent.iterdir()) == [".lock", file.path.name]

    def test_a_write_that_fails_leaves_the_old_file_whole(
        self, file: CacheFile, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file.merge({MATMUL: choice()})

        def no_space(descriptor: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", no_space)
        with pytest.warns(UserWarning, match="not kept beyond this process, in .*: No space left on device") as caught:
            assert not merges_twice(file)
        assert len(caught) == 1
        assert file.read() == {MATMUL: choice()}
        assert not list(file.path.parent.glob("*.tmp"))

    def test_a_folder_that_cannot_be_made_costs_one_warning(self, tmp_path: pathlib.Path) -> None:
        (tmp_path / "occupied").write_text("a file")
        file = CacheFile(tmp_path / "occupied" / "cache", HERE)
        with pytest.warns(UserWarning, match="not kept beyond this process") as caught:
            assert not merges_twice(file)
        assert len(caught) == 1
        assert file.read() == {}

    @pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
    def test_a_read_only_folder_costs_one_warning(self, file: CacheFile) -> None:
        file.merge({MATMUL: choice()})
        file.path.parent.chmod(0o555)
        try:
            with pytest.warns(UserWarning, match="not kept beyond this process") as caught:
                assert not merges_twice(file)
            assert len(caught) == 1
            assert file.read() == {MATMUL: choice()}
        finally:
            file.path.parent.chmod(0o755)

    def test_a_read_only_file_system_costs_one_warning(self, file: CacheFile, monkeypatch: pytest.MonkeyPatch) -> None:
        """As the system says it, which asks root too."""
        file.merge({MATMUL: choice()})
        real = os.open

        def refuse(path: str, flags: int, *rest: int) -> int:
            if flags & (os.O_WRONLY | os.O_RDWR):
                raise OSError(30, "Read-only file system")
            return real(path, flags, *rest)

        monkeypatch.setattr(os, "open", refuse)
        with pytest.warns(UserWarning, match="not kept beyond this process.*: Read-only file system") as caught:
            assert not merges_twice(file)
        assert len(caught) == 1
        assert file.read() == {MATMUL: choice()}

    def test_the_umask_decides_who_may_read(self, file: CacheFile) -> None:
        """So that a team can share a folder."""
        before = os.umask(0o022)
        try:
            file.merge({MATMUL: choice()})
        finally:
            os.umask(before)
        assert file.path.stat().st_mode & 0o777 == 0o644


class TestOldFiles:
    def age(self, path: pathlib.Path, days: float) -> None:
        then = time.time() - days * 24 * 3600
        os.utime(path, (then, then))

    def test_a_new_file_removes_those_that_are_many_and_old(self, tmp_path: pathlib.Path) -> None:
        files = [CacheFile(tmp_path, replace(HERE, version=f"0.{number}")) for number in range(12)]
        for file in files:
            file.merge({MATMUL: choice()})
        for number, file in enumerate(files):
            self.age(file.path, 100 - number)
        self.age(files[0].path, 1)  # written again lately
        (tmp_path / "somebody's.json").write_text("{}")
        left, unfinished = tmp_path / "tuned-x.json.0123.tmp", tmp_path / "tuned-x.json.4567.tmp"
        left.write_text("of a writer that crashed")
        self.age(left, 2)
        unfinished.write_text("of one that holds a lock of which this file system knows nothing")
        file = CacheFile(tmp_path, HERE)
        file.merge({MATMUL: choice()})
        kept = {path for path in tmp_path.iterdir() if path.suffix == ".json"}
        assert kept == {file.path, files[0].path, *(f.path for f in files[6:]), tmp_path / "somebody's.json"}
        assert not left.exists()
        assert unfinished.exists()

    def test_files_of_the_last_month_stay_however_many(self, tmp_path: pathlib.Path) -> None:
        files = [CacheFile(tmp_path, replace(HERE, version=f"0.{number}")) for number in range(12)]
        for file in files:
            file.merge({MATMUL: choice()})
            self.age(file.path, 20)
        CacheFile(tmp_path, HERE).merge({MATMUL: choice()})
        assert all(file.path.exists() for file in files)

    def test_clear_removes_the_files_and_nothing_else(self, tmp_path: pathlib.Path) -> None:
        CacheFile(tmp_path, HERE).merge({MATMUL: choice()})
        CacheFile(tmp_path, replace(HERE, gpu="another")).merge({MATMUL: choice()})
        (tmp_path / "somebody's.json").write_text("{}")
        assert cache.clear(tmp_path) == 2
        assert cache.clear(tmp_path) == 0
        assert (tmp_path / "somebody's.json").exists()
        assert cache.clear(tmp_path / "not there") == 0


class TestPlace:
    def test_the_own_variable_stands_before_the_users_before_home(
        self, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
        monkeypatch.setenv("TILEON_CACHE_DIR", str(tmp_path / "own"))
        assert cache.directory() == tmp_path / "own"
        monkeypatch.setenv("TILEON_CACHE_DIR", "")
        assert cache.directory() == tmp_path / "xdg" / "tileon_ops"
        monkeypatch.setenv("XDG_CACHE_HOME", "relative")
        assert cache.directory() == tmp_path / "home" / ".cache" / "tileon_ops"

    def test_without_a_home_there_is_no_cache(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("TILEON_CACHE_DIR", raising=False)
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)

        def homeless() -> pathlib.Path:
            raise RuntimeError("Could not determine home directory.")

        monkeypatch.setattr(pathlib.Path, "home", homeless)
        assert cache.directory() is None

    def test_the_files_name_tells_gpu_and_version(self) -> None:
        assert CacheFile(pathlib.Path(), HERE).path.name.startswith("tuned-gpu_x-1.2.3-")
