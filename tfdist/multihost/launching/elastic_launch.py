"""The work of a launch for an elastic run: brings lost hosts back, and starts all again where the chief's was lost."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class ElasticLaunch:
    """The options of an elastic run that concern the launch.

    Attributes:
        run_dir: The run directory, the same in every start.
        arguments_again: The arguments of `tfdist train` in every start but the first, as `HostLaunch.arguments`.
        rejoin_timeout: Seconds that the host with the chief is waited for.
        max_restarts: How often all hosts start again without progress between.
    """

    run_dir: str
    arguments_again: tuple[str, ...]
    rejoin_timeout: float = 60.0
    max_restarts: int = 3


@dataclass(frozen=True)
class ChiefRestarts:
    """The restarts of a run whose chief's host was lost.

    Attributes:
        most: Restarts without progress that are allowed.
        used: Restarts since there was progress.
        best: The greatest step that the run has come to.
    """

    most: int
    used: int = 0
    best: int = 0

    def next(self, step: int) -> ChiefRestarts | None:
        """The same after one more restart; None where no further one is allowed.

        Args:
            step: How far the run is, as its directory tells.
        """
        used = 0 if step > self.best else self.used
        if used >= self.most:
            return None
        return replace(self, used=used + 1, best=max(step, self.best))
