"""The history, metrics and logs of a script that resumes have each epoch once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import keras
import pytest

from tests.devices.killed_script import (
    BATCH,
    STEPS,
    Killed,
    Script,
    assert_same,
    compiled,
    network,
    one_fit,
    samples,
)
from tests.helpers.marks import slow
from tfdist.rundir import RunDir
from tfdist.training.checkpoints.checkpoint_options import CheckpointRequest
from tfdist.training.run_record_callback import RunRecordCallback


def test_the_record_of_a_script_goes_on(tmp_path: Path) -> None:
    def body(script: Script) -> None:
        record = RunRecordCallback(RunDir(tmp_path))
        one_fit(callbacks=[record, CheckpointRequest(script.options, record)], epochs=3)(script)

    script = Script(tmp_path, body)
    assert not script.run("on_train_batch_begin", 2 * STEPS + 2)
    assert script.run()
    run = RunDir(tmp_path)
    assert [json.loads(line)["epoch"] for line in run.metrics_file.read_text().splitlines()] == [0, 1, 2]
    assert json.loads(run.history_file.read_text()) == script.history[0]
    assert len(script.history[0]["loss"]) == 3
    (resumed,) = map(json.loads, run.resumes_file.read_text().splitlines())
    assert (resumed["epoch"], resumed["step"], resumed["total"]) == (2, 1, 2 * STEPS + 1)


class Dies(keras.callbacks.Callback):
    """Ends a script at the end of an epoch, when the callbacks before it have written theirs, before a checkpoint."""

    def __init__(self, epoch: int) -> None:
        super().__init__()
        self._epoch = epoch

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if epoch == self._epoch:
            raise Killed


@pytest.mark.parametrize("saves", [slow(False), True])
def test_a_log_has_the_row_of_each_epoch_once(tmp_path: Path, saves: bool) -> None:
    """Killed between the row of an epoch and its checkpoint, or stopped there."""

    def body(script: Script) -> None:
        x, y = samples()
        log = keras.callbacks.CSVLogger(script.folder.with_suffix(".csv"))
        dies = [Dies(1)] if dying and not saves else []
        script.fit(compiled(network(), "sgd"), x, y, batch_size=BATCH, epochs=4, callbacks=[log, *dies])

    dying = False
    whole = Script(tmp_path / "whole", body)
    assert whole.run()
    dying = True
    killed = Script(tmp_path / "killed", body)
    assert not killed.run("on_epoch_end", 2 if saves else 0)
    rows = (tmp_path / "killed.csv").read_text().splitlines()
    assert [row.split(",")[0] for row in rows] == ["epoch", "0", "1"]
    dying = False
    assert killed.run()
    assert_same(killed, whole)
    assert (tmp_path / "killed.csv").read_text() == (tmp_path / "whole.csv").read_text()
