"""File with the recording of one worker; it takes NumPy alone, so that the launcher can read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tfdist.training.probes import array_file


@dataclass(frozen=True)
class Moment:
    """The state of a training before its first step, or after one of its steps.

    Attributes:
        step: Steps trained so far, over all `fit`s of the process.
        fit: Which `fit`, from 0.
        values: Loss and metrics of the epoch so far, over the global batches; empty before the first step.
        gradient_norm: The norm of the gradients that the optimizers got since the moment before; None if unknown.
        data: The fingerprint of the samples of the step; None if unknown.
        weights: Path of each weight of the model -> some of its elements, 1-D, spread evenly.
        differences: Path -> the largest absolute difference between the copies of a weight on this worker's replicas,
            where there is one.
    """

    step: int
    fit: int
    values: Mapping[str, float] = field(default_factory=dict)
    gradient_norm: float | None = None
    data: float | None = None
    weights: Mapping[str, np.ndarray] = field(default_factory=dict)
    differences: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Recording:
    """One worker's moments, in order, and facts of its models and devices.

    Attributes:
        facts: In JSON's types; see `Recorder.write` for its keys.
        moments: The first one of every `fit` is that before its first step.
    """

    facts: Mapping[str, Any]
    moments: Sequence[Moment]

    def part(self, fits: range) -> Recording:
        """The moments of some `fit`s, in a row, as if the process had trained nothing else."""
        own = [moment for moment in self.moments if moment.fit in fits]
        first = own[0].step if own else 0
        moments = tuple(replace(m, step=m.step - first, fit=m.fit - fits.start) for m in own)
        return Recording({**self.facts, "models": self.facts["models"][fits.start : fits.stop]}, moments)

    def write(self, path: Path) -> None:
        """Makes or replaces the file. Raises `RunDirError` when it cannot be written."""
        arrays: dict[str, np.ndarray] = {}
        moments = []
        for number, moment in enumerate(self.moments):
            arrays |= {f"{number}/{place}": array for place, array in enumerate(moment.weights.values())}
            moments.append({**vars(moment), "weights": list(moment.weights)})
        array_file.write(path, {"facts": self.facts, "moments": moments}, arrays)

    @classmethod
    def read(cls, path: Path) -> Recording | None:
        """The recording that a worker of this version wrote; None when there is none."""
        found = array_file.read(path)
        if found is None:
            return None
        content, arrays = found
        return cls(content["facts"], tuple(_moment(fields, i, arrays) for i, fields in enumerate(content["moments"])))


def _moment(fields: Mapping[str, Any], number: int, arrays: Mapping[str, np.ndarray]) -> Moment:
    weights = {path: arrays[f"{number}/{place}"] for place, path in enumerate(fields["weights"])}
    return Moment(**{**fields, "weights": weights})
