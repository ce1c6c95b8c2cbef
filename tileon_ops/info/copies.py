"""The section "copies": several tileon_ops, torch or libraries of theirs, of which one shadows the others."""

from __future__ import annotations

import json
import re
import sys
from importlib import metadata
from pathlib import Path
from urllib.parse import unquote, urlparse

from tileon_ops._loading import build_state
from tileon_ops.info.doctor import Examination, Facts, Section

# Libraries of which a process must hold one, by the beginning of their files' names.
SINGLE = (
    "libtorch_cpu",
    "libtorch_cuda",
    "libtorch_python",
    "libc10",
    "libc10_cuda",
    "libcudart",
    "libcuda",
    "libnccl",
)


def version_in(folder: Path) -> str | None:
    """The version that a package's folder names, without importing it."""
    for name in ("version.py", "_version.py"):
        try:
            text = (folder / name).read_text(errors="replace")
        except OSError:
            continue
        match = re.search(r"^__version__\s*(?::\s*\w+\s*)?=\s*['\"]([^'\"]+)", text, re.MULTILINE)
        if match:
            return match[1]
    return None


def folders_on_path(package: str, path: list[str]) -> list[Facts]:
    """Every copy of the package that an import would find on this sys.path, first the one that it takes."""
    found: dict[Path, Facts] = {}
    for entry in path:
        folder = Path(entry or ".").absolute() / package
        if (folder / "__init__.py").is_file():
            found.setdefault(folder.resolve(), {"path": str(folder), "version": version_in(folder)})
    return list(found.values())


def _editable_at(distribution: metadata.Distribution) -> str | None:
    """The source tree of an editable installation."""
    try:
        origin = json.loads(distribution.read_text("direct_url.json") or "{}")
    except ValueError:
        return None
    if not origin.get("dir_info", {}).get("editable"):
        return None
    return unquote(urlparse(origin.get("url", "")).path) or None


def distributions(package: str, path: list[str]) -> list[Facts]:
    """Every installation that pip would list, editable ones with the tree that they point to."""
    wanted = package.replace("_", "-").lower()
    found: dict[str, Facts] = {}
    for distribution in metadata.distributions(path=path):
        name = (distribution.metadata["Name"] or "").replace("_", "-").lower()
        place = str(Path(str(distribution.locate_file(""))).absolute())
        left_by_a_build = distribution.read_text("RECORD") is None and Path(place, "setup.py").exists()  # *.egg-info
        if name == wanted and not left_by_a_build:
            facts = {"path": place, "version": distribution.version, "editable": _editable_at(distribution)}
            found.setdefault(f"{Path(place).resolve()} {distribution.version}", facts)
    return list(found.values())


def mapped_libraries(maps: Path = Path("/proc/self/maps")) -> dict[str, list[str]]:
    """The files of SINGLE that are mapped into this process, by name without version."""
    try:
        lines = maps.read_text(errors="replace").splitlines()
    except OSError:
        return {}
    found: dict[str, list[str]] = {}
    for line in lines:
        file = Path(line.split(maxsplit=5)[5]) if line.count("/") else None
        if file is None or ".so" not in file.name:
            continue
        name = re.split(r"-[0-9a-f]{8}\.|\.so", file.name)[0]  # wheels add a hash of 8 digits
        if name in SINGLE and str(file) not in found.setdefault(name, []):
            found[name].append(str(file))
    return found


def _and(paths: list[str]) -> str:
    return ", ".join(paths)


def _compare(examination: Examination, package: str) -> None:
    """One package's copies."""
    folders, installed = folders_on_path(package, sys.path), distributions(package, sys.path)
    facts = examination.facts
    facts["on_path"][package], facts["installed"][package] = folders, installed
    trees = {str(Path(one["editable"]).resolve()) for one in installed if one["editable"]}
    others = [one["path"] for one in folders[1:]]
    if others:
        examination.warning(
            f"{folders[0]['path']} shadows another {package}: {_and(others)}.",
            f"Leave one: pip uninstall {package.replace('_', '-')}, or start Python in another folder.",
        )
    taken = Path(folders[0]["path"]).resolve().parent if folders else None
    shadowed = [one for one in installed if one["editable"] and taken and str(taken) not in trees]
    for one in shadowed:
        examination.warning(
            f"{folders[0]['path']} shadows the editable installation of {one['editable']}.",
            f"Leave one: pip uninstall {package.replace('_', '-')}, or start Python in another folder.",
        )
    if len(installed) > 1:
        listed = [f"{one['version']} in {one['path']}{' (editable)' if one['editable'] else ''}" for one in installed]
        examination.warning(
            f"{package} is installed {len(installed)} times: {_and(listed)}.",
            f"Remove all (pip uninstall {package.replace('_', '-')}, until none is left), then install one.",
        )


def _look(examination: Examination) -> None:
    facts = examination.facts
    for package in ("tileon_ops", "torch"):
        _compare(examination, package)
    facts["mapped"] = mapped_libraries()
    for name, files in facts["mapped"].items():
        if len(files) > 1:
            examination.warning(
                f"{len(files)} copies of {name} are in one process: {_and(files)}.",
                "See whether LD_LIBRARY_PATH, LD_PRELOAD or another package brings the second, and leave one.",
            )
    library = examination.known("library", "path")
    is_named = library is not None and Path(library).resolve() != build_state.LIBRARY.resolve()
    if is_named and examination.known("library", "loads"):
        examination.warning(
            f"TILEON_LIBRARY names {library}, which stands in for the package's own {build_state.LIBRARY}.",
            "Unset that variable unless this is what you want.",
        )


COPIES = Section("copies", {"on_path": {}, "installed": {}, "mapped": {}}, _look)
