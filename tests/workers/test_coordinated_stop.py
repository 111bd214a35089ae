"""Workers that are asked at different moments stop after the same batch, with the same weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.marks import slow
from tests.workers.channel_client import Tied, tied_workers
from tests.workers.launcher_processes import REPOSITORY

SCRIPT = """
import os, sys, time
import keras
import numpy as np
import tensorflow as tf
import tfdist
from tfdist.training.session import current_session as session

index = tfdist.worker_index()
keras.utils.set_random_seed(3)
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(2)])
model.compile("sgd", "mse", steps_per_execution={steps_per_execution})
rng = np.random.default_rng(1)
x, y = rng.normal(size=({samples}, 4)).astype("float32"), rng.normal(size=({samples}, 2)).astype("float32")

def save():
    np.save(f"weights{{index}}", np.concatenate([w.ravel() for w in model.get_weights()]))
    return f"saved weights{{index}}.npy"

session.current().stop_requests.at_stop(save)

class Slow(keras.callbacks.Callback):
    ignores_batches = {unwatched}
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.05 * {slow} * index)

try:
    model.fit(
        x, y, batch_size=8, epochs=1_000_000, verbose=0, callbacks=[tfdist.on_every_worker(Slow())],
        validation_data={validation},
    )
finally:
    print("finally", int(model.optimizer.iterations.numpy()), flush=True)
"""


def script(
    *, samples: int = 80, steps: int = 1, slow: int = 0, unwatched: bool = False, validates: bool = False
) -> str:
    validation = "(np.tile(x, (20, 1)), np.tile(y, (20, 1)))" if validates else "None"
    return SCRIPT.format(
        samples=samples, steps_per_execution=steps, slow=slow, unwatched=unwatched, validation=validation
    )


def stop(workers: list[Tied], code: int = 143) -> int:
    """Stops workers as a launcher does, one after the other; returns after which batch."""
    begun = []
    for worker in workers:
        worker.say(hold=True)
        begun.append(worker.reply("begun"))
    for worker in workers:
        worker.say(stop={"after": max(begun), "code": code})
    for worker in workers:
        assert worker.reply("finished") == code
    for worker in workers:
        worker.say(release=True)
    for worker in workers:
        assert worker.process.wait(20) == code
    return max(begun)


CASES: dict[str, dict[str, Any]] = {
    "step by step, one worker slow": dict(slow=1),
    "many steps in one execution, chosen by tfdist": dict(samples=4000, unwatched=True),
    "many steps in one execution, chosen by the script": dict(samples=4000, steps=7),
    "in a validation": dict(samples=16, validates=True),
}


EVERY_TIME = ["many steps in one execution, chosen by tfdist"]


@pytest.mark.bound(120)
@pytest.mark.parametrize("case", [case if case in EVERY_TIME else slow(case) for case in CASES])
def test_all_stop_after_the_same_batch(tmp_path: Path, case: str) -> None:
    with tied_workers(tmp_path, script(**CASES[case])) as workers:
        state = "evaluating" if CASES[case].get("validates") else "step"
        workers[1].beat(lambda beat: beat["state"] == state and beat["step"] > 3)
        after = stop(workers)
        for worker in workers:
            assert f"stopped after batch {after}, with exit code 143" in worker.text()
            assert "; saved weights" in worker.text()
        done = [line for worker in workers for line in worker.text().splitlines() if line.startswith("finally")]
        assert len(done) == 2 and len(set(done)) == 1
        first, second = (np.load(tmp_path / f"weights{index}.npy") for index in range(2))
        assert np.array_equal(first, second)


@pytest.mark.slow
def test_a_worker_that_is_asked_later_goes_on_to_where_the_other_is(tmp_path: Path) -> None:
    """The first is asked and must wait; the second is asked when it waits for the first, at most one batch later."""
    with tied_workers(tmp_path, script(slow=1)) as workers:
        workers[0].beat(lambda beat: beat["step"] > 3)
        workers[0].say(hold=True)
        first = workers[0].reply("begun")
        # Alone it comes no further than where it needs the other one.
        workers[1].beat(lambda beat: beat["step"] >= first)
        workers[1].say(hold=True)
        second = workers[1].reply("begun")
        assert first <= second <= first + 1
        for worker in workers:
            worker.say(stop={"after": second + 1, "code": 130})
        for worker in workers:
            assert worker.reply("finished") == 130
            assert f"stopped after batch {second + 1}, with" in worker.text()


CONFIG = """
name: digits
seed: 7
model: {build: tfdist.models.mlp, args: {inputs: [64], hidden: [16], classes: 10}}
compile: {optimizer: sgd, loss: sparse_categorical_crossentropy}
data:
  batch_size: 16
  train: {format: npz, path: DATA, split: train, shuffle: true}
fit: {epochs: 1000000}
"""


def test_a_config_run_stops_with_the_code_asked_for(tmp_path: Path) -> None:
    data = REPOSITORY / "examples" / "data" / "digits.npz"
    with tied_workers(tmp_path, CONFIG.replace("DATA", str(data)), count=1, target_kind="config") as (worker,):
        state = worker.beat(lambda beat: beat["epoch"] > 0 and beat["rate"] > 0)
        assert state["limit"] == 600.0
        stop([worker], code=143)
        assert "Traceback" not in worker.text()
