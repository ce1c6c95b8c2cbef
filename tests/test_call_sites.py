"""simulation/call_sites.csv against the kernels' sources: no wait, arrival, fence, barrier or commit without a schedule
that misses it, or a reason why none does. What it says is found anew by simulation/leave_out.py."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "simulation"))

import call_sites

MOST_EXPLAINED = 8


@pytest.fixture(scope="module")
def report():
    return call_sites.read_report()


def test_the_report_has_every_place_of_the_sources_and_no_other(report):
    places = {site.key() for site in call_sites.all_sites()}
    assert {call_sites.key_of(row) for row in report} == places
    assert len({(*call_sites.key_of(row), row["role"]) for row in report}) == len(report)


def test_every_place_is_missed_by_a_schedule_or_explained(report):
    for row in report:
        found = row["row"] != "" and row["notice"] != "" and 1 <= int(row["schedules"]) <= 64
        assert found != (row["explanation"] != ""), row


def test_no_more_places_than_known_are_only_explained(report):
    # More than 19 of 20 are missed by schedules.
    explained = sum(row["explanation"] != "" for row in report)
    assert explained <= MOST_EXPLAINED
    assert explained < len(report) / 20


def test_places_are_told_apart_by_function_and_number():
    source = """
// Behind ptx::wgmma_wait<0>() nothing is under way.
template <typename Kernel>
__device__ __forceinline__ void Store::finish(int count) {
  __syncwarp();
  if (ptx::elect_one()) ptx::tma_wait_read<count - 1>();  // __syncthreads()
  __syncwarp();
}
__global__ void __launch_bounds__(Kernel::threads(), 1)
    multiply(const __grid_constant__ Params params) {
  const int any = __syncthreads_or(ptx::opaque(0));
}
"""
    assert [
        (site.function, site.text, site.number, site.kind, site.line) for site in call_sites.sites_of("", source)
    ] == [
        ("finish", "__syncwarp();", 1, "bar.warp.sync", 5),
        ("finish", "if (ptx::elect_one()) ptx::tma_wait_read<count - 1>();", 1, "cp.async.bulk.wait_group.read", 6),
        ("finish", "__syncwarp();", 2, "bar.warp.sync", 7),
        ("multiply", "const int any = __syncthreads_or(ptx::opaque(0));", 1, "bar.sync 0", 11),
    ]
