from __future__ import annotations

import pytest

from tfdist.doctor import examination
from tfdist.doctor.machine import machine_facts
from tfdist.doctor.machine.machine_facts import NvidiaDriver
from tfdist.doctor.machine.tensorflow_facts import BrokenTensorFlow, ProbeRequest


@pytest.mark.parametrize(
    ("seconds", "drivers", "tensorflows"), [(6.0, 3.0, 3.0), (60.0, 10.0, 50.0), (0.01, 0.005, 0.1)]
)
def test_a_driver_that_does_not_answer_takes_only_its_share_of_the_time(
    monkeypatch: pytest.MonkeyPatch, seconds: float, drivers: float, tensorflows: float
) -> None:
    now = [100.0]
    given = []

    def ask(*, seconds: float) -> NvidiaDriver:
        given.append(seconds)
        now[0] += seconds
        return NvidiaDriver(problem="nvidia-smi did not end")

    def probe(request: ProbeRequest) -> BrokenTensorFlow:
        given.append(request.seconds)
        return BrokenTensorFlow("did not get through")

    monkeypatch.setattr(machine_facts, "ask", ask)
    monkeypatch.setattr(examination, "probe", probe)
    checks = examination.check_here(None, seconds, lambda: now[0])
    assert given == [drivers, tensorflows]
    assert {"GPU driver", "TensorFlow"} <= {check.name for check in checks}
