"""Measuring both kernels: the processes that do it, which may hang, die or say anything."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.helpers.processes import processes_with
from tests.helpers.waiting import until
from tfdist.doctor.machine.kernel_speeds import ROUNDS, KernelSpeeds, UnknownSpeeds, measure_kernels

MEASURES = """
import json, os, sys
onednn = os.environ["TF_ENABLE_ONEDNN_OPTS"] == "1"
print(json.dumps({"kernels": "onednn" if onednn else "tensorflow"}), flush=True)
count = 0
for line in sys.stdin:
    count += 1
    print(json.dumps({"speeds": {"Dense": 10.0 + 10 * onednn + count % 3}}), flush=True)
"""
"""The speeds of its calls end in 1, 2, 0 and so on: the fastest is none of the last."""


def measured(code: str, seconds: float = 60.0) -> KernelSpeeds | UnknownSpeeds:
    return measure_kernels(seconds, (sys.executable, "-c", code))


def test_both_are_measured_in_turn_and_the_fastest_counts() -> None:
    assert ROUNDS == 3
    assert measured(MEASURES) == KernelSpeeds({"Dense": 12.0}, {"Dense": 22.0})


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("", "ended before it had"),
        ('print(\'{"kernels": "onednn"}\', flush=True); input()', "does not heed TF_ENABLE_ONEDNN_OPTS"),
        ("print('no JSON', flush=True); input()", "said b'no JSON'"),
        ("print('[1]', flush=True); input()", "said b'[1]'"),
        (MEASURES.replace("10.0", "-100.0"), "said {'Dense': -"),
        (MEASURES.replace('"speeds"', '"speed"'), "said None"),
        (MEASURES.replace("count = 0", "sys.exit(3)"), "ended before it had"),
    ],
)
def test_what_goes_wrong_is_told(code: str, why: str) -> None:
    found = measured(code)
    assert isinstance(found, UnknownSpeeds)
    assert why in found.why


def test_processes_that_hang_are_ended_in_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TFDIST_TEST_MARK", str(tmp_path))
    hangs = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'input()']); time.sleep(60)"
    assert measured(hangs, 1.0) == UnknownSpeeds("the time was up before they were measured")
    # They are killed, and take a moment to be gone.
    until(lambda: not processes_with(f"TFDIST_TEST_MARK={tmp_path}"))


def test_a_program_that_is_not_there() -> None:
    found = measure_kernels(10.0, ("/absent/python",))
    assert isinstance(found, UnknownSpeeds) and "/absent/python" in found.why
