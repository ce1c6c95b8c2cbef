"""The simulated GPU's build that sees plain loads and stores: which ones nothing orders, on kernels of a few lines.

TILEON_SIMULATION_LIBRARY=build/simulation/accesses/libsimulation.so runs test_simulated_kernels.py's products on that
build too, when `tests/simulation/build.py --accesses` has made it.
"""

import ctypes

import numpy as np
import pytest
from test_simulation import ROOT, Simulation, fresh, pointer, simulation_build  # noqa: F401

NO_WAY, CTA_BARRIER, NAMED_BARRIER, MEMORY_BARRIER = range(4)
SEEDS = (0, 1, 2, 3, 12, 13)


@pytest.fixture(scope="module")
def simulation():
    reason = simulation_build.why_not()
    if reason is not None:
        pytest.skip(reason)
    out = ROOT / "build" / "simulation" / "probes"
    made = Simulation(
        simulation_build.build(ROOT / "csrc", out, only="cuda/sm90/launch", extra=simulation_build.ACCESSES)
    )
    for name in (
        "store_box",
        "multiply",
        "chain",
        "neighbour",
        "pass_on",
        "pass_to_lane",
        "count_ctas",
        "fetch",
        "hand_over",
    ):
        getattr(made.lib, f"probe_{name}").restype = ctypes.c_char_p
    return made


@pytest.mark.parametrize("way", [CTA_BARRIER, NAMED_BARRIER, MEMORY_BARRIER])
def test_barriers_order_what_one_warp_writes_and_another_reads(simulation, way):
    out = simulation.array(32, np.int32)
    for seed in SEEDS:
        simulation.begin(seed)
        assert simulation.lib.probe_pass_on(way, pointer(out)) is None
        assert out.tolist() == [*range(32)]


def test_a_race_is_noticed_in_a_schedule_whose_result_is_right(simulation):
    out = simulation.array(32, np.int32)
    error = simulation.lib.probe_pass_on(NO_WAY, pointer(out)).decode()
    assert "nothing orders two accesses to shared address 1024: a read of warp 1, lane 0 at " in error
    assert "behind a write of warp 0, lane 0 at " in error
    assert error.count("probes.cu:") == 3
    assert "in tileon::pass_on, CTA (0, 0, 0), warp 1, lane 0" in error
    assert "seed 0" in error


def test_lanes_of_a_warp_are_ordered_by_syncwarp_alone(simulation):
    out = simulation.array(32, np.int32)
    assert simulation.lib.probe_pass_to_lane(1, pointer(out)) is None
    assert out.tolist() == [lane & ~1 for lane in range(32)]
    assert b"a read of warp 0, lane 1" in simulation.lib.probe_pass_to_lane(0, pointer(out))


def test_atomics_of_two_ctas_meet_and_plain_accesses_must_not(simulation):
    out = simulation.array(32, np.int32)
    out[:] = 0
    for seed in SEEDS:
        simulation.begin(seed)
        assert simulation.lib.probe_count_ctas(1, pointer(out)) is None
    assert out.tolist() == [1] * 32
    assert b"of another cluster's CTA" in simulation.lib.probe_count_ctas(0, pointer(out))


def test_a_word_orders_what_one_cta_writes_and_another_reads(simulation):
    words, numbers, out = (
        simulation.array(count, kind) for count, kind in ((3, np.uint64), (96, np.int32), (96, np.int32))
    )
    arguments = pointer(words), pointer(numbers), pointer(out)
    for seed in SEEDS:
        words[:] = 0
        simulation.begin(seed)
        assert simulation.lib.probe_hand_over(0, 3, *arguments) is None
    words[:] = 0
    assert b"of another cluster's CTA" in simulation.lib.probe_hand_over(2, 3, *arguments)


@pytest.mark.parametrize(("bulk", "by"), [(0, b"by cp.async"), (1, b"by a copy for the mbarrier at 1152")])
def test_a_copy_is_waited_for_even_where_it_has_come(simulation, bulk, by):
    source, out = simulation.array(32, np.int32), simulation.array(32, np.int32)
    source[:] = np.arange(32)
    for seed in SEEDS:
        simulation.begin(seed)
        assert simulation.lib.probe_fetch(bulk, 1, pointer(source), pointer(out)) is None
        assert out.tolist() == [*range(32)]
    simulation.begin(3)  # copies land at once
    assert by in simulation.lib.probe_fetch(bulk, 0, pointer(source), pointer(out))


def test_memory_behind_a_tensor_is_not_its_padding(simulation):
    source, out = simulation.array(32, np.int32), simulation.array(31, np.int32)
    source[:] = 0
    error = simulation.lib.probe_fetch(0, 1, pointer(source), pointer(out))
    assert b"0 bytes behind the end of a tensor of 124" in error
    assert b"0 bytes behind the end of a tensor of 124" in simulation.lib.probe_fetch(
        0, 1, pointer(out), pointer(source)
    )


def test_plain_stores_need_a_fence_for_the_async_proxy(simulation):
    data = simulation.array(13 * 64, np.uint8)
    assert simulation.lib.probe_store_box(pointer(data), 13, 48, 1, 1, 1) is None
    assert b"without a fence for the async proxy" in simulation.lib.probe_store_box(pointer(data), 13, 48, 0, 1, 1)


def multiply(simulation: Simulation, fences: int, waits: int) -> bytes | None:
    image, out = simulation.array(9216, np.uint8), simulation.array(512, np.float32)
    image[:] = 0
    descriptor = 1 << 16 | 1024 >> 4 << 32 | 1 << 62
    return simulation.lib.probe_multiply(
        pointer(image),
        image.size,
        ctypes.c_uint64(descriptor),
        ctypes.c_uint64(descriptor | 8192 >> 4),
        0,
        0,
        fences,
        waits,
        pointer(out),
    )


def test_operands_of_wgmma_are_fenced_and_stay_until_its_wait(simulation):
    assert multiply(simulation, 1, 1) is None
    assert b"wgmma uses shared address" in multiply(simulation, 2, 1)
    assert b"by wgmma of warpgroup 0" in multiply(simulation, 1, 2)


def test_a_dependent_grid_waits_before_plain_loads_in_every_schedule(simulation):
    between, out = simulation.array(96, np.float32), simulation.array(96, np.float32)
    for seed in SEEDS:
        simulation.begin(seed)
        assert simulation.lib.probe_chain(3, 1, pointer(between), pointer(out)) is None
        assert b"before griddepcontrol.wait" in simulation.lib.probe_chain(3, 0, pointer(between), pointer(out))


def test_the_barrier_of_a_cluster_orders_its_shared_memory_and_its_end(simulation):
    out = simulation.array(32, np.uint32)
    for seed in SEEDS:
        simulation.begin(seed)
        assert simulation.lib.probe_neighbour(1, pointer(out)) is None
        assert simulation.lib.probe_neighbour(0, pointer(out)) is not None
    assert b"nothing orders the CTA's end behind a read of warp 0" in simulation.lib.probe_neighbour(0, pointer(out))
