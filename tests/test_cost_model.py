"""The Hopper choice: what it loses in the recorded sweeps, and the fit of its cost model."""

from __future__ import annotations

import pathlib
import random
import shutil
import subprocess
from statistics import geometric_mean

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent

np = pytest.importorskip("numpy")
from benchmarks.common.cases import LAYOUTS, Case  # noqa: E402
from benchmarks.fit import cost_model, fit_float32, fit_hopper, fit_portable, header_table  # noqa: E402
from benchmarks.fit.cost_model import Sweep  # noqa: E402

COMPILER = shutil.which("g++") or shutil.which("clang++")
RESULTS = ROOT / "benchmarks" / "results"
UNSEEN = RESULTS / "h100" / "unseen_rectangles.csv.xz"  # no fit has read it
SWEEPS = sorted((RESULTS / "h200").glob("sweep*.csv*"))

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler here")


def random_cases(count: int) -> list[Case]:
    """Sizes that are multiples of 8 and above 8, so that every layout is one that TMA reads as the letters say; where
    the layout allows it, some outputs that TMA cannot write."""
    draw = random.Random(0)
    sizes = lambda: 8 * round(2 ** draw.uniform(1, 11))  # noqa: E731
    cases = []
    for _ in range(count):
        layout, m, n, k = draw.choice(["NN", "NT", "TN", "TT"]), sizes(), sizes(), sizes()
        ragged = layout[1] == "T" and draw.random() < 0.3
        cases.append(Case("bfloat16", layout, m, n + 3 if ragged else n, k, "none"))
    return cases


def sweep_by_the_model(count: int) -> Sweep:
    """Times that the model expects, as if they had been measured."""
    cases, configs = random_cases(count), cost_model.model().configs
    expected = Sweep({case: dict.fromkeys(configs, 1.0) for case in cases}, configs)
    times = expected.expected(*cost_model.model().numbers()) / 1e3
    return Sweep(
        {case: dict(zip(configs, column, strict=True)) for case, column in zip(cases, times.T, strict=True)}, configs
    )


needs_sweeps = pytest.mark.skipif(len(SWEEPS) < 9, reason="the source distribution has no random sweeps")


def regrets_of(paths: list[pathlib.Path]) -> np.ndarray:
    sweep = Sweep.read(paths)
    return np.array([ratio for _, ratio in sweep.lost(sweep.chosen())])


@needs_sweeps
def test_the_choice_loses_little_in_the_recorded_sweeps() -> None:
    regrets = regrets_of(SWEEPS)
    assert len(regrets) > 8000, "of configs that the sweeps know"
    assert geometric_mean(regrets) < 1.012
    assert np.quantile(regrets, 0.95) < 1.05
    assert regrets.max() < 1.26  # 5160 x 336 x 11344, whose tiles CTAs share; without it 1.25


@needs_sweeps
def test_the_choice_loses_little_more_in_a_sweep_that_no_fit_has_read() -> None:
    regrets = regrets_of([UNSEEN])
    assert len(regrets) > 200
    assert geometric_mean(regrets) < 1.014
    assert np.quantile(regrets, 0.95) < 1.07
    assert regrets.max() < 1.19


def test_the_library_chooses_what_the_model_expects_to_be_fastest() -> None:
    sweep = sweep_by_the_model(400)
    assert sweep.regrets(sweep.chosen()).max() < 1 + 1e-6


def test_sweeps_of_several_gpus_are_one(tmp_path: pathlib.Path) -> None:
    """Each GPU's cases count the same, what a later file has of a case stands, and a config that a file has nowhere is
    not expected to be chosen in its cases."""
    configs = cost_model.model().configs
    columns = "op,dtype,layout,m,n,k,epilogue,provider,median_us,tflops,kernel"

    def written(name: str, gpu: str, times: dict[tuple[int, str], float]) -> pathlib.Path:
        lines = [
            f"matmul,bfloat16,NT,{size},{size},{size},none,tileon:{config},{us},1,{config}"
            for (size, config), us in times.items()
        ]
        (tmp_path / name).write_text("\n".join([f"# gpu: NVIDIA {gpu}", columns, *lines]) + "\n")
        return tmp_path / name

    first, second = configs[:2]
    sweep = Sweep.read(
        [
            written("a.csv", "H200", {(64, first): 10.0, (128, first): 20.0, (256, first): 30.0}),
            written("b.csv", "H100 80GB HBM3", {(64, first): 11.0, (64, second): 9.0}),
            written("c.csv", "H200", {(128, first): 21.0, (128, second): 19.0}),
        ]
    )
    assert [(case.m, gpu) for case, gpu in zip(sweep.cases, sweep.as_array["gpu"], strict=True)] == [
        (64, 0),
        (256, 0),
        (64, 1),
        (128, 0),
    ]
    assert sweep.weight.tolist() == pytest.approx([2 / 3, 2 / 3, 2, 2 / 3])
    assert sweep.measured[0].tolist() == [10e3, 30e3, 11e3, 21e3]
    expected = sweep.expected(*cost_model.model().numbers())
    assert np.isinf(expected[1]).tolist() == [True, True, False, False]
    assert np.isnan(sweep.regrets(np.array([1, 0, 1, -1]))).tolist() == [True, False, False, True]


def test_written_numbers_are_read_again(tmp_path: pathlib.Path) -> None:
    of_configs, of_gpus = cost_model.model().numbers()
    of_configs, of_gpus = (np.arange(1.0, 1 + old.size).reshape(old.shape) / 8 for old in (of_configs, of_gpus))
    heuristics = tmp_path / "cuda" / "sm90" / "heuristics"
    shutil.copytree(cost_model.HEURISTICS, heuristics)
    cost_model.write_numbers(of_configs, of_gpus, heuristics)
    (tmp_path / "print.cpp").write_text("""
#include <cstdio>
#include "cuda/sm90/heuristics/cost_numbers.h"
template <typename Numbers>
void print(const Numbers& numbers) {
  const float* values = reinterpret_cast<const float*>(&numbers);
  for (size_t i = 0; i < sizeof(Numbers) / sizeof(float); ++i) std::printf("%.9g ", values[i]);
}
int main() {
  for (const auto& config : tileon::sm90::kDenseConfigs) print(config.cost);
  print(tileon::sm90::kH200Numbers);
  print(tileon::sm90::kH100Numbers);
}
""")
    binary = tmp_path / "print"
    folders = [f"-I{tmp_path}", f"-I{ROOT / 'csrc'}"]
    subprocess.run([COMPILER, "-std=c++20", *folders, str(tmp_path / "print.cpp"), "-o", str(binary)], check=True)
    printed = subprocess.run([str(binary)], capture_output=True, text=True, check=True).stdout
    expected = [*of_configs.ravel(), *of_gpus.ravel()]
    np.testing.assert_allclose([float(number) for number in printed.split()], expected, rtol=5e-4)


def test_a_fit_to_times_that_follow_the_model_chooses_as_they_say() -> None:
    sweep = sweep_by_the_model(100)
    fit = fit_hopper.Fit(sweep)
    regrets = sweep.regrets(sweep.expected(*fit.run(5)).argmin(axis=0))
    assert np.log(regrets).mean() < 0.005


def test_a_fit_follows_times_that_differ_from_the_model() -> None:
    """Where every config of one family takes a fifth longer than the model says, and no other."""
    model = sweep_by_the_model(150)
    families = cost_model.model().tiles()[:, 0]
    slower = dict(zip(model.configs, np.where(families == families[0], 1.2, 1.0), strict=True))
    by_case = zip(model.cases, model.by_provider, strict=True)
    slow = {case: {name: time * slower[name] for name, time in times.items()} for case, times in by_case}
    sweep = Sweep(slow, model.configs)
    before = np.log(sweep.regrets(sweep.chosen())).mean()
    after = np.log(sweep.regrets(sweep.expected(*fit_hopper.Fit(sweep).run(5)).argmin(axis=0))).mean()
    assert before > 0.02
    assert after < before / 3


def test_a_fit_of_unaligned_outputs_alone_changes_what_they_cost_and_nothing_else() -> None:
    """Where the persistent kernels of one family store such outputs twice as fast as the model says."""
    of_configs, of_gpus = cost_model.model().numbers()
    faster = of_configs.copy()
    is_ping_pong = np.array(["pingpong" in config for config in cost_model.model().configs])
    for cluster, plain in fit_hopper._plain_tiles().items():
        is_ping_pong[cluster] = is_ping_pong[plain]
    faster[is_ping_pong, 5] /= 2
    cases = [case for case in random_cases(1200) if case.n % 8]
    configs = cost_model.model().configs
    times = Sweep({case: dict.fromkeys(configs, 1.0) for case in cases}, configs).expected(faster, of_gpus) / 1e3
    by_case = zip(cases, times.T, strict=True)
    sweep = Sweep({case: dict(zip(configs, column, strict=True)) for case, column in by_case}, configs)
    fitted, of_the_gpus = of_configs.copy(), of_gpus.copy()
    fit_hopper.fit_unaligned(sweep, fitted, of_the_gpus)
    before, after = (
        np.log(sweep.regrets(sweep.expected(*numbers).argmin(axis=0))).mean()
        for numbers in ((of_configs, of_gpus), (fitted, of_the_gpus))
    )
    assert after < before / 3
    assert (fitted[is_ping_pong, 5] < 0.7 * of_configs[is_ping_pong, 5]).all()
    np.testing.assert_array_equal(np.delete(fitted, 5, axis=1), np.delete(of_configs, 5, axis=1))
    np.testing.assert_array_equal(np.delete(of_the_gpus, 5, axis=1), np.delete(of_gpus, 5, axis=1))


def test_clusters_have_most_numbers_of_their_tiles() -> None:
    logs = np.log(cost_model.model().numbers()[0])
    tied = logs.copy()
    fit_hopper.tie_clusters(tied)
    np.testing.assert_allclose(tied, logs, atol=2e-3)
    cluster, plain = (cost_model.model().configs.index(f"sm90_{name}_128x128x64") for name in ("cluster2x2", "gemm"))
    assert np.exp(tied[cluster, 3]) == pytest.approx(np.exp(tied[plain, 3])), "memory_bytes"


def test_clusters_gain_little_at_squares_whose_lines_begin_with_those_of_l2() -> None:
    model = cost_model.model()
    squares = [Case("float16", layout, size, size, size) for layout in LAYOUTS for size in range(1024, 8193, 256)]
    is_cluster = np.array(["cluster" in config for config in model.configs])
    of_configs, of_gpus = model.numbers()
    config, case = (numbers.ravel() for numbers in np.indices((len(of_configs), len(squares))))

    def gain(gpu: int) -> float:
        """What the best cluster is expected to gain, where it gains most."""
        ns = model.expected_ns(config, case, cost_model.as_array(squares, gpu), of_configs, of_gpus)
        ns = ns.reshape(-1, len(squares))
        return float((ns[~is_cluster].min(axis=0) / ns[is_cluster].min(axis=0)).max())

    for gpu in range(len(cost_model.GPUS)):
        assert gain(gpu) < fit_hopper.TIE
    of_configs[np.ix_(is_cluster, [2, 4])] *= 0.9  # per_k, per_k_mn
    assert gain(0) > fit_hopper.TIE
    fit_hopper.hold_clusters_back(of_configs, of_gpus)
    assert max(gain(gpu) for gpu in range(len(cost_model.GPUS))) <= fit_hopper.TIE


def test_the_fit_leaves_out_shapes_that_the_choice_is_judged_by(tmp_path: pathlib.Path) -> None:
    from benchmarks.measure.tune_regret import linear_cases, rectangles

    judged = linear_cases()[3], rectangles()[0], rectangles()[7]
    columns = "op,dtype,layout,m,n,k,epilogue,provider,median_us,tflops,kernel"
    config = cost_model.model().configs[0]
    lines = [
        f"matmul,bfloat16,{layout},{m},{n},{k},none,tileon:{config},10,1,{config}"
        for layout, m, n, k in [*((c.layout, c.m, c.n, c.k) for c in judged), ("NT", 72, 88, 104)]
    ]
    (tmp_path / "sweep.csv").write_text("\n".join([columns, *lines]) + "\n")
    sweep = fit_hopper.read_without_judged([tmp_path / "sweep.csv"])
    assert [case.size for case in sweep.cases] == ["72x88x104"]


@pytest.mark.parametrize(
    ("header", "defaults", "rows", "numbers"),
    [(fit_portable.HEADER, fit_portable.DEFAULTS, 43, 4), (fit_float32.HEADER, (), 13, 6)],
)
def test_a_table_in_a_header_is_read_whole(
    header: pathlib.Path, defaults: tuple[float, ...], rows: int, numbers: int
) -> None:
    table = header_table.Table(header, defaults)
    first = header.read_text().partition("KernelConfig k")[2].partition("};")[0]
    fitted = first.count("{Family::") - first.count("{Family::kNarrow")  # whose numbers are those of common/narrow.h
    assert fitted == len(table.names) == rows
    assert table.numbers.shape == (rows, numbers)
    assert table.extra.shape == (rows, len(defaults))
    tile_m, tile_n = table.tiles[:, :2].T
    assert all(f"_{m:.0f}x{n:.0f}x" in name for m, n, name in zip(tile_m, tile_n, table.names, strict=True))


@pytest.mark.parametrize(
    ("fit", "sweep", "limit"), [(fit_portable, "sweep.csv.xz", 1.0), (fit_float32, "sweep_float32.csv.xz", 2.0)]
)
def test_a_fit_of_a_header_says_what_the_choice_loses(
    fit: object, sweep: str, limit: float, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["fit", str(ROOT / "benchmarks" / "results" / "h200" / sweep)])
    fit.main()  # type: ignore[attr-defined]
    lines = capsys.readouterr().out.splitlines()
    regrets = [float(line.split("regret ")[1].split("%")[0]) for line in lines if " regret " in line]
    assert len(regrets) == 2, "of the numbers in the header, and of the fitted ones"
    assert max(regrets) < limit


def test_least_squares_finds_the_numbers_that_times_were_made_of() -> None:
    sizes, wanted = np.linspace(1, 9, 20), np.array([3.0, 0.5])
    model = lambda logs: np.exp(logs[0]) * sizes + np.exp(logs[1])  # noqa: E731
    found = header_table.least_squares(model, np.zeros(2), model(np.log(wanted)), np.zeros(2))
    np.testing.assert_allclose(np.exp(found), wanted, rtol=1e-3)
