"""Request that a run is only rehearsed: a few steps of each `fit`, or of the first one, and nothing of it is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfdist.errors import UsageError


@dataclass(frozen=True)
class RehearsalRequest:
    """A request for a rehearsal: how a run differs that is only rehearsed.

    Attributes:
        folder: Where Keras writes what it would write elsewhere; it exists on this machine and is removed at the end.
        steps: Executions of training, and of each evaluation, after which a `fit` ends.
        plan_seconds: Seconds in which the first `fit` is to be planned; the run ends there. None for a run that goes
            on to its end, with the `callbacks` of each `fit`.
    """

    folder: str
    steps: int = 2
    plan_seconds: float | None = None

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise UsageError(f"A rehearsal has at least one step. Received: steps={self.steps}")

    @classmethod
    def of(cls, fields: Mapping[str, Any] | None) -> RehearsalRequest | None:
        """The request with these fields, as `dataclasses.asdict` makes them; None for None."""
        return None if fields is None else cls(**fields)

    @property
    def plans(self) -> bool:
        """True if the first `fit` is planned, and no callback of it is called."""
        return self.plan_seconds is not None

    @property
    def plan_file(self) -> Path:
        """The file with what the chief has found out of the first `fit` (JSON)."""
        return Path(self.folder) / "fit.json"
