"""Schedule of checkpoints: by the number of steps, which all workers know, or by the chief's clock."""

from __future__ import annotations

import time

import numpy as np
import tensorflow as tf

from tfdist.checkpoint import SavePolicy
from tfdist.runtime.collectives.decisions import broadcast


class CheckpointSchedule:
    """Says when the next checkpoint is due, the same on all workers. Call its methods on all, with the same steps.

    Args:
        policy: When one is due.
        strategy: The process's strategy.
    """

    def __init__(self, policy: SavePolicy, strategy: tf.distribute.Strategy) -> None:
        self._policy = policy
        self._strategy = strategy
        self.begin(0)

    def begin(self, step: int) -> None:
        """The training begins or resumes with so many steps of the run done."""
        self._saved_time = self._look_time = time.monotonic()
        self._looked_at = step
        self._look_at = step + self._policy.steps_until_look(0.0, None)

    def saved(self) -> None:
        """A checkpoint was made, or tried: the time until the next one begins."""
        self._saved_time = time.monotonic()

    def steps_until_due(self, step: int) -> float:
        """After how many steps from `step` it must be asked next, at the latest; infinity where it need not be."""
        return min(self._policy.steps_until_due(step), self._look_at - step)

    def is_due(self, step: int) -> bool:
        """Returns whether one is due when `step` steps of the run are done."""
        if self._policy.is_due_at(step):
            return True
        return step >= self._look_at and self._is_due_by_the_clock(step)

    def _is_due_by_the_clock(self, step: int) -> bool:
        """Asks the chief, whose clock counts for all workers, and agrees on when to ask again."""
        now = time.monotonic()
        seconds = now - self._saved_time
        is_due = self._policy.is_due_after(seconds)
        per_step = (now - self._look_time) / max(1, step - self._looked_at)
        steps = self._policy.steps_until_look(0.0 if is_due else seconds, per_step)
        said = broadcast(np.array([is_due, steps], np.float64), strategy=self._strategy)
        self._look_time, self._looked_at = now, step
        self._look_at = step + said[1]
        return bool(said[0])
