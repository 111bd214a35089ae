"""What the monitor of a training tells the activity tracker, and through it heartbeat and ledger."""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
import pytest

from tests.devices.fresh_repairs import put_in
from tfdist.keras_repairs.repair import RepairHooks
from tfdist.launch.environment import Assignment
from tfdist.rundir import State, ledger_lines
from tfdist.runtime.step_meter import StepMeter
from tfdist.training.supervision.activity import Limits
from tfdist.training.supervision.activity_tracker import ActivityTracker
from tfdist.training.supervision.heartbeat import Heartbeat, LedgerWriter
from tfdist.training.supervision.stop_requests import StopRequests
from tfdist.training.supervision.training_monitor import TrainingMonitor


def test_activity_and_ledger_of_a_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps are counted right where the last execution of an epoch has fewer than the others, on one replica, too."""
    assignment = Assignment(run_dir=str(tmp_path), seed=1, index=0, num_workers=1, target_kind="script", target="x.py")
    activity = ActivityTracker(Limits(600.0, 600.0))
    heartbeat = Heartbeat(tmp_path / "state.json", assignment, activity)
    ledger = LedgerWriter(tmp_path / "ledger.jsonl", 0, activity)
    monitor = TrainingMonitor(activity, StopRequests(grace=1), StepMeter())
    put_in(RepairHooks(listener=monitor), monkeypatch)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", steps_per_execution=4)
    x = np.random.default_rng(1).normal(size=(41, 3)).astype("float32")
    model.fit(x, x[:, :1], batch_size=8, epochs=3, validation_split=0.1, callbacks=[monitor.callback()], verbose=0)
    reached = activity.snapshot()
    assert (reached.step, reached.epoch, reached.limit) == (15, 2, None)
    ledger.close()
    entries = ledger_lines.read_ledger(tmp_path / "ledger.jsonl").entries
    stretches = [entry for entry in entries if isinstance(entry, ledger_lines.LedgerInterval)]
    assert (sum(stretch.steps for stretch in stretches), stretches[-1].step) == (15, 15)
    kinds = {kind for stretch in stretches for kind in stretch.seconds}
    known = {*map(str, ledger_lines.TimeKind)} - {"replay"}
    assert {"start-up", "compile", "step", "evaluation", "callback"} <= kinds <= known
    heartbeat.finish(State.FINISHED)
