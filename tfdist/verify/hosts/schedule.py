"""Schedule of losses and returns, drawn from a seed: which hosts are lost after which step; and its options."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from tfdist.errors import UsageError
from tfdist.training.probes.probe_files import Trace
from tfdist.verify.killing.kill_plan import steps_by_checkpoint
from tfdist.verify.runs import TargetSpec

CHIEF = 0
Kind = TypeVar("Kind")
EventKind = Literal["lost", "back", "restarted", "chief lost"]
"""The kind of an event for hosts at a step:

- lost: they stay away; the others go on without them
- back: they come back, and are taken in
- restarted: they are lost, and their launchers start again at once
- chief lost: the chief's host is lost, by which the job ends; it is started again on all hosts
"""


@dataclass(frozen=True)
class HostEvent:
    """An event for hosts while the training is held after a step.

    Attributes:
        kind: What happens.
        hosts: To whom, by number from 0, which is the chief's; ascending.
        is_cut: Whether their links are cut before they are killed, so that no connection breaks.
    """

    kind: EventKind
    hosts: tuple[int, ...]
    is_cut: bool = False

    @property
    def text(self) -> str:
        """The event in words: `host 2 is lost`."""
        named = f"host{'s' if len(self.hosts) > 1 else ''} {', '.join(map(str, self.hosts))}"
        verb = "are" if len(self.hosts) > 1 else "is"
        text = {
            "lost": f"{named} {verb} lost",
            "back": f"{named} {verb} back",
            "restarted": f"{named} {verb} lost and starts again",
            "chief lost": f"{named}, the chief's, is lost; all start again",
        }[self.kind]
        return f"{text} (link cut)" if self.is_cut else text


def draw_events(hosts: int, least: int, kills: int, seed: int, *, cut: bool = False) -> tuple[HostEvent, ...]:
    """Draws what happens to the hosts.

    The kinds of loss are dealt equally, in an order that is drawn, so that a few losses show all that can happen. Hosts
    that stay away come back by the next loss at the latest where there would be too few without them; else they may
    stay away until the end, or until the job starts again.

    Args:
        least: With fewer the job may not go on.
        kills: How often hosts are lost.
        cut: Whether links are cut, too: in every second loss.

    Returns:
        The events in their order: as many losses as `kills`, with the returns between them.
    """
    draw = random.Random(f"hosts {seed}")
    away: tuple[int, ...] = ()
    events: list[HostEvent] = []
    kinds: tuple[EventKind, ...] = ("lost", "chief lost", "restarted") if least < hosts else ("chief lost", "restarted")
    cuts = _deal((True, False), kills, draw) if cut else [False] * kills
    for kind, is_cut in zip(_deal(kinds, kills, draw), cuts, strict=True):
        if away and (hosts - len(away) <= least or draw.random() < 0.5):
            events.append(HostEvent("back", away))
            away = ()
        present = [host for host in range(1, hosts) if host not in away]
        number = draw.randint(1, hosts - len(away) - least) if kind == "lost" else 1
        gone = (CHIEF,) if kind == "chief lost" else tuple(sorted(draw.sample(present, number)))
        events.append(HostEvent(kind, gone, is_cut))
        away = () if kind == "chief lost" else away if kind == "restarted" else tuple(sorted({*away, *gone}))
    # One loss is to show a return as well.
    if away and (kills == 1 or draw.random() < 0.5):
        events.append(HostEvent("back", away))
    return tuple(events)


def draw_steps(trace: Trace, events: int, seed: int) -> tuple[int, ...]:
    """Draws after which steps things happen, such that each attempt resumes from a later checkpoint than those before.

    Returns:
        The steps, ascending.

    Raises:
        UsageError: The run is too short for so many, or makes too few checkpoints.
    """
    between = steps_by_checkpoint(trace)
    if len(between) < events:
        raise UsageError(
            f"The run is too short for what is to happen to its hosts: that is {events} losses and returns, and each "
            f"start of the workers must make a checkpoint of its own, so that the next begins later. Expected {events} "
            f"checkpoint(s) before the last step. Received: {len(between) or 'none'}, in {trace.ended} steps. Give "
            "fewer --kills, more epochs, or checkpoints more often: in a config --set checkpoint.every_steps=N; "
            "docs/checkpoints.md says how a script makes them."
        )
    draw = random.Random(f"steps {seed}")
    return tuple(draw.choice(between[made]) for made in sorted(draw.sample(sorted(between), events)))


def _deal(kinds: Sequence[Kind], number: int, draw: random.Random) -> list[Kind]:
    """So many of the kinds, each as often as the others, or once more; in an order that is drawn."""
    dealt = [kinds[place % len(kinds)] for place in range(number)]
    draw.shuffle(dealt)
    return dealt


@dataclass(frozen=True)
class HostsSpec(TargetSpec):
    """Options of `tfdist verify --kill --hosts`. The seed is that of every run and of the schedule of losses.

    Attributes:
        hosts: The hosts, with one worker each.
        kills: How often hosts are lost.
        min_workers: With fewer the job may not go on; None for more than half of the hosts.
        cut: Whether some hosts lose their link first, so that nothing tells the others that they are gone.
        steps: Training steps; None for as many as the target trains.
        tolerance: The relative difference that passes where the number of workers has changed; None for what rounding
            does on another number of workers, as a run on one shows.

    Raises:
        UsageError: There cannot be so many.
    """

    hosts: int = 3
    kills: int = 3
    min_workers: int | None = None
    cut: bool = False
    steps: int | None = None
    tolerance: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 2 <= self.hosts <= 250:
            raise UsageError(
                "One host that is lost leaves nobody, and this machine is to carry all of them. Expected --hosts 2 to "
                f"250. Received: --hosts {self.hosts}"
            )
        if self.min_workers is not None and not 1 <= self.min_workers <= self.hosts:
            raise UsageError(
                f"--min-workers is the fewest of the hosts that go on. Expected 1 to {self.hosts}, with --hosts "
                f"{self.hosts}. Received: --min-workers {self.min_workers}"
            )

    @property
    def least(self) -> int:
        """The fewest workers that the job goes on with."""
        return self.hosts // 2 + 1 if self.min_workers is None else self.min_workers
