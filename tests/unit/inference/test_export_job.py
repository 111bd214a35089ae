"""The process of an export: its answer, its end, its bound, and that nothing is left but what is the same as Keras."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.waiting import until
from tfdist.checkpoint.inspection.model_choice import ModelChoice
from tfdist.errors import TfdistError, UsageError, WorkerFailedError
from tfdist.inference import export_job
from tfdist.inference.export_job import choose_target, request_of, run_export
from tfdist.training.artifacts.artifact_formats import FORMATS

READ = """
import json, os, pathlib, pickle, sys, time
request = pickle.loads(os.read(0, int.from_bytes(os.read(0, 8), "big")))
target = pathlib.Path(request.target)
def tell(**message):
    print(json.dumps(message), flush=True)
def output(difference, nothing="", tolerance=0.1):
    tell(say="written")
    tell(result={"tolerance": tolerance, "outputs": [{"difference": difference}], "shows_nothing": nothing})
"""
WRITES = 'target.write_text("model")\n'
MODEL = ModelChoice("/models/a.keras", True, "a.keras")
CALLER = """
import sys
from tests.unit.inference.test_export_job import export
from tfdist.inference import export_job
export_job.PROCESS_MODULE = "stand_in"
export()
"""


def export(**options: Any) -> Any:
    target = choose_target("a.onnx", "a.keras", FORMATS["onnx"], None)
    say = options.pop("say", lambda text: None)
    return run_export(request_of("onnx", MODEL, None, target, **options), target, say)


@pytest.fixture
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The module that stands in for the process, in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path(__file__).parents[3]}")
    monkeypatch.setattr(export_job, "PROCESS_MODULE", "stand_in")
    return tmp_path / "stand_in.py"


def left(process: Path) -> list[str]:
    return sorted(path.name for path in process.parent.iterdir() if path.name not in ("stand_in.py", "__pycache__"))


def test_what_is_the_same_gets_its_name(process: Path) -> None:
    process.write_text(READ + WRITES + "output(0.1)")
    said: list[str] = []
    assert not export(say=said.append)["differs"]
    assert said == ["written"] and left(process) == ["a.onnx"]
    assert (process.parent / "a.onnx").read_text() == "model"


@pytest.mark.parametrize("difference", ["0.11", "float('inf')", "float('nan')"])
def test_what_differs_is_not_kept(difference: str, process: Path) -> None:
    process.write_text(READ + WRITES + f"output({difference})")
    assert export()["differs"] and left(process) == []


@pytest.mark.parametrize(("tolerance", "is_kept"), [("0.1", False), ("float('inf')", True)])
def test_a_comparison_that_nothing_could_fail_keeps_nothing_where_there_is_a_bound(
    tolerance: str, is_kept: bool, process: Path
) -> None:
    process.write_text(READ + WRITES + f"output(0, 'the output is NaN', {tolerance})")
    assert export()["differs"] != is_kept and left(process) == ["a.onnx"] * is_kept


def test_what_came_into_being_meanwhile_stays(process: Path) -> None:
    process.write_text(READ + WRITES + 'pathlib.Path("a.onnx").write_text("other")\noutput(0)')
    with pytest.raises(UsageError, match="has come into being meanwhile"):
        export()
    assert left(process) == ["a.onnx"] and (process.parent / "a.onnx").read_text() == "other"


@pytest.mark.parametrize(
    ("end", "code", "text"),
    [
        ('tell(error="no layer", code=2, traceback="")', 2, "no layer"),
        ('tell(error="ValueError: bad", code=None, traceback="")', 4, "in code that is not tfdist's: ValueError: bad"),
        ('print("last words", file=sys.stderr); sys.stderr.flush(); os.abort()', 4, r"SIGABRT.*\n.*\n  last words"),
        ("sys.exit(3)", 4, "exit code 3"),
    ],
)
def test_errors(end: str, code: int, text: str, process: Path) -> None:
    process.write_text(READ + WRITES + end)
    with pytest.raises(TfdistError, match=text) as raised:
        export()
    assert raised.value.exit_code == code and left(process) == []


def test_the_bound(process: Path) -> None:
    process.write_text(READ + WRITES + "time.sleep(600)")
    with pytest.raises(WorkerFailedError, match="longer than 3 s.*--timeout"):
        export(seconds=3)
    assert left(process) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_killed_while_it_writes(number: signal.Signals, process: Path) -> None:
    # The process itself ends with its parent by `export_process`, which this one stands in for.
    ends = "import threading\nthreading.Thread(target=lambda: (os.read(0, 1), os._exit(1)), daemon=True).start()\n"
    process.write_text(READ + WRITES + ends + "time.sleep(600)")
    caller = subprocess.Popen([sys.executable, "-c", CALLER], stderr=subprocess.DEVNULL)
    try:
        until(lambda: any(name.startswith(".a.") for name in left(process)), 60, "nothing was written")
        os.kill(caller.pid, number)
        caller.wait(30)
    finally:
        with contextlib.suppress(ProcessLookupError):
            caller.kill()
        caller.wait()
    assert "a.onnx" not in left(process)
    if number == signal.SIGTERM:
        assert left(process) == []
    process.write_text(READ + WRITES + "output(0)")
    export()
    assert left(process) == ["a.onnx"]  # and what was left under a temporary name is gone
