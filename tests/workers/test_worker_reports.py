"""What a worker tells its launcher, and leaves in its state and its log."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.waiting import until
from tests.workers.channel_client import Tied, tied_workers
from tfdist.launch.worker.channel_protocol import CALLED
from tfdist.rundir import Failure, WorkerState

PREPARED = """
import threading
import keras
import numpy as np
import tfdist

index = tfdist.worker_index()
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
model.compile("sgd", "mse")
x, y = np.zeros((80, 4), "float32"), np.zeros((80, 2), "float32")
"""

SLOW = """
class Slow(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if index == 1:
            threading.Event().wait(0.05)

model.fit(x, y, batch_size=8, epochs=1_000_000, verbose=0, callbacks=[tfdist.on_every_worker(Slow())])
"""

HANGS = """
class Hangs(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 1 and index == 1:
            threading.Event().wait(600)

model.fit(x, y, batch_size=8, epochs=2, verbose=0, callbacks=[tfdist.on_every_worker(Hangs())])
"""

RAISES = """
class Raises(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 3 and int(model.optimizer.iterations.numpy()) > 10:
            raise InterruptedError("enough")

model.fit(x, y, batch_size=8, epochs=2, verbose=0, callbacks=[tfdist.on_every_worker(Raises())])
"""


@pytest.fixture(scope="module")
def slow_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Tied]]:
    """Two workers that train for good, of which the second waits in a callback that looks at batches."""
    with tied_workers(tmp_path_factory.mktemp("slow"), PREPARED + SLOW) as workers:
        yield workers


def test_the_slower_worker_is_the_busier_one(slow_workers: list[Tied]) -> None:
    """After the callback the workers agree on what it decided: the first waits for the second."""
    first, second = (worker.beat(lambda beat: beat["step"] > 60 and beat["busy"] > 0) for worker in slow_workers)
    assert second["busy"] > first["busy"] > 0
    for beat in (first, second):
        assert beat["state"] in ("step", "callback")
        # Samples of the global batch; where a mark comes late a little more than there can be.
        assert 0 < beat["rate"] < 1.25 * 8 / 0.05
        assert beat["moves"] > beat["step"]
        assert beat["limit"] == 600.0
    file = slow_workers[1].run.state_file(1)
    # It is written after it is told.
    until(lambda: (written := WorkerState.read(file)) is not None and written.step >= second["step"])
    written = WorkerState.read(file)
    assert written is not None and written.busy > 0


def test_signals_to_a_worker(slow_workers: list[Tied]) -> None:
    worker = slow_workers[0]
    worker.beat(lambda beat: beat["step"] > 0)
    worker.process.send_signal(signal.SIGTERM)
    assert worker.reply("signal") == signal.SIGTERM
    # Once is not enough: what walks over stacks that move falls sooner or later.
    for _ in range(40):
        before = worker.text().count("Thread tfdist-signals:")
        worker.process.send_signal(signal.SIGUSR2)
        until(lambda before=before: worker.text().count("Thread tfdist-signals:") > before)
    until(lambda: worker.text().count("in fit") >= 40)  # of the last one, the main thread may come behind
    step = worker.beat(lambda beat: True)["step"]
    worker.beat(lambda beat: beat["step"] > step)


@pytest.mark.slow
def test_waiting_in_sums_of_gradients_is_not_busy(tmp_path: Path) -> None:
    """The second worker computes for long what the first has at once."""
    slow = """
import time
import tensorflow as tf

class Slow(keras.layers.Layer):
    def call(self, x):
        wait = lambda value: (time.sleep(0.05 * index), value)[1]
        return x + tf.stop_gradient(tf.ensure_shape(tf.numpy_function(wait, [x], x.dtype), x.shape)) * 0.0

model = keras.Sequential([keras.Input((4,)), Slow(), keras.layers.Dense(2)])
model.compile("sgd", "mse")
model.fit(x, y, batch_size=8, epochs=1_000_000, verbose=0)
"""
    with tied_workers(tmp_path, PREPARED + slow) as workers:
        first, second = (worker.beat(lambda beat: beat["step"] > 60 and beat["busy"] > 0) for worker in workers)
        assert second["busy"] > first["busy"] > 0


def test_a_worker_that_hangs_says_where(tmp_path: Path) -> None:
    with tied_workers(tmp_path, PREPARED + HANGS) as workers:
        workers[0].beat(lambda beat: beat["step"] == 10 and beat["epoch"] == 1)
        workers[1].beat(lambda beat: beat["step"] == 10 and beat["state"] == "callback")
        workers[1].say(dump=True)
        stacks = workers[1].reply("stacks")
        where = workers[1].heard[-1]["where"]
        assert where.startswith("script.py line ") and where.endswith(" in on_epoch_begin")
        assert "Thread MainThread:" in stacks and "Thread tfdist-channel:" in stacks
        assert "threading.Event().wait(600)" in stacks
        assert f"this worker is at {where}" in workers[1].text()
        # The other one waits for it in native code.
        workers[0].say(dump=True)
        assert "in <module>" in workers[0].next(lambda message: "where" in message)["where"]


@pytest.mark.slow
def test_an_input_that_hangs_says_where(tmp_path: Path) -> None:
    script = """
import tensorflow as tf

def batches():
    for number in range(2):
        if number == 1:
            print("loads", flush=True)
            threading.Event().wait(600)
        yield x[:8], y[:8]

signature = tf.TensorSpec((8, 4), tf.float32), tf.TensorSpec((8, 2), tf.float32)
model.fit(tf.data.Dataset.from_generator(batches, output_signature=signature), verbose=0)
"""
    with tied_workers(tmp_path, PREPARED + script, count=1) as (worker,):
        worker.beat(lambda beat: beat["step"] == 1)
        until(lambda: "loads" in worker.text())
        worker.say(dump=True)
        stacks = worker.reply("stacks")
        said = worker.heard[-1]
        assert said["called"].startswith("script.py line ") and said["called"].endswith(" in batches")
        assert said["where"].endswith(" in <module>")
        assert f"{CALLED}:" in stacks.split("\nThread ")[1]


def test_an_error_says_at_which_step(tmp_path: Path) -> None:
    with tied_workers(tmp_path, PREPARED + RAISES, count=1) as (worker,):
        assert worker.process.wait(60) == 4
        record = Failure.read(worker.run.error_file(0, 0))
        assert record is not None
        assert (record.type, record.epoch, record.step) == ("InterruptedError", 1, 14)
        state = WorkerState.read(worker.run.state_file(0))
        assert state is not None and (state.state, state.epoch, state.step) == ("failed", 1, 14)


@pytest.mark.slow
def test_phases_of_a_script(tmp_path: Path) -> None:
    script = """
model.fit(x, y, batch_size=8, epochs=1, verbose=0)
model.evaluate(x, y, verbose=0)
model.save("model.keras")
"""
    with tied_workers(tmp_path, PREPARED + script) as workers:
        for worker in workers:
            assert worker.reply("finished") == 0
            worker.say(release=True)
        for worker in workers:
            assert worker.process.wait(20) == 0
            beats = [message["beat"] for message in worker.heard if "beat" in message]
            assert [beats[0]["state"], beats[-1]["state"]] == ["starting", "finished"]
            assert "compiling" in [beat["state"] for beat in beats]
            assert [beat["moves"] for beat in beats] == sorted(beat["moves"] for beat in beats)
            forming = [beat for beat in beats if beat["state"] == "starting" and beat["limit"] is not None]
            assert forming and forming == beats[1 : 1 + len(forming)]
            assert all(
                (beat["limit"] is None) == (beat["state"] in ("starting", "saving", "finished"))
                for beat in beats
                if beat not in forming
            )
            assert (beats[-1]["step"], beats[-1]["epoch"]) == (10, 0)
