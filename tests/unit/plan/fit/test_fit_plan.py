from __future__ import annotations

from typing import Any

from tfdist.plan.fit.fit_plan import FitPlan
from tfdist.plan.fit.fit_plan_table import render

HELD = {"parameters": 4096, "gradients": 4096, "optimizer": 8192, "whole_layer": 0}


def found(**changes: Any) -> dict[str, Any]:
    return {
        "on": "2 workers, 3 replicas",
        "workers": 3,
        "replicas": 3,
        "epochs": 10,
        "data": {"kind": "arrays", "steps": 4, "batch_size": 25, "samples": 80},
        "model": {
            "name": "m",
            "class": "Sequential",
            "parameters": 1024,
            "trainable_parameters": 1000,
            "optimizer": "Adam",
            "overrides": [],
            "steps_per_execution": 1,
        },
        "memory": {
            "mode": "none",
            "modes": {"none": HELD, "zero1": {**HELD, "optimizer": 2731}},
            "gradients": 4096,
            "other": 96,
            "peak": {"of": "process", "bytes": 1 << 30},
        },
        "notes": [
            {"level": "info", "text": "strategy multi_worker, collectives shm: one host"},
            {"level": "warning", "text": "M.train_step of 'm' runs whole on every replica"},
        ],
        "seconds": [2.0, 0.02, 0.01, 0.03],
        "tried": {"steps": 4, "samples": [25.0, 25.0, 25.0, 5.0]},
        **changes,
    }


def test_rows_times_and_memory_follow_from_what_was_found() -> None:
    plan = FitPlan("train.py", found())
    assert (sorted(plan.rows), plan.batch.smallest, plan.batch.largest) == ([8, 8, 9], 8, 9)
    assert plan.tail is not None and plan.tail.samples == 5
    assert (plan.first_seconds, plan.step_seconds, plan.epoch_seconds) == (2.0, 0.02, 0.08)
    document = plan.to_json()
    assert document["data"]["last_batch"] == 5 and sum(document["rows"]) == 25
    assert document["exactness"] == [{"level": "warning", "text": "M.train_step of 'm' runs whole on every replica"}]


def test_a_batch_that_nothing_says_is_the_largest_that_was_tried() -> None:
    data = {"kind": "a PyDataset", "steps": None, "batch_size": 0, "samples": 0}
    plan = FitPlan("train.py", found(data=data))
    assert (plan.batch_size, plan.tail, plan.epoch_seconds) == (25, None, None)
    assert "as many as the data have" in render(plan)


def test_the_table() -> None:
    shown = render(FitPlan("train.py", found()), with_modes=True)
    assert shown.startswith("train.py: the plan of its first fit, by 4 steps of it\n")
    assert "  steps          4 an epoch, 40 in 10 epochs\n" in shown
    assert "4.00 KiB of gradients a step, summed over 3 replicas" in shown
    assert "  time           20 ms a step, 1,250 samples/s" in shown
    assert "  - warning: M.train_step of 'm' runs whole on every replica\n" in shown
    assert "strategy multi_worker" not in shown
    assert "optimizer state   8.00 KiB   2.67 KiB" in shown


def test_one_replica_sends_nothing() -> None:
    alone = FitPlan("train.py", found(replicas=1, workers=1, notes=[]))
    assert alone.to_json()["sends"] is None
    assert "sends          nothing: there is one replica" in render(alone)
