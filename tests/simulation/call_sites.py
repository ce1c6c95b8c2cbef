"""The places in csrc/cuda where kernels wait, arrive, fence or commit, and the report on them, call_sites.csv.

The report names a place by its function and its text, so that it stays right while lines move.
"""

import collections
import csv
import pathlib
import re
from dataclasses import dataclass

HERE = pathlib.Path(__file__).resolve().parent
CSRC = HERE.parents[1] / "csrc" / "cuda"
REPORT = HERE / "call_sites.csv"
COLUMNS = ["file", "function", "text", "number", "kind", "role", "row", "schedules", "notice", "explanation"]

# What can be left out: the function, and the name that the machine has for it. All else computes or moves something, or
# (griddepcontrol.launch_dependents) lets others go earlier than at the end, which nobody needs.
KINDS = {
    "__syncthreads": "bar.sync 0",
    "__syncthreads_or": "bar.sync 0",
    "__syncwarp": "bar.warp.sync",
    "ptx::barrier_arrive": "bar.arrive",
    "ptx::barrier_sync": "bar.sync",
    "ptx::cluster_arrive": "barrier.cluster.arrive",
    "ptx::cluster_arrive_having_read": "barrier.cluster.arrive",
    "ptx::cluster_arrive_relaxed": "barrier.cluster.arrive",
    "ptx::cluster_wait": "barrier.cluster.wait",
    "ptx::cp_async_commit": "cp.async.commit_group",
    "ptx::cp_async_wait": "cp.async.wait_group",
    "ptx::fence_mbarrier_init": "fence.mbarrier_init",
    "ptx::fence_proxy_async": "fence.proxy.async",
    "ptx::grid_dependency_wait": "griddepcontrol.wait",
    "ptx::load_acquire": "ld.acquire",
    "ptx::mbarrier_arrive": "mbarrier.arrive",
    "ptx::mbarrier_arrive_cluster": "mbarrier.arrive.shared::cluster",
    "ptx::mbarrier_arrive_expect_tx": "mbarrier.arrive.expect_tx",
    "ptx::mbarrier_init": "mbarrier.init",
    "ptx::mbarrier_try_wait_cluster": "mbarrier.try_wait",
    "ptx::mbarrier_try_wait": "mbarrier.try_wait",
    "ptx::store_release": "st.release",
    "ptx::tma_wait_read": "cp.async.bulk.wait_group.read",
    "ptx::wgmma_commit": "wgmma.commit_group",
    "ptx::wgmma_fence": "wgmma.fence",
    "ptx::wgmma_wait": "wgmma.wait_group",
}
CALL = re.compile(r"(?<![\w:])((?:ptx::|__)\w+)(?:<(?:[^;()]|\([^()]*\))*>)?\(")
BOUNDS = re.compile(r"__launch_bounds__\((?:[^()]|\(\))*\)")
FUNCTION = re.compile(r"__(?:device|global)__[^;{}=(]*?(\w+)\(")


@dataclass(frozen=True)
class Site:
    file: str  # below csrc/cuda
    function: str
    text: str  # of the line
    number: int  # of such lines in the function, from 1 on
    kind: str
    line: int

    def key(self) -> tuple[str, ...]:
        return self.file, self.function, self.text, str(self.number), self.kind


def sites_of(file: str, source: str) -> list[Site]:
    source = BOUNDS.sub(lambda found: " " * len(found[0]), re.sub(r"//.*", "", source))
    functions = [(found.start(), found[1]) for found in FUNCTION.finditer(source)]
    lines = [line.strip() for line in source.splitlines()]
    seen: collections.Counter[tuple[str, str]] = collections.Counter()
    sites = []
    for found in CALL.finditer(source):
        if found[1] not in KINDS:
            continue
        line = source.count("\n", 0, found.start()) + 1
        function = next((name for start, name in reversed(functions) if start < found.start()), "")
        text = lines[line - 1]
        seen[function, text] += 1
        sites.append(Site(file, function, text, seen[function, text], KINDS[found[1]], line))
    return sites


def all_sites(csrc: pathlib.Path = CSRC) -> list[Site]:
    files = sorted(path for path in csrc.rglob("*") if path.suffix in (".cu", ".cuh"))
    names = [path.relative_to(csrc) for path in files]
    return [
        site
        for path, name in zip(files, names, strict=True)
        if name.parts[0] != "ptx"
        for site in sites_of(str(name), path.read_text())
    ]


def read_report() -> list[dict[str, str]]:
    if not REPORT.exists():
        return []
    with REPORT.open(newline="") as file:
        return list(csv.DictReader(file))


def write_report(rows: list[dict[str, str]]) -> None:
    order = {site.key(): (site.file, site.line) for site in all_sites()}
    rows = sorted(rows, key=lambda row: (*order[key_of(row)], row["role"]))
    with REPORT.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def key_of(row: dict[str, str]) -> tuple[str, ...]:
    return tuple(row[column] for column in COLUMNS[:5])
