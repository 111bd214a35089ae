"""Measuring both kernels: the processes that do it, which may hang, die or say anything.

Which kernels a run would take, and whether they are the faster ones.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.helpers.processes import processes_with
from tests.helpers.waiting import until
from tfdist.doctor.check_result import CheckStatus
from tfdist.doctor.machine.kernel_speeds import ROUNDS, KernelSpeeds, UnknownSpeeds, check_kernels, measure_kernels
from tfdist.launch.worker.kernel_choice import KernelChoice

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


ONEDNN = KernelChoice("onednn", "onednn", "the processor has AVX2 and FMA, and gains by them")
OWN = KernelChoice("tensorflow", "auto", "TensorFlow takes them by itself on this processor")
PRODUCTS = ("Dense forward", "its weights' gradient", "its inputs' gradient")


def speeds(own: float, onednn: float, own_convolution: float, onednn_convolution: float) -> KernelSpeeds:
    return KernelSpeeds(
        {**dict.fromkeys(PRODUCTS, own), "convolution": own_convolution},
        {**dict.fromkeys(PRODUCTS, onednn), "convolution": onednn_convolution},
    )


@pytest.mark.parametrize(
    ("choice", "measured", "status", "text"),
    [
        (ONEDNN, speeds(20, 40, 30, 60), CheckStatus.OK, "oneDNN's kernels are faster here: forward"),
        (ONEDNN, speeds(40, 20, 60, 30), CheckStatus.WARN, "TensorFlow's own kernels are faster here"),
        (ONEDNN, speeds(40, 39, 60, 59), CheckStatus.OK, "TensorFlow's own kernels are faster here"),  # as good as
        (ONEDNN, speeds(40, 20, 30, 60), CheckStatus.OK, "depends on the layers"),
        (OWN, speeds(40, 20, 60, 30), CheckStatus.OK, "TensorFlow's own kernels are faster here"),
        (OWN, speeds(20, 40, 30, 60), CheckStatus.WARN, "takes 0.50 times as long with oneDNN's, a convolution 0.50"),
        (OWN, UnknownSpeeds("the time was up"), CheckStatus.OK, "this processor; not measured: the time was up"),
        (ONEDNN, None, CheckStatus.OK, "--kernels auto takes oneDNN's kernels, as the processor has AVX2"),
        (KernelChoice(None, "auto", "there is a GPU"), None, CheckStatus.OK, "TensorFlow's choice: there is a GPU"),
    ],
)
def test_the_kernels_are_judged(
    choice: KernelChoice, measured: KernelSpeeds | UnknownSpeeds | None, status: CheckStatus, text: str
) -> None:
    check = check_kernels(choice, measured)
    assert (check.name, check.status) == ("kernels", status)
    assert text in check.found
    if status is CheckStatus.WARN:
        assert f"--kernels {'tensorflow' if choice is ONEDNN else 'onednn'}" in check.advice


def test_a_product_that_is_slow_alone_counts_by_its_time() -> None:
    own = {"Dense forward": 50.0, "its weights' gradient": 50.0, "its inputs' gradient": 10.0, "convolution": 50.0}
    found = check_kernels(ONEDNN, KernelSpeeds(own, dict.fromkeys(own, 50.0))).found
    assert "a Dense layer takes 0.43 times as long" in found  # 3/50 over 2/50 + 1/10
    assert "its inputs' gradient 10 | 50" in found
