from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tfdist.cluster import Cluster
from tfdist.doctor.mesh.doctor_link import DOCTOR_SECONDS, DoctorHello
from tfdist.net.handshake import INTRODUCTION_SECONDS
from tfdist.net.hello import Hello
from tfdist.net.line_socket import LineError

CLUSTER = Cluster.parse("a:20000,b:20000,c:20000")
MINE = replace(DoctorHello.own(CLUSTER, (1, 2)), token=True, taken={2: "taken by pid 7"})


def test_a_doctors_hello_goes_over_the_line() -> None:
    assert DoctorHello.from_message(json.loads(json.dumps(MINE.to_message()))) == MINE


@pytest.mark.parametrize(
    "changed",
    [{"local": ["x"]}, {"versions": []}, {"taken": {"a": ""}}, {"taken": []}, {"taken": None}, {"host": None}],
)
def test_a_doctors_hello_that_does_not_hold_together_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(LineError):
        DoctorHello.from_message({"hello": {**MINE.to_message()["hello"], **changed}})


def test_the_hello_of_a_launcher_is_none_of_a_doctor() -> None:
    with pytest.raises(LineError, match="tfdist doctor"):
        DoctorHello.from_message(Hello.own(CLUSTER, (0,)).to_message())


def test_a_launcher_that_waits_is_known_by_its_silence() -> None:
    """It hangs up on a silent caller later than the doctor does."""
    assert DOCTOR_SECONDS < INTRODUCTION_SECONDS
