from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest

from tfdist.launch.run_dir.epoch_metrics import read_metrics
from tfdist.rundir import RunDir
from tfdist.rundir.bounded_disk import BoundedDisk
from tfdist.training.results import script_results
from tfdist.training.results.script_results import ScriptRecordCallback


def test_epochs_are_counted_on_from_fit_to_fit(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    record = ScriptRecordCallback(run)
    for fit, losses in ((1, [3.0, 2.0]), (2, [1.0])):
        record.fit = fit
        for epoch, loss in enumerate(losses):
            record.on_epoch_end(epoch, {"loss": loss})
        record.on_train_end()
    record.finish()
    assert json.loads(run.history_file.read_text()) == {"loss": [3.0, 2.0, 1.0]}
    # As those read it that read the record of a config.
    assert [(one.epoch, dict(one.values)) for one in read_metrics(run.metrics_file)] == [
        (0, {"loss": 3.0}),
        (1, {"loss": 2.0}),
        (2, {"loss": 1.0}),
    ]
    resumed = ScriptRecordCallback(run)
    resumed.restore(record.state)
    assert resumed.epochs == 3


def test_many_short_epochs_are_written_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(script_results.time, "monotonic", lambda: now[0])
    written: list[int] = []
    record = ScriptRecordCallback(RunDir(tmp_path))

    def write(self: object) -> None:
        written.append(record.epochs)
        now[0] += 1.0

    monkeypatch.setattr(script_results.RunRecordCallback, "write", write)
    for epoch in range(120):
        record.on_epoch_end(epoch, {"loss": 1.0})
        now[0] += 1.0
    assert written == [1, 51, 101]
    record.finish()
    record.finish()
    assert written == [1, 51, 101, 120]


def test_a_disk_that_does_not_answer_is_waited_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = threading.Event()
    monkeypatch.setattr(script_results, "BoundedDisk", lambda place: BoundedDisk(place, 0.1))
    monkeypatch.setattr(script_results.RunRecordCallback, "write", lambda self: answers.wait(30))
    record = ScriptRecordCallback(RunDir(tmp_path))
    begun = time.monotonic()
    for epoch in range(20):
        record.on_epoch_end(epoch, {"loss": 1.0})
    assert record.epochs == 20 and time.monotonic() - begun < 10
    answers.set()
