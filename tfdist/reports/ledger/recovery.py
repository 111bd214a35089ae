"""Recovery after a failure: what each restart took, from the notice of the failure to the first step after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tfdist.reports.ledger.account import AttemptAccount, total
from tfdist.rundir.ledger_lines import TimeKind

ENDING, DELAY, OTHER = "ending", "delay", "other"
STARTING = (TimeKind.START_UP, TimeKind.FORMING, TimeKind.BUILDING, TimeKind.RESTORE, TimeKind.COMPILE)
PARTS = (ENDING, DELAY, *(kind.value for kind in STARTING), OTHER)
"""In the order in which they come."""

_STEPPING = (TimeKind.STEP, TimeKind.INPUT, TimeKind.REPLAY)


@dataclass(frozen=True)
class Recovery:
    """One restart that reached a step.

    Attributes:
        attempt: The number of the attempt that it started.
        seconds: Part -> seconds. `ending` is from the notice until no worker was left, `delay` from then until they
            were started again; the others are kinds of time of the attempt until its first batch was done.
        again: Steps done since the last restart that reached a step, which this or a later attempt does again.
    """

    attempt: int
    seconds: Mapping[str, float]
    again: int

    @property
    def whole(self) -> float:
        """Seconds from the notice to the first step."""
        return sum(self.seconds.values())


def recoveries(attempts: Sequence[AttemptAccount]) -> tuple[Recovery, ...]:
    """Every restart of a run that its launcher recorded and that reached a step, in order."""
    found: list[Recovery] = []
    again = 0
    for before, after in zip(attempts, attempts[1:], strict=False):
        again += before.lost
        seconds = _seconds(before, after)
        if seconds is not None:
            found.append(Recovery(after.number, seconds, again))
        if after.begun_at is not None:
            again = 0
    return tuple(found)


def _seconds(before: AttemptAccount, after: AttemptAccount) -> dict[str, float] | None:
    first = next((place for place, span in enumerate(after.spans) if span.last > span.first), None)
    if after.opens or first is None or before.noticed is None or before.ended is None:
        return None
    # The interval of the first step may have further ones.
    spent = total(span.seconds for span in after.spans[: first + 1])
    starting = {kind.value: spent.get(kind, 0.0) for kind in STARTING}
    rest = sum(seconds for kind, seconds in spent.items() if kind not in (*STARTING, *_STEPPING))
    parts = {ENDING: before.ended - before.noticed, DELAY: max(0.0, after.since - before.ended)}
    return {**parts, **starting, OTHER: max(0.0, rest)}
