"""Generation: the members of an elastic job for as long as none is lost; a job of its own, and what that is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol, Self

from tfdist.cluster.cluster_spec import Address, Cluster
from tfdist.cluster.membership import Membership
from tfdist.errors import FormingError, TfdistError
from tfdist.launch.job_spec import JobSpec
from tfdist.launch.rendezvous.missing_workers import print_progress
from tfdist.launch.run_result import RunResult
from tfdist.launch.signals import Signals
from tfdist.net.line_socket import LineError

CHIEF = 0
FORMING_SECONDS = 30.0
"""Seconds that the launchers of a generation, which have all met the chief's before, may take to meet one another."""


class MemberGoneError(FormingError):
    """A member's launcher has left while they met: the others need not wait for it."""


@dataclass(frozen=True)
class Generation:
    """The facts that all launchers of a generation must know.

    Attributes:
        number: 1 for the first since the chief's launcher has started.
        members: Places of its workers in the list of candidates, ascending; the chief, 0, is one of them.
        chief_port: Where the chief's TensorFlow server listens: its port in the list stays the launcher's.

    Raises:
        ValueError: The members are not such places, or the port is none.
    """

    number: int
    members: tuple[int, ...]
    chief_port: int

    def __post_init__(self) -> None:
        numbers = [self.number, self.chief_port, *self.members]
        if not all(type(number) is int for number in numbers) or list(self.members) != sorted(set(self.members)):
            raise ValueError(f"members must be ascending numbers. Received: {self}")
        if self.number < 1 or not self.members or self.members[0] != CHIEF or not 0 < self.chief_port < 65536:
            raise ValueError(f"a generation has a number from 1, the chief and a port for it. Received: {self}")

    def to_message(self) -> dict[str, Any]:
        """The generation as it is sent."""
        return asdict(self)

    @classmethod
    def from_message(cls, content: Any) -> Self:
        """The generation that the chief's launcher sent.

        Raises:
            LineError: It is none.
        """
        try:
            return cls(content["number"], tuple(content["members"]), content["chief_port"])
        except (KeyError, TypeError, ValueError) as error:
            raise LineError(f"a message that is no generation: {error}") from None

    def membership(self, candidates: Membership) -> Membership:
        """Returns which of its workers this launcher starts.

        Args:
            candidates: The whole list, and which of its entries are this launcher's.

        Raises:
            LineError: None of them is, or the list has no such places.
        """
        cluster = candidates.cluster
        if cluster is None or self.members[-1] >= len(cluster) or not set(candidates.local) <= set(self.members):
            raise LineError(f"a generation without this launcher's workers {candidates.local}: {self.members}")
        addresses = [cluster.workers[index] for index in self.members]
        addresses[CHIEF] = replace(addresses[CHIEF], port=self.chief_port)
        place = {index: rank for rank, index in enumerate(self.members)}
        local = tuple(place[index] for index in candidates.local)
        machine = tuple(place[index] for index in candidates.machine if index in place)
        try:
            of_several = None if len(addresses) == 1 else Cluster(tuple(addresses))
            return Membership(of_several, local, machine, source=candidates.source)
        except TfdistError as error:
            raise LineError(f"a generation that is no cluster: {error}") from None


def chief_ports(candidates: Membership) -> list[int]:
    """The ports that the chief's TensorFlow server may have, in their order: those after its own in the list.

    Args:
        candidates: The whole list, as the chief's launcher sees it.
    """
    assert candidates.cluster is not None, "an elastic job has a list"
    workers = candidates.cluster.workers
    taken = {workers[index].port for index in candidates.machine}
    first: Address = workers[CHIEF]
    return [port for port in range(first.port + 1, min(first.port + 101, 65536)) if port not in taken]


class RunJob(Protocol):
    """Runs a generation, as `job.run_to_result` does."""

    def __call__(self, spec: JobSpec, signals: Signals) -> RunResult: ...


@dataclass(frozen=True)
class JobSteps:
    """The parts that an elastic job is made of; tests give fakes.

    Attributes:
        run: Runs one generation.
        report: Prints how one failed or was stopped.
        say: Prints a line.
    """

    run: RunJob
    report: Callable[[JobSpec, RunResult], None]
    say: Callable[[str], None] = print_progress


def job_of_generation(spec: JobSpec, membership: Membership, *, is_first: bool) -> JobSpec:
    """The job of one generation."""
    # All members are there: one that is not is lost, and need not be waited for as hosts that have yet to start.
    timeout = min(spec.start_timeout, FORMING_SECONDS)
    job = replace(spec, membership=membership, restarts=False, start_timeout=timeout, goes_on=not is_first)
    return job if is_first else replace(job, resume="auto", overwrite=False)
