"""Runs several training steps in one execution, where no callback looks between them.

Calling a compiled step from Python costs about a millisecond, which is a good part of a small model's step. Keras has
`steps_per_execution` for that, which callbacks notice. Where no callback looks at batches, the steps of some
hundredths of a second run in one execution, and Keras is given its result for each of them.

A function of several steps is compiled once more, which takes a large network tens of seconds. There it waits for as
many steps as make up for it.

A callback that needs some batches only says so with a method `steps_until_due()`: an execution then ends with the batch
that it wants to see.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from typing import Any

from tfdist.keras_repairs.inputs.epoch_iterator import BatchIterator

SECONDS = 0.05
"""Roughly how long one execution of several steps may take."""

MOST = 64
"""Steps of one execution at most."""

TIMED = 4
"""Executions that are timed before the number of steps is set."""

CALL = 0.001
"""Roughly how many seconds each step saves that does not begin an execution."""

CHEAP = 5.0
"""Seconds that the first execution may take to compile for a function of several steps to be compiled all the same."""


class MultiStepExecutor:
    """Executes one step for each call, or several steps at once and none for the next calls.

    Args:
        run: Runs a number of steps of an iterator and returns the outputs of the last.
        agree: Makes one number of those that the workers pass: all must execute the same steps together.
    """

    def __init__(self, run: Callable[[BatchIterator, int], Any], agree: Callable[[float], float]) -> None:
        self._run = run
        self._agree = agree
        # Weakly: this object lives as long as the model, and must keep no epoch's data.
        self._batches: Callable[[], BatchIterator | None] = lambda: None
        self._unreported = 0
        self._outputs: Any = None
        self._timed: list[float] = []
        self._timed_together: list[float] = []
        self._most = 1
        self._seconds_to_compile = 0.0
        self._done = 0

    @property
    def unreported(self) -> int:
        """Steps that were executed and that Keras has not asked for yet."""
        return self._unreported

    def __call__(self, batches: BatchIterator, *, watched: bool, most: float = float("inf")) -> Any:
        """The outputs of the next step, or of one up to `most` - 1 steps later unless it is `watched`."""
        if self._unreported and batches is self._batches():
            self._unreported -= 1
            return self._outputs
        at_once = self._most if self._pays(batches.left_of_epoch) else 1
        steps = batches.take(1 if watched else max(1, int(min(at_once, batches.left_of_epoch, most))))
        begun = time.perf_counter()
        self._outputs = self._run(batches, steps)
        self._learn(time.perf_counter() - begun, steps)
        self._batches, self._unreported = weakref.ref(batches), steps - 1
        self._done += steps
        return self._outputs

    def _pays(self, left: float) -> bool:
        """Returns whether several steps at once make up for what they take to compile; the same on all workers.

        As many steps as were executed are taken to follow, so that no training loses more than twice what it had to.
        """
        return self._seconds_to_compile <= max(CHEAP, CALL * (self._done + left))

    def _learn(self, seconds: float, steps: int) -> None:
        """Sets how many steps run at once after some executions, of which the first compiles.

        Once several run together it sets it again: each of them takes less time than a step that begins an execution.
        """
        if len(self._timed) < TIMED:
            self._timed.append(seconds)
            if len(self._timed) == TIMED:
                step = min(self._timed[1:])
                self._seconds_to_compile = self._agree(self._timed[0] - step)
                self._most = steps_at_once(self._agree(step))
        elif steps > 1 and len(self._timed_together) < TIMED:
            self._timed_together.append(seconds / steps)
            if len(self._timed_together) == TIMED:
                self._most = steps_at_once(self._agree(min(self._timed_together[1:])))


def steps_at_once(seconds: float) -> int:
    """Returns how many steps of `seconds` each take about `SECONDS`; at least 1."""
    return max(1, min(MOST, int(SECONDS / max(seconds, 1e-9))))
