from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tools.gpu_round import part_runner
from tools.gpu_round.part_runner import Found, Part, PartOutcome, PartRunner

MINUTE = 60.0


def part(name: str, code: str, **options: Any) -> Part:
    def read(folder: Path) -> Found:
        found = folder / "found"
        return Found({"found": found.read_text() if found.exists() else None})

    return Part(
        **{
            "name": name,
            "about": f"what {name} shows",
            "command": lambda folder: (sys.executable, "-c", code, str(folder)),
            "read": read,
            "seconds": MINUTE,
            "least": 1.0,
            **options,
        }
    )


def run(folder: Path, parts: list[Part], seconds: float = MINUTE, **options: Any) -> dict[str, PartOutcome]:
    outcomes: list[PartOutcome] = []
    runner = PartRunner(folder, time.monotonic() + seconds, {"SAID": "so"}, outcomes.append)
    if options:
        runner.run_together(parts, until=time.monotonic() + MINUTE, **options)
    else:
        runner.run_alone(parts)
    return {outcome.part: outcome for outcome in outcomes}


WRITES = "import os, pathlib, sys; pathlib.Path(sys.argv[1], 'found').write_text(os.environ['SAID'])"


def test_no_part_ends_the_round(tmp_path: Path) -> None:
    def broken(folder: Path) -> Found:
        raise KeyError("what was expected")

    found = run(
        tmp_path,
        [
            part("fails", "print('what it said'); raise SystemExit(3)"),
            part("unreadable", "", read=broken),
            part("wrong", "", read=lambda folder: Found({"sum": 3}, ("the sum is 3",))),
            part("absent", "", absent="pytest is not installed"),
            part("works", WRITES),
        ],
    )
    assert {name: outcome.verdict for name, outcome in found.items()} == {
        "fails": "failed",
        "unreadable": "failed",
        "wrong": "failed",
        "absent": "not run",
        "works": "passed",
    }
    assert "it ended with code 3." in found["fails"].reason and "what it said" in found["fails"].reason
    assert found["unreadable"].reason == "KeyError: 'what was expected'"
    assert (found["wrong"].reason, found["wrong"].result) == ("the sum is 3", {"sum": 3})
    assert found["works"].result == {"found": "so"}


def test_what_a_part_found_before_its_bound_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told to end; one that does not listen is killed with what it has started."""
    monkeypatch.setattr(part_runner, "GRACE_SECONDS", 0.2)
    deaf = f"{WRITES}\nimport signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(600)"
    found = run(tmp_path, [part("deaf", deaf, seconds=1.5)])["deaf"]
    assert (found.verdict, found.result) == ("cut", {"found": "so"})
    assert found.reason == "it was ended at its bound of 2 s" and found.seconds < MINUTE


def test_what_there_is_no_time_for_is_named(tmp_path: Path) -> None:
    found = run(tmp_path, [part("long", "", least=600.0), part("short", "")])
    assert found["long"].verdict == "not run" and found["short"].verdict == "passed"
    assert found["long"].reason.startswith("for lack of time: ")


def test_side_by_side_no_more_than_so_many_run_at_once(tmp_path: Path) -> None:
    waits = "import time; begun = time.time(); time.sleep(0.3); print(begun, time.time())"

    def read(folder: Path) -> Found:
        begun, ended = map(float, (folder / "0.log").read_text().split())
        return Found({"begun": begun, "ended": ended})

    found = run(tmp_path, [part(str(number), waits, read=read) for number in range(4)], at_once=2)
    spans = [(outcome.result["begun"], outcome.result["ended"]) for outcome in found.values()]
    overlaps = [sum(begun <= moment < ended for begun, ended in spans) for moment, _ in spans]
    assert len(found) == 4 and max(overlaps) <= 2


def test_an_interrupt_ends_what_runs_and_begins_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_runner, "GRACE_SECONDS", 5.0)
    outcomes: list[PartOutcome] = []

    def interrupt(outcome: PartOutcome) -> None:
        outcomes.append(outcome)
        if outcome.part == "first":
            raise KeyboardInterrupt

    runner, begun = PartRunner(tmp_path, time.monotonic() + MINUTE, {}, interrupt), time.monotonic()
    endless = "import time; time.sleep(600)"
    with pytest.raises(KeyboardInterrupt):
        runner.run_together([part("first", ""), *(part(name, endless) for name in "abcd")], 2, begun + MINUTE)
    assert time.monotonic() - begun < MINUTE / 2
    assert [outcome.verdict for outcome in outcomes[1:]] == ["cut"] * len(outcomes[1:]) and len(outcomes) < 5
