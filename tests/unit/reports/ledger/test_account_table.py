""""""

from __future__ import annotations

import json
import re

from tests.helpers.ledger_lines import killed_once, over, running
from tfdist.reports.ledger import account_table
from tfdist.reports.ledger.account import LABELS, Account
from tfdist.reports.ledger.account_reader import build_account
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


def test_a_running_run() -> None:
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


def test_messages_cannot_control_the_terminal() -> None:
    entries = [
        running(0, 1.0, since=0.0),
        LedgerEvent(0, 2.0, AttemptPhase.RESTARTING, why="\x1b[2J<b>"),
        running(1, 3.0),
    ]
    assert "?[2J<b>" in account_table.render("digits", "/runs/a", found(entries))


def test_the_document_adds_up() -> None:
    account = build_account(killed_once())
    assert account is not None
    made = json.loads(json.dumps(account_table.to_json("digits", "/runs/a", account)))
    assert set(made["seconds"]) == {kind.value for kind in TimeKind}
    assert abs(sum(made["seconds"].values()) - made["wall"]) < 1e-9
    assert made["goodput"] == made["seconds"]["step"] / made["wall"]
    assert [attempt["why"] for attempt in made["attempts"]] == ["worker 1: killed by SIGKILL", ""]
