from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.random_trial.trial import trial


def test_a_process_that_dies_is_a_finding_with_its_last_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dying = tmp_path / "python"
    dying.write_text("#!/bin/sh\necho 'no memory is left' >&2\nexit 1\n")
    dying.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(dying))
    report = trial(5, minutes=1, draws=2)
    assert report.seeds == [5, 6] and report.kinds == {"hung or died": 2}
    assert all("no memory is left" in finding for finding in report.findings)
