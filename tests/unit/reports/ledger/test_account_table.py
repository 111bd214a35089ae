from __future__ import annotations

import html.parser
import json
import re

import pytest

from tests.unit.reports.ledger.lines import killed_once, over, running
from tfdist.reports.ledger import account_json, account_table, html_chart
from tfdist.reports.ledger.account import Account, AttemptAccount
from tfdist.reports.ledger.account_builder import build_account
from tfdist.reports.ledger.account_summary import LABELS
from tfdist.rundir.ledger_lines import AttemptPhase, LedgerEntry, LedgerEvent, TimeKind


def found(entries: list[LedgerEntry]) -> Account:
    made = build_account(entries)
    assert made is not None
    return made


def test_a_run_that_was_killed_once() -> None:
    lines = account_table.render("digits", "/runs/a", found(killed_once())).splitlines()
    assert lines[:4] == [
        "digits: /runs/a",
        "goodput 34.3 %: 0:34.3 of 1:40.0 wall time went into the 80 training steps that count",
        "1 start of tfdist train; 1 restart by it",
        "20 steps done again, because they came after the last checkpoint",
    ]
    shares = dict(re.findall(r"^(\S.*?\S)  +[\d:.]+ +([\d.]+) %", "\n".join(lines), re.MULTILINE))
    assert set(LABELS.values()) <= set(shares)
    assert (shares["steps done again later"], shares["lost to restarts"]) == ("3.7", "6.0")
    attempts = lines.index(next(line for line in lines if line.startswith("attempt")))
    assert lines[attempts + 1].endswith("0 to 60, 20 again  worker 1: killed by SIGKILL")
    assert lines[attempts + 2].endswith("40 to 80  done")
    assert lines[-2].split()[:5] == ["attempt", "all", "ending", "delay", "start-up"]
    assert lines[-1].split() == ["1", "26.0", "3.0", "1.0", "12.0", "0.0", "0.0", "0.0", "10.0", "0.0", "20"]


def test_a_run_that_goes_on() -> None:
    text = account_table.render("digits", "/runs/a", found([running(0, 2.0, since=0.0)]))
    assert "\nup to 1970-01-01 " in text and "the run goes on, or its launcher was killed" in text
    assert "attempt" not in text


def test_a_launcher_that_was_killed() -> None:
    entries = [running(0, 2.0, since=0.0), running(1, 12.0, since=10.0)]
    *_, first, last = account_table.render("digits", "/runs/a", found(entries)).splitlines()
    assert first.endswith("its launcher was killed")
    assert last.endswith("not yet, or its launcher was killed")


def test_many_attempts_are_cut_short() -> None:
    entries: list[LedgerEntry] = [running(0, 1.0, since=0.0)]
    for attempt in range(1, 100):
        entries += [over(attempt - 1, attempt + 0.5, AttemptPhase.RESTARTING), running(attempt, attempt + 1.0)]
    text = account_table.render("digits", "/runs/a", found(entries))
    assert text.endswith("and 80 earlier attempts; --json has all")


def test_a_message_does_nothing_to_a_terminal_or_a_page() -> None:
    entries = [
        running(0, 1.0, since=0.0),
        LedgerEvent(0, 2.0, AttemptPhase.RESTARTING, why="\x1b[2J<b>"),
        running(1, 3.0),
    ]
    assert "?[2J<b>" in account_table.render("digits", "/runs/a", found(entries))
    assert "<b>" not in html_chart.render("<b>", "/runs/<b>", found(entries))


def test_the_document_adds_up() -> None:
    made = json.loads(json.dumps(account_json.to_json("digits", "/runs/a", found(killed_once()))))
    assert set(made["seconds"]) == {kind.value for kind in TimeKind}
    assert abs(sum(made["seconds"].values()) - made["wall"]) < 1e-9
    assert made["goodput"] == made["seconds"]["step"] / made["wall"]
    assert [attempt["why"] for attempt in made["attempts"]] == ["worker 1: killed by SIGKILL", ""]


class Page(html.parser.HTMLParser):
    """Notes what a page asks for from elsewhere, and the areas that it draws of each kind."""

    def __init__(self) -> None:
        super().__init__()
        self.elsewhere: list[str] = []
        self.widths: list[float] = []
        self.fills: set[str] = set()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        if tag in ("script", "link", "img", "iframe") or given.keys() & {"src", "href"}:
            self.elsewhere.append(tag)
        if tag == "rect" and given.get("height") == "44.00":
            self.widths.append(float(given["width"] or 0))
            self.fills.add(given["fill"] or "")


def test_the_picture_stands_by_itself() -> None:
    page = Page()
    text = html_chart.render("digits", "/runs/a", found(killed_once()))
    page.feed(text)
    assert page.elsewhere == []
    assert "Restarts: seconds from the notice" in text and "<td>1</td><td>26.0</td><td>3.0</td><td>1.0</td>" in text
    # The bar is as wide as the picture, and what is lost is hatched.
    assert abs(sum(page.widths) - 960) < 0.1
    assert {"url(#restart)", "url(#replay)"} <= page.fills


def test_a_picture_looks_at_each_attempt_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are: of 5,000 it once took 20 s."""
    entries = [line for number in range(300) for line in (running(number, number + 0.5), over(number, number + 1.0))]
    made = found([running(0, 0.0, since=0.0), *entries])
    looks = 0

    def at(attempt: AttemptAccount) -> float:
        nonlocal looks
        looks += 1
        return attempt.spans[-1].at

    monkeypatch.setattr(AttemptAccount, "at", property(at))
    html_chart.render("digits", "/runs/a", made)
    assert looks < 20 * len(made.attempts)
