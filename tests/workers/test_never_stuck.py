"""Workers that do not do the same end with an error that says so; none waits for ever."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.helpers.cli_process import tfdist

PREPARED = """
    import time
    import keras
    import numpy as np
    import tfdist

    index = tfdist.worker_index()
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    model.compile("sgd", "mse")
"""


def run(folder: Path, body: str, *options: str) -> tuple[int, str]:
    script = folder / "script.py"
    script.write_text(textwrap.dedent(PREPARED) + textwrap.dedent(body))
    done = tfdist("train", "--quiet", "--nproc", "2", "--run-dir", folder / "run", *options, script, timeout=100)
    return done.returncode, done.stderr


def test_different_data_is_refused(tmp_path: Path) -> None:
    """Other amounts and other values. The workers refuse them together: who catches the error may go on."""
    body = """
    try:
        model.predict(np.zeros((40 + index, 4)), verbose=0)
    except tfdist.DataError as error:
        assert "['41', '4']] on worker 1" in str(error), error
    else:
        raise AssertionError("different amounts were predicted")
    model.fit(np.full((8, 4), index), np.zeros((8, 2)), verbose=0)
    """
    code, said = run(tmp_path, body)
    assert code == 5
    assert "The workers were given different data: checksums of some rows" in said
    assert "Traceback" not in said


@pytest.mark.bound(120)
def test_a_worker_that_does_not_come_is_not_waited_for_beyond_the_timeout(tmp_path: Path) -> None:
    body = """
    if index == 1:
        time.sleep(1000)
    model.fit(np.zeros((8, 4)), np.zeros((8, 2)), verbose=0)
    """
    code, said = run(tmp_path, body, "--first-step-timeout", "5")
    assert code == 4
    assert "error: worker 1 (" in said.splitlines()[0]
    assert "outside of fit, evaluate and predict: " in said and "in <module>" in said
    assert "waits in a first step" in said
    assert "tfdist-watchdog" not in said  # the other threads are in the log


def test_what_the_check_finds_on_one_worker_alone_is_refused_on_all(tmp_path: Path) -> None:
    body = """
    from tfdist.keras_repairs.first_step.step_check import StepCheck

    compared = StepCheck._parted
    if index == 1:
        StepCheck._parted = staticmethod(lambda *values: dict.fromkeys(compared(*values), 1.0))
    try:
        model.fit(np.ones((33, 4)), np.zeros((33, 2)), verbose=0)
    except tfdist.UnsupportedError as error:
        print(f"worker {index} says: {error}")
    """
    code, _ = run(tmp_path, body)
    said = [(tmp_path / "run" / "logs" / f"worker-{index}.0.log").read_text() for index in (0, 1)]
    assert code == 0
    assert all("would not give the numbers of one device" in each for each in said)
    assert "what the log of another worker names" in "".join(said)


@pytest.mark.bound(120)
def test_a_script_that_ends_early_on_one_worker_is_an_error(tmp_path: Path) -> None:
    body = """
    if index == 0:
        model.fit(np.zeros((8, 4)), np.zeros((8, 2)), verbose=0)
    """
    code, said = run(tmp_path, body)
    assert code == 4
    assert "error: worker 0" in said
    assert "waits in fit, at " in said and "script.py line 12 in <module>, for worker 1, whose script has ended" in said
    assert "Is this one under tfdist.is_chief()" in said and "Thread MainThread" not in said


@pytest.mark.slow
def test_a_batch_that_is_smaller_for_one_worker_alone_parts_nobody(tmp_path: Path) -> None:
    """33 rows are 17 and 16, 32 rows 16 and 16: a step traced by its rows would be traced anew on worker 0 alone."""
    body = """
    import tensorflow as tf
    x, y = np.zeros((65, 4), "float32"), np.zeros((65, 2), "float32")
    batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(33)
    model.fit(batches.filter(lambda x, y: True), epochs=2, verbose=0)
    assert model.predict(x, batch_size=33, verbose=0).shape == (65, 2)
    for rows in (9, 8, 9, 7):
        model.train_on_batch(x[:rows], y[:rows])
        model.test_on_batch(x[:rows], y[:rows])
        assert model.predict_on_batch(x[:rows]).shape == (rows, 2)
    """
    code, said = run(tmp_path, body, "--step-timeout", "20")
    assert (code, said.count("error")) == (0, 0), said
