"""What a listener is told of Keras's `fit`, `evaluate` and `predict`, on one replica and on several."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.devices.fresh_repairs import put_in
from tests.helpers.mirrored import mirrored
from tfdist.keras_repairs.base.fit_state import fit_state
from tfdist.keras_repairs.loop import multi_step_execution
from tfdist.keras_repairs.repair import RepairHooks

SAMPLES = 41


class Notes:
    """A listener that records its notifications."""

    def __init__(self) -> None:
        self.said: list[Any] = []

    @contextlib.contextmanager
    def calling(self, call: str) -> Iterator[None]:
        self.said.append(call)
        try:
            yield
        finally:
            self.said.append(f"/{call}")

    def begin_execution(self, call: str, steps: int) -> None:
        self.said.append((call, steps))

    def end_execution(self, call: str, steps: int) -> None:
        assert self.said[-1] == (call, steps)

    @contextlib.contextmanager
    def saving(self) -> Iterator[None]:
        self.said.append("saving")
        try:
            yield
        finally:
            self.said.append("/saving")

    def callback_done(self) -> None:
        self.said.append("got on")

    def batches(self, call: str) -> int:
        """Batches that it was notified of in a call."""
        return sum(told[1] for told in self.said if told[0] == call)


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> Notes:
    """A listener of the repairs, which are made anew for this test."""
    notes = Notes()
    put_in(RepairHooks(listener=notes), monkeypatch)
    return notes


@pytest.fixture(params=[1, 3], ids=lambda replicas: f"replicas={replicas}")
def strategy(request: pytest.FixtureRequest) -> tf.distribute.Strategy:
    return mirrored(3) if request.param == 3 else tf.distribute.get_strategy()


def data(kind: str = "arrays") -> Any:
    x = np.random.default_rng(1).normal(size=(SAMPLES, 3)).astype("float32")
    y = x[:, :1]
    if kind == "arrays":
        return x, y
    batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(8)
    return (batches if kind == "dataset" else batches.filter(lambda x, y: True),)


def model(**options: Any) -> keras.Model:
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", **options)
    return model


@pytest.mark.parametrize("kind", ["arrays", "dataset", "unknown"])
@pytest.mark.parametrize("steps", [1, 4])
def test_every_batch_of_a_fit(notes: Notes, strategy: tf.distribute.Strategy, kind: str, steps: int) -> None:
    with strategy.scope():
        model(steps_per_execution=steps).fit(*data(kind), **({"batch_size": 8} if kind == "arrays" else {}), verbose=0)
    assert (notes.said[0], notes.said[-1]) == ("fit", "/fit")
    if strategy.num_replicas_in_sync > 1:
        assert notes.batches("fit") == 6
    else:
        # Keras alone knows how many the last execution has, and of unknown data whether there is one.
        assert 6 <= notes.batches("fit") < 6 + 2 * steps


def test_many_steps_in_one_execution_are_notified_together(notes: Notes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multi_step_execution, "steps_at_once", lambda seconds: 7)
    monkeypatch.setattr(multi_step_execution, "CHEAP", float("inf"))
    x = np.zeros((160, 3), "float32")
    with mirrored(3).scope():
        model().fit(x, x[:, :1], batch_size=8, epochs=2, verbose=0)
    told = [steps for call, steps in (said for said in notes.said if isinstance(said, tuple))]
    assert told == [1, 1, 1, 1, 7, 7, 2, 7, 7, 6]


def test_evaluation_and_prediction(notes: Notes, strategy: tf.distribute.Strategy) -> None:
    with strategy.scope():
        made = model()
        x, y = data()
        made.fit(x, y, batch_size=41, validation_data=(x, y), verbose=0)
        made.predict(x, batch_size=21, verbose=0)
    assert notes.said == [
        *("fit", ("fit", 1), "evaluate", ("evaluate", 1), "/evaluate", "/fit"),
        *("predict", ("predict", 1), ("predict", 1), "/predict"),
    ]


def test_single_batches_are_of_no_call(notes: Notes, strategy: tf.distribute.Strategy) -> None:
    with strategy.scope():
        made = model(steps_per_execution=3)
        x, y = data()
        made.train_on_batch(x, y)
        made.test_on_batch(x, y)
        made.predict_on_batch(x)
    assert notes.said == [("fit", 1), ("evaluate", 1), ("predict", 1)]


class Raises(keras.callbacks.Callback):
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        raise InterruptedError


def test_a_fit_that_raises_is_over(notes: Notes, strategy: tf.distribute.Strategy) -> None:
    with strategy.scope(), pytest.raises(InterruptedError):
        model().fit(*data(), callbacks=[Raises()], verbose=0)
    assert notes.said == ["fit", ("fit", 1), "/fit"]


def test_what_a_listener_raises_ends_the_fit_before_its_batch(
    notes: Notes, strategy: tf.distribute.Strategy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begin(call: str, steps: int) -> None:
        if notes.batches("fit") == 2:
            raise SystemExit(143)
        notes.said.append((call, steps))

    monkeypatch.setattr(notes, "begin_execution", begin)
    with strategy.scope(), pytest.raises(SystemExit):
        made = model()
        made.fit(*data(), batch_size=8, verbose=0)
    assert int(made.optimizer.iterations.numpy()) == 2


def test_each_of_several_callbacks_is_notified_of_at_its_end(notes: Notes, strategy: tf.distribute.Strategy) -> None:
    said = notes.said

    class Says(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            said.append(self)

    first, second = Says(), Says()
    with strategy.scope():
        model().fit(*data(), batch_size=SAMPLES, callbacks=[first, second], verbose=0)
    assert said == ["fit", "got on", "got on", ("fit", 1), first, "got on", second, "got on", "/fit"]


def written_out(model: keras.Model, folder: Path) -> None:
    archive = keras.export.ExportArchive()
    archive.track(model)
    archive.add_endpoint("serve", model.call, input_signature=[tf.TensorSpec((None, 3))])
    archive.write_out(folder)


@pytest.mark.parametrize(
    ("save", "name", "depth"),
    [
        (keras.Model.save, "model.keras", 1),
        (keras.Model.save, "model.h5", 1),
        (keras.Model.save_weights, "all.weights.h5", 1),
        (written_out, "archive", 1),
        # By way of an archive.
        (lambda model, path: model.export(path, verbose=False), "exported", 2),
    ],
)
def test_saving(save: Callable[[keras.Model, Path], None], name: str, depth: int, notes: Notes, tmp_path: Path) -> None:
    save(model(), tmp_path / name)
    assert notes.said == ["saving"] * depth + ["/saving"] * depth
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.usefixtures("repaired")
def test_a_fit_is_still_under_way_after_one_inside_it() -> None:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x, y = np.ones((4, 2)), np.ones((4, 1))
    seen: list[bool] = []

    class FitsInside(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            if not seen:
                seen.append(fit_state(model).is_under_way)
                model.fit(x, y, verbose=0)
            seen.append(fit_state(model).is_under_way)

    model.fit(x, y, verbose=0, callbacks=[FitsInside()])
    assert seen == [True, True]
    assert not fit_state(model).is_under_way
