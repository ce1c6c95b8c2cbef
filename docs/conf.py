"""How Sphinx builds the pages: `make docs`, with every warning an error.

The source folder is the top of the tree (`sphinx -c docs . build/docs`), so that README, CONTRIBUTING and these pages
link to each other, and to the files of results, as they do where the repository is browsed.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tileon_ops import __version__  # noqa: E402 (the tree's, whether the package is installed or not)

project = "tileon_ops"
author = "the authors of tileon_ops"
version = release = __version__

root_doc = "docs/index"
include_patterns = ["README.md", "CONTRIBUTING.md", "docs/*.md"]
exclude_patterns = [".*", "build", "dist", "csrc", "tileon_ops", "tests", "benchmarks", "examples"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
nitpicky = True
html_theme = "furo"
html_title = f"{project} {version}"
html_copy_source = False

# The pages are read as they are too, where the repository is browsed: headings have the anchors that GitHub gives them.
myst_heading_anchors = 3

# Docstrings are Google's style, with single backticks around code: a name that is documented here becomes a link, all
# else stays code.
default_role = "py:obj"
nitpick_ignore_regex = [("py:obj", r"(?!tileon_ops\.).*"), ("py:class", r".*\._Model")]  # a type variable
napoleon_numpy_docstring = False
napoleon_use_ivar = True
autodoc_preserve_defaults = True
maximum_signature_line_length = 80
autodoc_typehints_format = "fully-qualified"
smartquotes_action = "D"  # dashes alone: "none" is a string of Python's

# What the signatures name of Python's and of torch's. Their own indexes would have to be downloaded for every build.
PYTHON = "https://docs.python.org/3/library/"
PYTHON_MODULES = ("collections.abc", "pathlib")
TORCH = "https://docs.pytorch.org/docs/stable/"
TORCH_PAGES = {
    "torch.Tensor": "tensors.html#torch.Tensor",
    "torch.device": "tensor_attributes.html#torch.device",
    "torch.dtype": "tensor_attributes.html#torch.dtype",
    "torch.nn.Linear": "generated/torch.nn.Linear.html",
    "torch.nn.Module": "generated/torch.nn.Module.html",
}


def page_elsewhere(name: str) -> str | None:
    """Where the documentation of Python or of torch has this name."""
    module = name.rpartition(".")[0]
    if module in PYTHON_MODULES:
        return f"{PYTHON}{module}.html#{name}"
    return TORCH + TORCH_PAGES[name] if name in TORCH_PAGES else None


def link_elsewhere(
    app: Sphinx, environment: BuildEnvironment, reference: pending_xref, content: nodes.TextElement
) -> nodes.reference | None:
    """A type that is not documented here."""
    name = re.sub(r"^torch\.nn\.modules\.\w+\.", "torch.nn.", reference["reftarget"])
    page = page_elsewhere(name)
    return None if page is None else nodes.reference("", name, refuri=page, internal=False)


def mark_up(app: Sphinx, what: str, name: str, owner: object, options: object, lines: list[str]) -> None:
    """A page that a docstring names becomes a link to it; code that begins with a sign that Sphinx would eat stays."""
    for index, line in enumerate(lines):
        line = re.sub(r"\bdocs/(\w+)\.md\b", r":doc:`\1.md </docs/\1>`", line)
        lines[index] = re.sub(r"`+[^`]+`+", lambda code: f"`{code[0]}`" if code[0][1] in ".~!" else code[0], line)


def write_start(app: Sphinx, error: Exception | None) -> None:
    """The page that a web server and a browser look for first."""
    if error is None and app.builder.name == "html":
        start = f'<!doctype html><meta http-equiv="refresh" content="0; url={root_doc}.html"><title>{project}</title>'
        (Path(app.outdir) / "index.html").write_text(start + "\n")


def setup(app: Sphinx) -> None:
    app.connect("autodoc-process-docstring", mark_up)
    app.connect("build-finished", write_start)
    app.connect("missing-reference", link_elsewhere)
