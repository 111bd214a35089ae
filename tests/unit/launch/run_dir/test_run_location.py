from __future__ import annotations

import functools
import json
import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.launch_fakes import state
from tests.helpers.ledger_lines import did, over, running
from tfdist.errors import FormingError, RunDirError
from tfdist.launch.run_dir import run_location
from tfdist.launch.run_dir.run_location import create_run_location, lines_of_killed
from tfdist.rundir import RunDir, State
from tfdist.rundir.ledger_lines import AttemptPhase, LedgerEvent, LedgerInterval, append_entry, read_ledger
from tfdist.rundir.state_records import note_completion

join_run_location = functools.partial(run_location.join_run_location, patience=0.05)
FIRST = did(0, 2.0, 9.0, step=1, steps=(0, 1))


def test_the_default_directory_is_sent_as_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    place = create_run_location(None, name="digits", overwrite=False, seed=None)
    assert place.shown.startswith("runs/digits-")
    assert place.run_dir.path == tmp_path / place.shown
    assert 0 <= place.seed < 2**31
    assert create_run_location(None, name="digits", overwrite=False, seed=7).seed == 7


def test_a_shared_directory_is_joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    chief = create_run_location("r", name="n", overwrite=False, seed=1)
    other = join_run_location(chief.go(), None, name="n", overwrite=True)
    assert other.run_dir == chief.run_dir
    assert (other.seed, other.attempt, other.job) == (1, 0, chief.job)
    assert chief.writes_failure and not other.writes_failure


def test_a_directory_that_is_not_shared_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chief = create_run_location(str(tmp_path / "a" / "r"), name="n", overwrite=False, seed=1)
    (tmp_path / "b").mkdir()
    monkeypatch.chdir(tmp_path / "b")
    other = join_run_location({**chief.go(), "run_dir": "runs/r"}, None, name="n", overwrite=False)
    assert other.run_dir.path == tmp_path / "b" / "runs" / "r"
    assert other.writes_failure
    # A --run-dir of this host's own takes precedence.
    own = join_run_location(chief.go(), str(tmp_path / "own"), name="n", overwrite=False)
    assert own.run_dir.path == tmp_path / "own"


def test_an_earlier_run_is_kept_without_overwrite(tmp_path: Path) -> None:
    chief = create_run_location(str(tmp_path / "a"), name="n", overwrite=False, seed=1)
    earlier = create_run_location(str(tmp_path / "b"), name="n", overwrite=False, seed=1)
    log = earlier.run_dir.log_file(1, 0)
    log.write_text("earlier")
    with pytest.raises(RunDirError, match="--overwrite"):
        join_run_location(chief.go(), str(tmp_path / "b"), name="n", overwrite=False)
    assert log.exists()
    join_run_location(chief.go(), str(tmp_path / "b"), name="n", overwrite=True)
    assert not log.exists()


def test_launchers_that_share_a_directory_but_not_with_the_chief(tmp_path: Path) -> None:
    chief = create_run_location(str(tmp_path / "a"), name="n", overwrite=False, seed=1)
    with ThreadPoolExecutor(4) as pool:
        jobs = [
            pool.submit(join_run_location, chief.go(), str(tmp_path / "b"), name="n", overwrite=True) for _ in range(4)
        ]
        places = [job.result(timeout=20) for job in jobs]
    assert sum(place.writes_failure for place in places) == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"run_dir": None},
        {"run_dir": "a\0b"},
        {"seed": math.inf},
        {"seed": "x"},
        {"attempt": -1},
        {"completed": -1},
    ],
)
def test_an_unknown_message_is_refused(changed: dict[str, Any]) -> None:
    go = {"run_dir": "r", "seed": 1, "attempt": 0, "job": "j", "completed": 0, **changed}
    with pytest.raises(FormingError, match="same version"):
        join_run_location({name: value for name, value in go.items() if value is not None}, None, name="n",
                          overwrite=False)  # fmt: skip


@pytest.mark.parametrize("seed", [-1, True, 10**100, "7", None])
def test_a_seed_that_is_none_is_drawn_anew(seed: Any, tmp_path: Path) -> None:
    first = create_run_location(str(tmp_path / "r"), name="n", overwrite=False, seed=5)
    record = json.loads(first.run_dir.run_file.read_text())
    first.run_dir.run_file.write_text(json.dumps({**record, "seed": seed}))
    again = create_run_location(str(tmp_path / "r"), name="n", overwrite=False, seed=None, resume="auto")
    assert 0 <= again.seed < 2**31


def test_a_resumed_run_keeps_its_seed_and_counts_its_attempts_on(tmp_path: Path) -> None:
    path = str(tmp_path / "r")
    first = create_run_location(path, name="n", overwrite=False, seed=None, resume="auto")
    first.run_dir.log_file(0, first.attempt).write_text("")
    again = create_run_location(path, name="n", overwrite=False, seed=None, resume="must")
    assert (again.seed, again.attempt) == (first.seed, 1)
    assert again.job != first.job
    assert create_run_location(path, name="n", overwrite=False, seed=5, resume="auto").seed == 5


def test_only_the_chiefs_host_must_have_the_resumed_run(tmp_path: Path) -> None:
    create_run_location(str(tmp_path / "a"), name="n", overwrite=False, seed=1)
    chief = create_run_location(str(tmp_path / "a"), name="n", overwrite=False, seed=None, resume="must")
    other = join_run_location(chief.go(), str(tmp_path / "b"), name="n", overwrite=False, resume="must")
    assert (other.seed, other.attempt) == (1, chief.attempt)


def test_a_log_of_somebody_elses_does_not_count_attempts(tmp_path: Path) -> None:
    path = str(tmp_path / "r")
    first = create_run_location(path, name="n", overwrite=False, seed=None, resume="auto")
    first.run_dir.log_file(0, 99999999999999999999).write_text("")
    assert create_run_location(path, name="n", overwrite=False, seed=None, resume="auto").attempt == 0


def test_a_run_that_is_complete_is_left_as_it_is_on_every_host(tmp_path: Path) -> None:
    path = str(tmp_path / "a")
    run = create_run_location(path, name="n", overwrite=False, seed=1).run_dir
    run.model_file.write_text("")
    note_completion(run, 3)
    run.state_file(0).write_text("its last state")
    record = run.run_file.read_bytes()
    chief = create_run_location(path, name="n", overwrite=False, seed=None, resume="auto", epochs=2)
    assert (chief.completed, run.run_file.read_bytes(), run.state_file(0).exists()) == (3, record, True)
    other = join_run_location(chief.go(), str(tmp_path / "b"), name="n", overwrite=False, resume="auto")
    assert other.completed == 3 and not (tmp_path / "b").exists()
    # With more epochs, or without --resume, it is what it was.
    assert create_run_location(path, name="n", overwrite=False, seed=None, resume="auto", epochs=4).completed == 0
    with pytest.raises(RunDirError, match="--resume"):
        create_run_location(path, name="n", overwrite=False, seed=None, epochs=3)


def left(run: RunDir, *lines: Any, **fields: Any) -> RunDir:
    """A run whose launcher has written these lines, and whose chief this state."""
    run.state_dir.mkdir(parents=True, exist_ok=True)
    for line in lines:
        append_entry(run.ledger_file, line)
    state(0, 408, **{"moved": 12.0, **fields}).write(run.state_file(0))
    return run


def test_the_steps_since_the_last_line_are_those_of_the_state(tmp_path: Path) -> None:
    interval, end = lines_of_killed(left(RunDir(tmp_path), running(0, 1.0, 0.0), FIRST))
    assert interval == LedgerInterval(0, 9.0, 12.0, {"step": 3.0}, 407, 408)
    assert end == LedgerEvent(0, 12.0, AttemptPhase.FAILED, why="its launcher was killed", step=408)


@pytest.mark.parametrize(
    ("lines", "fields"),
    [
        ([running(0, 1.0, 0.0), FIRST, over(0, 10.0)], {}),
        ([running(0, 1.0, 0.0), FIRST], {"attempt": 1}),
        ([running(0, 1.0, 0.0), FIRST], {"state": State.FINISHED}),
        ([], {}),
    ],
)
def test_nothing_is_added_to_what_is_whole_or_unknown(
    lines: list[Any], fields: dict[str, Any], tmp_path: Path
) -> None:
    assert lines_of_killed(left(RunDir(tmp_path), *lines, **fields)) == []


def test_a_start_that_resumes_adds_them_before_the_states_go(tmp_path: Path) -> None:
    made = create_run_location(str(tmp_path / "r"), name="n", overwrite=False, seed=1)
    left(made.run_dir, running(0, 1.0, 0.0), FIRST)
    again = create_run_location(str(tmp_path / "r"), name="n", overwrite=False, seed=1, resume="auto")
    assert read_ledger(again.run_dir.ledger_file).entries[-1].step == 408
    assert not again.run_dir.state_file(0).exists()
