"""The pages of the documentation: their headings, links and blocks of code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def pages() -> list[Path]:
    """Every page of `docs/`."""
    return sorted(DOCS.rglob("*.md"))


def headings(page: Path) -> list[str]:
    """The headings of a page, as they are written."""
    return _HEADING.findall(_FENCE.sub("", page.read_text(encoding="utf-8")))


def links(page: Path) -> list[str]:
    """What the links of a page lead to, without those to other hosts."""
    found = _LINK.findall(_FENCE.sub("", page.read_text(encoding="utf-8")))
    return [link for link in found if "://" not in link and not link.startswith("mailto:")]


def github_anchor(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    text = _LINK.sub(lambda link: link[0][1 : link[0].index("]")], heading)
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


def site_anchor(heading: str) -> str:
    """The anchor that the site gives a heading, by the rule of Python-Markdown."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


def names(nav: object) -> Iterator[str]:
    """The files of a `nav` of mkdocs.yml, in its order."""
    if isinstance(nav, str):
        yield nav
    for item in nav if isinstance(nav, list) else nav.values() if isinstance(nav, dict) else ():
        yield from names(item)
