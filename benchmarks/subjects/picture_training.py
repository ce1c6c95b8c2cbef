"""The picture of training, of several GPUs, and of the host's time: from layer.csv, parallel.csv and host.csv."""

from __future__ import annotations

from pathlib import Path

from benchmarks.common.result_file import read_csv
from benchmarks.report.picture import BarPanel, Picture, caption_of, machine

SOURCES = ("layer.csv", "parallel.csv", "host.csv")

_PASSES = {"forward": "forward", "forward_backward": "forward + backward"}
_STATES = {
    "inference_mode": "inference_mode",
    "grad_unneeded": "nothing needs\na gradient",
    "grad_recorded": "a gradient\nis recorded",
}
_LAYER_PEERS = {"tileon": "torch", "tileon_compile": "torch_compile"}  # eager, compiled

Cell = dict[str, float]  # microseconds by provider


def _by_provider(source: Path, *columns: str) -> dict[tuple[str, ...], Cell]:
    times: dict[tuple[str, ...], Cell] = {}
    for row in read_csv(source)[1]:
        times.setdefault(tuple(row[column] for column in columns), {})[row["provider"]] = float(row["median_us"])
    return times


def layer_ratios(source: Path) -> dict[tuple[str, str, str], float]:
    """torch's time over ours by activation, pass and our provider: eager against eager, compiled against compiled."""
    return {
        (activation, which, ours): by[peer] / by[ours]
        for (activation, which), by in _by_provider(source, "activation", "pass").items()
        for ours, peer in _LAYER_PEERS.items()
        if which in _PASSES and {ours, peer} <= by.keys()
    }


def parallel_ratios(source: Path) -> dict[tuple[str, ...], float]:
    """torch's time over ours by m, direction and number of devices."""
    found = _by_provider(source, "m", "direction", "devices")
    return {case: by["torch"] / by["tileon"] for case, by in found.items() if {"torch", "tileon"} <= by.keys()}


def host_ratios(source: Path) -> dict[tuple[str, str], float]:
    """torch.matmul's host time over ours, by state and our provider."""
    return {
        (state, ours): by["torch"] / us
        for (state,), by in _by_provider(source, "state").items()
        if "torch" in by
        for ours, us in by.items()
        if ours != "torch"
    }


def _bars(
    title: str,
    y_label: str,
    cells: dict[str, Cell],
    providers: dict[str, str],
    scale: float,
    texts: dict[str, dict[str, str]],
) -> BarPanel | None:
    """One group of bars for each cell that has every provider; None where no cell has."""
    full = {name: cell for name, cell in cells.items() if providers.keys() <= cell.keys()}
    if not full:
        return None
    return BarPanel(
        title,
        y_label,
        tuple(full),
        tuple((words, who, tuple(cell[who] * scale for cell in full.values())) for who, words in providers.items()),
        tuple(tuple(texts[name][who] for name in full) for who in providers),
    )


def _layer_panel(source: Path) -> BarPanel | None:
    """Milliseconds; above our bars the peer's time over ours."""
    _, rows = read_csv(source)
    found, ratio = _by_provider(source, "activation", "pass"), layer_ratios(source)
    cells: dict[str, Cell] = {}
    texts: dict[str, dict[str, str]] = {}
    for (activation, which), by in found.items():
        if which in _PASSES:
            name = f"{activation},\n{_PASSES[which]}"
            cells[name] = by
            texts[name] = {who: f"{us / 1000:.2f}" for who, us in by.items()}
            for ours in _LAYER_PEERS:
                if (activation, which, ours) in ratio:
                    texts[name][ours] += f"\n({ratio[activation, which, ours]:.2f}x)"
    first = rows[0]
    title = f"Linear layer, bias and activation: {first['dtype']}, {first['m']} x {first['n']} x {first['k']} (m, n, k)"
    words = {
        "tileon": "tileon",
        "torch": "torch",
        "tileon_compile": "tileon, torch.compile",
        "torch_compile": "torch, torch.compile",
    }
    return _bars(title, "milliseconds", cells, words, 1e-3, texts)


def _host_panel(source: Path) -> BarPanel | None:
    found, ratio = _by_provider(source, "state"), host_ratios(source)
    cells = {_STATES.get(state, state): by for (state,), by in found.items()}
    texts = {
        _STATES.get(state, state): {
            who: f"{us:.1f}" + (f"\n({ratio[state, who]:.2f}x)" if (state, who) in ratio else "")
            for who, us in by.items()
        }
        for (state,), by in found.items()
    }
    words = {"tileon": "torch.ops.tileon", "tileon_python": "tileon_ops", "torch": "torch"}
    return _bars("Host time of one eager matmul, float16, 64 x 64 x 64", "microseconds", cells, words, 1.0, texts)


def _parallel_panel(source: Path) -> BarPanel | None:
    _, rows = read_csv(source)
    found, ratio = _by_provider(source, "m", "direction", "devices"), parallel_ratios(source)
    cells: dict[str, Cell] = {}
    texts: dict[str, dict[str, str]] = {}
    for (m, direction, devices), by in found.items():
        passes = _PASSES[direction].replace("+ ", "+\n")
        name = f"{devices} GPU{'s' if devices != '1' else ''},\n{passes}"
        cells[name] = by
        texts[name] = {who: f"{us / 1000:.1f}" for who, us in by.items()}
        if (m, direction, devices) in ratio:
            texts[name]["tileon"] += f"\n({ratio[m, direction, devices]:.2f}x)"
    first = rows[0]
    title = f"MLP {first['features']} -> {first['hidden']} -> {first['features']}, {first['dtype']}, m = {first['m']}"
    return _bars(title, "milliseconds", cells, {"tileon": "tileon", "torch": "torch"}, 1e-3, texts)


def _speedups(source: Path) -> str:
    rows = [row for row in read_csv(source)[1] if row["devices"] == "2"]
    return ", ".join(f"{row['provider']} {_PASSES[row['direction']]} {float(row['speedup']):.2f}" for row in rows)


def training_picture(results: Path) -> Picture | None:
    """Of whatever of the three files is there."""
    found = {}
    for name, make in zip(SOURCES, (_layer_panel, _parallel_panel, _host_panel), strict=True):
        panel = make(results / name) if (results / name).exists() and read_csv(results / name)[1] else None
        if panel is not None:
            found[name] = panel
    if not found:
        return None
    heads = {name: read_csv(results / name)[0] for name in found}
    places = tuple(range(len(found)))
    layout = (places[:1], places[1:]) if "layer.csv" in found and len(found) > 1 else (places,)  # it has the most bars
    notes = ["Above tileon's bars, in brackets: its peer's time over its own; below 1 the peer is faster."]
    if "parallel.csv" in found:
        notes.append(f"Two GPUs against one: {_speedups(results / 'parallel.csv')}.")
    machines = sorted({machine(head) for head in heads.values()})
    return Picture(
        "training",
        f"Training, two GPUs, and the host's share, {', '.join(machines)}",
        caption_of(heads, notes),
        tuple(found.values()),
        layout,
        (3.0,) * len(layout),
    )
