"""Layers within a layer that is tried out, whose results on a part of a batch are rows of those on the whole batch.

Some layers inside of another take a row by the others of its batch, and are exact on replicas nevertheless: batch
statistics, layers and functions that are gathered themselves. Called again with a part of the rows they would give
others, and the layer around them would look as if it coupled rows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfdist.keras_repairs.base.batch_rows import changed_axis
from tfdist.keras_repairs.base.context_variables import changing
from tfdist.keras_repairs.base.tensor_attributes import changed
from tfdist.keras_repairs.coupling.trials.kept_state import KeptState
from tfdist.keras_repairs.coupling.trials.split_comparison import ROWS, is_same, tolerance_in, tolerance_of
from tfdist.keras_repairs.coupling.trials.trial_notes import TRIAL_SCOPE
from tfdist.keras_repairs.coupling.trials.trial_scope import on_part
from tfdist.keras_repairs.draw_slices.draw_scope import DrawLog, ignoring_draws, recording_draws, replaying_draws

Function = Callable[..., Any]


class RowsDiffer(Exception):
    """A layer inside was called with other rows for a part of a batch than for all of it."""


@dataclass(frozen=True)
class _Call:
    inputs: list[Any]
    outputs: Any


class Recording:
    """The calls of such layers while a layer runs on the whole batch, and again on its parts.

    Args:
        layer: The layer that is tried out.
    """

    def __init__(self, layer: Any) -> None:
        self.layer = layer
        self._calls: list[_Call] = []
        self._variables: set[int] = set()
        self._part: slice | None = None
        self._done = 0
        self._decided: list[tuple[Any, bool]] = []
        self._met = 0
        self._draws = DrawLog()

    @contextlib.contextmanager
    def of(self, part: slice) -> Iterator[None]:
        """While the layer runs on these rows: the whole batch first, whose random numbers the parts then take."""
        self._part = None if part == slice(None) else part
        self._done = self._met = 0
        with changing(TRIAL_SCOPE, recording=self), on_part(part), self._draws_of(part):
            yield

    def _draws_of(self, part: slice) -> contextlib.AbstractContextManager[None]:
        if self._part is None:
            return recording_draws(self._draws)
        first, last, _ = part.indices(ROWS)
        return replaying_draws(self._draws, first, last - first, ROWS)

    def has_variable(self, variable: Any) -> bool:
        """Returns whether a variable is one of a recorded layer, which assigns nothing on parts."""
        return id(variable) in self._variables

    def takes(self, layer: Any, decide: Callable[[], bool]) -> bool:
        """Returns whether the calls of a layer are recorded, as was decided while it ran on the whole batch.

        By the sizes of a part another dimension might look like that of the rows.

        Raises:
            RowsDiffer: Other layers are called for a part of the batch.
        """
        if self._part is None:
            self._decided.append((layer, decide()))
            return self._decided[-1][1]
        if self._met == len(self._decided) or self._decided[self._met][0] is not layer:
            raise RowsDiffer
        self._met += 1
        return self._decided[self._met - 1][1]

    def call(self, layer: Any, call: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls `layer`, or a function that is gathered, and records it, or returns rows of what was recorded.

        Raises:
            RowsDiffer: The inputs are not rows of those that were recorded.
        """
        inputs = [leaf for leaf in tf.nest.flatten((args, kwargs)) if isinstance(leaf, tf.Tensor)]
        if self._part is None:
            # What it calls itself is its own affair.
            with changing(TRIAL_SCOPE, recording=None), ignoring_draws():
                outputs = call(*args, **kwargs)
            self._calls.append(_Call(inputs, outputs))
            self._variables.update(map(id, [*getattr(layer, "variables", ()), *KeptState(layer).variables]))
            return outputs
        if self._done == len(self._calls):
            raise RowsDiffer
        recorded = self._calls[self._done]
        self._done += 1
        is_layer = isinstance(layer, keras.Layer)
        tolerance = tolerance_of(layer) if is_layer else tolerance_in([leaf.dtype.name for leaf in inputs])
        if len(recorded.inputs) != len(inputs):
            raise RowsDiffer
        for before, now in zip(recorded.inputs, inputs, strict=True):
            if not is_same(np.asarray(self._rows(before, changed_axis(before, now))), np.asarray(now), tolerance):
                raise RowsDiffer
        outputs = tf.nest.flatten(recorded.outputs)
        like = outputs if all(map(_may_have_rows_first_alone, outputs)) else self._of_part(call, args, kwargs)
        own = [
            self._rows(leaf, 0 if leaf is of_part else changed_axis(leaf, of_part))
            for leaf, of_part in zip(outputs, like, strict=True)
        ]
        return tf.nest.pack_sequence_as(recorded.outputs, own)

    def _of_part(self, call: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """Returns what the layer returns for a part by itself, of which the sizes are of interest."""
        with changing(TRIAL_SCOPE, recording=None), ignoring_draws(), keras.StatelessScope():
            return tf.nest.flatten(call(*args, **kwargs))

    def _rows(self, leaf: Any, axis: int | None) -> Any:
        if axis is None or not isinstance(leaf, tf.Tensor) or len(leaf.shape) <= axis or leaf.shape[axis] % ROWS:
            return leaf
        each = leaf.shape[axis] // ROWS
        assert self._part is not None, "the whole batch has all rows"
        first, last, _ = self._part.indices(ROWS)
        rows = (slice(None),) * axis + (slice(first * each, last * each),)
        return changed(leaf, lambda tensor: tensor[rows])


def _may_have_rows_first_alone(leaf: Any) -> bool:
    """Returns whether no other axis of a tensor than the first may be that of the rows, by its size."""
    return not isinstance(leaf, tf.Tensor) or all(size % ROWS for size in leaf.shape[1:])


def current_recording() -> Recording | None:
    """The recording of the layer that is being tried out; None outside of a trial."""
    recording = TRIAL_SCOPE.get().recording
    assert recording is None or isinstance(recording, Recording)
    return recording


def is_exact_by_itself(layer: Any) -> bool:
    """Returns whether a layer of Keras takes rows by one another, which another repair makes exact."""
    if isinstance(layer, keras.layers.BatchNormalization):
        return True
    return type(layer) in (keras.layers.Equalization, keras.layers.RandAugment)
