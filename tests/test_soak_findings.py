"""The soak test finds what is wrong: each of these faults is put into the op that it calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

CPU = torch.device("cpu")
Function = Callable[..., Any]


def cases(name: str, *, flawed: bool = False, count: int = 1, where: Callable[[Any], bool] = lambda case: True) -> Any:
    """The first cases of an op, as it is counted, whose results have elements."""
    from soak.cases import draw_case

    found = []
    for index in range(6000):
        case = draw_case(1, 0, index, frozenset({name}))
        if case is None or (case.flaw is not None) != flawed:
            continue
        has_elements = all(wanted.shape and 0 not in wanted.shape for wanted in case.wanted(CPU).values())
        if has_elements and where(case):
            found.append(case)
        if len(found) == count:
            return found
    raise AssertionError(f"too few cases of {name}")


def is_exact(case: Any) -> bool:
    """Every element of the result must be right to the last bit."""
    return all(bool((wanted.interval.error == 0).all()) for wanted in case.wanted(CPU).values())


class Faulty:
    """Runs a case with the op replaced by `fault(sound op, arguments)`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def verdict(self, case: Any, fault: Callable[[Function, tuple[Any, ...], dict[str, Any]], Any]) -> Any:
        from soak import run

        sound = run.function_of(case.call)
        with self._monkeypatch.context() as patched:
            patched.setattr(run, "function_of", lambda call: lambda *values, **options: fault(sound, values, options))
            return run.run_case(case, CPU)

    def kinds(self, case: Any, fault: Callable[[Function, tuple[Any, ...], dict[str, Any]], Any]) -> list[str]:
        return [finding.kind for finding in self.verdict(case, fault).findings]


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> Faulty:
    return Faulty(monkeypatch)


def sound(function: Function, values: tuple[Any, ...], options: dict[str, Any]) -> Any:
    return function(*values, **options)


@pytest.mark.parametrize("name", ["matmul", "matmul.out", "matmul.backward", "block_scaled_matmul", "quantize"])
def test_a_sound_op_has_no_findings(faulty: Faulty, name: str) -> None:
    for case in cases(name, count=3):
        assert faulty.verdict(case, sound).findings == ()


# Wrong results.


def stepped_up(values: Tensor, at: tuple[int, ...]) -> Tensor:
    """A copy with one finite element a step further from zero: the next larger code of the same sign."""
    words = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[values.dtype.itemsize]
    moved = values.clone()
    moved.view(words)[at] += 1
    return moved


def closed_place(wanted: Any) -> tuple[int, ...] | None:
    """An element whose interval's ends are normal numbers of one sign."""
    low, high = wanted._ends()
    magnitude = torch.minimum(low.abs(), high.abs())
    largest = torch.maximum(low.abs(), high.abs())
    good = (low.sign() * high.sign() > 0) & (magnitude > 1e-3) & (largest < 300) & ~wanted.interval.is_open()
    places = good.nonzero()
    return tuple(places[len(places) // 2].tolist()) if len(places) else None


@pytest.mark.parametrize("name", ["matmul", "matmul.out", "matmul.backward", "block_scaled_matmul"])
def test_an_element_at_the_end_of_its_interval_passes_and_one_step_beyond_does_not(name: str) -> None:
    seen = 0
    for case in cases(name, count=9):
        for wanted in case.wanted(CPU).values():
            at = closed_place(wanted)
            if at is None:
                continue
            low, high = wanted._ends()
            result = torch.where(low.abs() > high.abs(), low, high).to(wanted.dtype)
            assert bool(wanted.good(result)[at])
            assert not bool(wanted.good(stepped_up(result, at))[at])
            complaint = wanted.complaint(stepped_up(result, at))
            assert complaint is not None
            assert str(at) in complaint
            seen += 1
    assert seen >= 4


def test_a_sum_that_lacks_one_product_is_a_mismatch(faulty: Faulty) -> None:
    def lacking(function: Function, values: tuple[Any, ...], options: dict[str, Any]) -> Any:
        a, b, *rest = values
        return function(a[..., :-1], b[..., :-1, :], *rest, **options)

    def is_plain(case: Any) -> bool:
        a, b = (case.call.arguments[name].view() for name in ("a", "b"))
        plain = case.call.options.get("activation", "none") == "none" and min(a.dim(), b.dim()) > 1
        return plain and is_exact(case) and bool((a[..., -1:].double() @ b[..., -1:, :].double()).any())

    for case in cases("matmul", count=3, where=is_plain):
        assert faulty.kinds(case, lacking) == ["mismatches"]


@pytest.mark.parametrize("name", ["matmul", "block_scaled_matmul"])
def test_where_nothing_can_round_the_last_bit_counts(faulty: Faulty, name: str) -> None:
    def one_step(function: Function, values: tuple[Any, ...], options: dict[str, Any]) -> Any:
        result = function(*values, **options)
        return stepped_up(result, (0,) * result.dim())

    def is_sure(case: Any) -> bool:
        wanted = case.wanted(CPU)["result"]
        first = wanted._ends()[0].flatten()[0]
        return is_exact(case) and not wanted.interval.open and 0 < abs(float(first)) < 400

    for case in cases(name, count=3, where=is_sure):
        assert faulty.kinds(case, one_step) == ["mismatches"]


def test_one_wrong_byte_of_quantize_is_a_mismatch(faulty: Faulty) -> None:
    def one_bit(function: Function, values: tuple[Any, ...], options: dict[str, Any]) -> Any:
        data, scale = function(*values, **options)
        for result in (data, scale):
            result.view(torch.uint8).view(-1)[-1] ^= 1
        return data, scale

    for case in cases("quantize", count=5, where=lambda case: case.wanted(CPU)["result 0"].rule is None):
        assert faulty.kinds(case, one_bit) == ["mismatches", "mismatches"]


def test_out_that_is_not_written_is_a_mismatch(faulty: Faulty) -> None:
    def is_number(case: Any) -> bool:
        wanted = case.wanted(CPU)["out"]
        return bool((~wanted.interval.value.isnan() & ~wanted.interval.is_open()).any())

    for name in ("matmul.out", "block_scaled_matmul.out"):
        for case in cases(name, count=3, where=lambda case: case.call.through == "op" and is_number(case)):
            assert faulty.kinds(case, lambda function, values, options: None) == ["mismatches"]


def test_out_holds_nan_before_a_call_and_anything_around_it() -> None:
    """So an element that is right was written, and a byte that is overwritten differs."""
    from soak.draw import Draw
    from soak.operand import draw_out

    for index, dtype in enumerate((torch.float16, torch.float64, torch.float8_e4m3fn)):
        out = draw_out(Draw(1, 0, index), (5, 7), dtype)
        assert bool(out.view().double().isnan().all())
        assert len(out.storage[~out.reached_bytes()].unique()) > 50


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("another dtype", lambda result, values: result.to(torch.float64).to(torch.complex64)),
        ("another shape", lambda result, values: result.unsqueeze(0)),
        ("not contiguous", lambda result, values: torch.stack((result, result), -1)[..., 0]),
        ("an argument's memory", lambda result, values: into_first_argument(result, values)),
    ],
)
def test_a_result_that_is_not_fresh_is_a_mismatch(
    faulty: Faulty, what: str, change: Callable[[Tensor, tuple[Any, ...]], Tensor]
) -> None:
    def changed(function: Function, values: tuple[Any, ...], options: dict[str, Any]) -> Any:
        return change(function(*values, **options), values)

    def fits(case: Any) -> bool:
        a = case.call.arguments["a"]
        if a.dtype != torch.float32 or case.call.mode != "no_grad" or case.call.options.get("out_dtype") is not None:
            return False
        return 1 < case.wanted(CPU)["result"].interval.value.numel() <= a.storage.numel() // 4

    (case,) = cases("matmul", where=fits)
    assert "mismatches" in faulty.kinds(case, changed), what


def into_first_argument(result: Tensor, values: tuple[Any, ...]) -> Tensor:
    place: Tensor = values[0].as_strided(result.shape, result.stride(), 0)
    return place.copy_(result)


def test_a_doubled_gradient_is_a_mismatch(faulty: Faulty) -> None:
    def doubled(function: Function, values: tuple[Any, ...], options: dict[str, Any]) -> Any:
        a, *rest = values
        copy = a.view_as(a)
        copy.register_hook(lambda grad: 2 * grad)
        return function(copy, *rest, **options)

    def has_gradient(case: Any) -> bool:
        if not case.call.arguments["a"].requires_grad:
            return False
        wanted = case.wanted(CPU)["gradient of a"]
        return bool((wanted.interval.value.abs() > 4 * wanted.interval.error).any()) and not wanted.interval.open

    for case in cases("matmul.backward", count=4, where=has_gradient):
        verdict = faulty.verdict(case, doubled)
        assert [finding.kind for finding in verdict.findings] == ["mismatches"]
        assert verdict.findings[0].text.startswith("gradient of a: ")


# Bytes that are not the op's to write.


def write_byte(storage_of: Tensor, at: int) -> None:
    place = torch.empty(0, dtype=torch.uint8).set_(storage_of.untyped_storage())  # type: ignore[call-overload]
    place[at] ^= 0x55


def last_byte(tensor: Tensor) -> int:
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (tensor.storage_offset() + last + 1) * tensor.element_size() - 1


@pytest.mark.parametrize("name", ["matmul.out", "block_scaled_matmul.out"])
def test_a_byte_right_behind_out_is_a_write_outside(faulty: Faulty, name: str) -> None:
    def behind(function: Function, values: tuple[Any, ...], options: dict[str, Any]) -> Any:
        result = function(*values, **options)
        write_byte(options["out"], last_byte(options["out"]) + 1)
        return result

    for case in cases(name, count=3):
        assert faulty.kinds(case, behind) == ["writes outside"]


def test_a_byte_between_the_rows_of_out_is_a_write_outside(faulty: Faulty) -> None:
    def has_gaps(case: Any) -> bool:
        layout = case.call.out.layout
        return not bool(layout.reached().all())

    def between(function: Function, values: tuple[Any, ...], options: dict[str, Any]) -> Any:
        result = function(*values, **options)
        layout, out = case.call.out.layout, options["out"]
        gap = int((~layout.reached()).nonzero()[0])
        write_byte(out, (out.storage_offset() + gap) * out.element_size())
        return result

    for case in cases("matmul.out", count=3, where=has_gaps):
        assert faulty.kinds(case, between) == ["writes outside"]


@pytest.mark.parametrize("name", ["matmul", "dequantize", "pack_scales"])
def test_a_byte_of_an_argument_is_a_write_outside(faulty: Faulty, name: str) -> None:
    def inside(function: Function, values: tuple[Any, ...], options: dict[str, Any]) -> Any:
        result = function(*values, **options)
        write_byte(values[0].detach(), last_byte(values[0].detach()))
        return result

    for case in cases(name, count=3, where=lambda case: next(iter(case.call.operands()))[1].layout.span > 0):
        assert faulty.kinds(case, inside) == ["writes outside"]


# Errors.


def test_an_error_of_a_good_call_is_unexpected(faulty: Faulty) -> None:
    def raising(function: Function, values: tuple[Any, ...], options: dict[str, Any]) -> Any:
        raise RuntimeError("matmul: out of sorts")

    (case,) = cases("matmul")
    verdict = faulty.verdict(case, raising)
    assert [finding.kind for finding in verdict.findings] == ["unexpected errors"]
    assert "out of sorts" in verdict.findings[0].text


def test_a_bad_call_that_is_accepted_is_a_finding(faulty: Faulty) -> None:
    (case,) = cases("quantize", flawed=True)
    verdict = faulty.verdict(case, lambda function, values, options: None)
    assert [finding.kind for finding in verdict.findings] == ["bad calls accepted"]
    assert case.flaw in verdict.findings[0].text


@pytest.mark.parametrize(
    "error", [RuntimeError("quantise: no"), ValueError("quantize: no"), NotImplementedError("quantize: no")], ids=repr
)
def test_a_bad_call_must_be_refused_by_name(faulty: Faulty, error: Exception) -> None:
    def raising(function: Function, values: tuple[Any, ...], options: dict[str, Any]) -> Any:
        raise error

    (case,) = cases("quantize", flawed=True)
    assert faulty.kinds(case, raising) == ["unexpected errors"]


def test_a_bad_call_that_writes_before_it_is_refused_is_a_write_outside(faulty: Faulty) -> None:
    def writing(function: Function, values: tuple[Any, ...], options: dict[str, Any]) -> Any:
        out = options["out"]
        write_byte(out, out.storage_offset() * out.element_size())
        return function(*values, **options)

    def has_room(case: Any) -> bool:
        return case.call.out.layout.span > 0

    for case in cases("matmul.out", flawed=True, count=3, where=has_room):
        assert faulty.kinds(case, writing) == ["writes outside"]


def test_each_flaw_is_met_and_refused() -> None:
    from soak.bad_calls import FLAWS
    from soak.cases import draw_case
    from soak.draw import Draw
    from soak.run import run_case

    unmet = set(FLAWS)
    for index in range(4000):
        case = draw_case(1, 0, index)
        assert case is not None
        if case.flaw is not None or case.call.through != "op":
            continue
        for flaw in [flaw for flaw in unmet if case.call.op in flaw.ops]:
            spoiled = flaw.spoil(Draw(1, 0, index), replace(case.call, upstream=None))
            if spoiled is not None:
                verdict = run_case(replace(case, call=spoiled, flaw=flaw.words), CPU)
                assert verdict.findings == (), f"{flaw.words}: {verdict.findings}"
                unmet.remove(flaw)
        if not unmet:
            return
    raise AssertionError(f"no call can have it: {[flaw.words for flaw in unmet]}")
