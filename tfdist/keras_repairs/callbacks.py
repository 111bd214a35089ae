"""Callbacks on several workers: files are the chief's, and tfdist's own callbacks come along."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras

from tfdist.errors import UnsupportedError
from tfdist.runtime.collectives import worker_count, worker_rank

Function = Callable[..., Any]

_WRITERS = (keras.callbacks.CSVLogger, keras.callbacks.TensorBoard)


def callback_list_init(original: Function, extra: Callable[[], Sequence[keras.callbacks.Callback]]) -> Function:
    """Repairs `CallbackList.__init__`.

    Args:
        original: The method.
        extra: Returns the callbacks that every `fit`, `evaluate` and `predict` of this process gets besides its own.
    """

    def repaired(self: Any, callbacks: Any = None, *args: Any, **kwargs: Any) -> None:
        given = keras.tree.flatten(callbacks) if callbacks else []
        model = kwargs.get("model") or (args[2] if len(args) > 2 else None)
        kept = given if model is None else _for_this_worker(given, model.distribute_strategy)
        original(self, kept, *args, **kwargs)
        for callback in extra() if model is not None else ():
            callback.set_model(model)
            callback.set_params(self.params)
            self.callbacks.append(callback)

    return repaired


def _for_this_worker(callbacks: Sequence[Any], strategy: Any) -> list[Any]:
    """Leaves out, on all workers but the chief, the Keras callbacks that only write a file."""
    if strategy.num_replicas_in_sync == 1 or worker_count(strategy) == 1:
        return list(callbacks)
    for callback in callbacks:
        if isinstance(callback, keras.callbacks.BackupAndRestore):
            raise UnsupportedError(
                "keras.callbacks.BackupAndRestore writes and deletes the same files on every worker, and restores the "
                "epoch without the place in the data. Leave it out on several workers."
            )
    if worker_rank(strategy) == 0:
        return list(callbacks)
    return [callback for callback in callbacks if not isinstance(callback, _WRITERS)]
