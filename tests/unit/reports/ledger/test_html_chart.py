""""""

from __future__ import annotations

import html.parser
import re
import time

import pytest

from tests.helpers.ledger_lines import killed_once, over, running
from tfdist.launch.run_dir.epoch_metrics import EpochMetrics
from tfdist.reports.ledger import html_chart
from tfdist.reports.ledger.account import Account, AttemptAccount
from tfdist.reports.ledger.account_reader import build_account
from tfdist.reports.ledger.html_chart import columns
from tfdist.rundir.ledger_lines import AttemptPhase, LedgerEntry, LedgerEvent, TimeKind


def test_the_columns_add_up_to_the_wall_time() -> None:
    made = build_account(killed_once())
    assert made is not None
    cut = columns(made, 7)
    assert [sum(column.values()) for column in cut] == pytest.approx([100 / 7] * 7)
    for kind in TimeKind:
        assert sum(column.get(kind, 0.0) for column in cut) == pytest.approx(made.seconds[kind])
    empty = build_account([running(0, 0.0, 0.0)])
    assert empty is not None and columns(empty) == []


def found(entries: list[LedgerEntry]) -> Account:
    made = build_account(entries)
    assert made is not None
    return made


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
            self.fills.add(given["style"] or "")


def test_the_page_is_self_contained() -> None:
    page = Page()
    text = html_chart.render("digits", "/runs/a", found(killed_once()))
    page.feed(text)
    assert page.elsewhere == []
    assert "Restarts: seconds from the notice" in text and "<td>1</td><td>26.0</td><td>3.0</td><td>1.0</td>" in text
    # The bar is as wide as the picture, and what is lost is hatched.
    assert abs(sum(page.widths) - 960) < 0.1
    assert {"fill:url(#restart)", "fill:url(#replay)"} <= page.fills


def test_the_losses_are_drawn_where_there_are_any() -> None:
    made = found(killed_once())
    assert "<h2>Loss" not in html_chart.render("digits", "/runs/a", made, [EpochMetrics(0, None, {"accuracy": 1.0})])
    epochs = [EpochMetrics(epoch, None, {"loss": 2.0 - epoch}) for epoch in range(2)]
    page = Page()
    text = html_chart.render("digits", "/runs/a", made, epochs)
    page.feed(text)
    assert "<h2>Loss after each epoch</h2><svg" in text.replace("\n", "") and "<polyline" in text
    assert "<p>loss 1 after epoch 2, its lowest.</p>" in text
    assert page.elsewhere == []


def test_light_and_dark() -> None:
    """All colours of the page itself are variables, which the dark style sets, but not on paper."""
    text = html_chart.render("digits", "/runs/a", found(killed_once()))
    style, _, body = text.partition("</style>")
    assert "@media screen and (prefers-color-scheme: dark)" in style
    light, dark = (set(re.findall(r"--[\w-]+(?=:)", part)) for part in style.split("@media screen")[:2])
    assert light == dark and set(re.findall(r"var\((--[\w-]+)\)", text)) <= light
    assert 'stroke="#' not in body and 'fill="#' not in body


def test_the_time_zone_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        assert "times of day: IST (UTC+05:30)</div>" in html_chart.render("a", "/a", found(killed_once()))
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_chart_reads_each_attempt_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_messages_are_escaped() -> None:
    entries = [
        running(0, 1.0, since=0.0),
        LedgerEvent(0, 2.0, AttemptPhase.RESTARTING, why="\x1b[2J<b>"),
        running(1, 3.0),
    ]
    assert "<b>" not in html_chart.render("<b>", "/runs/<b>", found(entries))
