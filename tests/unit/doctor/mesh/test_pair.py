from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tfdist.doctor.check_result import CheckStatus
from tfdist.doctor.mesh.doctor_link import DoctorHello
from tfdist.doctor.mesh.link_measurement import LinkQuality, MeasurementPhase
from tfdist.doctor.mesh.pair import Pair, judge, occupied, unreached
from tfdist.net.connection_attempts import DialOutcome, DialStatus
from tfdist.net.line_socket import LineError

LIST = "a:20000,b:20000,c:20000"
MINE = DoctorHello("one", "a", LIST, (0,), {"keras": "3.15.1", "tfdist": "0.1.0"})
THEIRS = replace(MINE, sender="two", host="b", local=(1,))
GOOD = LinkQuality(0.001, 0.0, 1e8)


@pytest.mark.parametrize(
    ("theirs", "address", "measured", "stalled", "status", "found"),
    [
        (THEIRS, "10.0.0.2", GOOD, None, CheckStatus.OK, "b answers and agrees"),
        (replace(THEIRS, versions={"keras": "3.14.0", "tfdist": "0.1.0"}), "", GOOD, None, CheckStatus.FAIL,
         "other versions: keras 3.15.1 here, 3.14.0 on b"),
        (replace(THEIRS, versions={"keras": "3.15.1"}), "", GOOD, None, CheckStatus.FAIL,
         "tfdist 0.1.0 here, None on b"),
        (replace(THEIRS, cluster="a:20000,b:20000"), "", GOOD, None, CheckStatus.FAIL,
         "b was given another worker list"),
        (replace(THEIRS, local=(2,)), "", None, None, CheckStatus.FAIL,
         "the address leads to b, which has worker(s) 2"),
        (MINE, "", None, None, CheckStatus.FAIL, "the address leads back to this machine"),
        (replace(THEIRS, local=(0, 1)), "", GOOD, None, CheckStatus.FAIL, "worker(s) 0 are claimed here and by b"),
        (replace(THEIRS, token=True), "", GOOD, None, CheckStatus.FAIL, "TFDIST_TOKEN is set not here, but on b"),
        (THEIRS, "", GOOD, MeasurementPhase.LARGE, CheckStatus.FAIL, "small messages pass, large do not"),
        (THEIRS, "", None, MeasurementPhase.PINGS, CheckStatus.FAIL, "answers once, and then the line falls silent"),
        (THEIRS, "", replace(GOOD, offset=2.1), None, CheckStatus.WARN, "the clock of b is 2.1 s ahead of this one's"),
        (THEIRS, "", replace(GOOD, offset=-90.0), None, CheckStatus.WARN, "the clock of b is 90.0 s behind this one's"),
        # Off by no more than half of the round trip explains.
        (THEIRS, "", LinkQuality(0.4, 2.1, 1e8), None, CheckStatus.OK, "b answers and agrees"),
        (THEIRS, "8.8.8.8", GOOD, None, CheckStatus.WARN, "8.8.8.8 is a public address"),
        (replace(THEIRS, token=True), "8.8.8.8", GOOD, None, CheckStatus.FAIL, "on b; 8.8.8.8 is a public address"),
    ],
)  # fmt: skip
def test_a_doctor_that_was_met_is_judged(
    theirs: DoctorHello,
    address: str,
    measured: LinkQuality | None,
    stalled: MeasurementPhase | None,
    status: CheckStatus,
    found: str,
) -> None:
    pair = judge(MINE, theirs, 1, address, measured, stalled)
    assert (pair.status, pair.sources, pair.target, pair.code) == (status, (0,), 1, 3)
    assert found in pair.found
    assert bool(pair.advice) == (status is not CheckStatus.OK)


def test_another_worker_of_the_same_doctor_is_this_machine() -> None:
    mine = replace(MINE, local=(0, 1))
    assert judge(mine, mine, 1, "8.8.8.8", None).found == "this machine"


def test_a_worker_whose_doctor_was_not_met() -> None:
    pair = unreached(MINE, 2, DialOutcome(DialStatus.UNRESOLVED))
    assert (pair.status, pair.code, pair.found) == (CheckStatus.FAIL, 3, "its name does not resolve on this host")
    taken = occupied(MINE, 2, "taken by pid 7 (python train.py)")
    assert (taken.status, taken.code) == (CheckStatus.FAIL, 2)
    assert "left alone" in taken.advice


def test_a_pair_goes_over_the_line() -> None:
    pair = judge(MINE, THEIRS, 1, "10.0.0.2", GOOD)
    assert Pair.from_message({"pair": pair.to_json()}) == pair


@pytest.mark.parametrize(
    "changed",
    [
        {"status": "fine"},
        {"code": 0},
        {"sources": []},
        {"sources": ["a"]},
        {"found": None},
        {"round_trip": "short"},
        {"offset": float("nan")},
        {"target": float("inf")},
        {"target": None},
    ],
)
def test_a_message_that_is_not_a_pair_is_refused(changed: dict[str, Any]) -> None:
    told = {**judge(MINE, THEIRS, 1, "", None).to_json(), **changed}
    with pytest.raises(LineError):
        Pair.from_message({"pair": told})
