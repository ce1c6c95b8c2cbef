"""Layers that are saved whole, as torch.save(model) does: by their public names, which no move of a module changes."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import zipfile

import pytest
import torch
from torch import nn

import tileon_ops

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODULES_OF_BEFORE = {"Linear": "tileon_ops.linear", "BlockScaledLinear": "tileon_ops.block_scaled_linear"}

LOAD = """
import sys, torch
layer = torch.load(sys.argv[1], weights_only=False)
import tileon_ops
assert type(layer) is getattr(tileon_ops, sys.argv[2]), type(layer)
with torch.inference_mode():
    print(layer(torch.ones(2, 32)).double().sum().item())
"""


def layer(kind: str) -> nn.Module:
    if kind == "Linear":
        return tileon_ops.Linear(32, 6, activation="relu")
    return tileon_ops.BlockScaledLinear.from_linear(nn.Linear(32, 6), "mxfp8")


@pytest.mark.parametrize("kind", MODULES_OF_BEFORE)
def test_the_file_names_the_public_class(tmp_path: pathlib.Path, kind: str) -> None:
    torch.save(layer(kind), tmp_path / "layer.pt")
    with zipfile.ZipFile(tmp_path / "layer.pt") as saved:
        (pickled,) = (saved.read(name) for name in saved.namelist() if name.endswith("data.pkl"))
    assert f"ctileon_ops\n{kind}\n".encode() in pickled
    assert b"ctileon_ops." not in pickled


@pytest.mark.parametrize("of_before", [False, True], ids=["now", "before"])
@pytest.mark.parametrize("kind", MODULES_OF_BEFORE)
def test_it_loads_before_the_package_is_imported(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: str, of_before: bool
) -> None:
    """Files of before name the module in which the class stood then."""
    saved, path = layer(kind), tmp_path / "layer.pt"
    if of_before:
        monkeypatch.setattr(type(saved), "__module__", MODULES_OF_BEFORE[kind])
    torch.save(saved, path)
    done = subprocess.run(
        [sys.executable, "-c", LOAD, str(path), kind], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    with torch.inference_mode():
        assert float(done.stdout) == saved(torch.ones(2, 32)).double().sum().item()


def test_a_layer_of_before_there_were_options_computes_what_it_did() -> None:
    """Its activations' scales are rounded by "floor", its sums are exact, and its weight shows float32."""
    saved = layer("BlockScaledLinear")
    state = saved.__getstate__()
    for name in ("weight_only", "fast_accum", "scale_rounding", "weight_dtype", "name_in_model"):
        del state[name]
    loaded = tileon_ops.BlockScaledLinear.__new__(tileon_ops.BlockScaledLinear)
    loaded.__setstate__(state)
    assert (loaded.weight_only, loaded.fast_accum, loaded.scale_rounding) == (False, False, "floor")
    assert loaded.weight.dtype == torch.float32
    x = torch.full((2, 32), 7.9)  # which saturates under "floor" alone
    data, scale = tileon_ops.quantize(x, "mxfp8")
    wanted = tileon_ops.block_scaled_matmul(data, saved.data, scale, saved.scale, saved.bias, out_dtype=x.dtype)
    with torch.inference_mode():
        assert torch.equal(loaded(x), wanted)
        assert not torch.equal(loaded(x), saved(x))
        assert "scale_rounding=floor" in repr(loaded)
