"""Tries code out as on one replica with all rows, and as on two replicas with a part of them each.

The two run the very code of real replicas, with the same exchanges, sums and gathered rows; so what is exact by another
repair (gathered losses, functions and layers, losses that are divided by what the global batch has) is so here, too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.keras_repairs.base import thread_attributes
from tfdist.keras_repairs.base.context_variables import changing
from tfdist.keras_repairs.base.replica_step import ReplicaStep, as_replica
from tfdist.keras_repairs.base.step_records import BatchShare, Mode, StepTrace
from tfdist.keras_repairs.coupling import call_scope
from tfdist.keras_repairs.coupling.trials.kept_state import KeptState
from tfdist.keras_repairs.coupling.trials.kept_tensors import KeptTensors
from tfdist.keras_repairs.coupling.trials.split_comparison import UNEQUAL, Split
from tfdist.keras_repairs.coupling.trials.trial_notes import TRIAL_SCOPE
from tfdist.keras_repairs.coupling.trials.trial_scope import on_batch
from tfdist.keras_repairs.draw_slices.draw_scope import DrawLog, recording_draws, replaying_draws
from tfdist.keras_repairs.sharded_parameters.cut_variable import is_cut_variable, read_whole
from tfdist.runtime.transport.emulated_replicas import OwnState, run_emulated

Result = TypeVar("Result")

_AS_IT_IS = Mode()


class Assignments(keras.StatelessScope):
    """Keeps what is assigned to Keras's variables, which have the values that they have otherwise.

    Keras asks its scope for the value of any variable that has a regularizer, and not only of those that it holds.

    Attributes:
        variables: Those that something was assigned to, wherever the user keeps them, in the order in which it was.
    """

    def __init__(self) -> None:
        super().__init__()
        self.variables: list[Any] = []

    def add_update(self, update: tuple[Any, Any]) -> None:
        """Notes what Keras assigns to a variable."""
        variable, _ = update
        if all(variable is not known for known in self.variables):
            self.variables.append(variable)
        super().add_update(update)

    def get_current_value(self, variable: Any) -> Any:
        """The value of a variable inside of the scope."""
        value = self.assigned(variable)
        if value is None:
            return read_whole(variable) if is_cut_variable(variable) else variable._value
        if not variable.trainable or not tf.as_dtype(value.dtype).is_floating:
            return value
        # A gradient by the variable is that by what was assigned to it.
        before = read_whole(variable) if is_cut_variable(variable) else tf.convert_to_tensor(variable._value)
        return tf.stop_gradient(value) + (before - tf.stop_gradient(before))

    def assigned(self, variable: Any) -> tf.Tensor | None:
        """Returns what was assigned to a variable; None where nothing was."""
        value: tf.Tensor | None = self.state_mapping.get(id(variable))
        return value

    def assigned_arrays(self, variables: Sequence[Any]) -> dict[str, NDArray]:
        """Returns what was assigned to some variables, by path, but for the seeds of random numbers."""
        return {
            variable.path: np.asarray(value)
            for variable in variables
            if "seed_generator_state" not in variable.path
            if (value := self.assigned(variable)) is not None
        }


@dataclass(frozen=True)
class OneAndTwo(Generic[Result]):
    """The results of code on one replica and on two.

    Attributes:
        whole: Of the whole batch.
        parts: Of its parts, on a replica each.
        draws_several: Whether it drew several times the rows of the batch.
    """

    whole: Result
    parts: list[Result]
    draws_several: bool


def is_in_replica_trial() -> bool:
    """Returns whether code is being tried out as on one replica and on two.

    BatchNormalization, which another repair makes exact, then takes the statistics that it has: those of five rows that
    are made up are such that a network of many layers would blow rounding up to what looks like another result.
    """
    return TRIAL_SCOPE.get().is_of_replicas


def on_one_and_two(
    function: Callable[[slice, Assignments], Result],
    kept: KeptState,
    *,
    users: bool,
    mode: Mode = _AS_IT_IS,
    split: Split = UNEQUAL,
) -> OneAndTwo[Result]:
    """Calls `function` with the rows that it is to work on, and a scope that has what it assigns to variables.

    Call it within `in_trial`.

    Args:
        function: Called three times.
        kept: What is restored each time. Each replica has values of its own of the variables in it.
        users: Whether it is a step of the user's own, whose gradients are weighted by samples in the end.
        mode: How the two replicas share it out.
        split: Which rows they have.

    Raises:
        Diverged: The two replicas do not exchange the same things.
        Exception: What `function` raises.
    """
    log = DrawLog()
    with changing(TRIAL_SCOPE, is_of_replicas=True):
        with (
            kept.restored(),
            on_batch(split.rows),
            recording_draws(log),
            Assignments() as scope,
            call_scope.collecting(),
        ):
            whole = function(slice(split.rows), scope)
        steps = [step_of_rows(part, users=users, mode=mode, total=split.rows) for part in split.parts]
        run = [
            functools.partial(_on_part, function, part, log, step, split.rows)
            for part, step in zip(split.parts, steps, strict=True)
        ]
        with kept.restored():
            parts = run_emulated([thread_attributes.inherited(run_part) for run_part in run], _OwnState(kept))
        return OneAndTwo(whole, parts, log.has_several)


class _OwnState:
    """An emulated replica's own state, as a real one has: values of variables, and tensors on objects."""

    def __init__(self, kept: KeptState) -> None:
        self._parts: tuple[OwnState, ...] = (kept.variable_values, *(KeptTensors(root) for root in kept.roots))

    def read(self) -> list[Any]:
        """Returns what it has now."""
        return [part.read() for part in self._parts]

    def write(self, state: list[Any]) -> None:
        """Gives it back."""
        for part, own in zip(self._parts, state, strict=True):
            part.write(own)


def _on_part(
    function: Callable[[slice, Assignments], Result], part: slice, log: DrawLog, step: ReplicaStep, total: int
) -> Result:
    first, stop, _ = part.indices(total)
    with (
        tf.device("CPU:0"),
        as_replica(step),
        replaying_draws(log, first, stop - first, total, stacks=step.mode.stacks),
        Assignments() as scope,
    ):
        return function(part, scope)


def step_of_rows(part: slice, *, users: bool, mode: Mode, total: int) -> ReplicaStep:
    """The step of one of two emulated replicas that has these rows of `total`."""
    first, stop, _ = part.indices(total)
    samples, start, of_all, counting = (tf.constant(count, tf.int64) for count in (stop - first, first, total, 2))
    share = BatchShare(samples, samples, start, of_all, counting, stop - first)
    # What code computes from the results of metrics is to be seen.
    return ReplicaStep(share, users, mode, StepTrace(sums_results=True))
