"""The reference of a config is what the schema says."""

from __future__ import annotations

from tests.helpers.pages import DOCS
from tfdist.config.json_schema import config_schema
from tools.make_config_reference import page


def test_the_page_is_that_of_the_schema() -> None:
    written = (DOCS / "config-reference.md").read_text(encoding="utf-8")
    assert written == page(), "run python tools/make_config_reference.py"


def test_the_page_has_every_key() -> None:
    text = page()
    for name, body in config_schema()["definitions"].items():
        missing = [key for key in body["properties"] if f"| `{key}` |" not in text and key != "format"]
        assert missing == [], name
