"""Tests of where an optimizer's state is kept, and where it is updated, with --offload."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfdist import keras_repairs
from tfdist.errors import RunDirError
from tfdist.runtime.offload import scratch_file
from tfdist.runtime.offload.disk_tensor import DiskTensor, Turns
from tfdist.runtime.offload.offloading import offloading_of
from tfdist.runtime.offload.scratch_file import ScratchFile
from tfdist.runtime.strategy_settings import StrategySettings, settings_of

PLACE = "/device:CPU:1"
"""Stands in for the device that trains; the host is CPU:0."""


@pytest.fixture
def settings() -> Iterator[StrategySettings]:
    keras_repairs.install()
    found = settings_of(tf.distribute.get_strategy())
    yield found
    found.offload = None


def trained(optimizer: Any) -> tuple[Any, Any]:
    """A model after three steps on the device, and its step."""
    keras.utils.set_random_seed(7)
    with tf.device(PLACE):
        model = keras.Sequential([keras.Input((150,)), keras.layers.Dense(150, "tanh")])
        x = tf.random.stateless_normal((8, 150), (1, 2))
    model.optimizer = optimizer

    @tf.function
    def step() -> tf.Tensor:
        with tf.device(PLACE):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(model(x) - x))
            optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    for _ in range(3):
        step()
    return model, step


def values_of(model: Any) -> list[np.ndarray]:
    return [np.asarray(v.numpy()).reshape(-1) for v in (*model.weights, *model.optimizer.variables)]


@pytest.mark.parametrize("choice", ["optimizer", "optimizer:disk"])
def test_state_is_on_the_host_and_updated_there(settings: StrategySettings, tmp_path: Path, choice: str) -> None:
    plain, _ = trained(keras.optimizers.Adam(0.1))
    settings.offload = offloading_of(choice, tmp_path)
    model, step = trained(keras.optimizers.Adam(0.1))
    for one, other in zip(values_of(plain), values_of(model), strict=True):
        np.testing.assert_array_equal(one, other)
    assert all(variable.value.device.endswith(PLACE) for variable in model.weights)
    slots = [variable._value for variable in model.optimizer.variables[2:]]
    kept = [slot for slot in slots if isinstance(slot, DiskTensor)]
    assert len(kept) == (2 if choice == "optimizer:disk" else 0)
    assert all(slot.device.endswith("/device:CPU:0") for slot in slots if not isinstance(slot, DiskTensor))
    graph = step.get_concrete_function().graph
    roots = [op.device for op in graph.get_operations() if op.type == "Sqrt"]
    products = [op.device for op in graph.get_operations() if op.type == "MatMul"]
    assert roots and all(device.endswith("CPU:0") for device in roots)
    assert products and all(device.endswith("CPU:1") for device in products)
    assert not os.listdir(tmp_path)


def test_a_disk_with_too_little_room(
    settings: StrategySettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: int, start: int, size: int) -> None:
        raise OSError(28, "No space left on device")

    settings.offload = offloading_of("optimizer:disk", tmp_path)
    monkeypatch.setattr(scratch_file.os, "posix_fallocate", refuse)
    with pytest.raises(RunDirError, match=r"room for 4\.00 MiB .* state of adam.* No space left"):
        keras.optimizers.Adam(name="adam").build([keras.Variable(tf.zeros((1024, 512)))])
    with pytest.raises(RunDirError, match="no file can be made in it"):
        ScratchFile(tmp_path / "absent")


def test_values_on_disk_change_in_the_order_of_the_program(tmp_path: Path) -> None:
    file, turns = ScratchFile(tmp_path), Turns()
    first = np.arange(6, dtype=np.float64).reshape(3, 2)
    one, two = (DiskTensor(file, turns, first * factor, "value") for factor in (0, 1))

    @tf.function
    def change(flag: tf.Tensor) -> tf.Tensor:
        before = tf.convert_to_tensor(two)
        one.assign_add(before)
        if flag:
            two.assign(two.read_value() * 2)
        two.scatter_add(tf.IndexedSlices(tf.ones((2, 2), tf.float64), tf.constant([0, 0])))
        return before + tf.convert_to_tensor(two) * 0

    np.testing.assert_array_equal(change(tf.constant(True)), first)
    np.testing.assert_array_equal(one.numpy(), first)
    expected = first * 2 + np.array([[2], [0], [0]])
    np.testing.assert_array_equal(two.numpy(), expected)
    change(tf.constant(False))
    np.testing.assert_array_equal(one.numpy(), first + expected)


def test_pieces_of_a_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch_file, "_PIECE_BYTES", 7)
    file = ScratchFile(tmp_path)
    value = np.arange(10, dtype=np.float32)
    file.take(12, "something before")
    start = file.take(value.nbytes, "a value")
    np.testing.assert_array_equal(file.read(start, (10,), value.dtype), np.zeros(10))
    file.write(start, value)
    np.testing.assert_array_equal(file.read(start, (2, 5), value.dtype), value.reshape(2, 5))
