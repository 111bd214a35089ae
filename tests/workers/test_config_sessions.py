"""A config whose functions ask tfdist who they are: they get the session of their run, and no second one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.helpers.cli_process import ROOT, tfdist
from tests.helpers.marks import slow
from tfdist.rundir import RunDir

BOUND = 120

MODULE = """
import json

import keras
import tfdist
from tfdist.launch.environment import Assignment
from tfdist.training.session import current_session

def build():
    strategy = tfdist.strategy()
    said = [tfdist.is_chief(), tfdist.worker_index(), tfdist.num_workers(), tfdist.num_replicas()]
    with strategy.scope():
        model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(10, activation="softmax")])
    print(json.dumps([*said, int(tfdist.all_reduce(1))]), flush=True)
    assignment = Assignment.from_environ()
    try:
        current_session.start(assignment, current_session.requested_devices(assignment))
    except RuntimeError as error:
        print(json.dumps([str(error)]), flush=True)
    return model
"""

CONFIG = """
name: asks
seed: 7
model: {{build: asking.build}}
compile: {{optimizer: sgd, loss: sparse_categorical_crossentropy}}
data:
  batch_size: 128
  train: {{format: npz, path: {data}, split: test}}
fit: {{epochs: 1}}
"""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--logical-devices", "2"], [[True, 0, 1, 2, 1]]),
        slow(["--nproc", "2"], [[True, 0, 2, 2, 2], [False, 1, 2, 2, 2]]),
        slow([], [[True, 0, 1, 1, 1]]),
    ],
)
def test_a_function_of_a_config_gets_the_session_of_its_run(
    options: list[str], said: list[list[int]], tmp_path: Path
) -> None:
    (tmp_path / "asking.py").write_text(MODULE)
    (tmp_path / "asking.yaml").write_text(CONFIG.format(data=ROOT / "examples" / "data" / "digits.npz"))
    done = tfdist("train", "asking.yaml", *options, "--run-dir", "run", cwd=tmp_path, timeout=BOUND)
    assert done.returncode == 0, done.stdout + done.stderr
    run = RunDir(tmp_path / "run")
    assert run.model_file.exists()
    for index, expected in enumerate(said):
        lines = run.log_file(index, 0).read_text().splitlines()
        asked, (refused,) = [json.loads(line) for line in lines if line.startswith("[")]
        assert asked == expected
        assert refused.startswith("This process has a session already")
