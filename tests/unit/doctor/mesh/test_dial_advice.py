from __future__ import annotations

import errno

import pytest

from tfdist.doctor.mesh.pair import advice_on, describe_outcome
from tfdist.net.connection_attempts import DialOutcome, DialStatus, of_errno


@pytest.mark.parametrize(
    ("seen", "text"),
    [
        (of_errno(errno.ECONNREFUSED), "refuses the connection: no doctor listens there"),
        (of_errno(errno.ETIMEDOUT), "does not answer within 3 s"),
        (of_errno(errno.EHOSTUNREACH), "cannot be reached: No route to host"),
        (DialOutcome(DialStatus.SILENT), "says nothing for 4 s"),
        (DialOutcome(DialStatus.GRPC), "a job seems to run there"),
        (DialOutcome(DialStatus.STRANGER), "something else listens there"),
    ],
)
def test_what_was_seen_is_told_in_words(seen: DialOutcome, text: str) -> None:
    assert text in describe_outcome(seen)


@pytest.mark.parametrize("status", DialStatus)
def test_every_outcome_has_words_and_advice(status: DialStatus) -> None:
    assert describe_outcome(DialOutcome(status))
    assert advice_on(DialOutcome(status)) or status is DialStatus.MET
