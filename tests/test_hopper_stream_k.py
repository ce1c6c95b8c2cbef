"""Products of 16 bits whose last tiles CTAs share (kernels/stream_k.cuh), alone or as clusters that load together."""

from __future__ import annotations

import pytest
import torch
from exact_products import check_row, operands, product
from operands import full_precision, integers
from reference import assert_exact
from shared_k import check_not_a_number_arrives, check_the_bits_are_the_same
from tile_table import HOPPER_ROWS, NO_HOPPER_ROWS, Row, each_row, each_row_and_layout, on_hopper
from torch import Tensor

import tileon_ops

pytestmark = pytest.mark.gpu

STREAMED = [row for row in HOPPER_ROWS if row.config.family == "stream_k"]
# Of few tiles, each with several CTAs; of about one round; and, by clusters, of whole ones before that.
SHAPES = ((40, 72, 8200), (264, 520, 20000), (1300, 1304, 4104), (4104, 2056, 4104), (8, 4000, 4104))


@each_row_and_layout(STREAMED, NO_HOPPER_ROWS)
def test_exact_products(row: Row, layout: str) -> None:
    for m, n, k in SHAPES:
        check_row(row, (m, k), (k, n), layout)


@each_row_and_layout(STREAMED, NO_HOPPER_ROWS)
def test_batches(row: Row, layout: str) -> None:
    for batch, m, n, k in ((3, 136, 200, 4104), (7, 264, 328, 2048)):
        check_row(row, (batch, m, k), (batch, k, n), layout)


@each_row(STREAMED, NO_HOPPER_ROWS)
def test_the_bits_are_the_same_every_time(row: Row) -> None:
    check_the_bits_are_the_same(row, SHAPES, ("NN", "TN"), times=10)


@each_row(STREAMED, NO_HOPPER_ROWS)
def test_bias_and_activation_are_applied_once(row: Row) -> None:
    for m, n, k in SHAPES:
        a, b = operands(row, (m, k), (k, n), "NT")
        bias = integers(n, dtype=row.dtype, device="cuda", seed=2)
        wanted = (product((m, k), (k, n)) + bias.double()).relu()
        assert_exact(row.run(a, b, bias, activation="relu"), wanted, row.out_dtype, f"{m}x{n}x{k}")


@each_row(STREAMED, NO_HOPPER_ROWS)
def test_not_a_number_in_any_part_arrives(row: Row) -> None:
    check_not_a_number_arrives(row, 4096, step=512)


@each_row(STREAMED, NO_HOPPER_ROWS)
def test_a_graph_multiplies_what_its_inputs_hold_at_each_replay(row: Row) -> None:
    m, n, k = SHAPES[1]
    a, b = (each.clone() for each in operands(row, (m, k), (k, n), "NN"))
    row.run(a, b)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = [row.run(a, b) for _ in range(3)]
    for factor in (1, -1, 1):
        a.mul_(factor)
        graph.replay()
        wanted = row.run(a, b)
        assert all(torch.equal(result, wanted) for result in results)


@each_row(STREAMED, NO_HOPPER_ROWS)
def test_streams_do_not_wait_for_each_other(row: Row) -> None:
    """Each launch has memory and a number of its own; a second one begins where the first one's CTAs leave room."""
    m, n, k = SHAPES[1]
    a, b = operands(row, (m, k), (k, n), "TN")
    wanted = row.run(a, b)
    streams = [torch.cuda.Stream() for _ in range(4)]
    results: list[Tensor] = []
    torch.cuda.synchronize()
    for _ in range(25):
        for stream in streams:
            with torch.cuda.stream(stream):
                results.append(row.run(a, b))
    torch.cuda.synchronize()
    assert all(torch.equal(result, wanted) for result in results)


@each_row(STREAMED, NO_HOPPER_ROWS)
def test_under_batch_invariance_no_tile_is_shared(row: Row) -> None:
    whole = next(other for other in HOPPER_ROWS if other.name == "sm90_gemm_128x128x64" and other.kind == row.kind)
    m, n, k = SHAPES[1]
    a = full_precision(m, k, dtype=row.dtype, device="cuda")
    b = full_precision(k, n, dtype=row.dtype, device="cuda", seed=1)
    with tileon_ops.batch_invariant():
        assert torch.equal(row.run(a, b), whole.run(a, b))


@on_hopper
def test_the_gradient_of_a_small_weight_is_shared() -> None:
    if "H200" not in torch.cuda.get_device_name():
        pytest.skip("their costs are an H200's")
    grad, x = (torch.randn(8192, 768, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    tileon_ops.matmul(grad.t(), x)
    assert tileon_ops.last_kernel().startswith("sm90_stream_k_")
