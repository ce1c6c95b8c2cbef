"""examples/llama.py: what it prints and writes, and that its decoding and its perplexity are transformers' own."""

from __future__ import annotations

import csv
import importlib.util
import math
import pathlib
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest
import torch

pytest.importorskip("transformers", reason="needs transformers, which is not here")

PROGRAM = pathlib.Path(__file__).resolve().parent.parent / "examples" / "llama.py"
SMALL = ("--device", "cpu", "--prompt", "16", "--new-tokens", "2", "--text-tokens", "512")


@pytest.fixture(scope="module")
def llama() -> ModuleType:
    spec = importlib.util.spec_from_file_location("llama_example", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(PROGRAM), *SMALL, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def saved(folder: pathlib.Path, vocabulary: int) -> pathlib.Path:
    import transformers

    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def test_prints_and_writes_a_row_for_each_model(llama: ModuleType, tmp_path: pathlib.Path) -> None:
    out = tmp_path / "out.csv"
    done = run("--format", "mxfp4", "fp8_row", "--weight-only", "--skip", "lm_head", "--csv", str(out))
    assert done.returncode == 0, done.stderr
    names = ["bfloat16", "mxfp4", "fp8_row"]
    assert [line.split()[0] for line in done.stdout.splitlines()[-3:]] == names
    assert "mxfp4: 28 layers converted" in done.stderr, "four layers of seven, without lm_head"
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert list(rows[0]) == list(llama.COLUMNS)
    assert [(row["model"], row["weight_only"]) for row in rows] == list(
        zip(names, ("False", "True", "True"), strict=True)
    )
    whole, mxfp4, fp8 = ({name: float(row[name]) for name in llama.Result._fields} for row in rows)
    head = 256 * 256 * 2
    for result, share in ((mxfp4, 17 / 64), (fp8, 0.507)):  # of 16 bits; fp8's scales are of 256 or 768 elements
        assert result["linear_bytes"] - head == pytest.approx((whole["linear_bytes"] - head) * share, rel=0.003)
        assert whole["bytes"] - result["bytes"] == whole["linear_bytes"] - result["linear_bytes"]
        assert result["perplexity"] == pytest.approx(whole["perplexity"], rel=0.1)
        assert min(result["prefill"], result["decode"]) > 0


def test_draws_a_picture(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib")
    folder, picture = saved(tmp_path / "model", 256), tmp_path / "out.png"
    done = run(str(folder), "--format", "mxfp8", "--plot", str(picture))
    assert done.returncode == 0, done.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_model_that_no_text_can_be_given_to_is_refused(tmp_path: pathlib.Path) -> None:
    done = run(str(saved(tmp_path / "model", 96)))
    assert done.returncode == 1
    assert "has no tokenizer, and its vocabulary is 96, not 256" in done.stderr


def test_a_text_that_is_too_short_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "short.txt").write_text("short")
    done = run("--text", str(tmp_path / "short.txt"))
    assert done.returncode == 1
    assert "short.txt has 5 tokens; 256 are needed" in done.stderr


def test_decoding_writes_what_generate_writes(llama: ModuleType) -> None:
    """In float32, where no two tokens are equally likely, and with weights so large that each position counts."""
    model: Any = llama.small_llama().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(5 if parameter.dim() == 2 else 1)
    prompt = torch.randint(256, (1, 16), generator=torch.Generator().manual_seed(0))
    written = llama.speed(model, prompt, 14, compiled=False).written
    wanted = model.generate(prompt, max_new_tokens=llama.WARMUP + 14, do_sample=False, pad_token_id=0)
    assert written == wanted[0, 16:].tolist()
    assert len(set(written)) > 8


def test_perplexity_is_that_of_the_models_own_loss(llama: ModuleType) -> None:
    model: Any = llama.small_llama().eval()
    tokens = torch.randint(256, (6 * llama.WINDOW + 7,), generator=torch.Generator().manual_seed(0))
    rows = tokens[: 6 * llama.WINDOW].view(6, -1)
    with torch.inference_mode():
        wanted = math.exp(model(rows, labels=rows).loss)
    assert llama.perplexity(model, tokens) == pytest.approx(wanted, rel=1e-5)
