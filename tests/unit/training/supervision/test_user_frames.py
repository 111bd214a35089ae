from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

import tfdist
from tfdist.training.supervision.user_frames import is_raised_by_user, script_traceback


def test_whose_code_raised(tmp_path: Path) -> None:
    script = tmp_path / "users.py"
    script.write_text("def f(text):\n    raise ValueError(text)")
    for function, users in ((runpy.run_path(str(script))["f"], True), (json.loads, False)):
        with pytest.raises(ValueError) as raised:
            function("{")
        assert is_raised_by_user(_without_the_test(raised.value)) == users


@pytest.mark.parametrize(
    ("code", "frames"),
    [("def fails():\n    raise KeyError('x')\n\nfails()", 2), ("compile('1 +', 'typed.py', 'exec')", 1)],
)
def test_a_traceback_begins_in_the_script(tmp_path: Path, code: str, frames: int) -> None:
    script = tmp_path / "raises.py"
    script.write_text(code)
    with pytest.raises((KeyError, SyntaxError)) as raised:
        runpy.run_path(str(script))
    said = script_traceback(_without_the_test(raised.value))
    assert said.count("Traceback (most recent call last)") == 1
    assert said.count(f'File "{script}", line') == frames
    assert "runpy" not in said


@pytest.mark.parametrize(("code", "shown"), [("fails()", False), ("raise ValueError('its own')", True)])
def test_repairs_are_shown_where_they_are_the_cause(tmp_path: Path, code: str, shown: bool) -> None:
    repair = str(Path(tfdist.__file__).parent / "keras_repairs" / "forward" / "losses.py")
    script = tmp_path / "raises.py"
    script.write_text(
        "def fails():\n    raise ValueError('x')\n\n"
        f"exec(compile({f'def repaired(): {code}'!r}, {repair!r}, 'exec'))\n"
        "try:\n    repaired()\nexcept ValueError as cause:\n    raise OSError from cause"
    )
    with pytest.raises(OSError) as raised:
        runpy.run_path(str(script))
    said = script_traceback(_without_the_test(raised.value))
    assert (f'File "{repair}"' in said) == shown
    assert said.count(f'File "{script}", line') == (2 if shown else 3)


def _without_the_test(error: BaseException) -> BaseException:
    """The error as a worker sees it: the test's own frame is no part of that."""
    assert error.__traceback__ is not None
    return error.with_traceback(error.__traceback__.tb_next)
