"""Elastic options: how few workers a job may go on with, and how long it waits for others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tfdist.cluster.membership import Membership
from tfdist.errors import UsageError
from tfdist.launch.worker_options import check_seconds

REJOIN_SECONDS = 60.0
MAX_RESTARTS = 3
"""Unless `--max-restarts` says otherwise: a job that cannot restart could lose no host."""


@dataclass(frozen=True)
class ElasticOptions:
    """The options of an elastic job: what it may do.

    Attributes:
        min_workers: With fewer workers it ends.
        rejoin_timeout: Seconds that it waits for a host that is lost, and for others once there are enough.
        grow: Whether it stops at a step, with a checkpoint, to take in a host that has come.
        is_fenced: Whether no two starts of the run can go on at once, as whoever starts them knows: all are on one
            machine, whose disk has the checkpoints.

    Raises:
        UsageError: A value is not one that its option takes.
    """

    min_workers: int
    rejoin_timeout: float = REJOIN_SECONDS
    grow: bool = False
    is_fenced: bool = False

    def __post_init__(self) -> None:
        check_seconds("rejoin_timeout", self.rejoin_timeout)
        if self.min_workers < 1:
            raise UsageError(f"--min-workers must be 1 or more. Received: --min-workers {self.min_workers}")

    def check(self, membership: Membership, is_fenced: Callable[[], bool] = lambda: False) -> None:
        """Checks that the list of candidates can lose a host, and that no two parts of it can go on without each other.

        Args:
            is_fenced: Says whether two starts of the run would know of each other by the store of its checkpoints.

        Raises:
            UsageError: It cannot, or they could.
        """
        count = membership.num_workers
        given = f"Received: --min-workers {self.min_workers} with {count} worker(s)"
        if membership.cluster is None or not membership.remote:
            raise UsageError(
                "--min-workers lets a job of several hosts go on when one is lost, and all workers of this one are on "
                f"this host. Expected --workers with entries of several hosts. {given}. Leave --min-workers out: "
                "--max-restarts N restarts workers of this host that fail."
            )
        if self.min_workers > count:
            raise UsageError(
                f"--min-workers is the fewest of the workers in the list. Expected 1 to {count}. {given}."
            )
        if 2 * self.min_workers <= count and not (self.is_fenced or is_fenced()):
            raise UsageError(
                "--min-workers must be more than half of the list: where the network is cut in two, or a scheduler "
                "starts the chief a second time, both halves would go on, with the same run. Expected "
                f"--min-workers {count // 2 + 1} or more, or checkpoint.directory on s3:// in a store that lets one of "
                f"several writers create an object. {given}."
            )
