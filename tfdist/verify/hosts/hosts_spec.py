"""Options of `tfdist verify --kill --hosts`, checked."""

from __future__ import annotations

from dataclasses import dataclass

from tfdist.errors import UsageError
from tfdist.verify.target_spec import TargetSpec


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
