"""Trainings that are saved, loaded, killed and resumed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import keras
import tensorflow as tf

from tfdist.selftest.matrix.row_runner import RowContext, RowFunction
from tfdist.selftest.matrix.training_rows import BATCH, classifier, numbers, train
from tfdist.selftest.row_log import saved_model
from tfdist.training import api, collectives_api


def saving(context: RowContext) -> None:
    """Trains, saves, loads what it saved, and trains further."""
    model = classifier()
    train(context, model, *numbers(), _adam(), epochs=1)
    file = saved_model(context.folder)
    model.save(file)
    # The chief writes.
    collectives_api.barrier()
    _train_further(context, file)


def loading(context: RowContext) -> None:
    """Loads what another job saved, and trains further."""
    assert context.saved is not None
    _train_further(context, Path(context.saved))


def _train_further(context: RowContext, file: Path) -> None:
    model = keras.models.load_model(file)
    context.fit(model, *numbers(), batch_size=BATCH, epochs=1, shuffle=False)


def _adam() -> keras.optimizers.Optimizer:
    return keras.optimizers.Adam(0.01, global_clipnorm=0.1)


def resume(context: RowContext) -> None:
    """Trains with checkpoints; the same from wherever it was killed, to the bit."""
    # On GPUs some kernels add up in any order.
    tf.config.experimental.enable_op_determinism()
    model = classifier()
    model.compile(_adam(), keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    x, y = numbers()
    context.fit(model, x, y, batch_size=BATCH // 2, epochs=3, callbacks=api.callbacks(every_steps=3))


ROWS: Mapping[str, RowFunction] = MappingProxyType({row.__name__: row for row in (saving, loading, resume)})
