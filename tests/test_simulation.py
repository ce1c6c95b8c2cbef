"""The simulated GPU (tests/simulation/): what it finds. The kernels on it: test_simulated_kernels.py.

They are those of build/simulation/libsimulation.so, which is built where it is stale, in some minutes;
TILEON_SIMULATION_LIBRARY names another one.
"""

import ctypes
import os
import pathlib
import re
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
SIMULATION = ROOT / "tests" / "simulation"
sys.path.insert(0, str(SIMULATION))

import build as simulation_build  # noqa: E402
from simulation import HOPPER, PORTABLE, Simulation, dense_problem  # noqa: E402


@pytest.fixture(scope="module")
def simulation():
    named = os.environ.get("TILEON_SIMULATION_LIBRARY")
    library = pathlib.Path(named) if named else ROOT / "build" / "simulation" / "libsimulation.so"
    if not named:
        reason = simulation_build.why_not()
        if reason is not None:
            pytest.skip(reason)
        simulation_build.build(ROOT / "csrc", library.parent)
    made = Simulation(library)
    for name in (
        "exchange",
        "deadlock",
        "load_box",
        "store_box",
        "multiply",
        "chain",
        "neighbour",
        "diverge",
        "hand_over",
        "load_together",
        "copy_columns",
    ):
        getattr(made.lib, f"probe_{name}").restype = ctypes.c_char_p
    return made


@pytest.fixture(autouse=True)
def fresh(simulation):
    simulation.begin(0)
    yield
    simulation.leave_out(None)
    simulation.free()


def pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


# What a kernel must not leave out.


@pytest.mark.parametrize(
    ("table", "name", "what", "file"),
    [
        (HOPPER, "sm90_gemm_128x256x64", "wgmma.fence", "sm90/mainloop/mma.cuh"),
        (HOPPER, "sm90_gemm_128x256x64", "wgmma.wait_group", "sm90/mainloop/mma.cuh"),
        (HOPPER, "sm90_gemm_128x256x64", "mbarrier.try_wait", "common/pipeline.cuh"),
        (HOPPER, "sm90_gemm_128x256x64", "fence.proxy.async", "sm90/epilogue/tma_store.cuh"),
        (HOPPER, "sm90_gemm_128x256x64", "cp.async.bulk.wait_group.read", "sm90/epilogue/tma_store.cuh"),
        (HOPPER, "sm90_gemm_128x256x64", "griddepcontrol.wait", "sm90/mainloop/kernel.cuh"),
        (HOPPER, "sm90_split2_128x128x64", "barrier.cluster.wait", "sm90/kernels/cluster_split_k.cuh"),
        (PORTABLE, "sm80_mma_64x64x64", "cp.async.wait_group", "sm80/loaders/pipeline.cuh"),
        (PORTABLE, "sm80_mma_64x64x64", "bar.warp.sync", "sm80/tile/cta_tile.cuh"),
    ],
)
def test_leaving_out_one_instruction_is_noticed(simulation, table, name, what, file):
    row = simulation.rows(table).index(name)
    problem = dense_problem(simulation, 300, 264, 328, (0, 0, 0), sms=2)
    simulation.record_sites(True)
    assert problem.run(table, row, 0) is None
    lines = [line for kind, where, line, *_ in simulation.sites() if (kind, where) == (what, file)]
    simulation.record_sites(False)
    simulation.leave_out(file, lines[0])
    errors = [problem.run(table, row, seed) for seed in range(3)]
    assert any(errors)
    simulation.leave_out(None)
    assert problem.run(table, row, 0) is None


# The simulated GPU itself.


def test_the_same_seed_is_the_same_run(simulation):
    row = simulation.rows(HOPPER).index("sm90_pingpong_128x128x64")
    problem = dense_problem(simulation, 200, 264, 136, (0, 0, 0))
    counts = []
    for seed in (21, 22, 21, 22):
        before = simulation.statistics()
        assert problem.run(HOPPER, row, seed) is None
        counts.append({key: count - before[key] for key, count in simulation.statistics().items()})
    assert counts[0] == counts[2]
    assert counts[1] == counts[3]
    assert counts[0]["switches"] != counts[1]["switches"]


def test_both_ptx_folders_have_the_same_functions():
    names = re.compile(r"^(?:__device__ __forceinline__|inline)\s[^;=(]*?(\w+)\(", re.MULTILINE)
    for file in sorted((ROOT / "csrc" / "cuda" / "ptx").glob("*.cuh")):
        theirs, ours = (set(names.findall(path.read_text())) for path in (file, SIMULATION / "ptx" / file.name))
        assert theirs <= ours, file.name


def test_a_missing_barrier_shows_as_what_was_not_written_yet(simulation):
    out = simulation.array(64, np.int32)
    for seed in range(4):
        simulation.begin(seed)
        assert simulation.lib.probe_exchange(1, pointer(out)) is None
        assert out.tolist() == [*range(32, 64), *range(32)]
        assert simulation.lib.probe_exchange(0, pointer(out)) is None
        assert -1 in out


def test_a_deadlock_names_who_waits_for_what(simulation):
    error = simulation.lib.probe_deadlock().decode()
    assert "deadlock" in error
    assert "barrier 3 has 32 of 64 threads: CTA (0, 0, 0) warp 1" in error
    assert "bar.sync in" in error
    assert "probes.cu:" in error
    assert "seed 0" in error


def swizzled(place: np.ndarray, mode: int) -> np.ndarray:
    """Of an address: the number of the 16 bytes in a row of 32, 64 or 128 is exchanged by that of the 128 bytes."""
    rows, chunk = place // 128, place // 16 % 8
    return place - chunk * 16 + (chunk ^ rows % 2**mode) * 16


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
@pytest.mark.parametrize("at", [(0, 0, 0, 0), (-3, 5, 1, 0), (40, -2, 2, 1)])
def test_tma_loads_a_box_as_the_programming_guide_has_it(simulation, mode, at):
    sizes, box = (50, 11, 3, 2), (16 << mode, 4, 2, 1)
    strides = (64, 64 * 11, 64 * 33)
    tensor = np.random.default_rng(3).integers(0, 255, 64 * 66, dtype=np.uint8)
    data = simulation.array(tensor.size - 14, np.uint8)
    data[:] = tensor[: data.size]
    expected = np.zeros(int(np.prod(box)), np.uint8)
    for place in range(expected.size):
        index = np.array(np.unravel_index(place, box[::-1]))[::-1] + at
        if np.all(index >= 0) and np.all(index < sizes):
            expected[swizzled(np.array(place), mode)] = tensor[index[0] + np.dot(index[1:], strides)]
    out = simulation.array(expected.size, np.uint8)
    arguments = (
        pointer(data),
        (ctypes.c_uint64 * 4)(*sizes),
        (ctypes.c_uint64 * 3)(*strides),
        (ctypes.c_uint32 * 4)(*box),
        mode,
        (ctypes.c_int * 4)(*at),
        expected.size,
    )
    for seed in range(4):
        simulation.begin(seed)
        assert simulation.lib.probe_load_box(*arguments, expected.size, pointer(out)) is None
        assert np.array_equal(out, expected)
    error = simulation.lib.probe_load_box(*arguments, expected.size + 16, pointer(out)).decode()
    assert "deadlock" in error
    assert "0 of 1 arrivals and 16 bytes to come" in error


@pytest.mark.parametrize(
    ("sizes", "strides", "box"),
    [
        ((50, 2, 1, 1), (60, 128, 128), (16, 2, 1, 1)),
        ((50, 2, 1, 1), (64, 128, 128), (24, 2, 1, 1)),
        ((50, 2, 1, 1), (64, 128, 128), (16, 257, 1, 1)),
    ],
)
def test_the_driver_refuses_tensor_maps_that_tma_cannot_have(simulation, sizes, strides, box):
    data, out = simulation.array(4096, np.uint8), simulation.array(8192, np.uint8)
    error = simulation.lib.probe_load_box(
        pointer(data),
        (ctypes.c_uint64 * 4)(*sizes),
        (ctypes.c_uint64 * 3)(*strides),
        (ctypes.c_uint32 * 4)(*box),
        0,
        (ctypes.c_int * 4)(),
        512,
        512,
        pointer(out),
    )
    assert b"refused" in error


def test_tma_stores_what_lies_inside_the_tensor_and_needs_a_fence_and_a_wait(simulation):
    data = simulation.array(13 * 64, np.uint8)
    assert simulation.lib.probe_store_box(pointer(data), 13, 48, 1, 1, 0) is None
    rows = data.reshape(13, 64)
    assert np.array_equal(rows[:, :48], (np.arange(1024) % 251).reshape(16, 64)[:13, :48])
    assert np.all(rows[:, 48:] == 0xFF)
    assert b"without a fence for the async proxy" in simulation.lib.probe_store_box(pointer(data), 13, 48, 0, 1, 0)
    simulation.begin(1)
    assert b"CTA ends before the store has read" in simulation.lib.probe_store_box(pointer(data), 13, 48, 1, 0, 0)
    simulation.begin(0)
    assert b"behind the end of a tensor of 832" in simulation.lib.probe_store_box(pointer(data), 14, 64, 1, 1, 0)


def half_tile(matrix: np.ndarray, k_major: bool) -> np.ndarray:
    """[lines][16] float16 as wgmma reads it with 128-byte swizzle.

    Lines of 128 bytes: of k-major a line of the matrix each, of mn-major a k each.
    """
    lines = matrix if k_major else matrix.T
    image = np.full((len(lines), 64), np.nan, np.float16)
    for line, values in enumerate(lines):
        for begin in range(0, len(values), 8):
            chunk = begin // 8 ^ line % 8
            image[line, chunk * 8 : chunk * 8 + 8] = values[begin : begin + 8]
    return image.ravel()


@pytest.mark.parametrize("transpose_a", [0, 1])
@pytest.mark.parametrize("transpose_b", [0, 1])
def test_wgmma_reads_operands_where_descriptors_say(simulation, transpose_a, transpose_b):
    random = np.random.default_rng(5)
    a, b = random.integers(-4, 5, (64, 16)), random.integers(-4, 5, (8, 16))
    image = np.concatenate([half_tile(a, not transpose_a), half_tile(b, not transpose_b)]).view(np.uint8)
    begin_b = len(half_tile(a, not transpose_a)) * 2
    stride, mode = 1024 >> 4 << 32, 1 << 62
    out = simulation.array(512, np.float32)

    def multiply(a_descriptor: int, fences: int = 1, waits: int = 1) -> bytes | None:
        return simulation.lib.probe_multiply(
            pointer(image),
            image.size,
            ctypes.c_uint64(a_descriptor),
            ctypes.c_uint64(begin_b >> 4 | 1 << 16 | stride | mode),
            transpose_a,
            transpose_b,
            fences,
            waits,
            pointer(out),
        )

    for seed in range(4):
        simulation.begin(seed)
        assert multiply(1 << 16 | stride | mode) is None
        assert np.array_equal(out.reshape(64, 8), a @ b.T)
    assert multiply(1 << 16 | stride | mode, waits=0) is None
    assert np.all(np.isnan(out))
    assert b"without a wgmma.fence" in multiply(1 << 16 | stride | mode, fences=0)
    assert b"without 128-byte swizzle" in multiply(1 << 16 | stride)
    assert b"is beyond the CTA's" in multiply(0x3000 | 1 << 16 | stride | mode)


def test_a_dependent_grid_overlaps_the_one_in_front_until_it_waits(simulation):
    between, out = simulation.array(96, np.float32), simulation.array(96, np.float32)
    for seed in (0, 1, 2, 3, 30, 31):
        between[:] = out[:] = np.nan
        simulation.begin(seed)
        assert simulation.lib.probe_chain(3, 1, pointer(between), pointer(out)) is None
        assert np.array_equal(out, np.tile(np.arange(32), 3))
    between[:] = out[:] = np.nan
    simulation.begin(0)
    assert simulation.lib.probe_chain(3, 0, pointer(between), pointer(out)) is None
    assert np.any(np.isnan(out))


def test_ctas_of_a_cooperative_grid_wait_for_each_other(simulation):
    """In any order, and however few a schedule has alive: all of them may come."""
    words, numbers, out = (
        simulation.array(count, kind) for count, kind in ((5, np.uint64), (160, np.int32), (160, np.int32))
    )
    arguments = pointer(words), pointer(numbers), pointer(out)
    for seed in range(12):
        words[:] = out[:] = 0
        simulation.begin(seed)
        assert simulation.lib.probe_hand_over(0, 5, *arguments) is None
        assert out[32:].tolist() == [100 * cta + lane for cta in range(4) for lane in range(32)]
    words[:] = 0
    error = simulation.lib.probe_hand_over(1, 5, *arguments).decode()
    assert "deadlock" in error
    assert "ld.acquire" in error
    assert simulation.lib.probe_hand_over(0, 133, *arguments) == b"too many CTAs"


def test_ctas_of_a_cluster_load_for_each_other(simulation):
    data, out = simulation.array(128, np.int32), simulation.array(256, np.int32)
    data[:] = range(128)
    probe = lambda way: simulation.lib.probe_load_together(way, pointer(data), pointer(out))  # noqa: E731
    for seed in range(12):
        simulation.begin(seed)
        out[:] = -1
        assert probe(0) is None
        assert out.tolist() == [*range(128)] * 2
    assert b"deadlock" in probe(1), "each waits for what the other has loaded for itself"
    assert b"deadlock" in probe(2), "nobody may load anew"
    wrong = []
    for seed in range(12):
        simulation.begin(seed)
        error = probe(3)
        wrong.append(error is not None or out.tolist() != [*range(128)] * 2)
    assert any(wrong), "a CTA takes no heed of what the other still reads"


# Of a kernel alone what no product shows: few rows of `a` in a warp's shared memory (small_m/direct_loads.cuh), two
# stages of a chunk of k, 128 long.

STAGES, SLOTS = 2, 16  # slots of sixteen bytes, eight numbers each, in a row of a stage


def copied_columns(simulation, tile_m, of_fp4, m, k):
    """The numbers of all slots once both chunks are copied: of row r and k, 256 r + k. Memory ends with the last k."""
    a = simulation.array((m - 1) * 256 + k, np.uint16)
    a[:] = np.arange(a.size)
    out = simulation.array(STAGES * tile_m * SLOTS * 8, np.uint16)
    assert simulation.lib.probe_copy_columns(tile_m, of_fp4, 1, pointer(a), m, k, pointer(out)) is None
    return out.reshape(-1, 8).copy()


@pytest.mark.parametrize("of_fp4", [1, 0])
@pytest.mark.parametrize("tile_m", [8, 16])
def test_lanes_read_few_rows_from_all_banks_where_they_were_copied_to(simulation, tile_m, of_fp4):
    found = copied_columns(simulation, tile_m, of_fp4, tile_m, 256)
    assert sorted(found.ravel()) == list(range(tile_m * 256)), "every number has one place"
    assert (found == found[:, :1] + np.arange(8)).all(), "a slot has eight neighbours, in order"
    place_of = {int(first): place for place, first in enumerate(found[:, 0])}
    for place, first in enumerate(found[:, 0]):
        assert place // (tile_m * SLOTS) == first % 256 // 128, "each chunk is in its stage"

    pieces, eights = (1, 4) if of_fp4 else (2, 2)  # of a lane, in a chunk: sixteen bytes of codes, and eight codes
    shape = (STAGES, pieces, eights, tile_m // 8, 32)
    a, out = simulation.array(16 * 256, np.uint16), simulation.array(int(np.prod(shape)), np.uint16)
    assert simulation.lib.probe_copy_columns(tile_m, of_fp4, 0, pointer(a), tile_m, 256, pointer(out)) is None
    for (stage, piece, eight, panel, lane), place in np.ndenumerate(out.reshape(shape)):
        row, slot = 8 * panel + lane // 4, (4 * piece + lane % 4) * eights + eight
        assert place == place_of[row * 256 + stage * 128 + slot * 8], "a lane's row, at the k of its codes"
    at_once = out.reshape(-1, 8)  # of sixteen bytes each, eight lanes
    assert all(len({place % 8 for place in places}) == 8 for places in at_once), "each from other banks"


@pytest.mark.parametrize("tile_m", [8, 16])
def test_few_rows_are_zero_beyond_the_end_of_k_and_left_alone_beyond_that_of_m(simulation, tile_m):
    m, k = tile_m - 3, 136
    whole = copied_columns(simulation, tile_m, 1, tile_m, 256)
    found = copied_columns(simulation, tile_m, 1, m, k)
    for place, (full, part) in enumerate(zip(whole, found, strict=True)):
        row, first = divmod(int(full[0]), 256)
        if row >= m:
            assert (part == place).all(), "what was there"
        else:
            assert (part == (full if first < k else 0)).all()


def test_shared_memory_of_a_cta_that_has_ended_is_gone(simulation):
    out = simulation.array(32, np.uint32)
    for seed in range(8):
        simulation.begin(seed)
        assert simulation.lib.probe_neighbour(1, pointer(out)) is None
        assert out.tolist() == list(range(100, 132))
    errors = []
    for seed in range(8):
        simulation.begin(seed)
        errors.append(simulation.lib.probe_neighbour(0, pointer(out)) or b"")
    assert any(b"which has ended" in error for error in errors)


def test_lanes_at_different_instructions_of_the_whole_warp_are_noticed(simulation):
    assert simulation.lib.probe_diverge(0) is None
    assert b"lanes of a warp are at different instructions" in simulation.lib.probe_diverge(1)


def test_memory_behind_a_tensor_cannot_be_touched(simulation):
    out = simulation.array(60, np.int32)
    error = simulation.lib.probe_exchange(1, pointer(out)).decode()
    assert "behind the end of a tensor of 240" in error
    assert "CTA (0, 0, 0), warp" in error
