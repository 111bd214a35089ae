"""Summary of a checkpoint: where the training was, and what was trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tfdist.order.position import Position
from tfdist.rundir.json_record import JsonRecord

_COUNTS = ("epoch", "step", "total", "seed", "batch_size", "samples", "workers", "replicas")
_FIT_FIELDS: Mapping[str, Any] = {
    "mark": str,
    "after": str,
    "first_epoch": int,
    "stopped": bool,
    "data": Mapping,
    "optimizers": list,
    "callbacks": Mapping,
}
"""Types of the record of a script's `fit`."""
_MAPPINGS = ("logs", "metrics", "record", "config", "versions", "order")


@dataclass(frozen=True)
class CheckpointSummary(JsonRecord):
    """The summary of a checkpoint, a JSON file next to its arrays.

    Attributes:
        epoch: The epoch of the training, from 0.
        step: Steps of the epoch that are done.
        total: Steps of the run that are done.
        seed: The run's seed.
        batch_size: Samples of a global batch.
        samples: Samples of an epoch.
        workers: The number of workers that trained.
        replicas: The number of their replicas.
        time: When it was made, in seconds since 1970 (UTC).
        variables: Shape and dtype of each variable in the file of weights: the model's, then the optimizer's.
        logs: The logs of the last step, by name.
        metrics: The metrics of the epoch at whose end it was made, by name; empty within an epoch.
        record: The run's record of its epochs so far.
        config: The config of the run.
        versions: Package -> version.
        order: What else the order of the samples depends on, by name.
        job: The job that made it, a new one with every `tfdist train`; empty without a launcher.
        kernels: By which kernels its replicas computed, as `--kernels` calls them; empty on GPUs, and where that is not
            known.
        teacher: What tells the teacher of `fit.distill` from others; empty without one, and for one that code makes.
    """

    epoch: int
    step: int
    total: int
    seed: int
    batch_size: int
    samples: int
    workers: int
    replicas: int
    time: float
    variables: Sequence[Sequence[Any]] = ()
    logs: Mapping[str, float] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    record: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    order: Mapping[str, Any] = field(default_factory=dict)
    job: str = ""
    kernels: str = ""
    teacher: str = ""

    def __post_init__(self) -> None:
        """Checks the types that a file may have otherwise.

        Raises:
            ValueError: A field is not what its name says.
        """
        counts = {name: getattr(self, name) for name in _COUNTS}
        wrong = [name for name, value in counts.items() if not isinstance(value, int) or value < 0]
        wrong += [name for name in _MAPPINGS if not isinstance(getattr(self, name), Mapping)]
        wrong += [name for name in ("time",) if not isinstance(self.time, int | float)]
        wrong += [name for name in ("kernels", "teacher") if not isinstance(self.kernels, str)]
        if wrong:
            raise ValueError(f"{', '.join(wrong)} of another type")
        for shape, dtype in self.variables:
            if not isinstance(dtype, str) or not all(isinstance(size, int) for size in shape):
                raise ValueError(f"variables hold {[shape, dtype]!r:.100}")

    def check(self) -> None:
        """Checks what is restored from the record, which a training would meet in the middle of its resume."""
        history, lines = self.record.get("history", {}), self.record.get("lines", ())
        if not isinstance(history, Mapping) or not all(map(_are_numbers, history.values())):
            raise ValueError("a history that is not of numbers")
        if not isinstance(lines, list | tuple) or not all(isinstance(line, str) for line in lines):
            raise ValueError("lines of metrics that are no texts")
        fit = self.record.get("fit")
        if fit is not None and not (isinstance(fit, Mapping) and _has_types(fit, _FIT_FIELDS)):
            raise ValueError("a record of fit that is none")

    @property
    def position(self) -> Position:
        """The position of the training."""
        return Position(self.epoch, self.step)

    @property
    def last_epoch(self) -> int:
        """The epoch, from 0, of the last step; the next one has not begun where the checkpoint is of an epoch's end."""
        return max(0, self.epoch - 1) if self.step == 0 else self.epoch


def _are_numbers(values: Any) -> bool:
    return isinstance(values, list | tuple) and all(isinstance(value, int | float | None) for value in values)


def _has_types(content: Mapping[str, Any], types: Mapping[str, Any]) -> bool:
    return all(isinstance(content.get(name), kind) for name, kind in types.items())
