"""The doctor's advice on a worker that it could not meet: what was seen at its address, and what to do about it."""

from __future__ import annotations

from tfdist.doctor.mesh.doctor_hello import DOCTOR_SECONDS
from tfdist.net.connector import CONNECT_SECONDS
from tfdist.net.dial_outcome import DialOutcome, DialStatus

_MORE_TIME = "Give it more time with --timeout."
_SAME_COMMAND = "Start the same `tfdist doctor --workers ...` on that host at the same time; if it runs there"
_OTHER_OWNER = "See on that host who has the port (ss -ltnp), or choose another in --workers. It was left alone."
_WORDS = {
    DialStatus.NOT_TRIED: ("has not been tried", _MORE_TIME),
    DialStatus.RESOLVING: (
        "its name is still being looked up on this host",
        "Repair this host's DNS (/etc/resolv.conf), or put the name into /etc/hosts, or use addresses in --workers.",
    ),
    DialStatus.CONNECTING: ("has not answered yet", _MORE_TIME),
    DialStatus.UNRESOLVED: (
        "its name does not resolve on this host",
        "Put the name into DNS or this host's /etc/hosts, or use addresses in --workers.",
    ),
    DialStatus.UNREACHABLE: (
        "cannot be reached",
        "Check this host's routes and interfaces (ip route get ADDRESS).",
    ),
    DialStatus.TIMED_OUT: (
        f"does not answer within {CONNECT_SECONDS:g} s",
        "Check that the host is up and that no firewall drops TCP to this port from this host.",
    ),
    DialStatus.REFUSED: (
        "refuses the connection: no doctor listens there",
        f"{_SAME_COMMAND}, a firewall rejects the port.",
    ),
    DialStatus.CLOSED: (
        "takes the connection and closes it without a word",
        f"{_SAME_COMMAND}, something between the hosts (a proxy, a container's port mapping) takes the connection in "
        "its place.",
    ),
    DialStatus.SILENT: (
        f"takes the connection, but says nothing for {DOCTOR_SECONDS:g} s: something else listens there, "
        "such as a `tfdist train` that waits for its cluster",
        _OTHER_OWNER,
    ),
    DialStatus.STRANGER: (
        "takes the connection, but is no tfdist doctor of this version: something else listens there",
        _OTHER_OWNER,
    ),
    DialStatus.GRPC: (
        "a gRPC server answers, such as TensorFlow's: a job seems to run there",
        "Wait for the job to end, or choose another port in --workers. The job was left alone.",
    ),
    DialStatus.MISMATCHED: ("has another TFDIST_TOKEN", "Set the same TFDIST_TOKEN on every host, or none."),
    DialStatus.LEFT: ("was there, and has left", "Start the doctors of all hosts again."),
    DialStatus.MET: ("answers", ""),
}


def describe_outcome(seen: DialOutcome) -> str:
    """Returns what was seen at an address."""
    words = _WORDS[seen.status][0]
    return f"{words}: {seen.detail}" if seen.detail else words


def advice_on(seen: DialOutcome) -> str:
    """Returns what to do about it."""
    return _WORDS[seen.status][1]
