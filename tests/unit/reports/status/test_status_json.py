from __future__ import annotations

import json

import pytest

from tests.unit.reports.status.moments import FAILURE, status, worker
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
