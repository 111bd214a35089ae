"""The list of callbacks of a `fit`, `evaluate` or `predict`: who runs where, what is agreed on, what comes along.

Without the check a training would end at its first epoch, or, worse, `listdir` would take a bucket for an empty folder.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfdist.errors import UnsupportedError, UsageError
from tfdist.keras_repairs.base.fit_state import fit_state
from tfdist.keras_repairs.callbacks.callback_placement import any_watches, runs_here
from tfdist.keras_repairs.callbacks.chief_decisions import ChiefDecisions, DecisionPoints
from tfdist.keras_repairs.loop.fit_listeners import CallbackProgress, FitListener
from tfdist.keras_repairs.optimizer import gradient_accumulation
from tfdist.keras_repairs.sharding_policies.full_state import take_part
from tfdist.runtime.collectives.decisions import all_gather
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.workers import worker_count, worker_rank
from tfdist.url_schemes import OF_TENSORFLOW, scheme_of

_ATTRIBUTES = {
    keras.callbacks.ModelCheckpoint: "filepath",
    keras.callbacks.BackupAndRestore: "backup_dir",
    keras.callbacks.CSVLogger: "filename",
    keras.callbacks.TensorBoard: "log_dir",
}
_INSTEAD = {
    keras.callbacks.ModelCheckpoint: "tfdist keeps the best checkpoint in a bucket: checkpoint.best and "
    "checkpoint.directory in a config; or save the model there after fit: model.save('s3://BUCKET/model.keras')",
    keras.callbacks.BackupAndRestore: "tfdist's own checkpoints go there: checkpoint.directory in a config",
}


def check_paths(callbacks: Iterable[Any]) -> None:
    """Refuses callbacks that write where TensorFlow cannot.

    Raises:
        UsageError: One does; the text names it and what to do instead.
    """
    for callback in callbacks:
        for kind, attribute in _ATTRIBUTES.items():
            path = str(getattr(callback, attribute, "")) if isinstance(callback, kind) else ""
            scheme = scheme_of(path)
            if scheme is None or scheme in OF_TENSORFLOW:
                continue
            instead = _INSTEAD.get(kind, "Write it here, and copy it there when the run has ended")
            raise UsageError(
                f"keras.callbacks.{kind.__name__} writes by TensorFlow's file systems, which do not know {scheme}://. "
                f"Expected a path of this machine, or gs://. Received: {path}. {instead}."
            )


Function = Callable[..., Any]
ExtraCallbacks = Callable[[Sequence[Any] | None], Sequence[keras.callbacks.Callback]]
ChosenCallbacks = Callable[[Sequence[Any]], Sequence[Any]]


def none_extra(given: Sequence[Any] | None) -> Sequence[keras.callbacks.Callback]:
    """No callbacks besides those of a `fit`, `evaluate` or `predict` itself."""
    return ()


def all_chosen(given: Sequence[Any]) -> Sequence[Any]:
    """The callbacks of a `fit`, `evaluate` or `predict`, all of them."""
    return given


def callback_list_init(
    original: Function, extra: ExtraCallbacks, listener: FitListener, chosen: ChosenCallbacks = all_chosen
) -> Function:
    """Repairs `CallbackList.__init__`.

    Args:
        original: The method.
        extra: Returns the callbacks that every `fit`, `evaluate` and `predict` of this process gets besides its own,
            of which it is given those of a `fit`, else None.
        listener: Notified when a callback is done at the start or end of an epoch.
        chosen: Returns what a call gets in the place of the callbacks that it is given.
    """

    def repaired(self: Any, callbacks: Any = None, *args: Any, **kwargs: Any) -> None:
        given = keras.tree.flatten(callbacks) if callbacks else []
        model = kwargs.get("model") or (args[2] if len(args) > 2 else None)
        if model is None:
            original(self, given, *args, **kwargs)
            return
        given = list(chosen(given))
        check_paths(given)
        # The list of `fit` has a history. One that a script makes without `steps` is taken for a list of `fit`.
        trains = bool(kwargs.get("add_history") or "steps" not in kwargs)
        # With `verbose=2` it says a line an epoch.
        has_bar = bool(kwargs.get("add_progbar")) and kwargs.get("verbose") != 2
        own = DecisionPoints.of(given, has_bar=has_bar, trains=trains)
        kept, watch, together = _shared(given, own, model.distribute_strategy)
        original(self, kept, *args, **kwargs)
        self.callbacks = _with_listener_between(self.callbacks, kept, listener)
        added = [*extra(kept if trains else None), *_decisions(watch, kept, model.distribute_strategy)]
        if any(isinstance(callback, ChiefDecisions) or hasattr(callback, "steps_until_due") for callback in added):
            # Keras may call callbacks in a thread; workers must exchange what they agree on in one order.
            self._async_train = self._async_test = self._async_predict = False
        for callback in added:
            callback.set_model(model)
            callback.set_params(self.params)
            self.callbacks.append(callback)
        if gradient_accumulation.is_needed(model):
            self.callbacks.insert(0, gradient_accumulation.AccumulatorReduction())
            self.callbacks[0].set_model(model)
        state = fit_state(model)
        state.test_logs = watch.test_logs
        if trains:
            state.train_logs, state.reads_logs_periodically = watch.train_logs, watch.periodic_logs
            state.watches_batches = watch.batches or any_watches(added)
            state.due_callbacks = [callback for callback in (*kept, *added) if hasattr(callback, "steps_until_due")]
            state.saves_together = together

    return repaired


def save_checkpoint(original: Function) -> Function:
    """Repairs `ModelCheckpoint._save_model`: only the chief makes the directory, in which it alone writes."""

    def repaired(self: Any, epoch: int, batch: int | None, logs: Any) -> None:
        strategy = self.model.distribute_strategy
        if batch is not None:
            gradient_accumulation.reduce_before_checkpoint(self.model)
        if worker_count(strategy) == 1 or worker_rank(strategy) == 0:
            original(self, epoch, batch, logs)
            return
        # The others note which epoch was best, as a script may ask for it.
        if self._should_save_model(epoch, batch, logs, self._get_file_path(epoch, batch, logs)):
            take_part(self.model)

    return repaired


def _shared(
    given: Sequence[Any], watch: DecisionPoints, strategy: tf.distribute.Strategy
) -> tuple[list[Any], DecisionPoints, bool]:
    """The callbacks that run on this worker, what all workers agree on, and whether all come to each checkpoint."""
    if strategy.num_replicas_in_sync == 1:
        return list(given), watch, True
    _check_orbax(given, strategy)
    kept = [callback for callback in given if runs_here(callback, is_chief=worker_rank(strategy) == 0)]
    frequencies = gradient_accumulation.checkpoint_frequency_digest(kept)
    own = [*watch.to_row(), frequencies, _lacks_tensorboard(given)]
    rows: list[list[int]] = all_gather(np.array(own, np.int32), strategy).tolist()
    *_, chief_lacks_tensorboard = rows[0]
    points = [DecisionPoints.of_row(row) for *row, _, _ in rows]
    same_frequencies = len({frequencies for *_, frequencies, _ in rows}) == 1
    if settings_of(strategy).holds_parts:
        _check_savers(kept, strategy)
    _check_tensorboard(chief_lacks=bool(chief_lacks_tensorboard))
    _check_backups([each.backups for each in points])
    return kept, DecisionPoints.of_any(points), same_frequencies


def _with_listener_between(callbacks: Sequence[Any], given: Sequence[Any], listener: FitListener) -> list[Any]:
    """`callbacks`, with the listener notified after each of the `given` ones but the last, which Keras's own follow."""
    between = {id(callback) for callback in given[:-1]}
    told = (
        (callback, CallbackProgress(listener)) if id(callback) in between else (callback,) for callback in callbacks
    )
    return [callback for group in told for callback in group]


def _decisions(watch: DecisionPoints, kept: Sequence[Any], strategy: tf.distribute.Strategy) -> list[ChiefDecisions]:
    """The callback that makes all workers follow the chief's decisions, where one is needed."""
    return [ChiefDecisions(watch, kept, strategy)] if worker_count(strategy) > 1 else []


def _check_orbax(given: Sequence[Any], strategy: tf.distribute.Strategy) -> None:
    # Keras 3.12 and 3.13 have none.
    orbax = getattr(keras.callbacks, "OrbaxCheckpoint", ())
    if worker_count(strategy) > 1 and any(isinstance(callback, orbax) for callback in given):
        raise UnsupportedError(
            "keras.callbacks.OrbaxCheckpoint does not know TensorFlow's workers: all would write into one directory. "
            "Use keras.callbacks.ModelCheckpoint or BackupAndRestore, which write on the chief."
        )


def _check_savers(kept: Sequence[Any], strategy: tf.distribute.Strategy) -> None:
    """Checks that all workers come to every checkpoint, where they hold parts of what is saved."""
    own = gradient_accumulation.checkpoint_frequency_digest(kept, with_epochs=True)
    if len(set(all_gather(np.int32(own), strategy).tolist())) > 1:
        raise UsageError(
            "With --shard every worker has a part of what ModelCheckpoint and BackupAndRestore save, and all workers "
            "come to each checkpoint together. Received: other such callbacks on some workers than on others. Give "
            "them to fit on every worker; only the chief writes."
        )


def _lacks_tensorboard(given: Sequence[Any]) -> bool:
    board = keras.callbacks.TensorBoard
    return importlib.util.find_spec("tensorboard") is None and any(
        isinstance(callback, board) and type(callback).on_epoch_end is board.on_epoch_end for callback in given
    )


def _check_tensorboard(*, chief_lacks: bool) -> None:
    if chief_lacks:
        raise UsageError(
            "keras.callbacks.TensorBoard needs the package tensorboard, which is not installed: Keras would fail at "
            "the end of the first epoch. Install it (pip install tensorboard) where the chief runs, or write the same "
            "curves without it: callbacks=tfdist.callbacks(DIRECTORY)."
        )


def _check_backups(counts: Sequence[int]) -> None:
    if len(set(counts)) > 1:
        raise UsageError(
            "BackupAndRestore restores on all workers together, so that all must have it. Received: "
            f"{', '.join(f'{count} on worker {index}' for index, count in enumerate(counts))}. Give it to fit on every "
            "worker; only the chief writes."
        )
