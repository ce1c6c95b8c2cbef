"""What is drawn of a picture: its points, the line at 1, texts that can be read; and plot.py's panels."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING

import pytest
from benchmark_files import COLUMNS, HEAD, csv_line
from picture_files import NAMES, RESULTS, panels, picture, write_matmul

from benchmarks.common.picture import draw, figure_of
from benchmarks.report.plot import picture_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@pytest.fixture(scope="module")
def figures() -> dict[str, Figure]:
    """The committed results' figures, laid out."""
    pytest.importorskip("matplotlib")
    found = {name: figure_of(picture(name)) for name in NAMES}
    for figure in found.values():
        figure.draw_without_rendering()
    return found


class TestDrawing:
    @pytest.mark.parametrize("name", NAMES)
    def test_nothing_is_clipped(self, name: str, figures: dict[str, Figure]) -> None:
        figure = figures[name]
        drawn = figure.get_tightbbox().transformed(figure.dpi_scale_trans)
        legends = [axes.get_legend().get_window_extent() for axes in figure.axes]
        for box in (drawn, *legends):
            assert figure.bbox.x0 - 1 <= box.x0
            assert box.x1 <= figure.bbox.x1 + 1
            assert figure.bbox.y0 - 1 <= box.y0
            assert box.y1 <= figure.bbox.y1 + 1

    @pytest.mark.parametrize("name", NAMES)
    def test_no_labels_of_an_axis_overlap_nor_title_and_legend(self, name: str, figures: dict[str, Figure]) -> None:
        from matplotlib.text import Text

        for axes in figures[name].axes:
            title = [text for text in axes.findobj(Text) if text.get_text() == axes.get_title("left") != ""]
            legend = axes.get_legend().get_texts()
            for labels in (axes.get_xticklabels(), axes.get_yticklabels(), [*title, *legend]):
                boxes = [label.get_window_extent() for label in labels if label.get_text()]
                pairs = [(one, other) for place, one in enumerate(boxes) for other in boxes[:place]]
                assert not any(one.overlaps(other) for one, other in pairs), [label.get_text() for label in labels]

    def test_the_figure_has_the_pictures_points_and_the_line_at_1(self, figures: dict[str, Figure]) -> None:
        for axes, panel in zip(figures["block_scaled"].axes, panels("block_scaled"), strict=True):
            lines = [tuple(line.get_ydata()) for line in axes.get_lines()]
            assert all(series.ys in lines for series in panel.series)
            assert any(list(line.get_ydata()) == [1, 1] for line in axes.get_lines())
            low, high = axes.get_ylim()
            assert all(low < y < high for series in panel.series for y in series.ys)

    def test_drawing_again_gives_the_same_bytes_whatever_the_users_settings(self, tmp_path: pathlib.Path) -> None:
        matplotlib = pytest.importorskip("matplotlib")
        write_matmul(tmp_path)
        one = picture("overview", tmp_path)
        draw(one, tmp_path / "first.png")
        with matplotlib.rc_context({"axes.linewidth": 9, "font.size": 20, "savefig.facecolor": "black"}):
            draw(one, tmp_path / "second.png")
        first = (tmp_path / "first.png").read_bytes()
        assert first == (tmp_path / "second.png").read_bytes()
        assert matplotlib.__version__.encode() not in first
        assert one.is_shown_by(tmp_path / "first.png")

    @pytest.mark.parametrize("name", NAMES)
    def test_a_picture_is_small(self, name: str) -> None:
        assert (RESULTS / f"{name}.png").stat().st_size < 200_000


def test_plot_sets_graphs_against_graphs(tmp_path: pathlib.Path) -> None:
    lines = [
        csv_line("matmul", "float16", "NN", (size, size, size), "none", provider, time)
        for size in (256, 512)
        for provider, time in (("tileon", 4), ("torch", 6), ("tileon_graph", 2), ("torch_graph", 5), ("cutlass", 4))
    ]
    path = tmp_path / "out.csv"
    path.write_text(HEAD + "\n".join([",".join(COLUMNS), *lines]) + "\n")
    ((rates, ratios),) = picture_of(path).rows
    assert [series.label for series in rates.series] == ["tileon", "torch", "tileon_graph", "torch_graph", "cutlass"]
    labels = [series.label for series in ratios.series]
    assert labels == ["torch: mean 1.50", "torch_graph: mean 2.50", "cutlass: mean 1.00"]


def test_a_file_of_one_size_has_no_plot(tmp_path: pathlib.Path) -> None:
    lines = [csv_line("matmul", "float16", "NN", (256, 256, 256), "none", "tileon", 4)]
    path = tmp_path / "out.csv"
    path.write_text(HEAD + "\n".join([",".join(COLUMNS), *lines]) + "\n")
    with pytest.raises(ValueError, match="no plain product of several sizes"):
        picture_of(path)
