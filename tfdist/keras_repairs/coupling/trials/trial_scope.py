"""Tries out the user's code on made-up values, without leaving a trace."""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections.abc import Callable
from typing import TypeVar

import keras
import tensorflow as tf

from tfdist.keras_repairs.base import global_seeds, tensorflow_seeds, thread_attributes
from tfdist.keras_repairs.base.context_variables import changing
from tfdist.keras_repairs.base.replica_step import alone, tried_out
from tfdist.keras_repairs.coupling.trials.split_comparison import ROWS
from tfdist.keras_repairs.coupling.trials.steps.step_capture import not_capturing
from tfdist.keras_repairs.coupling.trials.trial_notes import TRIAL_SCOPE
from tfdist.keras_repairs.random_numbers import python_draws
from tfdist.runtime import random_state
from tfdist.runtime.transport.emulated_replicas import not_emulated

Result = TypeVar("Result")


def on_part(part: slice) -> contextlib.AbstractContextManager[None]:
    """The code inside is tried out on these rows of the whole batch, as on a replica that has them."""
    return changing(TRIAL_SCOPE, rows=len(range(ROWS)[part]), total=ROWS)


def on_batch(rows: int) -> contextlib.AbstractContextManager[None]:
    """The code inside is tried out on a whole batch of so many rows."""
    return changing(TRIAL_SCOPE, rows=rows, total=rows)


def rows_on_trial() -> int:
    """Returns how many rows the code that is tried out has: those of the whole batch, or of a part."""
    return TRIAL_SCOPE.get().rows


def share_on_trial() -> float:
    """Returns which part of the whole batch the code that is tried out has; 1 outside of trials."""
    scope = TRIAL_SCOPE.get()
    return scope.rows / scope.total


def in_trial(function: Callable[[], Result]) -> Result:
    """Calls `function` at once, on the CPU and as on one replica; no variable of Keras and no random state changes.

    What it assigns to variables of Keras is seen inside alone. It runs in a thread of its own, which has no part in
    the step that is being traced: TensorFlow keeps graph, strategy and gradient tapes for each thread, and a replica
    that tries something out must not wait for the others in a collective. On the CPU all workers find the same.

    Raises:
        UnsupportedError: `function` draws from generators of NumPy's or Python's.
        Exception: What it raises.
    """
    outcome: list[Result] = []
    errors: list[BaseException] = []

    def tried() -> None:
        try:
            with (
                not_emulated(),
                not_capturing(),
                tried_out(),
                alone(),
                random_state.kept(),
                python_draws.refused_in_trial(),
                global_seeds.borrowing(),
                tensorflow_seeds.drawing_from(None),
                tf.device("CPU:0"),
                keras.StatelessScope(),
            ):
                outcome.append(function())
        except BaseException as error:  # It belongs to the caller.
            errors.append(error)

    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=[thread_attributes.inherited(tried)], name="tfdist-trial")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return outcome[0]
