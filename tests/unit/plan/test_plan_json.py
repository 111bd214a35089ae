from __future__ import annotations

import json

from tests.unit.plan.sources import plan, source
from tfdist.plan.plan_inputs import ClusterSize
from tfdist.plan.plan_json import to_json


def test_the_document_has_what_the_table_shows() -> None:
    made = plan(source(30, 3, held_bytes=1000), layout=ClusterSize(2, 4, hosts=2), validation=source(8, whole=True))
    found = json.loads(json.dumps(to_json(made)))
    assert (found["workers"], found["replicas"], found["hosts"], found["batch_size"]) == (2, 4, 2, 10)
    train = found["data"]["train"]
    assert (train["samples"], train["steps_per_epoch"], train["last_batch"]["samples"]) == (33, 4, 3)
    assert train["memory_per_worker"] == {
        "held": 1000,
        "batches": 4800,
        "total": 5800,
        "sample": 100,
        "estimated": False,
    }
    assert train["reads"][1] == {
        "worker": 1,
        "samples": 16,
        "bytes": 1600,
        "whole": False,
        "files": {
            "/data/0.tfrecord": {"samples": 15, "bytes": 1500},
            "/data/1.tfrecord": {"samples": 1, "bytes": 100},
        },
    }
    assert found["data"]["validation"]["reads"][0]["whole"]
    assert [warning["name"] for warning in found["warnings"]] == ["uneven-replicas"]
