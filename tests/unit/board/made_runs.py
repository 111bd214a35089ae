"""Run directories for the board, made by hand, some of them by somebody who means it no good."""

from __future__ import annotations

import json
import socket
from pathlib import Path

from tests.helpers.ledger_lines import killed_once
from tfdist.launch.agent.exit_diagnosis import from_signal
from tfdist.launch.run_dir.run_records import write_failure
from tfdist.rundir import RunDir, State, WorkerState, create_run_dir, ledger_lines
from tfdist.rundir.failure import Failure
from tfdist.rundir.state_records import JobState

CREATED = 1_700_000_000.0
ELSEWHERE = "h1"

SCRIPT = "<script>document.body.dataset.pwned=1</script>"
IMAGE = '"><img src=x onerror=document.body.dataset.pwned=1>'
LINK = "javascript:document.body.dataset.pwned=1"
TURNED = "loss\N{RIGHT-TO-LEFT OVERRIDE}gnp.exe"
LONG = "x" * 10_000
HOSTILE = (SCRIPT, IMAGE, LINK, TURNED, LONG, "__proto__", "constructor", "val_", "")


def make_run(path: Path, created: float = CREATED, epochs: int = 3, phase: str = "done", rate: float = 0.1) -> RunDir:
    """A run of two workers on other machines, with all that the board shows."""
    run = create_run_dir(path, name="digits")
    run.run_file.write_text(json.dumps({"name": "digits", "created": created}))
    state = State.FINISHED if phase == "done" else State.STEP
    for index in (0, 1):
        host = f"h{index + 1}"
        WorkerState(index, f"{host}:20000", host, 100 + index, 0, state, epochs - 1, 418, created + 60, busy=0.1).write(
            run.state_file(index), durable=False
        )
        run.log_file(index, 0).write_text(f"hello of worker {index}\n")
    JobState(phase, 0, ELSEWHERE, 99, created + 60).write(run.job_file, durable=False)
    lines = [{"epoch": epoch, "time": created + 10 * epoch, "loss": 2.0 - epoch / 2} for epoch in range(epochs)]
    run.metrics_file.write_text("".join(json.dumps({**line, "val_loss": line["loss"] + 1}) + "\n" for line in lines))
    for entry in killed_once():
        ledger_lines.append_entry(run.ledger_file, entry)
    run.config_file.write_text(f"name: digits\nfit: {{epochs: {epochs}}}\noptimizer: {{rate: {rate}}}\n")
    return run


def make_hostile_run(folder: Path) -> RunDir:
    """A run whose names, metrics, logs and failure are markup, scripts and marks that turn the text around them."""
    run = make_run(folder / IMAGE.replace("/", "_"), phase="failed")
    run.run_file.write_text(json.dumps({"name": SCRIPT, "created": CREATED + 1000}))
    values = {name: 1.5 + place for place, name in enumerate(HOSTILE)}
    lines = [{"epoch": epoch, **values, "loss": 1.0} for epoch in (0, 1)]
    run.metrics_file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    run.log_file(0, 0).write_text(f"{SCRIPT}\n{LONG}\n\x1b[2J{TURNED}\n")
    failure = Failure(0, IMAGE, CREATED, "exception", SCRIPT, type=LINK, traceback=IMAGE, last_lines=(TURNED,))
    write_failure(run.failure_file, (failure, from_signal(1, 9)))
    WorkerState(1, None, SCRIPT, 7, 0, State.FAILED, 0, 1, CREATED, busy=0.1).write(run.state_file(1))
    run.config_file.write_text(json.dumps({SCRIPT: {IMAGE: LINK}, "name": "x"}))
    assert socket.gethostname() != ELSEWHERE
    return run
