"""Sink of predictions: takes the outputs of each step, and keeps them on the disk part by part."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfdist.training.inference.part_store import PartStore
from tfdist.training.model_outputs.output_columns import OutputColumn, column_of
from tfdist.training.model_outputs.step_outputs import arrays_of

PART_BYTES = 32 << 20
"""What is kept in memory until a part is written, about."""

PART_SECONDS = 30.0
"""How long predictions are kept in memory alone: what a kill may cost, besides a step."""

_TEXT_BYTES = 64
"""Memory of a text, about."""


def _bytes_of(array: NDArray) -> int:
    return array.size * _TEXT_BYTES if array.dtype.hasobject else array.nbytes


class PredictionSink:
    """Takes predictions in the order of the samples.

    Args:
        store: Where they are kept; those of the samples before are there.
        names: The names of the outputs; see `arrays_of`.
        sizes: The samples of the next execution, by the samples before it.
        part_samples: After how many samples a part is complete; None for as many as take `PART_BYTES`.
        taken: Called after each step with the samples that have been predicted, from the first one on.
        check: Called with the outputs before any are kept; what it raises refuses them.
        clock: Seconds, never going back.
    """

    def __init__(
        self,
        store: PartStore,
        names: Sequence[str],
        sizes: Callable[[int], int],
        part_samples: int | None,
        taken: Callable[[int], None],
        check: Callable[[Sequence[OutputColumn]], None] = lambda columns: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._names, self._sizes, self._part_samples = store, names, sizes, part_samples
        self._taken, self._check, self._clock = taken, check, clock
        self._steps: list[Mapping[str, NDArray]] = []
        self._done = store.done
        self._bytes, self._begun = 0, clock()

    def take(self, outputs: Any) -> None:
        """Takes the outputs of the next execution.

        Raises:
            TfdistError: They cannot be kept: see `arrays_of` and `PartStore.add`.
        """
        samples = self._sizes(self._done)
        if not self._steps:
            self._begun = self._clock()
        arrays = arrays_of(outputs, self._names, samples)
        if self._done == self._store.done:
            self._check([column_of(name, array) for name, array in arrays.items()])
        self._steps.append(arrays)
        self._done += samples
        self._bytes += sum(map(_bytes_of, arrays.values()))
        if self._is_complete():
            self.flush()
        self._taken(self._done)

    def flush(self) -> None:
        """Keeps what has been taken."""
        if self._steps:
            steps, self._steps, self._bytes = self._steps, [], 0
            self._store.add({name: np.concatenate([step[name] for step in steps]) for name in steps[0]})

    def _is_complete(self) -> bool:
        if self._part_samples is not None and self._done - self._store.done >= self._part_samples:
            return True
        is_large = self._part_samples is None and self._bytes >= PART_BYTES
        return is_large or self._clock() - self._begun >= PART_SECONDS
