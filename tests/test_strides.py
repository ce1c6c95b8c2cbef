"""Whether `out` overlaps itself, told from sizes and strides: by the op, by its fake implementation, and of symbols."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
import torch
from operands import place
from test_out import OUTPUTS
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from tileon_ops._rules.overlap import overlaps_itself

matmul = torch.ops.tileon.matmul

# What has two elements at one address: (sizes, strides).
OVERLAPPING = {
    "repeated row": ((5, 7), (0, 1)),
    "repeated column": ((5, 7), (1, 0)),
    "repeated batch": ((4, 5, 7), (0, 7, 1)),
    "rows that share an element": ((5, 7), (6, 1)),
    "columns that share an element": ((5, 7), (1, 4)),
    "batches that share a row": ((4, 5, 7), (28, 7, 1)),
    "coinciding diagonals": ((5, 7), (1, 1)),
    "crossing strides": ((5, 7), (2, 3)),
}
# What has not, though neither stride steps over all that the other reaches.
INTERLEAVED = {"rows and columns": ((3, 2), (2, 3)), "batches within rows": ((4, 5, 3), (3, 12, 4))}


def addresses(sizes: tuple[int, ...], strides: tuple[int, ...]) -> list[int]:
    """Of every element."""
    return [sum(map(int.__mul__, index, strides)) for index in itertools.product(*map(range, sizes))]


def view(sizes: tuple[int, ...], strides: tuple[int, ...]) -> Tensor:
    return torch.zeros(1 + addresses(sizes, strides)[-1]).as_strided(sizes, strides)


def random_views(count: int, dims: int, seed: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    source = random.Random(seed)
    largest = (14, 60)
    return [
        (
            tuple(source.choice((1, 2, 3, 4, 5)) for _ in range(dims)),
            tuple(source.randint(0, largest[number % 2]) for _ in range(dims)),
        )
        for number in range(count)
    ]


def operands(sizes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Those of a product of these sizes."""
    return torch.ones(*sizes[:-1], 1), torch.ones(1, sizes[-1])


@pytest.mark.parametrize("dims", [0, 1, 2, 3, 4])
def test_is_told_as_by_writing_down_every_address(dims: int) -> None:
    told = [0, 0]
    for sizes, strides in random_views(2000, dims, seed=dims):
        at = addresses(sizes, strides)
        overlaps = len(set(at)) < len(at)
        assert overlaps_itself(sizes, strides) == overlaps, (sizes, strides)
        told[overlaps] += 1
    assert min(told) > (100 if dims > 1 else -1), "both were met"


@pytest.mark.parametrize("dims", [2, 3])
def test_is_told_as_the_op_tells_it(dims: int) -> None:
    for sizes, strides in random_views(500, dims, seed=dims):
        refused = ""
        try:
            matmul.out(*operands(sizes), out=view(sizes, strides))
        except RuntimeError as error:
            refused = str(error)
        assert refused.startswith("matmul: `out` must not overlap itself") == overlaps_itself(sizes, strides), refused


def test_views_of_no_elements_overlap_nothing() -> None:
    assert not overlaps_itself((5, 0, 7), (0, 0, 0))


def test_large_views_are_told_without_going_through_their_elements() -> None:
    assert not overlaps_itself((1 << 20, 1 << 20), (1 << 20, 1))
    assert overlaps_itself((1 << 20, 1 << 20), ((1 << 20) - 1, 1))
    assert not overlaps_itself((4097, 4096), (4096, 4097)), "they would meet after 4097 rows"
    assert overlaps_itself((4098, 4097), (4096, 4097))


class TestFakeTensors:
    @pytest.mark.parametrize("name", OVERLAPPING)
    def test_refuse_an_out_that_overlaps_itself(self, name: str) -> None:
        sizes, strides = OVERLAPPING[name]
        for device in ("cpu", "cuda", "meta"):
            with FakeTensorMode():
                a, b = (operand.to(device) for operand in operands(sizes))
                out = torch.empty(200, device=device).as_strided(sizes, strides)
                with pytest.raises(RuntimeError, match=r"^matmul: `out` must not overlap itself"):
                    matmul.out(a, b, out=out)

    def test_so_does_the_meta_device(self) -> None:
        a, out = torch.empty(2, 2, device="meta"), torch.empty(1, 2, device="meta")
        with pytest.raises(RuntimeError, match=r"^matmul: `out` must not overlap itself, got strides \(0, 1\)"):
            matmul.out(a, a, out=out.expand(2, 2))

    @pytest.mark.parametrize("where", OUTPUTS)
    def test_take_an_out_of_any_other_strides(self, where: str) -> None:
        with FakeTensorMode():
            for shape in ((6, 7), (3, 6, 7)):
                assert matmul.out(*operands(shape), out=OUTPUTS[where](torch.empty(shape)).view) is None
            assert matmul.out(*operands((3, 6, 7)), out=place(torch.empty(3, 6, 7), batch_last=True).view) is None

    @pytest.mark.parametrize("name", INTERLEAVED)
    def test_take_an_interleaved_out(self, name: str) -> None:
        sizes, strides = INTERLEAVED[name]
        with FakeTensorMode():
            assert matmul.out(*operands(sizes), out=view(sizes, strides)) is None


class TestSymbols:
    def symbolic(self, sizes: tuple[int, ...], strides: tuple[int, ...]) -> tuple[ShapeEnv, Tensor]:
        """A fake tensor whose sizes are symbols, and whose strides are, but for 0 and 1."""
        environment, dims = ShapeEnv(), len(sizes)
        context: StatelessSymbolicContext[Any, Any] = StatelessSymbolicContext(
            dynamic_sizes=[DimDynamic.DYNAMIC] * dims,
            dynamic_strides=[DimDynamic.INFER_STRIDE] * dims,
            constraint_sizes=[None] * dims,
        )
        mode = FakeTensorMode(shape_env=environment)
        return environment, mode.from_tensor(view(sizes, strides), symbolic_context=context)

    @pytest.mark.parametrize("name", OVERLAPPING)
    def test_are_told_where_that_is_certain_and_never_guarded_on(self, name: str) -> None:
        environment, out = self.symbolic(*OVERLAPPING[name])
        certain = name.startswith("repeated") or name == "coinciding diagonals"
        assert overlaps_itself(out.shape, out.stride()) == certain
        assert not environment.guards

    def test_in_a_stride_that_follows_from_a_size(self) -> None:
        environment, out = self.symbolic((5, 7), (7, 1))
        m, n = out.shape
        assert overlaps_itself((m, n), (n - 1, 1))
        assert not overlaps_itself((m, n), (n, 1))
        assert not overlaps_itself((m, n), (2 * n, 2))
        assert not environment.guards

    @pytest.mark.parametrize("name", INTERLEAVED)
    def test_traced_an_interleaved_out_is_taken(self, name: str) -> None:
        sizes, strides = INTERLEAVED[name]
        traced = make_fx(lambda a, b, out: matmul.out(a, b, out=out), tracing_mode="symbolic")
        a, b = operands(sizes)
        out = view(sizes, strides)
        traced(a, b, out)(a + 1, b, out)
        assert torch.equal(out, torch.full_like(out, 2))

    @pytest.mark.parametrize("name", INTERLEAVED)
    def test_compiled_an_interleaved_out_is_taken(self, name: str) -> None:
        """torch.compile has the op called outside of its graph, for any `out` that is not contiguous."""
        sizes, strides = INTERLEAVED[name]
        torch._dynamo.reset()
        multiply = torch.compile(lambda a, b, out: matmul.out(a + 1, b, out=out), backend="eager", dynamic=True)
        out = view(sizes, strides)
        multiply(*operands(sizes), out)
        assert torch.equal(out, torch.full_like(out, 2))

    def test_compiled_for_any_size_a_contiguous_out_is_taken_without_compiling_again(self) -> None:
        compiled = 0

        def count(graph: torch.fx.GraphModule, _: list[Tensor]) -> torch.fx.GraphModule:
            nonlocal compiled
            compiled += 1
            return graph

        torch._dynamo.reset()
        multiply = torch.compile(lambda a, b, out: matmul.out(a + 1, b, out=out), backend=count, dynamic=True)
        for sizes in ((3, 2), (5, 2), (7, 4)):
            out = torch.zeros(sizes)
            multiply(*operands(sizes), out)
            assert torch.equal(out, torch.full_like(out, 2))
        assert compiled == 1
