"""The state of a model's `fit`, shared by the repairs of all rooms and by tfdist's callbacks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tfdist.keras_repairs.base.attached_value import AttachedValue


@dataclass
class FitState:
    """The state of a model's `fit`, of the one under way or of the last.

    Attributes:
        fits: A mark of each `fit` that the model is in, the innermost last: a callback may call another one.
        watches_batches: Whether a callback of any worker looks at every batch, as far as is known.
        due_callbacks: The callbacks that look at some batches alone, and say with `steps_until_due()` at which.
        train_logs: Whether some callback or progress bar, of any worker, is given the logs of training batches.
        test_logs: The same of batches of an evaluation.
        reads_logs_periodically: Whether some callback, of any worker, shows some logs of training batches.
        periodic_logs: Those of one of the last batches, over all replicas; None where nobody has read any.
        saves_together: Whether all workers come to every checkpoint inside of epochs.
        logs_before: The logs of the last step of an epoch of which this process has only the end to do.
        logged_results: Reads over all replicas what the steps just executed log of the results of metrics, by name of
            the log; None where the steps are Keras's own.
        logs_are_nested: Whether these steps return logs in logs.
        trace_step: Traces the training step for batches of an element spec: builds what it needs, and runs nothing.
        unreported_steps: Counts the training steps that were executed and that callbacks have not been called for yet.
    """

    fits: tuple[object, ...] = ()
    watches_batches: bool = True
    due_callbacks: Sequence[Any] = ()
    train_logs: bool = False
    test_logs: bool = False
    reads_logs_periodically: bool = False
    periodic_logs: Mapping[str, Any] | None = None
    saves_together: bool = False
    logs_before: Mapping[str, Any] = field(default_factory=dict)
    logged_results: Mapping[str, Callable[[], Any]] | None = None
    logs_are_nested: bool = False
    trace_step: Callable[[Any], None] | None = None
    unreported_steps: Callable[[], int] = lambda: 0
    _iterator: Any = None

    @contextlib.contextmanager
    def under_way(self) -> Iterator[None]:
        """Around a `fit`, or around one that a callback of it calls on the same model."""
        before = self.fits, self._iterator
        self.fits, self._iterator = (*self.fits, object()), None
        try:
            yield
        finally:
            self.fits, self._iterator = before

    @property
    def is_under_way(self) -> bool:
        """True if the model is in a `fit`."""
        return bool(self.fits)

    @contextlib.contextmanager
    def reading_logs(self) -> Iterator[None]:
        """Around a `fit`, `evaluate` or `predict`: who reads logs in it reads none after it."""
        before = self.train_logs, self.test_logs, self.reads_logs_periodically, self.periodic_logs
        self.periodic_logs = None
        try:
            yield
        finally:
            self.train_logs, self.test_logs, self.reads_logs_periodically, self.periodic_logs = before

    def reads_logs(self, call: str) -> bool:
        """Returns whether somebody is given the logs of batches of `fit`, or of `evaluate`."""
        return self.train_logs if call == "fit" else self.test_logs

    def note_iterator(self, iterator: Any) -> None:
        """Notes what the `fit` under way iterates over, Keras's `TFEpochIterator`."""
        if self.is_under_way and iterator is not None:
            self._iterator = iterator

    def take_iterator(self) -> Any:
        """The iterator of the `fit`, once, for `on_train_begin` of its callbacks; None outside of a `fit`."""
        iterator, self._iterator = self._iterator, None
        return iterator

    def take_logs_before(self) -> Mapping[str, Any]:
        """`logs_before`, once; afterwards nothing."""
        logs, self.logs_before = self.logs_before, {}
        return logs

    @property
    def steps_until_due(self) -> float:
        """After how many steps, at least 1, one of `due_callbacks` wants to look; the same on all workers."""
        return max(1, min((callback.steps_until_due() for callback in self.due_callbacks), default=float("inf")))


_STATE: AttachedValue[FitState] = AttachedValue("fit_state")


def fit_state(model: Any) -> FitState:
    """The state of `model`'s `fit`, to read and to change."""
    return _STATE.get_or_make(model, FitState)
