"""Every message that the page on troubleshooting quotes is one that the source has."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.helpers.pages import DOCS, ROOT

PLACE = "…"
"""Stands for what differs, on the page and in the texts of the source."""

PAGE = DOCS / "troubleshooting.md"
QUOTED = re.findall(r"^\| `([^`]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


def texts(tree: ast.AST) -> Iterator[str]:
    """The strings of a module; those of one in pieces as a whole."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else PLACE for part in node.values]
            yield "".join(map(str, parts))


SOURCE = [text for file in sorted((ROOT / "tfdist").rglob("*.py")) for text in texts(ast.parse(file.read_text()))]


def is_in_source(message: str) -> bool:
    pattern = re.compile(".*".join(map(re.escape, message.split(PLACE))), re.DOTALL)
    return any(pattern.search(text) for text in SOURCE)


def test_the_page_quotes_messages() -> None:
    assert len(QUOTED) > 40
    assert not is_in_source("The cluster has formed within … s")


@pytest.mark.parametrize("message", QUOTED)
def test_a_quoted_message_is_in_the_source(message: str) -> None:
    assert is_in_source(message)
