from __future__ import annotations

import dataclasses
import json
import math

import pytest

from tests.unit.reports.status.moments import FAILURE, status, worker
from tfdist.launch.run_dir.epoch_metrics import EpochMetrics
from tfdist.reports.status.status_json import to_json


def test_the_document() -> None:
    found = status(
        worker(0), worker(1, busy=0.15), attempt=1, earlier={0: FAILURE}, unreadable={2: "torn"}, absent=(3,)
    )
    document = json.loads(json.dumps(to_json(found)))
    assert {key: document[key] for key in ("name", "run_dir", "status", "over", "attempt")} == {
        "name": "digits",
        "run_dir": "/r",
        "status": "running",
        "over": False,
        "attempt": 1,
    }
    assert document["failure"]["step"] == 418
    assert document["unreadable"] == [{"index": 2, "why": "torn"}] and document["absent"] == [3]


def test_a_worker_in_the_document() -> None:
    slow, quick = to_json(status(worker(0), worker(1, busy=0.15)))["workers"]
    assert (slow["index"], slow["state"], slow["epoch"], slow["process"], slow["quiet"]) == (1, "step", 2, "alive", 1.0)
    assert slow["straggler"] == {"slower": pytest.approx(0.5), "cost": pytest.approx(0.05), "others": 0.1}
    assert quick["straggler"] is None


def test_metrics_in_the_document() -> None:
    assert to_json(status(worker(0)))["metrics"] is None
    metrics = EpochMetrics(2, 5.0, {"loss": 0.25, "val_loss": math.nan, "b": math.inf})
    document = to_json(dataclasses.replace(status(worker(0)), metrics=metrics))
    assert document["metrics"] == {"epoch": 2, "time": 5.0, "values": {"loss": 0.25, "val_loss": None, "b": None}}
    json.dumps(document, allow_nan=False)
