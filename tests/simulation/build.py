"""Compiles the CUDA kernels for this machine's CPU, beside a simulated GPU, into one shared library.

python3 build.py [--csrc DIR] [--out DIR] [--jobs N] [--only TEXT] [--accesses]: needs g++ (or CXX) and the headers of
the CUDA toolkit (CUDA_HOME).
"""

import argparse
import concurrent.futures
import fcntl
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent

# What the sources say for nvcc, and what stands there in the tree of links: the one launch whose parameters have lost
# their types.
REPLACED = {
    "cuda/runtime/runtime.h": (
        "return cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(kernel), arguments);",
        "static_cast<void>(arguments);\n  return simulation::launch(config, kernel, params...);",
    ),
}

# The build that sees every plain access of the kernels: a call of the machine's at each, and lines for its messages.
ACCESSES = ["-DTILEON_SEES_ACCESSES"]
SEEN = ["-fsanitize=thread", "--param=tsan-instrument-func-entry-exit=0", "-g1"]

# The build that counts how often each line of csrc runs (crossed_files.py): not optimized, so that no call vanishes.
LINES = ["-DTILEON_COUNTS_LINES"]
COUNTED = ["--coverage", "-O0"]


def compiler() -> list[str]:
    return shlex.split(os.environ.get("CXX", "g++"))


def cuda_home() -> pathlib.Path:
    return pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))


def why_not() -> str | None:
    """Why it cannot be built on this machine; None where it can."""
    if shutil.which(compiler()[0]) is None or not (cuda_home() / "include" / "cuda_runtime.h").exists():
        return f"the simulated GPU needs {compiler()[0]} and the headers of the CUDA toolkit"
    return None


def native() -> list[str]:
    """The option for this machine's instructions, under the name that this compiler has for it."""
    for option in ("-march=native", "-mcpu=native"):
        call = [*compiler(), option, "-x", "c++", "-fsyntax-only", "/dev/null"]
        if subprocess.run(call, capture_output=True).returncode == 0:
            return [option]
    return []


def write_if_changed(path: pathlib.Path, text: str) -> None:
    if not path.is_symlink() and path.exists() and path.read_text() == text:
        return
    path.unlink(missing_ok=True)
    path.write_text(text)


def make_tree(csrc: pathlib.Path, tree: pathlib.Path) -> None:
    """A tree of links to `csrc` with this folder's ptx/ in the place of its own."""
    wanted = set()
    for source in sorted(csrc.rglob("*")):
        if source.is_dir() or source.suffix not in (".h", ".cuh", ".cu", ".cpp"):
            continue
        name = source.relative_to(csrc)
        link = tree / name
        wanted.add(link)
        link.parent.mkdir(parents=True, exist_ok=True)
        if str(name) in REPLACED:
            old, new = REPLACED[str(name)]
            text = source.read_text()
            if text.count(old) != 1:
                sys.exit(f"build.py: {name} does not have once: {old}")
            include = f'#include "{HERE / "machine" / "machine.h"}"\n'
            write_if_changed(link, text.replace("#pragma once\n", "#pragma once\n" + include, 1).replace(old, new))
            continue
        if name.parts[:2] == ("cuda", "ptx"):
            source = HERE / "ptx" / name.name
        if not link.is_symlink() or os.readlink(link) != str(source):
            link.unlink(missing_ok=True)
            link.symlink_to(source)
    for path in sorted(tree.rglob("*")):
        if not path.is_dir() and path not in wanted:
            path.unlink()


def dependencies(depfile: pathlib.Path) -> list[str]:
    text = depfile.read_text().replace("\\\n", " ")
    return text.split(":", 1)[1].split()


class Unit:
    """One call of the compiler."""

    def __init__(self, source: pathlib.Path, build: pathlib.Path, name: str, options: list[str]) -> None:
        self.source = source
        self.object = build / "objects" / (name.replace("/", "_") + ".o")
        self.depfile = self.object.with_suffix(".d")
        self.command = [
            *compiler(),
            *options,
            "-MMD",
            "-MF",
            str(self.depfile),
            "-x",
            "c++",
            "-c",
            str(source),
            "-o",
            str(self.object),
        ]
        self.stamp = self.object.with_suffix(".command")

    def is_current(self) -> bool:
        if not (self.object.exists() and self.depfile.exists() and self.stamp.exists()):
            return False
        if self.stamp.read_text() != shlex.join(self.command):
            return False
        built = self.object.stat().st_mtime
        try:
            # Of a link too: it may lead to another checkout's file, which is older.
            return all(
                max(os.stat(path).st_mtime, os.lstat(path).st_mtime) <= built for path in dependencies(self.depfile)
            )
        except FileNotFoundError:
            return False

    def compile(self) -> tuple[float, str]:
        begin = time.time()
        self.stamp.unlink(missing_ok=True)
        result = subprocess.run(self.command, capture_output=True, text=True)
        if result.returncode == 0:
            os.utime(self.object, (begin, begin))  # what changed meanwhile is newer
            self.stamp.write_text(shlex.join(self.command))
        return time.time() - begin, result.stderr if result.returncode != 0 else ""


def units(tree: pathlib.Path, build: pathlib.Path, only: str, extra: list[str]) -> list[Unit]:
    common = [
        "-std=c++20",
        "-fPIC",
        "-w",
        "-fno-strict-aliasing",
        *native(),
        f"-isystem{cuda_home()}/include",
        f"-I{HERE / 'machine'}",
        f"-I{tree}",
        *extra,
    ]
    shim = ["-include", str(HERE / "shim.h")]
    seen = SEEN if ACCESSES[0] in extra else []
    counted = COUNTED if LINES[0] in extra else []
    found = [
        Unit(source, build, f"machine/{source.name}", [*common, "-O3"])
        for source in sorted((HERE / "machine").glob("*.cpp"))
    ]
    found.append(Unit(HERE / "control.cpp", build, "control", [*common, "-O1"]))
    if not only:
        found.append(Unit(HERE / "entry.cpp", build, "entry", [*common, "-O1"]))
    for source in sorted(HERE.glob("probes*.cu")):
        found.append(Unit(source, build, source.stem, [*common, *shim, *seen, "-O1"]))
    for source in sorted(tree.glob("cuda/**/*")):
        is_kernel, is_host = source.suffix == ".cu", source.suffix == ".cpp"
        if not (is_kernel or is_host) or source.parent.name == "dispatch":
            continue
        name = str(source.relative_to(tree))
        if only not in name:
            continue
        found.append(Unit(source, build, name, [*common, *shim, *(seen if is_kernel else []), "-O1", *counted]))
    return found


def build(
    csrc: pathlib.Path, out: pathlib.Path, jobs: int = 2, only: str = "", extra: list[str] | None = None
) -> pathlib.Path:
    """Brings the library up to date; returns its path. One process at a time: others wait."""
    tree = out / "csrc"
    (out / "objects").mkdir(parents=True, exist_ok=True)
    with (out / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return build_locked(csrc, tree, out, jobs, only, extra or [])


def build_locked(
    csrc: pathlib.Path, tree: pathlib.Path, out: pathlib.Path, jobs: int, only: str, extra: list[str]
) -> pathlib.Path:
    make_tree(csrc, tree)
    all_units = units(tree, out, only, extra)
    stale = [unit for unit in all_units if not unit.is_current()]
    begin = time.time()
    failed = False
    # The longest first, as far as the size of what they made last tells.
    stale.sort(key=lambda unit: -(unit.object.stat().st_size if unit.object.exists() else unit.source.stat().st_size))
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for unit, (seconds, errors) in zip(stale, pool.map(Unit.compile, stale), strict=False):
            if errors:
                failed = True
                print(f"{unit.source}:\n{errors[:6000]}", file=sys.stderr)
            elif seconds > 10:
                print(f"{seconds:6.1f} s {unit.object.stem}", flush=True)
    if failed:
        sys.exit("build.py: not everything could be compiled")
    library = out / "libsimulation.so"
    if stale or not library.exists():
        partial = out / f"libsimulation.{os.getpid()}.so"
        objects = [str(unit.object) for unit in all_units]
        undefined = [] if only else ["-Wl,--no-undefined"]
        counted = COUNTED if LINES[0] in extra else []
        options = ["-shared", "-Wl,-Bsymbolic", *undefined, *counted]
        subprocess.run([*compiler(), *options, "-o", str(partial), *objects], check=True)
        partial.rename(library)
        print(f"{len(stale)} of {len(all_units)} files compiled in {time.time() - begin:.0f} s")
    return library


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--csrc", type=pathlib.Path, default=ROOT / "csrc")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--accesses", action="store_true", help="see plain loads and stores: build/simulation/accesses")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="only sources whose path holds this")
    parser.add_argument("--flag", action="append", default=[], help="one more option for the compiler")
    arguments = parser.parse_args()
    out = arguments.out or ROOT / "build" / "simulation" / ("accesses" if arguments.accesses else "")
    extra = arguments.flag + (ACCESSES if arguments.accesses else [])
    print(build(arguments.csrc.resolve(), out.resolve(), arguments.jobs, arguments.only, extra))


if __name__ == "__main__":
    main()
