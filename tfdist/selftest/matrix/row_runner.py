"""Runs rows one after the other, each from the same fresh state, and notes how far it has come."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import keras

from tfdist.selftest.row_log import RowDone, RowOrder, begin_line, done_line, log_file
from tfdist.training import api, collectives_api

_SEED = 11


class RowContext:
    """The context that a row is given.

    Attributes:
        folder: Where the job's files go.
        saved: A model that an earlier job has saved; None for none.
        fits: How often the process has called `fit`.
    """

    def __init__(self, folder: Path, saved: str | None) -> None:
        self.folder = folder
        self.saved = saved
        self.fits = 0

    def fit(self, model: keras.Model, *args: Any, **options: Any) -> keras.callbacks.History:
        """`model.fit`, counted, so that its part of the recording is found."""
        self.fits += 1
        return model.fit(*args, **{"verbose": 0, **options})


RowFunction = Callable[[RowContext], Mapping[str, Any] | None]


def run_rows(functions: Mapping[str, RowFunction], argument: str) -> None:
    """Runs the rows of an order. What a row raises ends the process: the launcher starts another one for the rest.

    Args:
        functions: Name -> row. What it returns is noted, in JSON's types.
        argument: The order, of `RowOrder.to_argument`.
    """
    order = RowOrder.of(argument)
    context = RowContext(Path(order.folder), order.saved)
    with log_file(context.folder, api.worker_index()).open("w", buffering=1) as log:
        for name in order.rows:
            log.write(begin_line(name))
            _forget()
            first, begin = context.fits, time.monotonic()
            found = functions[name](context) or {}
            # A row is done when all workers are.
            collectives_api.barrier()
            log.write(done_line(RowDone(name, range(first, context.fits), time.monotonic() - begin, found)))


def _forget() -> None:
    """Forgets the row before, and begins from the same seeds."""
    keras.backend.clear_session(free_memory=False)
    gc.collect()
    keras.config.set_dtype_policy("float32")
    keras.utils.set_random_seed(_SEED)
