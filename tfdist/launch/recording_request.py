"""Request of `tfdist verify` that a run is recorded, on a number of replicas and for a number of steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfdist.errors import UsageError


@dataclass(frozen=True)
class RecordingRequest:
    """A request for a recording: what is recorded, and how the run differs from any other.

    Attributes:
        directory: Where each worker writes its recording; it exists on every worker's machine.
        steps: Training steps after which the run ends.
        replicas: Replicas of the whole job: on physical GPUs where there are enough, else on logical devices.
        precision: The Keras dtype policy to use, whatever the target sets; None leaves it to the target.
        perturbed: Whether the weights of each model are changed by about a rounding error before its first step, on one
            replica.
    """

    directory: str
    steps: int
    replicas: int = 1
    precision: str | None = None
    perturbed: bool = False

    def __post_init__(self) -> None:
        if self.steps < 1 or self.replicas < 1:
            raise UsageError(
                "A recording has at least one step and one replica. "
                f"Received: steps={self.steps}, replicas={self.replicas}"
            )

    @classmethod
    def of(cls, fields: Mapping[str, Any] | None) -> RecordingRequest | None:
        """The request with these fields, as `dataclasses.asdict` makes them; None for None."""
        return None if fields is None else cls(**fields)

    def file(self, index: int) -> Path:
        """The recording of worker `index`."""
        return Path(self.directory) / f"worker-{index}.npz"
