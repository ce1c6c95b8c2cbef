"""How the package reads the tables of configs, and that their fields say what the names promise."""

from __future__ import annotations

import pytest
import torch

from tileon_ops._rules import configs
from tileon_ops._rules.configs import Config

LINES = (
    "index=0 name=sm90_fp8_fast_128x256x128 operands=float8_e4m3fn,float8_e4m3fn*float8_e5m2 backend=sm90 "
    "family=cooperative route=fast tile=128x256x128 splits=1 measured=1\n"
    "index=1 name=sm80_mma_16x128x64 operands=float16 backend=sm80 family=mma route=plain tile=16x128x64 splits=2 "
    "measured=0\n"
)
FAST = Config(
    index=0,
    name="sm90_fp8_fast_128x256x128",
    operands=("float8_e4m3fn", "float8_e4m3fn*float8_e5m2"),
    backend="sm90",
    family="cooperative",
    route="fast",
    tile=(128, 256, 128),
    splits=1,
    measured=True,
)
MMA = Config(1, "sm80_mma_16x128x64", ("float16",), "sm80", "mma", "plain", (16, 128, 64), 2, False)


@pytest.fixture
def _two_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.ops.tileon, "_matmul_configs", lambda: LINES)
    monkeypatch.setattr(torch.ops.tileon, "_block_scaled_matmul_configs", lambda: "")


@pytest.mark.usefixtures("_two_lines")
def test_a_line_is_a_config() -> None:
    assert configs.dense() == [FAST, MMA]
    assert configs.block_scaled() == []


@pytest.mark.usefixtures("_two_lines")
@pytest.mark.parametrize(
    ("kernel", "config"),
    [
        (FAST.name, FAST),
        (f"{MMA.name} (a, b copied)", MMA),
        (f"{MMA.name} (a copied) (short of memory)", MMA),
        ("sm80_mma_16x128", None),
        ("cpu_aten", None),
        ("", None),
    ],
)
def test_the_last_kernel_names_its_config(kernel: str, config: Config | None) -> None:
    assert configs.config_of(kernel) == config


@pytest.mark.gpu
@pytest.mark.parametrize("table", [configs.dense, configs.block_scaled])
def test_names_promise_what_the_fields_say(table: object) -> None:
    """`last_kernel` documents a name as backend, family, tile and step of k."""
    found = table()  # type: ignore[operator]
    assert [config.index for config in found] == list(range(len(found)))
    assert len({config.name for config in found}) == len(found)
    for config in found:
        assert config.name.startswith(f"{config.backend}_"), config
        has_tile = config.backend not in ("torch", "expanded")
        assert not has_tile or "_{}x{}x{}".format(*config.tile) in config.name, config
        assert (f"_split{config.splits}_" in config.name) == (config.splits > 1), config
