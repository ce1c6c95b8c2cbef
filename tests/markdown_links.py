"""The links of Markdown pages within the tree: files that must be there, and headings that must be in them."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator

_FENCE = re.compile(r"^(`{3,}).*?^\1`*$", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"`[^`\n]+`")
_LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^()\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)


def links(text: str) -> Iterator[str]:
    """Where the inline links and pictures lead, those in code left out."""
    yield from _LINK.findall(_CODE.sub("code", _FENCE.sub("", text)))


def anchors(text: str) -> set[str]:
    """What GitHub and MyST call the headings: lower case, hyphens for spaces, no punctuation, a number where twice."""
    found: dict[str, int] = {}
    for heading in _HEADING.findall(_FENCE.sub("", text)):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
        count = found.get(slug, 0)
        found[slug] = count + 1
        if count:
            found[f"{slug}-{count}"] = 1
    return set(found)


def is_external(link: str) -> bool:
    return re.match(r"[a-z][a-z+.-]*:", link) is not None


def targets(page: pathlib.Path) -> Iterator[tuple[str, pathlib.Path, str]]:
    """Every link of a page that stays within the tree: as written, the file, the heading or ""."""
    for link in links(page.read_text()):
        if not is_external(link):
            name, _, anchor = link.partition("#")
            yield link, (page.parent / name).resolve() if name else page, anchor


def complaints(page: pathlib.Path, root: pathlib.Path) -> list[str]:
    """A line for each link that leads nowhere, or out of the tree."""
    found = []
    for link, target, anchor in targets(page):
        if not target.is_relative_to(root) or not target.exists():
            found.append(f"{page.name}: {link}: there is no such file in the tree")
        elif anchor and anchor not in anchors(target.read_text()):
            found.append(f"{page.name}: {link}: {target.name} has no such heading")
    return found
