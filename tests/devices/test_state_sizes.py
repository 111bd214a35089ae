"""Tests of what an optimizer is said to keep before it keeps it, and of the run that has no memory for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfdist import keras_repairs
from tfdist.errors import UsageError
from tfdist.keras_repairs.sharded_optimizer import state_sizes
from tfdist.plan.memory.state_check import SharedMemorySize
from tfdist.runtime.offload.offloading import offloading_of
from tfdist.runtime.strategy_settings import StrategySettings, settings_of

MIB = 1 << 20


@pytest.fixture
def settings() -> Iterator[StrategySettings]:
    keras_repairs.install()
    found = settings_of(tf.distribute.get_strategy())
    yield found
    found.memory_size = found.offload = None


def optimizers() -> list[Any]:
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)
    return [
        keras.optimizers.SGD(),
        keras.optimizers.SGD(schedule, momentum=0.9),
        keras.optimizers.Adam(amsgrad=True, use_ema=True),
        keras.optimizers.AdamW(gradient_accumulation_steps=2),
        keras.optimizers.Adafactor(),
        keras.optimizers.Ftrl(),
        keras.optimizers.Muon(),
    ]


@pytest.mark.parametrize("number", range(7))
def test_sizes_are_those_of_what_is_made(number: int) -> None:
    optimizer = optimizers()[number]
    # Muon goes by names as well: what it keeps for the third is not what it keeps for the first.
    named = [("w", (4, 3)), ("b", (5,)), ("embeddings", (4, 3)), ("c", (5,))]
    variables = [keras.Variable("zeros", shape=shape, name=name) for name, shape in named]
    told = state_sizes._slots(optimizer, variables)
    before = len(optimizer.variables)
    optimizer.build(variables)
    made = optimizer.variables[before:]
    assert sum(size.bytes for kept in told for size in kept) == sum(state_sizes.tensor_size(v).bytes for v in made)
    assert sorted(size.shape for kept in told for size in kept) == sorted(tuple(v.shape) for v in made)


@pytest.mark.parametrize(
    ("kind", "most"), [(keras.optimizers.Adam, 4), (keras.optimizers.Nadam, 4), (keras.optimizers.Muon, 14)]
)
def test_an_optimizer_is_asked_once_for_what_is_alike(kind: Any, most: int) -> None:
    keras_repairs.install()
    made: list[Any] = []

    def make() -> Any:
        made.append(kind())
        return made[-1]

    with tf.Graph().as_default():
        names = ["w"] * 9 + ["embeddings"]
        variables = [keras.Variable("zeros", shape=(4 + number % 2, 3), name=name) for number, name in enumerate(names)]
        told = state_sizes.slots_of(make, variables)
        assert len(made) == most
        assert told == [each for variable in variables for each in state_sizes.slots_of(kind, [variable])]


def test_a_training_without_memory_for_it_ends_before_it_begins(settings: StrategySettings) -> None:
    model = keras.Sequential([keras.Input((512,)), keras.layers.Dense(512)])
    model.compile("adam", "mse")
    data = np.ones((2, 512), "float32")
    settings.memory_size = SharedMemorySize(3 * MIB, "this host", (0,))
    with pytest.raises(UsageError, match=r"at least 3\.01 MiB: 1\.00 MiB of weights and 2\.00 MiB of what Adam"):
        model.fit(data, data, verbose=0)
    assert not model.optimizer.built
    settings.memory_size = SharedMemorySize(4 * MIB, "this host", (0,))
    model.compile("adam", "mse")
    model.fit(data, data, verbose=0)


def test_a_host_without_memory_for_what_its_devices_offload(settings: StrategySettings, tmp_path: Path) -> None:
    settings.offload = offloading_of("optimizer", tmp_path)
    for size, host in ((None, MIB), (9 * MIB, 2 * MIB)):
        settings.memory_size = SharedMemorySize(size, "a GPU", (0,), host=SharedMemorySize(host, "this host", (0, 1)))
        with pytest.raises(UsageError, match="host for 2 workers .* at least 4.00 MiB.* --offload optimizer:disk"):
            keras.optimizers.Adam().build([keras.Variable("zeros", shape=(512, 512))])


def test_an_optimizer_that_cannot_be_made_again_is_not_refused(settings: StrategySettings) -> None:
    class Own(keras.optimizers.SGD):
        def __init__(self, wanted: Any) -> None:
            super().__init__(0.1 if wanted else 0.2, momentum=0.9)

    settings.memory_size = SharedMemorySize(3 * MIB, "this host", (0,))
    Own(1).build([keras.Variable("zeros", shape=(512, 1024))])
    with pytest.raises(UsageError, match="Too little memory"):
        keras.optimizers.SGD(0.1, momentum=0.9).build([keras.Variable("zeros", shape=(512, 1024))])
