from __future__ import annotations

import pytest

from tfdist.ray.job.layout import Node, lay_out
from tfdist.ray.job.outcome import Ending, exit_code, killed_text, lost_text

CHIEF, OTHER = lay_out({0: Node("a", "10.0.0.1", "h1"), 1: Node("b", "10.0.0.2", "h2")})
LOST = "gone"


@pytest.mark.parametrize(
    ("codes", "stopped", "expected"),
    [
        ((0, 0), None, 0),
        ((7, 7), None, 7),  # a script's own code
        ((4, 4), None, 4),
        ((0, 5), None, 5),  # the chief was done, and another one was not
        ((3, 2), None, 3),  # the chief's, where both failed
        ((-9, 4), None, 137),
        ((LOST, 143), None, 4),
        ((143, LOST), None, 4),  # the launcher of a lost actor stops as by SIGTERM, and the others with it
        ((130, 130), 2, 130),
        ((143, 143), 15, 143),
        ((LOST, LOST), 15, 143),  # asked to end, whatever was lost then
        ((0, 0), 2, 0),  # it was done before the signal came
    ],
)
def test_exit_code(codes: tuple[int | str, int | str], stopped: int | None, expected: int) -> None:
    endings = [
        Ending(machine, None, code) if isinstance(code, str) else Ending(machine, code)
        for machine, code in zip((CHIEF, OTHER), codes, strict=True)
    ]
    assert exit_code(endings, stopped) == expected


def test_what_is_said_of_a_lost_machine() -> None:
    text = lost_text(Ending(OTHER, None, "the node died"))
    assert text.startswith("error: lost h2 (10.0.0.2), which has worker 1: the node died. ")
    assert "--resume auto" in text


@pytest.mark.parametrize(("code", "expected"), [(0, None), (4, None), (None, None), (-15, "signal 15"), (-9, "memory")])
def test_what_is_said_of_a_launcher_that_a_signal_ended(code: int | None, expected: str | None) -> None:
    text = killed_text(Ending(OTHER, code, "" if code is not None else LOST))
    assert text is None if expected is None else expected in str(text)
