"""A script of `fit`s that is killed and run again, in one process: for the tests of what it resumes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.devices.fresh_repairs import put_in
from tests.helpers.mirrored import mirrored
from tfdist.keras_repairs.base.replica_copies import copies
from tfdist.keras_repairs.install import RepairHooks
from tfdist.rundir import RunDir
from tfdist.training.checkpoints.checkpoint_options import CheckpointOptions
from tfdist.training.checkpoints.fit_registry import FitRegistry
from tfdist.training.libraries import seed_all

SAMPLES, BATCH, SEED = 45, 6, 11
STEPS = -(-SAMPLES // BATCH)


class Killed(Exception):
    """Ends a script as a kill would, but leaves this process alive."""


class KillCallback(keras.callbacks.Callback):
    """Saves and ends at the k-th call of a method, over all fits of a script; it looks at no batch else."""

    def __init__(self, script: Script) -> None:
        super().__init__()
        self.script = script
        setattr(self, script.method, self.count)

    def count(self, *_: Any, **__: Any) -> None:
        self.script.left -= 1
        if self.script.left == 0:
            self.script.said = self.script.registry.save_now()
            raise Killed


@dataclass
class Script:
    """One script in as many starts as it takes; each start is as good as a process of its own."""

    folder: Path
    body: Callable[[Script], None]
    replicas: int = 1
    every: int | None = None
    history: list[dict[str, list[float]]] = field(default_factory=list)
    values: list[bytes] = field(default_factory=list)
    drawn: list[float] = field(default_factory=list)
    method: str = "on_epoch_begin"
    left: int = 0
    said: str | None = None
    steps: int = 0

    @property
    def strategy(self) -> tf.distribute.Strategy:
        return tf.distribute.get_strategy() if self.replicas == 1 else mirrored(self.replicas)

    def run(self, method: str = "on_epoch_begin", call: int = 0, resume: str = "auto") -> bool:
        """Runs it to its end, or until the k-th call of a callback's method; returns whether it came to its end."""
        keras.backend.clear_session()
        seed_all(SEED)
        self.options = CheckpointOptions(RunDir(self.folder), every_steps=self.every, resume=resume)
        self.registry = FitRegistry(self.strategy, self.options, seed=SEED)
        self.method, self.left = method, call
        self.history, self.values, self.drawn = [], [], []
        with installed(self.registry), self.strategy.scope():
            try:
                self.body(self)
            except Killed:
                return False
        return True

    def fit(self, model: keras.Model, *data: Any, callbacks: Any = (), **options: Any) -> None:
        given = [*callbacks, *([KillCallback(self)] if self.left else [])]
        kept = model.fit(*data, callbacks=given, verbose=0, **options)
        self.history.append({name: list(map(float, values)) for name, values in kept.history.items()})
        self.drawn.append(float(np.random.random()))
        variables = [*model.variables, *model.optimizer.variables]
        self.values += [b"".join(copy.numpy().tobytes() for copy in copies(variable)) for variable in variables]


@contextlib.contextmanager
def installed(registry: FitRegistry) -> Iterator[None]:
    """The repairs as a process of its own has them: they know the fits of one start."""
    hooks = RepairHooks(
        imposed_seed=SEED, extra_callbacks=lambda given: [] if given is None else registry.callbacks_for(given)
    )
    with pytest.MonkeyPatch.context() as patch:
        put_in(hooks, patch)
        yield


def samples() -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(1).normal(size=(SAMPLES, 5)).astype(np.float32)
    return x, x[:, :3].argmax(axis=1)


def network() -> keras.Sequential:
    """Without a shape: the first batch builds it, or the process that is to restore it."""
    return keras.Sequential(
        [keras.layers.Dense(8), keras.layers.BatchNormalization(), keras.layers.Dropout(0.4), keras.layers.Dense(3)]
    )


def compiled(model: keras.Model, optimizer: Any) -> keras.Model:
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, metrics=["accuracy"])
    return model


def assert_same(one: Script, other: Script) -> None:
    assert one.history == other.history
    assert one.drawn == other.drawn
    assert [value == expected for value, expected in zip(one.values, other.values, strict=True)] == [True] * len(
        one.values
    )


def one_fit(batch_size: int = BATCH, units: int = 3, callbacks: Any = (), epochs: int = 1) -> Callable[[Script], None]:
    def body(script: Script) -> None:
        x, y = samples()
        model = compiled(keras.Sequential([keras.layers.Dense(units)]), "sgd")
        script.fit(model, x, y, batch_size=batch_size, epochs=epochs, callbacks=callbacks)

    return body
