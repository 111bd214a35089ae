"""The pages can be found, and their links lead somewhere, on GitHub as well as on the site.

`mkdocs build --strict` in `.ci/run` says the same of the site alone, where the extra `docs` is installed.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.helpers.pages import DOCS, ROOT, github_anchor, headings, links, names, pages, site_anchor

BESIDE = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def test_the_menu_has_every_page_once() -> None:
    listed = list(names(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]))
    assert sorted(listed) == sorted(str(page.relative_to(DOCS)) for page in pages())


@pytest.mark.parametrize("page", [*BESIDE, *pages()], ids=name)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    for link in links(page):
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), link
        if anchor:
            assert [github_anchor(heading) for heading in headings(target)].count(anchor) == 1, link


@pytest.mark.parametrize("page", pages(), ids=name)
def test_links_of_the_site_stay_on_it(page: Path) -> None:
    for link in links(page):
        assert (page.parent / link.partition("#")[0]).resolve().is_relative_to(DOCS), link


@pytest.mark.parametrize("page", pages(), ids=name)
def test_anchors_are_the_same_on_the_site_as_on_github(page: Path) -> None:
    linked = {link.partition("#")[2] for other in [*BESIDE, *pages()] for link in links(other)}
    for heading in headings(page):
        if github_anchor(heading) in linked:
            assert site_anchor(heading) == github_anchor(heading)
