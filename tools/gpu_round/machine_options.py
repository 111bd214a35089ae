"""How two workers and two replicas get the GPUs that there are, as options of `tfdist train`."""

from __future__ import annotations

from dataclasses import dataclass

_MIB_OF_ONE = "2500"
"""Of each worker and each logical GPU where a dozen jobs are on one GPU."""


@dataclass(frozen=True)
class Machine:
    """The machine of a round.

    Attributes:
        gpus: Its GPUs; without one all runs on CPUs.
        emulated: Whether these are emulated on CPUs.
    """

    gpus: int
    emulated: bool = False

    @property
    def one(self) -> tuple[str, ...]:
        """One device."""
        return ("--devices", "0") if self.gpus else ()

    @property
    def workers(self) -> tuple[str, ...]:
        """Two workers: a GPU each where there are two, else both on one."""
        if self.gpus > 1:
            return ("--nproc", "2", "--devices", "0,1")
        shared = ("--devices", "0", "--share-gpu") if self.gpus else ()
        return ("--nproc", "2", *shared)

    @property
    def replicas(self) -> tuple[str, ...]:
        """Two replicas of one process, on logical devices of one GPU, or of the CPU."""
        return ("--nproc", "1", *self.one, "--logical-devices", "2")

    @property
    def side_by_side(self) -> tuple[str, ...]:
        """What jobs of workers or replicas take besides, where others run on the same GPU."""
        return ("--memory-limit", _MIB_OF_ONE) if self.gpus else ()
