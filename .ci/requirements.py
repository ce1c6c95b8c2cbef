"""Prints what pip has to install for some of pyproject.toml's groups, one requirement a line.

    python .ci/requirements.py build project test

Groups: `build` (build-system.requires), `project` (dependencies), and the names of the extras. It is there because pip
installs a project's dependencies only together with the project, and the library is built in place, with its progress
to be seen.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    from pip._vendor import tomli as tomllib


def requirements(pyproject: dict[str, Any], groups: list[str]) -> list[str]:
    """The groups' requirements in order, each once; extras that name other extras of the project are followed.

    Raises:
        KeyError: for a group that is not there.
    """
    project = pyproject["project"]
    found: dict[str, None] = {}
    for group in groups:
        if group == "build":
            lines = pyproject["build-system"]["requires"]
        elif group == "project":
            lines = project.get("dependencies", [])
        else:
            lines = project["optional-dependencies"][group]
        for line in lines:
            own = re.fullmatch(re.escape(project["name"]) + r"\[([\w, -]+)\]", line.strip())
            inner = requirements(pyproject, re.split(r"\s*,\s*", own.group(1))) if own else [line]
            found.update(dict.fromkeys(inner))
    return list(found)


if __name__ == "__main__":
    with (Path(__file__).resolve().parents[1] / "pyproject.toml").open("rb") as file:
        print("\n".join(requirements(tomllib.load(file), sys.argv[1:])))
