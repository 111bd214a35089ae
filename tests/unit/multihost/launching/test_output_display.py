from __future__ import annotations

import io
import json

from tfdist.launch.logs.log_records import LogRecords
from tfdist.multihost.launching.output_display import HOLD_SECONDS, OutputDisplay

REPORT = [b"error: worker 1 failed: boom", b"  its log: x"]


def display(records: LogRecords | None = None) -> tuple[OutputDisplay, io.BytesIO, io.BytesIO]:
    out, err = io.BytesIO(), io.BytesIO()
    return OutputDisplay(["h1", "h2"], out, err, records), out, err


def test_lines_have_their_host() -> None:
    shown, out, err = display()
    shown.show("h2", [b"hello", b"10%\r100%\r", b""], [b"warning: x"])
    assert out.getvalue() == b"h2: hello\nh2: 100%\nh2: \n"
    assert err.getvalue() == b"h2: warning: x\n"


def test_records_have_none() -> None:
    shown, out, err = display(LogRecords(host="laptop"))
    shown.show("h1", [b'{"a": 1}'], [])
    shown.say("stopped: SIGTERM")
    assert out.getvalue() == b'{"a": 1}\n'
    said = json.loads(err.getvalue())
    assert (said["message"], said["host"], said["source"]) == ("stopped: SIGTERM", "laptop", "launcher")


def test_one_report_is_kept_for_the_end() -> None:
    shown, _, err = display()
    for host in ("h1", "h2"):
        shown.show(host, [], [b"before", *REPORT])
    assert err.getvalue() == b"h1: before\nh2: before\n"
    assert shown.report("h2") == "error: worker 1 failed: boom\n  its log: x"
    assert shown.all_reports().count("boom") == 2


def test_an_error_comes_before_the_word_of_who_was_told_to_stop() -> None:
    shown, _, _ = display()
    shown.show("h1", [], [b"stopped: SIGTERM"])
    assert shown.report("h1") == "stopped: SIGTERM"
    shown.show("h2", [], [REPORT[0]])
    assert shown.report("h1") == "error: worker 1 failed: boom"


def test_a_restart_is_shown_by_one_host_as_it_happens() -> None:
    shown, _, err = display()
    for host in ("h2", "h1"):
        shown.show(host, [], [*REPORT, b"all workers start again in 1 s (1 of 3)", b"after"])
    lines = (*REPORT, b"all workers start again in 1 s (1 of 3)", b"after")
    expected = b"".join(b"h1: " + line + b"\n" for line in lines)
    assert err.getvalue() == b"h2: after\n" + expected
    assert shown.report("h1") == ""


class Clock:
    """A time that tests move."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def timed() -> tuple[OutputDisplay, io.BytesIO, Clock]:
    err, clock = io.BytesIO(), Clock()
    return OutputDisplay(["h1", "h2"], io.BytesIO(), err, clock=clock), err, clock


def test_a_line_of_a_script_that_looks_like_a_report_is_held_for_seconds_only() -> None:
    shown, err, clock = timed()
    shown.show("h1", [], [b"error: sample 3 skipped", b"epoch 1"])
    assert err.getvalue() == b""
    clock.now += HOLD_SECONDS + 0.1
    shown.show("h1", [], [])
    shown.show("h1", [], [b"epoch 2"])
    assert err.getvalue() == b"h1: error: sample 3 skipped\nh1: epoch 1\nh1: epoch 2\n"


def test_the_report_is_the_last_one() -> None:
    shown, err, clock = timed()
    shown.show("h1", [], [b"error: sample 3 skipped", b"epoch 1", *REPORT])
    assert err.getvalue() == b"h1: error: sample 3 skipped\nh1: epoch 1\n"
    shown.end("h1", 4)
    # The other hosts may need their time to end.
    clock.now += 10 * HOLD_SECONDS
    shown.show("h1", [], [])
    assert shown.report("h1") == "error: worker 1 failed: boom\n  its log: x"


def test_a_host_that_ends_well_has_no_report() -> None:
    shown, err, _ = timed()
    shown.show("h2", [], [b"error: sample 3 skipped", b"epoch 1"])
    shown.end("h2", 0)
    shown.show("h2", [], [b"error: comes late"])
    assert err.getvalue() == b"h2: error: sample 3 skipped\nh2: epoch 1\nh2: error: comes late\n"
    assert shown.report("h1") == ""


def test_of_many_lines_the_last_ones_are_held() -> None:
    shown, err, _ = timed()
    shown.show("h1", [], [b"error: sample 3 skipped", *(b"%d" % number for number in range(2500))])
    assert err.getvalue().startswith(b"h1: error: sample 3 skipped\nh1: 0\n")
    assert shown.report("h1").endswith("2499")
    assert err.getvalue().count(b"\n") + len(shown.report("h1").splitlines()) == 2501


def test_a_terminal_that_is_gone_ends_nothing() -> None:
    out = io.BytesIO()
    shown = OutputDisplay(["h1"], out, out)
    out.close()
    shown.show("h1", [b"hello"], [])
    shown.say("done")
