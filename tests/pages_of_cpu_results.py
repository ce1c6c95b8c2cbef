"""Writes the tables of docs/ that come from benchmarks/results/cpu.

    PYTHONPATH=. python tests/pages_of_cpu_results.py

What stands in a page between `<!-- begin: NAME -->` and `<!-- end: NAME -->` is replaced, as benchmarks/report/pages.py
does for the figures of a GPU.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from benchmarks.common.commit import ROOT
from benchmarks.common.result_file import read_csv
from benchmarks.subjects import models

RESULTS = ROOT / "benchmarks" / "results" / "cpu"
MODES = {"True": "weights alone", "False": "weights and activations"}
ARCHITECTURES_IN = "mxfp4"
Row = dict[str, str]


def rows(name: str) -> list[Row]:
    return read_csv(RESULTS / name)[1]


def table(titles: Sequence[str], lines: Iterable[Sequence[str]], words: int = 1) -> str:
    """`words` columns stand to the left, the others are numbers."""
    rules = ["---" if column < words else "---:" for column in range(len(titles))]
    return "\n".join(f"| {' | '.join(line)} |" for line in (titles, rules, *lines))


def of_format(found: Sequence[Row], provider: str = "tileon") -> dict[tuple[str, str, str], Row]:
    """Rows of perplexity.csv by format, weight_only and scale_rounding."""
    mine = (row for row in found if row["provider"].startswith(provider))
    return {(row["format"], row["weight_only"], row["scale_rounding"]): row for row in mine}


def more(row: Row) -> str:
    """How much larger a perplexity is than bfloat16's, and the standard error of that."""
    return f"{100 * (float(row['ratio']) - 1):+.2f} ± {100 * float(row['ratio_error']):.2f}"


def divergence(row: Row) -> str:
    """In thousandths of a nat."""
    return f"{1000 * float(row['kl']):.2f}"


def perplexity_part() -> str:
    by = of_format(rows("perplexity.csv"))
    titles = ["format", *(f"{mode}: {what}" for mode in MODES.values() for what in ("perplexity, %", "KL"))]
    lines = []
    for format in dict.fromkeys(key[0] for key in by):
        mine = [by[format, mode, "default"] for mode in MODES]
        lines.append([format, *(show(row) for row in mine for show in (more, divergence))])
    return table(titles, lines)


def roundings_part() -> str:
    by = of_format(rows("perplexity.csv"))
    rules = ("floor", "rceil", "floor activations", "default")
    lines = []
    for format, mode, rule in by:
        if rule == "floor":
            cells = [by.get((format, mode, other)) for other in rules]
            lines.append([format, MODES[mode], *(divergence(cell) if cell else "" for cell in cells)])
    return table(["format", "quantized", *rules], lines, words=2)


def torchao_part() -> str:
    found = rows("perplexity.csv")
    ours, theirs = of_format(found), of_format(found, "torchao")
    titles = ["format", "quantized", "torchao's scales", "torchao: KL", "the same rule here", "the default here"]
    lines = []
    for (format, mode, rule), row in theirs.items():
        mine = (ours[format, mode, rule], ours[format, mode, "default"])
        lines.append([format, MODES[mode], rule, divergence(row), *map(divergence, mine)])
    return table(titles, lines, words=3)


def errors_part(what: str) -> Callable[[], str]:
    def part() -> str:
        mine = [row for row in rows("format_errors.csv") if row["what"] == what]
        by = {(row["format"], row["data"], row["scale_rounding"]): float(row["signal_db"]) for row in mine}
        data = list(dict.fromkeys(row["data"] for row in mine))
        lines = []
        for format in dict.fromkeys(row["format"] for row in mine):
            cells = []
            for name in data:
                floor = by.get((format, name, "floor"))
                cells.append(f"{by[format, name, 'default']:.1f}" + ("" if floor is None else f" ({floor:.1f})"))
            lines.append([format, *cells])
        return table(["format", *(name.rpartition(".")[2] for name in data)], lines)

    return part


def architectures_part() -> str:
    titles = ("architecture", "largest left", "because", "converted", "left", "linear bytes", "all bytes", "formats")
    every = rows("architectures.csv")
    formats = Counter(row["architecture"] for row in every if row["runs"] == row["loads"] == "True")
    lines = []
    for row in every:
        if row["format"] == ARCHITECTURES_IN:
            shares = (int(row[f"{of}_after"]) / int(row[f"{of}_before"]) for of in ("linear", "bytes"))
            name = re.sub("ForCausalLM|LMHeadModel|ForMaskedLM|ForConditionalGeneration", "", row["architecture"])
            reason = row["why"].partition(",")[0]
            good = str(formats[row["architecture"]])
            numbers = (row["converted"], row["left"], *(f"{share:.0%}" for share in shares), good)
            lines.append((name, f"`{row['largest_left']}`", reason, *numbers))
    return table(titles, lines, words=3)


def _of_subject(subject: str, file: str = "cpu.csv") -> list[Row]:
    return [row for row in rows(file) if row["subject"] == subject]


def _by_rows(mine: Sequence[Row], cell_of: Callable[[Row], str]) -> str:
    """A column for each number of rows."""
    by = {(row["case"], row["dtype"], row["m"]): row for row in mine}
    counts = list(dict.fromkeys(row["m"] for row in mine))
    lines = []
    for case, dtype in dict.fromkeys((row["case"], row["dtype"]) for row in mine):
        cells = [by.get((case, dtype, m)) for m in counts]
        lines.append([case, dtype, *(cell_of(cell) if cell else "" for cell in cells)])
    return table(["", "dtype", *(f"{m} rows" if m != "1" else "1 row" for m in counts)], lines, words=2)


def _is_large(row: Row) -> bool:
    return int(row["m"]) > 1 or "64x64" not in row["case"]


def by_rows_part(subject: str) -> Callable[[], str]:
    """Times of ours and of torch for each number of rows."""
    return lambda: _by_rows([row for row in _of_subject(subject) if _is_large(row)], against)


def amx_part() -> str:
    """By AMX and, behind a semicolon, torch's time over that of the vector code of the same processor."""
    key = ("subject", "case", "dtype", "m")
    by_vectors = {tuple(row[name] for name in key): row for row in rows("cpu_amx_by_vectors.csv")}

    def cell(row: Row) -> str:
        other = by_vectors[tuple(row[name] for name in key)]
        return f"{against(row)[:-1]}; {float(other['speed']):.2f})"

    mine = (row for subject in ("products", "layers") for row in _of_subject(subject, "cpu_amx.csv"))
    return _by_rows([row for row in mine if _is_large(row) and row["dtype"] == "bfloat16"], cell)


def against(row: Row) -> str:
    """Ours / torch's microseconds (torch's over ours)."""
    ours, theirs = (f"{float(row[name]):,.{1 if float(row[name]) < 100 else 0}f}" for name in ("median_us", "torch_us"))
    return f"{ours} / {theirs} ({float(row['speed']):.2f})"


def calls_part() -> str:
    small = [row for row in _of_subject("layers") if "64x64" in row["case"]]
    mine = [
        *_of_subject("small"),
        *_of_subject("training"),
        *small,
        *_of_subject("quantizers"),
        *_of_subject("invariance"),
    ]
    lines = [[row["case"], row["dtype"], against(row)] for row in mine]
    return table(["", "dtype", "us"], lines, words=2)


def models_part() -> str:
    return "\n".join(models.lines(RESULTS)).rstrip()


PAGES: dict[str, dict[str, Callable[[], str]]] = {
    "docs/cpu.md": {
        "products": by_rows_part("products"),
        "layers": by_rows_part("layers"),
        "amx": amx_part,
        "calls": calls_part,
        "models": models_part,
    },
    "docs/accuracy.md": {
        "perplexity": perplexity_part,
        "roundings": roundings_part,
        "torchao": torchao_part,
        "weights": errors_part("weights"),
        "both": errors_part("both"),
    },
    "docs/modules.md": {"architectures": architectures_part},
}


def filled(page: str) -> str:
    """The page's text with its parts as the results have them. Raises ValueError where a part's marks are not there."""
    text = (ROOT / page).read_text()
    for name, part in PAGES[page].items():
        mark = re.compile(rf"^(<!-- begin: {name} -->\n).*?^(<!-- end: {name} -->)$", re.DOTALL | re.MULTILINE)
        if len(mark.findall(text)) != 1:
            raise ValueError(f"{page} must hold the marks of {name} once")
        body = part()
        text = mark.sub(lambda found, body=body: f"{found[1]}{body}\n{found[2]}", text)  # type: ignore[misc]
    return text


if __name__ == "__main__":
    for page in PAGES:
        (ROOT / page).write_text(filled(page))
