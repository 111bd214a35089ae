"""Batches that one worker of a host draws for all: numbers, samples made, errors, ends and deaths."""

from __future__ import annotations

import contextlib
import json
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.cli_process import begun, tfdist
from tests.helpers.marks import slow
from tests.workers.worker_scripts import BOUND, SCRIPTS, all_said, assert_close, train
from tfdist.verify.hosts.namespace_hosts import NamespaceHost

ONCE = ["tf_data", "rest", "unknown_size", "broken"]
"""Data of TensorFlow's, of which another worker makes no sample."""

PYTHON = {"python_dataset": 64, "threaded": 64, "generator": 64}
"""Data of Python code, and the samples by which Keras learns its shapes on each worker."""

EACH = ["ragged", "text"]
"""Data that each worker draws itself."""

OWN = ["texts", "numbers"]
"""Data of files, of which each worker or host has those alone that its replicas need."""

AHEAD = ["abandoned"]
"""Data that is read ahead of what is used."""

KINDS = [kind for kind in (*ONCE, *PYTHON, *EACH, *OWN, *AHEAD) if kind != "rest"]


def answers(run: Path, index: int) -> dict[str, Any]:
    return {kind: said for line in all_said(run, index) for kind, said in line.items()}


def made(folder: Path, kind: str, worker: int) -> int:
    """The samples of a kind of data that a worker has made."""
    return len((folder / f"{kind}.{worker}").read_text().splitlines())


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one worker makes of the data."""
    folder = tmp_path_factory.mktemp("alone")
    train(folder / "run", "fed.py", folder, *KINDS, workers=1)
    return folder


@pytest.mark.bound(2 * BOUND)
@pytest.mark.parametrize(
    ("workers", "communication"), [(2, "auto"), slow(3, "auto"), slow(2, "ring"), slow(3, "ring")]
)
def test_a_host_makes_each_sample_once_and_all_have_the_numbers_of_one_worker(
    alone: Path, tmp_path: Path, workers: int, communication: str
) -> None:
    run = tmp_path / "run"
    train(run, "fed.py", tmp_path, *KINDS, workers=workers, communication=communication)
    expected = answers(alone / "run", 0)
    for index in range(workers):
        found = answers(run, index)
        assert found["broken"][0] == ["InvalidArgumentError", True, [0, 1]] == expected["broken"][0]
        assert_close({**expected, "broken": expected["broken"][1]}, {**found, "broken": found["broken"][1]})
    for kind in [*ONCE, "python_dataset", "threaded"]:
        assert made(tmp_path, kind, 0) == made(alone, kind, 0)
    for other in range(1, workers):
        assert [made(tmp_path, kind, other) for kind in ONCE + AHEAD] == [0] * len(ONCE + AHEAD)
        assert {kind: made(tmp_path, kind, other) for kind in PYTHON} == PYTHON
        assert [made(tmp_path, kind, other) for kind in EACH] == [made(alone, kind, 0) for kind in EACH]
    log = (run / "logs" / "worker-1.0.log").read_text()
    indices = ", ".join(map(str, range(workers)))
    assert f"Worker 0 draws each batch once for the workers {indices} of this host." in log
    assert "only dense tensors of numbers are handed over" in log
    assert "to cut rows of arrays costs less" in log
    assert "Each worker maps only the samples that its replicas need" in log


@pytest.mark.slow
@pytest.mark.bound(2 * BOUND)
def test_each_of_several_hosts_makes_each_sample_once(
    hosts: tuple[NamespaceHost, NamespaceHost], alone: Path, tmp_path: Path
) -> None:
    """The second one has two workers, and the first one, which makes its samples for itself, one.

    Samples that a map reads from files are made on the host that needs them alone; the others' files are not there.
    """
    first, second = hosts
    workers = f"{first.ipv4}:20000,{second.ipv4}:20000,{second.ipv4}:20001"
    with contextlib.ExitStack() as stack:
        launchers = []
        for host in hosts:
            (tmp_path / host.name).mkdir()
            command = ["train", "--workers", workers, "--step-timeout", 60, "--run-dir", tmp_path / host.name / "run"]
            arguments = [SCRIPTS / "fed.py", tmp_path, "tf_data", "python_dataset", *OWN]
            opened = begun(*command, *arguments, prefix=host.prefix, output=subprocess.PIPE)
            launchers.append(stack.enter_context(opened))
        said = [launcher.communicate(timeout=BOUND)[1] for launcher in launchers]
    assert [launcher.returncode for launcher in launchers] == [0, 0], said
    expected = answers(alone / "run", 0)
    for index, host in enumerate([first, second, second]):
        for kind, found in answers(tmp_path / host.name / "run", index).items():
            assert_close(expected[kind], found)
        of_all = made(alone, "tf_data", 0)
        assert made(tmp_path, "tf_data", index) == (0 if index == 2 else of_all)


MADE_BY_HAND = """
    import hashlib
    import os
    import signal
    import sys
    import time
    from pathlib import Path

    import keras
    import numpy as np
    import tensorflow as tf
    import tfdist

    def one(number):
        if number == 150 and tfdist.worker_index() == 0 and os.environ["TFDIST_ATTEMPT"] == "0":
            if "KILL" in sys.argv:
                os.kill(os.getpid(), signal.SIGKILL)
            if "SLEEP" in sys.argv:
                time.sleep(1000)
        return number

    def sample(number, x, y):
        number = tf.numpy_function(one, [number], tf.int64)
        with tf.control_dependencies([number]):
            return tf.identity(x), y

    generator = np.random.default_rng(0)
    x = generator.normal(size=[225, 8]).astype("float32")
    data = tf.data.Dataset.from_tensor_slices((np.arange(225), x, x[:, :1]))
    fails = "KILL" in sys.argv or "SLEEP" in sys.argv
    data = data.map(sample if fails else lambda number, x, y: (x * 1.0, y)).batch(32)
    stop = os.environ["TFDIST_ATTEMPT"] == "0" and "STOP" in sys.argv

    class Killed(keras.callbacks.Callback):
        left = 12

        def on_train_batch_end(self, batch, logs=None):
            self.left -= 1
            if stop and self.left == 0 and tfdist.worker_index() == int(sys.argv[-1]):
                marker = Path(os.environ["TFDIST_RUN_DIR"], "checkpoints/step-00000010/checkpoint.json")
                deadline = time.monotonic() + 60
                while not marker.exists():
                    assert time.monotonic() < deadline, f"{marker} did not come"
                    time.sleep(0.01)
                os.kill(os.getpid(), signal.SIGKILL)

    model = keras.Sequential([keras.Input([8]), keras.layers.Dense(4, "tanh"), keras.layers.Dropout(0.2)])
    model.add(keras.layers.Dense(1))
    model.compile("adam", "mse")
    model.fit(data.shuffle(8), epochs=3, verbose=0, callbacks=[Killed(), *tfdist.callbacks(every_steps=5)])
    weights = b"".join(weight.tobytes() for weight in model.get_weights())
    print("weights", hashlib.sha256(weights).hexdigest(), flush=True)
"""


def run_by_hand(folder: Path, *options: object, code: int) -> str:
    """Runs the script above on two workers, and returns what its launcher says."""
    script = folder / "by_hand.py"
    script.write_text(textwrap.dedent(MADE_BY_HAND))
    before, after = options[: options.index("--")], options[options.index("--") + 1 :]
    done = tfdist("train", "--nproc", 2, "--run-dir", folder / "run", *before, script, *after, timeout=BOUND)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stderr


@pytest.mark.bound(BOUND)
def test_the_death_of_the_worker_that_draws_is_one_error_that_names_it(tmp_path: Path) -> None:
    said = run_by_hand(tmp_path, "--quiet", "--step-timeout", 60, "--", "KILL", code=4)
    errors = [line for line in said.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1 and "worker 0" in errors[0] and "SIGKILL" in errors[0]
    failures = json.loads((tmp_path / "run" / "failure.json").read_text())
    assert failures["index"] == 0


@pytest.mark.slow
@pytest.mark.bound(BOUND)
def test_a_pipeline_that_hangs_is_the_fault_of_the_worker_that_draws(tmp_path: Path) -> None:
    said = run_by_hand(tmp_path, "--first-step-timeout", 30, "--step-timeout", 5, "--", "SLEEP", code=4)
    assert "error: worker 0 (" in said
    assert "by_hand.py line 19 in one runs (input pipeline" in said


@pytest.mark.slow
@pytest.mark.bound(3 * BOUND)
@pytest.mark.parametrize("killed", [0, 1])
def test_a_run_that_is_killed_within_an_epoch_ends_with_the_same_bits(tmp_path: Path, killed: int) -> None:
    def weights(run: Path, index: int, attempt: int) -> str:
        lines = (run / "logs" / f"worker-{index}.{attempt}.log").read_text().splitlines()
        (line,) = [line for line in lines if line.startswith("weights ")]
        return line

    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.mkdir()
    run_by_hand(whole, "--resume", "auto", "--", "WHOLE", code=0)
    (broken / "run" / "state").mkdir(parents=True)
    (broken / "run" / "state" / "run.json").write_text((whole / "run" / "state" / "run.json").read_text())
    said = run_by_hand(broken, "--resume", "auto", "--max-restarts", 1, "--", "STOP", killed, code=0)
    assert "killed by SIGKILL" in said
    assert "resumes after step 10 (epoch 2, 2 batches done)" in said
    for index in range(2):
        assert weights(broken / "run", index, 1) == weights(whole / "run", index, 0)
