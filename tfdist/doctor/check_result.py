"""Result of a check, and the exit code of all of them."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from tfdist.errors import FormingError, UsageError

LOCAL_CODE = UsageError.exit_code
"""The exit code when the user must correct something on this machine."""
CLUSTER_CODE = FormingError.exit_code
"""The exit code when the cluster would not form."""


class CheckStatus(enum.Enum):
    """Outcome of a check: all is well, a run may suffer, a run would fail."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class Check:
    """One check and its outcome.

    Attributes:
        name: What was checked, in one to three words.
        status: The outcome.
        found: The finding.
        advice: What to do; empty when nothing is.
        code: What the command exits with when this fails: 2 or 3.
    """

    name: str
    status: CheckStatus
    found: str
    advice: str = ""
    code: int = LOCAL_CODE

    def __post_init__(self) -> None:
        if self.status is not CheckStatus.OK and not self.advice:
            raise ValueError(f"A check that is not ok says what to do. Received: {self.name}: {self.found}")
        if self.code not in (LOCAL_CODE, CLUSTER_CODE):
            raise ValueError(f"A check fails with {LOCAL_CODE} or {CLUSTER_CODE}. Received: code={self.code}")


def ok(name: str, found: str) -> Check:
    """A check with nothing to be done."""
    return Check(name, CheckStatus.OK, found)


def warn(name: str, found: str, advice: str) -> Check:
    """A check of something that a run may suffer from."""
    return Check(name, CheckStatus.WARN, found, advice)


def fail(name: str, found: str, advice: str, code: int = LOCAL_CODE) -> Check:
    """A check of something that would make a run fail."""
    return Check(name, CheckStatus.FAIL, found, advice, code)


def exit_code(failed: Iterable[int]) -> int:
    """The exit code of the command, from those of all failed checks: a fault of this machine comes first."""
    return min(failed, default=0)


def worst(statuses: Iterable[CheckStatus]) -> CheckStatus:
    """The most serious of some outcomes; ok when there are none."""
    order = list(CheckStatus)
    return max(statuses, key=order.index, default=CheckStatus.OK)
