from __future__ import annotations

import errno

import pytest

from tfdist.net.dial_outcome import DialOutcome, DialStatus, of_errno, of_first_bytes


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (errno.ECONNREFUSED, DialOutcome(DialStatus.REFUSED)),
        (errno.ETIMEDOUT, DialOutcome(DialStatus.TIMED_OUT)),
        (errno.EHOSTUNREACH, DialOutcome(DialStatus.UNREACHABLE, "No route to host")),
        (errno.ENETUNREACH, DialOutcome(DialStatus.UNREACHABLE, "Network is unreachable")),
        (errno.EACCES, DialOutcome(DialStatus.UNREACHABLE, "Permission denied")),
    ],
)
def test_what_the_kernel_says(code: int, outcome: DialOutcome) -> None:
    assert of_errno(code) == outcome


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (bytes.fromhex("00001804000000000000"), DialStatus.GRPC),
        (b"SSH-2.0-OpenSSH", DialStatus.STRANGER),
        (b"\0\0", DialStatus.STRANGER),
    ],
)
def test_a_server_of_another_kind_is_known_by_how_it_begins(data: bytes, status: DialStatus) -> None:
    assert of_first_bytes(data).status is status
