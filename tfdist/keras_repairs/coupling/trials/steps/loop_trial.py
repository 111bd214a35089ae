"""Tries out what a loop of the user's own runs on each replica: do the gradients of two add up to those of one?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from tfdist.keras_repairs.base.replica_step import of_own_loop, replica_step
from tfdist.keras_repairs.coupling.trials.kept_state import KeptState
from tfdist.keras_repairs.coupling.trials.made_up_inputs import Inputs, Numbers, made_up
from tfdist.keras_repairs.coupling.trials.replica_trial import Assignments, on_one_and_two
from tfdist.keras_repairs.coupling.trials.split_comparison import OF_NETWORKS, TOLERANCE, UNEQUAL
from tfdist.keras_repairs.coupling.trials.steps.step_capture import capturing
from tfdist.keras_repairs.coupling.trials.steps.step_comparison import gradients_are_means
from tfdist.keras_repairs.coupling.trials.trial_notes import Update
from tfdist.keras_repairs.coupling.trials.trial_scope import in_trial

Function = Callable[..., Any]


class CannotBeTried(Exception):
    """Nothing was learned of a function."""


class LoopTrial:
    """A function that a loop runs on each replica, and what it can reach.

    Args:
        function: Called with a replica's piece of a batch.
    """

    def __init__(self, function: Function) -> None:
        self._function = function
        self._kept = KeptState(function)

    @property
    def is_built(self) -> bool:
        """True if it makes no more variables, which must not happen in a trial, as far as can be seen."""
        layers = [value for value in self._kept.values if isinstance(value, keras.layers.Layer)]
        return bool(layers) and all(layer.built for layer in layers)

    def optimizer_of_means(self, args: Any, kwargs: Any) -> str | None:
        """The optimizer that gets gradients of a mean over a replica's own samples; None where none is known to.

        They are added up, and add up to those of one device where replicas take sums, divided by what the global batch
        has.

        Args:
            args: What the function is called with, of which structure, shapes and dtypes count.
            kwargs: Likewise, by name.

        Raises:
            CannotBeTried: The function fails on made-up values, or nothing can be made up.
        """
        try:
            draws = [made_up((args, kwargs), numbers) for numbers in (Numbers.PROPER, Numbers.LARGE)]
        except ValueError as error:
            raise CannotBeTried from error
        return in_trial(lambda: self._verdict(draws))

    def _verdict(self, draws: list[Inputs]) -> str | None:
        failure: Exception | None = None
        for inputs in draws:
            try:
                return self._of_means(inputs)
            except Exception as error:  # Whatever the user's code raises on values that are not its own.
                failure = error
        raise CannotBeTried from failure

    def _of_means(self, inputs: Inputs) -> str | None:
        def updates(part: slice, _: Assignments) -> list[Update]:
            args, kwargs = inputs.rows(part)
            # A loop has no step: it scales its losses itself, as TensorFlow's guides have it.
            with replica_step(None), of_own_loop(), capturing(1.0) as capture:
                self._function(*args, **kwargs)
            return capture.updates

        results = on_one_and_two(updates, self._kept, users=False)
        for whole, *parts in zip(results.whole, *results.parts, strict=True):
            if gradients_are_means(whole, parts, OF_NETWORKS * TOLERANCE, UNEQUAL):
                return whole.optimizer
        return None
