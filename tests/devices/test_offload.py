"""Tests of where an optimizer's state is kept, and where it is updated, with --offload."""

from __future__ import annotations

import os
import resource
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


@pytest.mark.parametrize("options", [{"global_clipnorm": 0.01}, {"clipnorm": 0.01}, {"weight_decay": 0.1}])
def test_the_numbers_are_the_same_to_the_bit(
    settings: StrategySettings, tmp_path: Path, options: dict[str, float]
) -> None:
    plain, _ = trained(keras.optimizers.SGD(0.1, momentum=0.9, **options))
    settings.offload = offloading_of("optimizer:disk", tmp_path)
    model, _ = trained(keras.optimizers.SGD(0.1, momentum=0.9, **options))
    for one, other in zip(values_of(plain), values_of(model), strict=True):
        np.testing.assert_array_equal(one, other)


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


def test_a_limit_of_a_files_size(tmp_path: Path) -> None:
    file = ScratchFile(tmp_path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
    try:
        with pytest.raises(RunDirError, match=r"File too large; a file .* 1\.00 MiB\. Raise .*\(ulimit -f\), or"):
            file.prepare(4 << 20, "which a value takes")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


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


def deep_step(summed: Any = tf.identity) -> tuple[Any, Any]:
    """An optimizer of five layers whose state is on disk, its gradients as `summed` has them; and its step."""
    keras.utils.set_random_seed(7)
    layers = [keras.layers.Dense(150, "tanh", use_bias=False) for _ in range(5)]
    model = keras.Sequential([keras.Input((150,)), *layers])
    x, optimizer = tf.random.stateless_normal((8, 150), (1, 2)), keras.optimizers.Adam(0.1)
    optimizer.build(model.trainable_variables)

    @tf.function
    def step() -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x) - x))
        gradients = tape.gradient(loss, model.trainable_variables)
        # As it is with sums between workers, the last first.
        gradients = [summed(gradient) for gradient in reversed(gradients)][::-1]
        optimizer.apply(gradients, model.trainable_variables)
        return loss

    return optimizer, step


def test_state_of_two_variables_is_in_memory_at_most(
    settings: StrategySettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.offload = offloading_of("optimizer:disk", tmp_path)
    optimizer, step = deep_step()
    places = {
        slot._value._start: place
        for place in range(5)
        for slot in (optimizer._momentums[place], optimizer._velocities[place])
    }
    done: list[tuple[str, int]] = []
    read, write = ScratchFile.read_into, ScratchFile.write

    def noted_read(self: ScratchFile, array: np.ndarray, start: int) -> None:
        done.append(("read", places[start]))
        read(self, array, start)

    def noted_write(self: ScratchFile, start: int, value: np.ndarray) -> None:
        write(self, start, value)
        done.append(("written", places[start]))

    monkeypatch.setattr(ScratchFile, "read_into", noted_read)
    monkeypatch.setattr(ScratchFile, "write", noted_write)
    for _ in range(3):
        done.clear()
        step()
        # Each tensor once, and that variable first which has its gradient first.
        assert [place for what, place in done if what == "read"] == [4, 4, 3, 3, 2, 2, 1, 1, 0, 0]
        assert sorted(place for what, place in done if what == "written") == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
        for place in range(3):
            written = max(i for i, each in enumerate(done) if each == ("written", place + 2))
            assert written < done.index(("read", place))


def test_an_update_does_not_wait_for_the_other_gradients(settings: StrategySettings, tmp_path: Path) -> None:
    settings.offload = offloading_of("optimizer:disk", tmp_path)

    def summed(gradient: tf.Tensor) -> tf.Tensor:
        return tf.ensure_shape(tf.numpy_function(lambda array: array, [gradient], tf.float32), gradient.shape)

    _, step = deep_step(summed)
    operations = step.get_concrete_function().graph.get_operations()
    sums = [operation for operation in operations if operation.type == "PyFunc"]
    reads = [each for each in operations if each.type == "PyFuncStateless" and each.outputs[0].dtype == tf.float32]
    assert len(sums) == 5 and len(reads) == 10
    waits = [sum(operation in before(read) for operation in sums) for read in reads]
    # What the second last update has changed is written before.
    assert waits == [0, 0, 0, 0, 1, 1, 2, 2, 3, 3]


def before(operation: tf.Operation) -> set[tf.Operation]:
    """The operations of its graph that run before one."""
    found: set[tf.Operation] = set()
    left = [operation]
    while left:
        one = left.pop()
        for other in (*(tensor.op for tensor in one.inputs), *one.control_inputs):
            if other not in found:
                found.add(other)
                left.append(other)
    return found


def test_a_disk_that_fails_ends_the_step(
    settings: StrategySettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> int:
        raise OSError(5, "Input/output error")

    settings.offload = offloading_of("optimizer:disk", tmp_path)
    _, step = deep_step()
    step()
    with monkeypatch.context() as patched, pytest.raises(tf.errors.OpError, match="Input/output error"):
        patched.setattr(scratch_file.os, "pwrite", fail)
        step()
    monkeypatch.setattr(scratch_file.os, "preadv", fail)
    with pytest.raises(tf.errors.OpError, match="Input/output error"):
        step()


def test_updates_keep_the_order_of_the_program(tmp_path: Path) -> None:
    file, turns = ScratchFile(tmp_path), Turns()
    first = np.arange(6, dtype=np.float64).reshape(3, 2)
    one, two = (DiskTensor(file, turns, first * factor, "value") for factor in (1, 10))

    @tf.function
    def change(flag: tf.Tensor) -> tf.Tensor:
        one.assign_add(first)
        with turns.updates() as updates:
            with updates.of_variable():
                if flag:
                    two.assign_add(tf.convert_to_tensor(one) * 0 + 1)  # read in the branch alone
                one.assign(one.read_value() + two)
            with updates.of_variable():
                if flag:
                    one.assign_sub(tf.ones_like(first))
                two.assign(tf.convert_to_tensor(one) * 2)
        return two.read_value() + one

    for flag in (True, False, True):
        a, b = one.numpy(), two.numpy()
        total = change(tf.constant(flag))
        b = b + 1 if flag else b
        a = a + first + b - (1 if flag else 0)
        np.testing.assert_array_equal(one.numpy(), a)
        np.testing.assert_array_equal(two.numpy(), a * 2)
        np.testing.assert_array_equal(total, a * 3)


@pytest.mark.parametrize("has_branch", [False, True])
def test_what_one_update_has_changed_is_written_before_another_reads_it(
    tmp_path: Path, has_branch: bool
) -> None:
    turns = Turns()
    tensor = DiskTensor(ScratchFile(tmp_path), turns, np.ones((3, 2)), "value")

    @tf.function
    def change(flag: tf.Tensor) -> None:
        with turns.updates() as updates:
            for again in (False, True):
                with updates.of_variable():
                    if again and has_branch and flag:
                        tensor.assign_sub(tf.ones((3, 2), tf.float64))
                    tensor.assign_add(tensor.read_value())

    operations = change.get_concrete_function(tf.TensorSpec([], tf.bool)).graph.get_operations()
    branches = [operation for operation in operations if operation.type in ("If", "StatelessIf")]
    made = [operation for operation in operations if operation.type == "PyFuncStateless"]
    _, second = (operation for operation in made if operation.outputs[0].dtype == tf.float64)
    first, _ = (operation for operation in made if operation.outputs[0].dtype == tf.int64)
    assert len(branches) == has_branch and first in before(second)
    assert all(first in before(branch) and branch in before(second) for branch in branches)
    change(tf.constant(True))
    np.testing.assert_array_equal(tensor.numpy(), np.full((3, 2), 2.0 if has_branch else 4.0))
