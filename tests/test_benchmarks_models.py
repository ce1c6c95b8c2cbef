"""benchmarks/measure/models.py on the CPU, and the table made of its file."""

from __future__ import annotations

import itertools
import pathlib
from typing import Any

import pytest
import torch
from benchmark_files import HEAD, read, run
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.common.result_file import RESULTS
from benchmarks.subjects.models import lines, part

COLUMNS = "model,format,weight_only,phase,provider,ms,bytes"
PROVIDERS = ("tileon", "torch_bf16")
TOKENS = 6


def test_the_table_has_both_times_and_their_ratio(tmp_path: pathlib.Path) -> None:
    (tmp_path / "models.csv").write_text(
        HEAD
        + f"{COLUMNS}\n"
        + "llama,mxfp4,True,prefill,tileon,2.0,300\nllama,mxfp4,True,prefill,torch_bf16,3.0,1000\n"
        + "llama,mxfp4,True,linear_decode_1,tileon,0.5,100\nllama,mxfp4,True,linear_decode_1,torch_bf16,2.0,400\n"
        + "llama,mxfp8,False,prefill,tileon,4.0,600\nllama,mxfp8,False,prefill,torch_bf16,3.0,1000\n"
    )
    found = lines(tmp_path)
    assert found[0] == "| format | quantized | bytes | prefill | linear decode 1 |"
    assert found[2:] == [
        "| mxfp4 | weights | 30% | 2.00 / 3.00 (1.50) | 0.50 / 2.00 (4.00) |",
        "| mxfp8 | both | 60% | 4.00 / 3.00 (0.75) |  |",
        "",
    ]
    page = part(tmp_path)
    assert set(found) <= set(page)
    assert "tileon's llama" in page[0]
    assert lines(tmp_path / "nothing") == part(tmp_path / "nothing") == []


class TestCommand:
    def test_writes_a_row_for_each_format_phase_and_provider(self, tmp_path: pathlib.Path) -> None:
        pytest.importorskip("transformers", reason="needs transformers, which is not here")
        path = tmp_path / "out.csv"
        phases = ("prefill", "decode_16", "linear_decode_1")
        result = run(
            "--device", "cpu", "--formats", "mxfp4,mixed", "--phases", ",".join(phases), "--tokens", str(TOKENS),
            "--seconds", "0.01", "--warmup-seconds", "0.01", "--csv", str(path), script="measure/models.py",
        )  # fmt: skip
        assert result.returncode == 0, result.stdout + result.stderr
        head, rows = read(path)
        assert f"{TOKENS} tokens, decoding by eager" in head["timing"]
        assert ",".join(rows[0]) == COLUMNS
        found = [((row["format"], row["weight_only"]), row["phase"], row["provider"]) for row in rows]
        cases = (("mxfp4", "True"), ("mxfp4", "False"), ("mixed", "False"))
        assert sorted(found) == sorted(itertools.product(cases, phases, PROVIDERS))
        for row in rows:
            assert row["model"] == "small_llama"
            assert float(row["ms"]) > 0
            linear = 4 * (2 * 256 * 256 + 2 * 256 * 128 + 3 * 256 * 768) * 2  # q and o, k and v, the mlp's; 16 bits
            other = 0 if row["phase"].startswith("linear") else 2 * 256 * 256 * 2 + 9 * 256 * 2 + 2 * 16 * 4
            share = 17 / 64 if row["provider"] == "tileon" else 1.0
            assert int(row["bytes"]) == share * linear + other

    def test_graphs_are_refused_without_a_gpu(self) -> None:
        pytest.importorskip("transformers", reason="needs transformers, which is not here")
        result = run("--device", "cpu", "--by", "graphs", script="measure/models.py")
        assert result.returncode == 2
        assert "--by graphs needs a GPU" in result.stderr


def test_the_cpus_file_has_every_format_and_phase() -> None:
    pytest.importorskip("transformers", reason="needs transformers, which is not here")
    from benchmarks.measure.models import PHASES, QUANTIZED

    found = [
        (row["weight_only"], row["format"], row["phase"], row["provider"])
        for row in read(RESULTS.with_name("cpu") / "models.csv")[1]
    ]
    wanted = [
        (str(what == "weights"), *one)
        for what, formats in QUANTIZED.items()
        for one in itertools.product(formats, PHASES, PROVIDERS)
    ]
    assert sorted(found) == sorted(wanted)


class NoReads(TorchDispatchMode):
    """Refuses what a CUDA graph cannot hold: the host reads a tensor, or makes one of its own numbers."""

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
        assert function.name() not in ("aten::_local_scalar_dense", "aten::is_nonzero", "aten::lift_fresh")
        return function(*arguments, **(keywords or {}))


@pytest.fixture(scope="module")
def plain() -> Any:
    pytest.importorskip("transformers", reason="needs transformers, which is not here")
    from benchmarks.measure import models

    return models.make_model("small_llama", torch.device("cpu"))


@pytest.mark.usefixtures("one_thread")
class TestModel:
    def test_a_converted_copy_leaves_the_model_as_it_was(self, plain: Any) -> None:
        from benchmarks.measure.models import converted, linear_layers

        before = {name: (parameter, parameter.clone()) for name, parameter in plain.named_parameters()}
        new = converted(plain, "fp8_row", weight_only=True)
        assert {type(layer).__name__ for layer in linear_layers(new)} == {"BlockScaledLinear"}
        assert len(linear_layers(new)) == len(linear_layers(plain)) == 28
        for name, parameter in plain.named_parameters():
            assert parameter is before[name][0]
            assert torch.equal(parameter, before[name][1])
        assert new.lm_head.weight is plain.lm_head.weight
        assert new.model.embed_tokens.weight is plain.model.embed_tokens.weight

    @pytest.mark.parametrize(("format", "weight_only"), [("int8_row", True), ("nvfp4", False)])
    def test_a_step_leaves_the_cache_as_long_as_it_was_and_fits_in_a_graph(
        self, plain: Any, format: str, weight_only: bool
    ) -> None:
        from benchmarks.measure.models import converted, decode, prefill

        new = converted(plain, format, weight_only=weight_only)
        with torch.inference_mode():
            step = decode(new, 3, TOKENS)
            with NoReads():
                first = step()
            assert first.shape == (3, 1)
            for _ in range(TOKENS + 2):  # more than the cache has places
                assert torch.equal(step(), first)
            assert prefill(new, TOKENS)().shape == (1, 1, 256)
