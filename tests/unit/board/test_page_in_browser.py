"""The page in a real browser: it shows what was answered, and what is hostile in it as the text that it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.waiting import until
from tests.unit.board.browser import Browser, needs_browser, opened_browser
from tests.unit.board.made_runs import CREATED, IMAGE, LINK, SCRIPT, make_hostile_run, make_run
from tests.unit.board.served import Board, served
from tfdist.board.board_folder import key_of

pytest.importorskip("uvicorn", reason='needs the extra: pip install -e ".[board]"')
pytest.importorskip("starlette", reason='needs the extra: pip install -e ".[board]"')
pytestmark = needs_browser

SECONDS = 60
OWN_TAGS = """html head meta title link script body a header main p img bdi span h1 h2 h3 div section label input
    button nav table thead tbody tr th td svg g path rect circle text defs pattern figure figcaption i b dl dt dd
    details summary pre select option code"""
ELEMENTS = """return [...document.querySelectorAll("*")].map((element) => [
    element.localName, Object.fromEntries([...element.attributes].map((one) => [one.name, one.value]))])"""
REQUESTS = """return performance.getEntriesByType("resource").map((one) => one.name)"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("runs")
    make_run(made / "digits-1")
    make_hostile_run(made)
    make_run(made / LINK, rate=0.3)
    return made


@pytest.fixture(scope="module")
def board(folder: Path) -> Iterator[Board]:
    with served(folder) as made:
        yield made


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with opened_browser(tmp_path_factory.mktemp("profile")) as made:
        yield made


def check_harmless(browser: Browser, board: Board) -> list[Any]:
    """Nothing of an answer has become an element, a handler or an address, and nothing else was asked for."""
    elements = browser.run(ELEMENTS)
    assert {tag for tag, _ in elements} <= set(OWN_TAGS.split())
    assert [attributes["src"] for tag, attributes in elements if tag == "script"] == ["/board.js"]
    assert {attributes["src"] for tag, attributes in elements if tag == "img"} <= {"/icon.svg"}
    assert all(attributes.get("href", "#").startswith("#") for tag, attributes in elements if tag == "a")
    names = {name for _, attributes in elements for name in attributes}
    assert not {name for name in names if name.startswith(("on", "data-")) or name in ("srcdoc", "formaction")}
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in browser.text()
    assert all(request.startswith(f"http://127.0.0.1:{board.port}/") for request in browser.run(REQUESTS))
    assert browser.complaints() == []
    return list(elements)


def test_hostile_names_are_text_in_the_list(board: Board, browser: Browser) -> None:
    browser.open(board.url)
    text = browser.wait_for("3 runs")
    check_harmless(browser, board)
    assert IMAGE in text and LINK in text
    assert browser.run("return location.search") == ""  # no token that somebody might see or copy


def test_hostile_metrics_logs_and_failures_are_text(board: Board, browser: Browser, folder: Path) -> None:
    run = next(path for path in folder.iterdir() if path.name.startswith('"'))
    browser.open(f"{board.url}#/run/{key_of(run)}")
    text = browser.wait_for("worker-0.0.log")
    elements = check_harmless(browser, board)
    for name in (SCRIPT, IMAGE, LINK, "loss?gnp.exe", "__proto__", "constructor"):
        assert name in text
    assert "What ended the run" in text and "Where the time went" in text
    assert [tag for tag, _ in elements].count("figure") >= 8
    assert max(map(len, text.split())) <= 2000


def test_runs_are_compared_side_by_side(board: Board, browser: Browser, folder: Path) -> None:
    keys = ",".join(key_of(path) for path in sorted(folder.iterdir()))
    browser.open(f"{board.url}#/compare/{keys}")
    text = browser.wait_for("3 runs compared")
    check_harmless(browser, board)
    assert "optimizer.rate" in text and f"{SCRIPT}.{IMAGE}" in text


def test_the_page_follows_and_keeps_what_is_focused(board: Board, browser: Browser, folder: Path) -> None:
    run = make_run(folder / "live", CREATED + 5000, phase="running")
    browser.open(f"{board.url}#/run/{key_of(run.path)}")
    browser.wait_for("worker-0.0.log")
    browser.run("""document.querySelector(".chart svg").focus(); window.kept = document.querySelector(".chart svg")""")
    browser.press(Browser.RIGHT)
    assert "epoch 1" in browser.wait_for("epoch 1loss2val_loss3")
    with run.metrics_file.open("a") as file:
        file.write(json.dumps({"epoch": 3, "loss": 0.123, "val_loss": 7.5}) + "\n")
    browser.wait_for("loss 0.123 after epoch 4")
    assert browser.run("""return document.activeElement === window.kept && window.kept.isConnected""")
    assert "epoch 1loss2val_loss3" in browser.text()


def test_runs_are_chosen_and_compared_by_the_keyboard(board: Board, browser: Browser) -> None:
    browser.open(board.url)
    browser.wait_for("Choose two or more to compare")
    for number in (0, 1):
        browser.run(f"""document.querySelectorAll("td input")[{number}].focus()""")
        browser.press(" ")
    browser.wait_for("Compare 2 runs")
    browser.run("""document.querySelector(".bar a.button").focus()""")
    browser.press(Browser.ENTER)
    browser.wait_for("2 runs compared")


def test_an_end_is_said_and_nothing_is_lost(browser: Browser, tmp_path: Path) -> None:
    make_run(tmp_path / "a", phase="running")
    make_run(tmp_path / "b")
    with served(tmp_path) as board:
        browser.open(board.url)
        browser.wait_for("2 runs")
    until(lambda: "no answer" in browser.text(), SECONDS)
    assert "2 runs" in browser.text()
