"""Tests of what the metrics are called and what they say, and that the dashboard and the page name no others."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tfdist.launch.job_phases import JobPhase
from tfdist.launch.metrics.run_metrics import WRITTEN_KINDS, RunFacts, families
from tfdist.rundir.state_records import State, WorkerState

DOCS = Path(__file__).parents[4] / "docs"
NAMED = re.compile(r"\btfdist_[a-z_]+")


def state(index: int, **more: Any) -> WorkerState:
    known = {"address": None, "host": f"h{index}", "pid": 1, "attempt": 0, "state": State.STEP, "epoch": 1, "step": 9}
    return WorkerState(**{"index": index, "time": 100.0, **known, **more})


def served(facts: RunFacts) -> dict[str, dict[tuple[str, ...], float]]:
    return {family.name: dict(family.samples) for family in families(facts)}


def test_a_running_job() -> None:
    states = {1: state(1, state=State.SAVING), 0: state(0, rate=12.5, step_seconds=0.5, busy=0.25, moved=99.0)}
    running = RunFacts("digits", "/r", 3, JobPhase.RUNNING, 2, 1, states, 98.0, {"input": 1.5}, {"loss": 0.25})
    found = served(running)
    assert found["tfdist_run_info"] == {("digits", "/r"): 1}
    assert [phase for phase, on in found["tfdist_job_phase"].items() if on] == [("running",)]
    assert found["tfdist_attempt"] == {(): 2} and found["tfdist_restarts_total"] == {(): 1}
    assert found["tfdist_step"] == {(): 9} and found["tfdist_epoch"] == {(): 2} and found["tfdist_epochs"] == {(): 3}
    assert found["tfdist_samples_per_second"] == {(): 12.5} and found["tfdist_step_seconds"] == {(): 0.5}
    assert found["tfdist_last_step_timestamp_seconds"] == {(): 98.0}
    assert found["tfdist_worker_busy_seconds"] == {("0", "h0"): 0.25, ("1", "h1"): 0}
    assert found["tfdist_worker_last_progress_timestamp_seconds"] == {("0", "h0"): 99, ("1", "h1"): 100}
    assert found["tfdist_time_seconds_total"] == {(kind,): 1.5 if kind == "input" else 0 for kind in WRITTEN_KINDS}
    assert found["tfdist_metric"] == {("loss",): 0.25}
    # Of this attempt nothing is known yet: both were last heard of in another one.
    assert on(found) == {("0", "h0", "starting"), ("1", "h1", "starting")}
    later = RunFacts(attempt=2, states={0: state(0, attempt=2), 1: state(1, state=State.FAILED)})
    assert on(served(later)) == {("0", "h0", "step"), ("1", "h1", "failed")}


def on(found: dict[str, dict[tuple[str, ...], float]]) -> set[tuple[str, ...]]:
    return {labels for labels, value in found["tfdist_worker_state"].items() if value}


def test_what_is_not_known_has_no_value() -> None:
    found = served(RunFacts())
    known = {"tfdist_run_info", "tfdist_job_phase", "tfdist_attempt", "tfdist_restarts_total"}
    assert {name for name, samples in found.items() if samples} == known
    assert served(RunFacts(states={0: state(0, epoch=0, step=0)}))["tfdist_epoch"] == {}  # it has begun none


def test_labels_and_names_are_as_prometheus_wants_them() -> None:
    for family in families(RunFacts(states={0: state(0)}, seconds={"step": 1.0}, epoch_metrics={"loss": 1.0})):
        assert family.name.endswith("_total") == (family.kind == "counter")
        assert all(len(labels) == len(family.labels) for labels, _ in family.samples)


def test_the_dashboard_names_metrics_that_exist() -> None:
    dashboard = json.loads((DOCS / "grafana" / "tfdist.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    expressions += [variable["query"]["query"] for variable in dashboard["templating"]["list"][1:]]
    named = {name for expression in expressions for name in NAMED.findall(expression)}
    assert named and named <= {family.name for family in families(RunFacts())}
    used = {label for expression in expressions for label in re.findall(r"\{\{(\w+)\}\}", expression)}
    assert used <= {"instance", *(label for family in families(RunFacts()) for label in family.labels)}


def test_the_page_names_every_metric_and_no_other() -> None:
    page = (DOCS / "metrics.md").read_text()
    assert set(NAMED.findall(page)) == {family.name for family in families(RunFacts())}
    assert all(f"`{kind}`" in page for kind in WRITTEN_KINDS)
