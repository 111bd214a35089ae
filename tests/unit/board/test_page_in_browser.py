"""The page in a real browser: it shows what was answered, and what is hostile in it as the text that it is."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.unit.board.made_runs import HOSTILE, IMAGE, LINK, SCRIPT, make_hostile_run, make_run
from tests.unit.board.served import Board, served
from tfdist.board.board_folder import key_of

pytest.importorskip("uvicorn", reason='needs the extra: pip install -e ".[board]"')
pytest.importorskip("starlette", reason='needs the extra: pip install -e ".[board]"')
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs a browser: apt-get install chromium")

SECONDS = 90
OWN_TAGS = """html head meta title link script body a header main p img bdi span h1 h2 h3 div section label input
    button nav table thead tbody tr th td svg g path rect circle text defs pattern figure figcaption i b dl dt dd
    details summary pre select option code"""


class Page(HTMLParser):
    """What a browser has made of the page: its elements, and its text."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(markup)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def every(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Board, Path]]:
    folder = tmp_path_factory.mktemp("runs")
    make_run(folder / "digits-1")
    make_hostile_run(folder)
    make_run(folder / LINK, rate=0.3)
    with served(folder) as made:
        yield made, folder


def opened(url: str, folder: Path) -> Page:
    """The page as it is a while after it was opened."""
    command = [
        str(CHROMIUM), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
        f"--user-data-dir={folder}", "--virtual-time-budget=1500", "--dump-dom", url,
    ]  # fmt: skip
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    ) as browser:
        try:
            return Page(browser.communicate(timeout=SECONDS)[0])
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(browser.pid, signal.SIGKILL)


def check_harmless(page: Page) -> None:
    """Nothing of an answer has become an element, a handler or an address."""
    assert {tag for tag, _ in page.elements} <= set(OWN_TAGS.split())
    assert [script["src"] for script in page.every("script")] == ["/board.js"]
    assert {image["src"] for image in page.every("img")} <= {"/icon.svg"}
    assert all((link.get("href") or "#").startswith("#") for link in page.every("a"))
    names = {name for _, attributes in page.elements for name in attributes}
    assert not {name for name in names if name.startswith(("on", "data-")) or name in ("srcdoc", "formaction")}
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in page.text


def test_hostile_names_are_text_in_the_list(board: tuple[Board, Path], tmp_path: Path) -> None:
    page = opened(board[0].url, tmp_path)
    check_harmless(page)
    assert IMAGE in page.text and LINK in page.text and "3 runs" in page.text
    assert board[0].token not in "".join(str(attributes) for _, attributes in page.elements)
    assert len(page.every("input")) == 4  # one to find, one a run


def test_hostile_metrics_logs_and_failures_are_text(board: tuple[Board, Path], tmp_path: Path) -> None:
    run = next(path for path in board[1].iterdir() if path.name.startswith('"'))
    page = opened(f"{board[0].url}#/run/{key_of(run)}", tmp_path)
    check_harmless(page)
    for name in (SCRIPT, IMAGE, LINK, "loss?gnp.exe", "__proto__", "constructor"):
        assert name in page.text
    assert "What ended the run" in page.text and "Where the time went" in page.text
    # A chart a metric, but for one of the validation alone.
    assert len(page.every("figure")) >= len(HOSTILE) - 1
    assert max(map(len, page.text.split())) <= 2000


def test_runs_are_compared_side_by_side(board: tuple[Board, Path], tmp_path: Path) -> None:
    keys = ",".join(key_of(path) for path in sorted(board[1].iterdir()))
    page = opened(f"{board[0].url}#/compare/{keys}", tmp_path)
    check_harmless(page)
    assert "3 runs compared" in page.text and "optimizer.rate" in page.text and f"{SCRIPT}.{IMAGE}" in page.text
