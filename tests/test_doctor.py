"""What `tileon_ops.info` makes of a machine: GPUs, drivers, libraries and copies that are not here."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
from typing import Any

import pytest
import torch
from package_copies import ROOT, package_in, run

import tileon_ops
from tileon_ops.info import cuda as cuda_section
from tileon_ops.info import doctor
from tileon_ops.info.backends import why_not_faster
from tileon_ops.info.copies import distributions, folders_on_path, mapped_libraries
from tileon_ops.info.cuda import driver_version, gpus_of_machine, why_torch_sees_none
from tileon_ops.info.library import gpu_problems, image_for

DEFAULT_TARGETS = ["8.0", "8.6", "8.9", "9.0a", "10.0", "12.0", "8.0+PTX"]


def document(path: pathlib.Path | str = ROOT, **environment: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run("-m", "tileon_ops.info", "--json", path=path, **environment).stdout)
    return found


def whats(found: dict[str, Any]) -> str:
    return "\n".join(problem["what"] for problem in found["problems"])


class TestGpuAndLibrary:
    @pytest.mark.parametrize(
        ("targets", "capability", "image"),
        [
            (DEFAULT_TARGETS, (9, 0), "9.0a"),
            (DEFAULT_TARGETS, (8, 0), "8.0"),
            (DEFAULT_TARGETS, (8, 7), "8.6"),  # the nearest of its generation
            (DEFAULT_TARGETS, (12, 1), "12.0"),
            (DEFAULT_TARGETS, (11, 0), "8.0+PTX"),
            (DEFAULT_TARGETS, (7, 5), None),
            (["9.0a"], (9, 1), None),  # such code is for 9.0 alone
            (["9.0"], (10, 0), None),
            (["9.0", "9.0+PTX"], (10, 0), "9.0+PTX"),
            ([], (9, 0), None),
        ],
    )
    def test_what_a_gpu_runs(self, targets: list[str], capability: tuple[int, int], image: str | None) -> None:
        assert image_for(targets, capability) == image

    @pytest.mark.parametrize(
        ("targets", "capability", "cuda", "driver_cuda", "expected"),
        [
            (DEFAULT_TARGETS, "9.0", "13.0", "13.0", []),
            (DEFAULT_TARGETS, "9.0", "13.2", "13.0", []),  # one major version serves all its minor ones
            (DEFAULT_TARGETS, "9.0", "13.0", "12.8", ["error: The driver 570.1 knows CUDA up to 12.8"]),
            (DEFAULT_TARGETS, "11.0", "13.0", "13.0", ["warning: GPU 0, X of compute capability 11.0: .* only PTX"]),
            (DEFAULT_TARGETS, "7.5", "13.0", "13.0", ["error: .* need compute capability 8.0 or newer"]),
            (["9.0a"], "8.9", "13.0", "13.0", ["error: .* no code for it, it was built for 9.0a"]),
            (["8.0", "9.0"], "9.0", "13.0", "13.0", ["warning: .* none of Hopper's own kernels"]),
            ([], "9.0", "none", "13.0", ["warning: The library is for the CPU alone"]),
        ],
    )
    def test_what_keeps_a_gpu_from_it(
        self, targets: list[str], capability: str, cuda: str, driver_cuda: str, expected: list[str]
    ) -> None:
        major, minor = capability.split(".")
        gpu = {"index": 0, "name": "X", "capability": capability, "image": image_for(targets, (int(major), int(minor)))}
        found = gpu_problems({"targets": targets, "cuda": cuda}, gpu, "570.1", driver_cuda)
        assert len(found) == len(expected)
        for (level, what, do), pattern in zip(found, expected, strict=True):
            assert re.match(pattern, f"{level}: {what}"), what
            assert do

    @pytest.mark.parametrize(
        ("backend", "capability", "hopper", "rows", "changes", "reason"),
        [
            ("sm90", "9.0", None, 86, {}, None),
            ("sm90", "9.0", None, 86, {"kernel": "x (a copied)"}, "copied first"),
            ("sm80", "9.0", None, 0, {}, "no sm_90a kernels in this library (built for 8.0 9.0)"),
            ("sm80", "9.0", "0", 86, {}, "TILEON_HOPPER=0"),
            ("sm80", "9.0", None, 86, {"operands": "odd strides"}, "cannot read these strides"),
            ("sm80", "9.0", None, 86, {}, "by the cost model or by tuning"),
            ("sm80", "9.0", None, 86, {"dtype": "float32"}, "by the cost model or by tuning"),
            ("sm90", "9.0", None, 86, {"dtype": "float32"}, None),
            ("sm80", "9.0", None, 86, {"dtype": "float64"}, "float32 and narrower dtypes"),
            ("sm80", "8.9", None, 86, {}, "compute capability 8.9: portable kernels"),
            ("torch", "10.0", None, 86, {}, None),
            (None, None, None, 86, {}, "CPU tensors"),
            (None, "9.0", None, 86, {}, None),
        ],
    )
    def test_why_no_faster_kernel(
        self,
        backend: str | None,
        capability: str | None,
        hopper: str | None,
        rows: int,
        changes: dict[str, str],
        reason: str | None,
    ) -> None:
        call = {"dtype": "bfloat16", "operands": "aligned", "kernel": "x", **changes}
        library = {"rows_of_hopper": rows, "targets": ["8.0", "9.0"]}
        found = why_not_faster(call, backend, library, capability, hopper)
        assert (found is None) if reason is None else (reason in str(found))


class TestMachine:
    """Trees of files like /proc and /sys stand for machines."""

    def write(self, root: pathlib.Path, files: dict[str, str]) -> pathlib.Path:
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        return root

    @pytest.mark.parametrize(
        ("line", "version"),
        [
            ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.124.06  Wed Feb 26", "570.124.06"),
            ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build", "580.159.04"),
        ],
    )
    def test_drivers_version(self, tmp_path: pathlib.Path, line: str, version: str) -> None:
        assert driver_version(self.write(tmp_path, {"proc/driver/nvidia/version": line})) == version
        assert driver_version(tmp_path / "nothing") is None

    def test_gpus_without_nvidia_smi(self, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        bus = "sys/bus/pci/devices/0000:01:00"
        root = self.write(tmp_path, {f"{bus}.0/vendor": "0x10de\n", f"{bus}.0/class": "0x030200\n"})
        self.write(root, {f"{bus}.1/vendor": "0x10de\n", f"{bus}.1/class": "0x040300\n"})  # its sound
        (gpu,) = gpus_of_machine(root)
        assert (gpu["name"], gpu["found_by"]) == ("NVIDIA GPU at 0000:01:00.0", "/sys/bus/pci")
        self.write(root, {"proc/driver/nvidia/gpus/0000:01:00.0/information": "Model: \t\t NVIDIA H200\nIRQ: 1\n"})
        (gpu,) = gpus_of_machine(root)
        assert (gpu["name"], gpu["capability"], gpu["found_by"]) == ("NVIDIA H200", None, "/proc/driver/nvidia")

    def test_a_gpu_that_torch_cannot_see_is_a_warning(
        self, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        gpu = {"index": 0, "name": "NVIDIA H200", "capability": None, "memory_gib": None, "found_by": "/sys/bus/pci"}
        monkeypatch.setattr(cuda_section, "gpus_of_machine", lambda: [gpu])
        monkeypatch.setattr(cuda_section, "gpus_of_torch", lambda: ([], "no driver"))
        earlier = {"torch": {"version": "2.12", "cuda": None, "hip": None}}
        answer = doctor.examine(cuda_section.CUDA, earlier)
        assert answer.facts["gpus"] == [gpu]
        assert answer.facts["usable_by_torch"] is False
        assert [problem.level for problem in answer.problems] == ["warning"]
        assert "torch 2.12 is built without CUDA" in answer.problems[0].what

    def test_gpus_of_torch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Properties:
            name, major, minor, total_memory = "NVIDIA L4", 8, 9, 24 * 2**30

        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: Properties)
        gpus, problem = cuda_section.gpus_of_torch()
        assert [gpu["index"] for gpu in gpus] == [0, 1]
        assert (gpus[1]["name"], gpus[1]["capability"], gpus[1]["memory_gib"]) == ("NVIDIA L4", "8.9", 24.0)
        assert problem is None

    @pytest.mark.parametrize(
        ("torch_cuda", "changes", "why"),
        [
            (None, {}, "torch 2.12 is built without CUDA"),
            ("13.0", {"visible_devices": ""}, "CUDA_VISIBLE_DEVICES='' hides it"),
            ("13.0", {"driver_cuda": None, "driver_problem": "no libcuda.so.1"}, "no driver library that answers"),
            (
                "13.0",
                {"driver_cuda": "12.4"},
                "The driver 550.1 knows CUDA up to 12.4, and torch is built for CUDA 13.0",
            ),
            ("13.0", {}, "torch cannot use: unknown error"),
        ],
    )
    def test_why_torch_sees_no_gpu(self, torch_cuda: str | None, changes: dict[str, str | None], why: str) -> None:
        facts = {
            "gpus": [{"name": "NVIDIA H200"}],
            "driver": "550.1",
            "driver_cuda": "13.0",
            "driver_problem": None,
            "visible_devices": None,
            "torch_problem": "unknown error.",
            **changes,
        }
        what, do = why_torch_sees_none(facts, "2.12", torch_cuda)
        assert why in what
        assert do


class TestCopies:
    def test_a_copy_that_shadows_another(self, tmp_path: pathlib.Path) -> None:
        package_in(tmp_path / "other")
        found = document(path=f"{ROOT}:{tmp_path / 'other'}")
        assert f"{ROOT}/tileon_ops shadows another tileon_ops: {tmp_path}/other/tileon_ops." in whats(found)
        assert [one["path"] for one in found["copies"]["on_path"]["tileon_ops"]] == [
            f"{ROOT}/tileon_ops",
            f"{tmp_path}/other/tileon_ops",
        ]

    def installed(self, folder: pathlib.Path, name: str, version: str, editable: str | None = None) -> str:
        place = folder / f"{name}-{version}.dist-info"
        place.mkdir(parents=True)
        (place / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        if editable:
            (place / "direct_url.json").write_text(
                json.dumps({"url": f"file://{editable}", "dir_info": {"editable": True}})
            )
        return str(folder)

    def test_a_wheel_and_an_editable_installation(self, tmp_path: pathlib.Path) -> None:
        both = [
            self.installed(tmp_path / "a", "tileon_ops", "0.1"),
            self.installed(tmp_path / "b", "tileon-ops", "0.2", "/x"),
        ]
        found = distributions("tileon_ops", both)
        assert [(one["version"], one["editable"]) for one in found] == [("0.1", None), ("0.2", "/x")]
        text = whats(document(path=f"{ROOT}:{both[0]}:{both[1]}"))
        assert f"tileon_ops is installed 2 times: 0.1 in {tmp_path}/a, 0.2 in {tmp_path}/b (editable)." in text
        assert f"{ROOT}/tileon_ops shadows the editable installation of /x." in text

    def test_the_tree_of_an_editable_installation_is_no_copy(self, tmp_path: pathlib.Path) -> None:
        place = self.installed(tmp_path, "tileon_ops", tileon_ops.__version__, str(ROOT))
        assert "shadows" not in whats(document(path=f"{ROOT}:{place}"))

    def test_the_same_folder_twice_is_no_copy(self, tmp_path: pathlib.Path) -> None:
        (tmp_path / "link").symlink_to(ROOT)
        assert len(folders_on_path("tileon_ops", [str(ROOT), str(ROOT), str(tmp_path / "link")])) == 1

    def test_libraries_that_are_mapped_twice(self, tmp_path: pathlib.Path) -> None:
        lines = [
            "7f00-7f01 r-xp 00000000 00:01 1    /a/torch/lib/libcudart-1a2b3c4d.so.12",
            "7f01-7f02 r--p 00001000 00:01 1    /a/torch/lib/libcudart-1a2b3c4d.so.12",
            "7f02-7f03 r-xp 00000000 00:01 2    /usr/my libs/libcudart.so.13.0.96",
            "7f03-7f04 r-xp 00000000 00:01 3    /a/torch/lib/libc10_cuda.so",
            "7f04-7f05 rw-p 00000000 00:00 0 ",
            "7f05-7f06 r-xp 00000000 00:00 0    [vdso]",
        ]
        (tmp_path / "maps").write_text("\n".join(lines))
        assert mapped_libraries(tmp_path / "maps") == {
            "libcudart": ["/a/torch/lib/libcudart-1a2b3c4d.so.12", "/usr/my libs/libcudart.so.13.0.96"],
            "libc10_cuda": ["/a/torch/lib/libc10_cuda.so"],
        }
        assert mapped_libraries(tmp_path / "nothing") == {}

    def test_a_named_library_is_a_warning_unless_it_is_the_packages_own(self, tmp_path: pathlib.Path) -> None:
        own = ROOT / "tileon_ops" / "_C.so"
        shutil.copy(own, tmp_path / "_C.so")
        assert f"TILEON_LIBRARY names {tmp_path / '_C.so'}" in whats(document(TILEON_LIBRARY=str(tmp_path / "_C.so")))
        assert "TILEON_LIBRARY" not in whats(document(TILEON_LIBRARY=str(own)))


class TestTuningCache:
    """What tuning has left."""

    def test_that_there_is_not_yet(self, tmp_path: pathlib.Path) -> None:
        found = document(TILEON_CACHE_DIR=str(tmp_path / "not" / "yet"))["tuning_cache"]
        assert (found["path"], found["exists"], found["writable"]) == (str(tmp_path / "not" / "yet"), False, True)
        assert (found["files"], found["entries"], found["failure"]) == ([], 0, None)

    def test_that_is_corrupt_is_a_warning(self, tmp_path: pathlib.Path) -> None:
        (tmp_path / "tuned-x.json").write_text('{"schema": 1, "gpu"')
        found = document(TILEON_CACHE_DIR=str(tmp_path))
        assert found["tuning_cache"]["files"][0]["state"] == "corrupt"
        assert f"The tuning cache {tmp_path / 'tuned-x.json'} is corrupt: " in whats(found)

    def test_of_another_gpu_and_of_another_library(self, tmp_path: pathlib.Path) -> None:
        choice = {"row": "default", "us": 1.0, "default": "x", "default_us": 1.0}
        record = json.loads((ROOT / "tileon_ops" / "_C.json").read_text())
        for name, sources in (("ours", record["sources"]), ("theirs", "0")):
            library = {"version": tileon_ops.__version__, "sources": sources, "cuda": record["cuda"], "switches": ""}
            words = {"schema": 1, "gpu": {"name": "No GPU"}, "library": library, "problems": {"p": choice}}
            (tmp_path / f"tuned-{name}.json").write_text(json.dumps(words))
        files = document(TILEON_CACHE_DIR=str(tmp_path))["tuning_cache"]["files"]
        assert {file["path"]: (file["state"], file["entries"]) for file in files} == {
            str(tmp_path / "tuned-ours.json"): ("of another GPU", 1),
            str(tmp_path / "tuned-theirs.json"): ("of another library", 1),
        }

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
    def test_that_cannot_be_written_is_a_warning(self, tmp_path: pathlib.Path) -> None:
        tmp_path.chmod(0o500)
        assert "The tuning cache cannot be written" in whats(document(TILEON_CACHE_DIR=str(tmp_path)))

    def test_in_a_place_that_is_a_file_is_a_warning(self, tmp_path: pathlib.Path) -> None:
        (tmp_path / "file").write_text("")
        found = document(TILEON_CACHE_DIR=str(tmp_path / "file" / "cache"))
        assert found["tuning_cache"]["writable"] is False
        assert "The tuning cache cannot be written" in whats(found)
