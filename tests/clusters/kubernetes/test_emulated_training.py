"""A training with TensorFlow in emulated pods, one of which is killed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.clusters.kubernetes.conftest import MakeJob, MakeManifest
from tests.clusters.kubernetes.emulated_job import EmulatedJob
from tests.helpers.waiting import until

_CONFIG = """\
name: line
seed: 7
model: {{build: tfdist.models.mlp, args: {{inputs: [4], hidden: [8], classes: 2}}}}
compile: {{optimizer: {{name: sgd, learning_rate: 0.01}}, loss: sparse_categorical_crossentropy}}
data: {{batch_size: 16, train: {{format: npz, path: line.npz, split: train}}}}
fit: {{epochs: {epochs}, callbacks: [{{build: pause.Pause}}]}}
checkpoint: {{every_steps: 8}}
"""
_PAUSE = """\
import time, keras
class Pause(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.02)
"""


def said(job: EmulatedJob) -> str:
    return "\n\n".join(f"pod {pod.index}: {pod.said}" for pod in job.pods)


def write_training(folder: Path, epochs: int) -> None:
    """A config with its data, and with a pause in every step, so that there is time to kill a pod."""
    x = np.random.default_rng(7).normal(size=(50, 4)).astype("float32")
    np.savez(folder / "line.npz", x_train=x, y_train=(x.sum(axis=1) > 0).astype("int32"))
    (folder / "line.yaml").write_text(_CONFIG.format(epochs=epochs))
    (folder / "pause.py").write_text(_PAUSE)


def losses(run: Path) -> list[float]:
    found: list[float] = json.loads((run / "history.json").read_text())["loss"]
    return found


@pytest.mark.bound(300)
def test_a_job_resumes_when_a_pod_was_killed(
    pod_manifest: MakeManifest, emulated_job: MakeJob, tmp_path: Path
) -> None:
    """In pods with other addresses, at the step that was saved."""
    write_training(tmp_path, 20)
    job = emulated_job(pod_manifest(target="line.yaml", workers=2), 4, stand_in=False)
    pods = job.start_all()
    job.publish()
    run = tmp_path / "runs/digits"
    until(lambda: list(run.glob("checkpoints/*")) or pods[0].code is not None, timeout=120)
    pods[1].process.kill()
    assert job.control(150) == "Complete", said(job)
    assert [pod.code for pod in job.pods] == [4, 137, 0, 0], said(job)
    assert len(losses(run)) == 20 and losses(run)[-1] < losses(run)[0]
    assert "line: resumes after step " in job.pods[2].said + job.pods[3].said, said(job)


@pytest.mark.slow
@pytest.mark.bound(300)
def test_an_elastic_job_goes_on_without_a_pod_and_takes_in_the_new_one(
    pod_manifest: MakeManifest, emulated_job: MakeJob, tmp_path: Path
) -> None:
    """The processes of the other pods stay."""
    write_training(tmp_path, 12)
    elastic = ("--min-workers=2", "--rejoin-timeout=1", "--grow")
    job = emulated_job(pod_manifest(target="line.yaml", arguments=elastic), 4, stand_in=False)
    pods = job.start_all()
    job.publish()
    run = tmp_path / "runs/digits"
    until(lambda: list(run.glob("checkpoints/*")) or pods[0].code is not None, timeout=120)
    pods[2].process.kill()
    assert job.control(200) == "Complete", said(job)
    assert [pod.code for pod in job.pods] == [0, 0, 137, 0], said(job)
    assert job.failures == {2: 1} and len(losses(run)) == 12
