"""Products that nobody chose, as they are drawn from a seed."""

from __future__ import annotations

import collections
import math

import pytest

from benchmarks.common.cases import Case
from benchmarks.measure.random_shapes_draw import Bounds, chosen_groups, draw
from benchmarks.subjects.random_shapes import group_of, is_aligned

EVERYWHERE = 2**62  # bytes and operations that no product has
FORMATS = ("nvfp4", "mxfp4", "mxfp8", "mixed")
DTYPES = ("float16", "bfloat16", "float32", "tf32", "float64", "e4m3", "e5m2", "e4m3xe5m2", "e5m2xe4m3")


def bounds(largest: int = 16384, size: int = EVERYWHERE, flops: int = EVERYWHERE) -> Bounds:
    return Bounds(largest, size, flops)


def drawn(count: int, seed: int = 0) -> list[Case]:
    return draw(seed, count, bounds())


def lines(product: Case) -> list[int]:
    """Lengths of the lines of a, b and result, as they lie in memory."""
    a, b = product.layout[0], product.layout[1]
    return [
        product.k if a == "N" else product.m,
        product.n if b == "N" else product.k,
        product.n,
    ]


def test_it_is_that_of_its_seed_and_a_longer_one_begins_with_it() -> None:
    first = draw(5, 60, bounds())
    assert draw(5, 60, bounds()) == first
    assert draw(5, 90, bounds())[:60] == first
    assert not set(draw(6, 60, bounds())) & set(first)


@pytest.mark.parametrize("count", [2, 60, 300])
def test_half_are_unaligned(count: int) -> None:
    products = drawn(count)
    unaligned = [product for product in products if any(length % 8 for length in lines(product))]
    assert len(unaligned) == count // 2
    assert [product for product in products if not is_aligned(product)] == unaligned


def test_half_of_each_group_are_unaligned() -> None:
    """Of as many turns as there are groups, each of two products."""
    counted = collections.Counter((group_of(product), is_aligned(product)) for product in drawn(7 * 2 * 10))
    assert set(counted.values()) == {10}
    assert len(counted) == 14


def test_a_size_that_is_no_length_of_a_line_may_be_any_in_an_aligned_product() -> None:
    rows = [product.m for product in drawn(300) if product.layout[0] == "N" and is_aligned(product)]
    assert any(m % 8 for m in rows)
    assert any(m % 8 == 0 for m in rows)


def test_sizes_are_spread_evenly_on_a_logarithmic_scale() -> None:
    """Of those that are no multiples of 8, which begin at 1: as many in each factor of two."""
    sizes = [size for product in drawn(3000) for size in product.shape if size % 8]
    octaves = collections.Counter(int(math.log2(size)) for size in sizes if size >= 8)
    expected = sum(octaves.values()) / 11
    assert sorted(octaves) == list(range(3, 14))
    assert all(0.75 * expected < count < 1.25 * expected for count in octaves.values())
    assert {1, 2, 3} <= set(sizes)


@pytest.mark.parametrize("largest", [32, 100, 16384])
def test_no_size_is_beyond_the_largest(largest: int) -> None:
    sizes = [size for product in draw(1, 300, bounds(largest)) for size in product.shape]
    assert min(sizes) == 1
    assert largest / 2 < max(sizes) <= largest


def test_no_product_is_beyond_the_bytes_and_operations() -> None:
    at_most = bounds(size=1 << 20, flops=1 << 24)
    for product in draw(2, 300, at_most):
        itemsize = {"float64": 8, "float32": 4, "tf32": 4, "float16": 2, "bfloat16": 2}.get(product.dtype, 0.5)
        numbers = product.m * product.k + product.k * product.n
        assert product.batch * numbers * itemsize <= 1 << 20
        assert product.batch * product.m * product.n * 2 <= 1 << 20
        assert product.batch * 2 * product.m * product.n * product.k <= 1 << 24
    free = [product for product in drawn(300) if product.bytes > 1 << 20 or product.flops > 1 << 24]
    assert len(free) > 100, "the bounds meant something"


def test_every_dtype_format_layout_and_epilogue_occurs_in_70_products() -> None:
    for seed in range(5):
        products = drawn(70, seed)
        dense = [product for product in products if product.dtype not in FORMATS]
        assert {product.dtype for product in products if product.batch == 1} == {*DTYPES, *FORMATS}
        assert {product.dtype for product in products if product.batch > 1} == set(DTYPES)
        assert {product.layout for product in dense} == {"NN", "NT", "TN", "TT"}
        activations = ("relu", "leaky_relu", "gelu", "gelu_tanh", "silu")
        epilogues = {"none", "bias", *(f"bias+{name}" for name in activations)}
        assert {product.epilogue for product in products} == epilogues


def test_block_scaled_products_are_nt_with_whole_blocks() -> None:
    products = [product for product in drawn(300) if product.dtype in FORMATS]
    assert {product.layout for product in products} == {"NT"}
    assert all(product.k % (16 if product.dtype == "nvfp4" else 32) == 0 for product in products)
    assert any(product.k % 32 for product in products), "nvfp4 has blocks of 16"


def test_batches_are_from_2_to_64_in_their_group_alone() -> None:
    products = drawn(1000)
    batches = [product.batch for product in products if group_of(product) == "batch"]
    assert min(batches) == 2
    assert 32 < max(batches) <= 64
    assert {product.batch for product in products if group_of(product) != "batch"} == {1}


def test_groups_and_dtypes_that_were_not_asked_for_are_left_out() -> None:
    chosen = chosen_groups(["fp8", "float32", "batch"], ["e4m3", "e5m2", "nvfp4"])
    assert chosen == {"fp8": ("e4m3", "e5m2"), "batch": ("e4m3", "e5m2")}
    products = draw(0, 40, bounds(), chosen)
    assert {product.dtype for product in products} == {"e4m3", "e5m2"}
    assert {group_of(product) for product in products} == {"fp8", "batch"}


def test_bounds_without_room_are_an_error_and_not_an_endless_search() -> None:
    with pytest.raises(ValueError, match="none of 1000 shapes of float64 has room in 3 bytes"):
        draw(0, 1, bounds(size=3), {"float64": ("float64",)})
