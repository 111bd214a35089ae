from __future__ import annotations

import functools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tfdist.errors import FormingError, RunDirError
from tfdist.launch.run_dir import run_location
from tfdist.launch.run_dir.run_location import create_run_location

join_run_location = functools.partial(run_location.join_run_location, patience=0.05)


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


def test_an_unknown_message_is_refused() -> None:
    with pytest.raises(FormingError, match="same version"):
        join_run_location({"seed": 1}, None, name="n", overwrite=False)


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
