"""The line that a run from a config prints for each epoch."""

from __future__ import annotations

import numpy as np
import pytest

from tests.exactness.table import classifier, numbers
from tfdist.order.epoch_span import EpochSpan
from tfdist.training.config_run.epoch_progress import ProgressCallback


def test_a_metric_with_several_values_is_printed_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    progress = ProgressCallback(epochs=1, span=EpochSpan(1, 1))
    progress.on_epoch_end(0, {"loss": 0.1, "f1_score": np.array([0.5, 1.0], np.float32)})
    assert "f1_score[0] 0.5000  f1_score[1] 1.0000" in capsys.readouterr().out


def test_progress_says_one_line_an_epoch(capsys: pytest.CaptureFixture[str]) -> None:
    x, y = numbers(20)
    model = classifier()
    model.compile("sgd", "sparse_categorical_crossentropy")
    progress = ProgressCallback(epochs=2, span=EpochSpan(20, 10))
    model.fit(x.astype("float32"), y, epochs=2, callbacks=[progress], verbose=0)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [["epoch", "1/2"], ["epoch", "2/2"]]
    assert all("loss" in line and line.endswith("samples/s") for line in lines)
    assert progress.samples_per_second > 0
    assert progress.wait is not None and progress.wait.waited == 0


def test_progress_says_how_much_of_the_steps_time_waited_for_data(capsys: pytest.CaptureFixture[str]) -> None:
    fetched = iter([0.0, 0.0, 1e6, 0.0, 1e-9])
    progress = ProgressCallback(epochs=2, span=EpochSpan(20, 10), fetched=lambda: next(fetched))
    for epoch in range(2):
        progress.on_epoch_begin(epoch)
        progress.on_train_batch_end(0)
        progress.on_epoch_end(epoch)
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition("samples/s")[2] for line in lines] == ["  input 100 %", "  input 0 %"]
