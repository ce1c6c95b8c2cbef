"""The documentation: it builds without a warning, leads nowhere that is not there, and says what the library is."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import os
import pathlib
import re
import subprocess
import sys

import markdown_links
import pytest
import torch
from setuptools._distutils.filelist import FileList

import tileon_ops
from tileon_ops.info import settings

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]
NEEDED = ("sphinx", "myst_parser", "furo")  # the extra `docs`


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The folder of the built pages, as `make docs` builds them."""
    lacking = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if lacking and pathlib.Path(sys.prefix).resolve() != ROOT / ".venv":  # which make fills: there they must be
        pytest.skip(f"no {', '.join(lacking)} here: pip install sphinx myst-parser furo")
    out = tmp_path_factory.mktemp("site")
    builder = ["-c", "docs", "-W", "--keep-going", "-n", "-q", "-b", "html", ".", str(out)]
    command = [sys.executable, "-m", "sphinx", *builder]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, env=environment)
    assert result.returncode == 0, result.stdout + result.stderr
    return out


def test_make_test_installs_what_the_pages_are_built_with() -> None:
    groups = re.findall(r"requirements\.py (.+) > \$\(VENV\)/requirements\.txt", (ROOT / "Makefile").read_text())
    assert len(groups) == 1
    command = [sys.executable, str(ROOT / ".ci" / "requirements.py"), *groups[0].split()]
    installed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    for name in NEEDED:
        assert re.search(rf"^{name.replace('_', '-')}>=", installed, re.MULTILINE), name


class TestBuilt:
    def test_every_page_and_a_start(self, site: pathlib.Path) -> None:
        for page in PAGES:
            assert (site / page.relative_to(ROOT).with_suffix(".html")).is_file(), page.name
        assert "docs/index.html" in (site / "index.html").read_text()

    def test_every_public_name_has_its_place_and_its_docstring(self, site: pathlib.Path) -> None:
        text = (site / "docs" / "api.html").read_text()
        for name in tileon_ops.__all__:
            assert f'id="tileon_ops.{name}"' in text, name
        for name in FUNCTIONS:
            own = re.split(r'id="tileon_ops\.', text[text.index(f'id="tileon_ops.{name}"') + 1 :])[0]
            described = re.findall(r"<strong>(\w+)</strong>", own)  # where the docstring's sections were understood
            raised = re.findall(r"^    (\w+): ", (docstring(name) + "Raises:").split("Raises:")[1], re.MULTILINE)
            assert sorted(described) == sorted([*arguments(name), *raised]), name

    def test_a_docstrings_code_and_types_become_links(self, site: pathlib.Path) -> None:
        text = (site / "docs" / "api.html").read_text()
        assert "tensors.html#torch.Tensor" in text
        assert 'href="fp8_error.html"' in text
        assert re.search(r'href="#tileon_ops\.pack_scales" title="tileon_ops\.pack_scales"', text)


def arguments(name: str) -> list[str]:
    """The parameters of a public function, or of a class's constructor without self."""
    return list(inspect.signature(getattr(tileon_ops, name)).parameters)


def docstring(name: str) -> str:
    text = inspect.getdoc(getattr(tileon_ops, name))
    assert text, name
    return text


FUNCTIONS = [name for name in tileon_ops.__all__ if not name.startswith("__")]


class TestReference:
    def test_holds_every_public_name_and_no_other(self) -> None:
        text = (DOCS / "api.md").read_text()
        named = re.findall(r"^\.\. (?:auto\w+|py:data):: (\w+)(?:\(\w+\))?$", text, re.MULTILINE)
        assert sorted(named) == sorted(tileon_ops.__all__)

    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_a_docstring_describes_every_argument_and_no_other(self, name: str) -> None:
        """A dataclass has Attributes in place of Args."""
        section = re.search(r"^(?:Args|Attributes):\n((?:    .*\n|\n)*)", docstring(name) + "\n", re.MULTILINE)
        described = re.findall(r"^    (\w+(?:, \w+)*): ", section[1], re.MULTILINE) if section else []
        assert sorted(", ".join(described).split(", ")) == sorted(arguments(name) or [""])

    def test_the_ops_page_has_the_schemas_of_the_public_ops_and_no_other(self) -> None:
        blocks = re.findall(r"^```\n(tileon::.*?)^```", (DOCS / "ops.md").read_text(), re.DOTALL | re.MULTILINE)
        written = [" ".join(schema.split()) for block in blocks for schema in re.split(r"\n(?=tileon::)", block)]
        registered = [
            schema
            for schema in map(str, torch._C._jit_get_all_schemas())
            if schema.startswith("tileon::") and not schema.startswith("tileon::_")
        ]
        assert sorted(written) == sorted(registered)

    def test_the_table_of_variables_has_every_variable_that_is_read(self) -> None:
        folders = ("csrc", "tileon_ops", "benchmarks", "tests", ".ci")
        files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in SOURCES]
        read = {
            name
            for path in [*files, ROOT / "setup.py"]
            if path not in (pathlib.Path(__file__), ROOT / "tileon_ops" / "info" / "settings.py")  # which list them
            for name in re.findall(r"[\"'](TILEON_[A-Z0-9_]+)[\"']", path.read_text())
        }
        table = re.findall(r"^\| `(TILEON_\w+)", (DOCS / "environment.md").read_text(), re.MULTILINE)
        assert sorted(table) == sorted(read), "quoted in the sources, but for macros"

    def test_the_table_of_variables_has_those_that_info_knows_and_no_other(self) -> None:
        table = re.findall(r"^\| `(TILEON_\w+)", (DOCS / "environment.md").read_text(), re.MULTILINE)
        assert sorted(table) == sorted((*settings.OWN, *settings.OWN_ELSEWHERE))

    @pytest.mark.parametrize("page", [page for page in PAGES if page.name != "environment.md"], ids=lambda p: p.name)
    def test_a_page_names_no_variable_that_is_not_in_the_table(self, page: pathlib.Path) -> None:
        table = set(re.findall(r"^\| `(TILEON_\w+)", (DOCS / "environment.md").read_text(), re.MULTILINE))
        assert set(re.findall(r"`(TILEON_[A-Z_]+)=", page.read_text())) <= table


SOURCES = (".py", ".h", ".cpp", ".cu", ".cuh")


class TestLinks:
    @pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
    def test_lead_to_files_and_headings(self, page: pathlib.Path) -> None:
        found = markdown_links.complaints(page, ROOT)
        assert not found, "\n".join(found)

    def test_that_lead_nowhere_are_noticed(self, tmp_path: pathlib.Path) -> None:
        (tmp_path / "other.md").write_text("# Here, `and` there\n## Twice\n## Twice\n```\n# no heading\n```\n")
        page = tmp_path / "page.md"
        good = "[a](other.md) [b](other.md#here-and-there) ![c](other.md) [d](#own) [e](other.md#twice-1)"
        page.write_text(f"# Own\n{good} `[f](code.md)` [g](https://example.org/x)\n```\n[h](code.md)\n```\n")
        assert markdown_links.complaints(page, tmp_path) == []
        for bad in ("gone.md", "other.md#gone", "#gone", "../page.md", "other.md#no-heading", "other.md#twice-2"):
            page.write_text(f"# Own\n[x]({bad})\n")
            assert len(markdown_links.complaints(page, tmp_path)) == 1, bad

    def test_every_page_is_in_the_contents(self) -> None:
        lists = re.findall(r"^```\{toctree\}\n(.*?)^```", (DOCS / "index.md").read_text(), re.DOTALL | re.MULTILINE)
        listed = {line for text in lists for line in text.splitlines() if line and not line.startswith(":")}
        wanted = {page.stem for page in DOCS.glob("*.md")} - {"index"} | {"/README", "/CONTRIBUTING"}
        assert listed == wanted

    def test_the_source_distribution_holds_what_the_pages_link_to(self) -> None:
        linked = {target for page in PAGES for _, target, _ in markdown_links.targets(page)}
        wanted = sorted(path.relative_to(ROOT).as_posix() for path in linked | {*PAGES, DOCS / "conf.py"})
        files = FileList()
        files.set_allfiles(wanted)
        for line in (ROOT / "MANIFEST.in").read_text().splitlines():
            files.process_template_line(line)
        assert not set(wanted) - set(files.files)


class TestReadme:
    TEXT = (ROOT / "README.md").read_text()

    def test_is_read_in_five_minutes(self) -> None:
        assert len(self.TEXT.splitlines()) <= 250

    def test_code_runs_on_the_cpu_as_it_stands(self) -> None:
        code = "\n".join(_python_blocks(self.TEXT)).replace('device="cuda"', 'device="cpu"')
        assert "tileon_ops.block_scaled_matmul(" in code
        names: dict[str, object] = {}
        exec(compile(code, "README.md", "exec"), names)
        assert isinstance(names["y"], torch.Tensor)


def _python_blocks(text: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def test_python_in_the_pages_is_python() -> None:
    blocks = [(page, block) for page in PAGES for block in _python_blocks(page.read_text())]
    assert blocks
    for page, block in blocks:
        ast.parse(block, filename=page.name)


def test_code_of_nvfp4_runs_after_that_of_readme() -> None:
    """The page's code goes on where README's ends: the names are those of its example."""
    code = "\n".join([*_python_blocks(TestReadme.TEXT), *_python_blocks((DOCS / "block_scaled.md").read_text())])
    names: dict[str, object] = {}
    exec(compile(code.replace('device="cuda"', 'device="cpu"'), "block_scaled.md", "exec"), names)
    assert isinstance(names["y"], torch.Tensor)
