"""Plants one fault after the other in the kernels' sources, and tells which schedule shows it, and how.

python3 planted.py [--only TEXT] [--seeds N] [--control]: for each line of planted.csv, `old` becomes `new` in a file of
csrc/cuda; what depends on it among the objects whose names match `units` is compiled anew; `row` runs the problems of
matrix.py whose texts match `problems`, up to the first notice. The last columns are written anew.
"""

import argparse
import csv
import os
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator

import build
from matrix import GROUPS, LIBRARY
from simulation import HOPPER, TABLES, Problem, Simulation

HERE = pathlib.Path(__file__).resolve().parent
RECORD = HERE / "planted.csv"
TIME_LIMIT = 600  # seconds of a fault's runs
# Where kernels of all rows of a table are instantiated: of one row alone they compile in a tenth of the time.
ALL_ROWS = re.compile(r"visit_below<int, (?:Set::kConfigCount|kConfigCountOf<kKind>)>\(")


def faults() -> list[dict[str, str]]:
    with RECORD.open(newline="") as file:
        return list(csv.DictReader(file))


def number_of(row: str, simulation: Simulation) -> int:
    """Of a row, in the table that the sources instantiate its kernels from."""
    table = next(table for table in range(len(TABLES)) if row in simulation.rows(table))
    names = simulation.rows(table)
    number = names.index(row)
    if table != HOPPER:
        return number
    # A table each for 16 bits, fp8 and float32, one behind the other.
    operands = [simulation.operands(table, other) for other in range(len(names))]
    return number - operands.index(operands[number])


def planted_library(fault: dict[str, str], out: pathlib.Path) -> pathlib.Path:
    """The library of `out` with one fault: its tree of links once more, in which one file differs."""
    tree, faulty = out / "csrc", out / "planted"
    shutil.rmtree(faulty, ignore_errors=True)
    shutil.copytree(tree, faulty / "csrc", symlinks=True)
    (faulty / "objects").mkdir()
    one_row = f"visit<{number_of(fault['row'], Simulation(LIBRARY))}>("

    def change(path: pathlib.Path, text: str) -> None:
        copy = faulty / path.relative_to(out)
        copy.unlink()
        copy.write_text(ALL_ROWS.sub(one_row, text))

    source = tree / "cuda" / fault["file"]
    assert source.read_text().count(fault["old"]) == 1, fault
    change(source, source.read_text().replace(fault["old"], fault["new"]))
    objects, commands = [], []
    for unit in build.units(tree, out, "", []):
        assert unit.is_current(), f"{unit.object.name} is out of date: run build.py"
        includes = [pathlib.Path(os.path.normpath(name)) for name in build.dependencies(unit.depfile)]
        if source not in includes or not re.search(fault["units"], unit.object.stem):
            objects.append(str(unit.object))
            continue
        for path in includes:
            if path != source and path.is_relative_to(tree) and ALL_ROWS.search(path.read_text()):
                change(path, path.read_text())
        command = [part.replace(str(tree), str(faulty / "csrc")) for part in unit.command]
        command = [part.replace(str(unit.object.parent), str(faulty / "objects")) for part in command]
        commands.append([command[0], "-Wno-psabi", *command[1:]])
        objects.insert(0, commands[-1][-1])  # of functions that several objects have, the linker takes the first
    assert commands, f"no unit of {fault['units']} depends on {fault['file']}"
    library = faulty / "libsimulation.so"
    for command in (*commands, [*build.compiler(), "-shared", "-Wl,-Bsymbolic", "-o", str(library), *objects]):
        subprocess.run(command, check=True)
    return library


def problems(simulation: Simulation, fault: dict[str, str]) -> Iterator[tuple[int, int, Problem]]:
    """Of the fault's row, with its table and number."""
    for tables, make in GROUPS:
        for table in tables:
            if fault["row"] not in simulation.rows(table):
                continue
            row = simulation.rows(table).index(fault["row"])
            for problem in make(simulation):
                if re.search(fault["problems"], problem.text) and problem.why_not(table, row) is None:
                    yield table, row, problem


def look_for(fault: dict[str, str], library: pathlib.Path, seeds: int) -> None:
    """Prints the first seed that shows the fault, and its message."""
    simulation = Simulation(library)
    simulation.lib.simulation_refuse_second_way(1)
    ran = 0
    for some in (range(min(seeds, 4)), range(4, seeds)):
        for table, row, problem in problems(simulation, fault):
            for seed in some:
                ran += 1
                what = problem.run(table, row, seed)
                if what is not None:
                    print(seed, what)
                    return
    assert ran > 0, f"no problem is like {fault['problems']}"


def found(fault: dict[str, str], library: pathlib.Path, seeds: int) -> tuple[str, str]:
    """In a process of its own: the seed, and the message; empty where nothing was noticed."""
    call = [sys.executable, __file__, "--library", str(library), "--only", fault["fault"], "--seeds", str(seeds)]
    try:
        result = subprocess.run(call, capture_output=True, text=True, timeout=TIME_LIMIT)
    except subprocess.TimeoutExpired:
        return "", f"no end within {TIME_LIMIT} s"
    if result.returncode != 0:
        return "", f"the process ended with {result.returncode}: {result.stderr[-300:]}"
    seed, _, what = " ".join(result.stdout.split()).partition(" ")
    return seed, re.sub(r"at 0x\w+, ", "", what.removeprefix("tileon: "))[:160]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--seeds", type=int, default=64)
    parser.add_argument("--control", action="store_true", help="change nothing: nothing is to be found")
    parser.add_argument("--library", type=pathlib.Path, help="one that was built with the fault")
    arguments = parser.parse_args()
    table = faults()
    if arguments.library is not None:
        return look_for(next(f for f in table if f["fault"] == arguments.only), arguments.library, arguments.seeds)
    build.build(build.ROOT / "csrc", LIBRARY.parent)
    for fault in table:
        if arguments.only not in fault["fault"]:
            continue
        library = planted_library(fault | ({"new": fault["old"]} if arguments.control else {}), LIBRARY.parent)
        fault["seed"], fault["message"] = found(fault, library, arguments.seeds)
        print(f"{fault['fault']}: {'seed ' + fault['seed'] if fault['seed'] else 'NOT FOUND'}: {fault['message']}")
        sys.stdout.flush()
        if arguments.control:
            continue
        with RECORD.open("w", newline="") as file:
            out = csv.DictWriter(file, table[0].keys(), lineterminator="\n")
            out.writeheader()
            out.writerows(table)
    print(f"{sum(bool(fault['seed']) for fault in table)} of {len(table)} found")
    return None


if __name__ == "__main__":
    main()
