""""""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from tests.helpers.disks import small_disk
from tfdist.cluster.discover import discover
from tfdist.config import RunConfig, load_config
from tfdist.config.load import read_config
from tfdist.errors import RunDirError, UsageError
from tfdist.launch.job import run_job
from tfdist.launch.job_spec import JobSpec
from tfdist.launch.worker.config_handover import generated_code_dir, handed_over, receive_config

CONFIG = """
model: {build: a.b, args: {since: 2026-01-01, key: !!binary aGk=, sizes: {1: [2, 3]}, nothing: null, rate: 1e-3}}
compile: {optimizer: {name: sgd, learning_rate: 0.1}, loss: mse}
data: {batch_size: 8, train: {format: csv, files: "part-*.csv", label: y}}
"""


@pytest.fixture
def config(tmp_path: Path) -> RunConfig:
    file = tmp_path / "a.yaml"
    file.write_text(CONFIG)
    return load_config(file)


def test_a_worker_receives_the_config_that_was_read(config: RunConfig) -> None:
    with handed_over(config) as fd:
        assert fd is not None
        assert receive_config(os.dup(fd)).config == config


def test_a_worker_receives_the_lines_of_its_keys(config: RunConfig, tmp_path: Path) -> None:
    document = read_config(tmp_path / "a.yaml", ["compile.loss=mae"])
    with handed_over(config, document) as fd:
        assert fd is not None
        received = receive_config(os.dup(fd)).document
    assert received is not None
    assert received.where("data.train.label") == f"{tmp_path}/a.yaml:4"
    assert received.where("compile.loss") == "--set compile.loss=mae"


def test_every_start_of_every_worker_receives_it(config: RunConfig) -> None:
    """Inherited descriptors share one position."""
    with handed_over(config) as fd:
        assert fd is not None
        assert [receive_config(os.dup(fd)).config for _ in range(3)] == [config] * 3


def test_it_may_be_larger_than_a_variable_of_the_environment(config: RunConfig) -> None:
    args = {"names": [f"class {number}" for number in range(100_000)]}
    large = replace(config, model=replace(config.model, args=args))
    with handed_over(large) as fd:
        assert fd is not None
        assert receive_config(os.dup(fd)).config == large


def test_without_a_directory_for_temporary_files_there_is_an_error(
    config: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    with pytest.raises(RunDirError, match=r"absent could not be written.* Choose another TMPDIR"), handed_over(config):
        pass


def test_where_no_directory_is_found_there_is_an_error(config: RunConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    def find_none() -> None:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", find_none)
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_get_default_tempdir", find_none)
    with pytest.raises(RunDirError, match="Choose another TMPDIR"), handed_over(config):
        pass


def test_a_job_fails_over_it_before_its_run_directory_is_there(
    config: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And before other launchers have started workers, which would be told of a launcher that is gone."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    run = tmp_path / "run"
    job = JobSpec.for_config(config, target="a.yaml", membership=discover(nproc=1, environ={}), run_dir=str(run))
    with pytest.raises(RunDirError, match="Choose another TMPDIR"):
        run_job(job)
    assert not run.exists()


def test_a_full_disk_is_an_error(config: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    large = replace(config, model=replace(config.model, args={"text": "x" * 100_000}))
    with small_disk(tmp_path / "disk", "16k") as disk:
        monkeypatch.setattr(tempfile, "tempdir", str(disk))
        with pytest.raises(RunDirError, match="The disk is full: .* TMPDIR on another disk"), handed_over(large):
            pass


def test_a_script_has_none() -> None:
    with handed_over(None) as fd:
        assert fd is None
    with pytest.raises(UsageError, match="has handed over no config"):
        receive_config(None)


def test_nothing_stays_open(config: RunConfig) -> None:
    before = os.listdir("/proc/self/fd")
    with handed_over(config) as fd:
        assert fd is not None
        receive_config(os.dup(fd))
    assert os.listdir("/proc/self/fd") == before


_KILLED = """
import os, signal
from tfdist.launch.worker.config_handover import generated_code_dir
with generated_code_dir() as folder:
    open(os.path.join(folder, "made.py"), "w").close()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_the_folder_is_removed_with_all_that_is_in_it(place: Path) -> None:
    with generated_code_dir() as folder:
        assert folder is not None and Path(folder).parent == place
        assert os.stat(folder).st_mode & 0o777 == 0o700
        (Path(folder) / "__pycache__").mkdir()
        (Path(folder) / "__pycache__" / "made.pyc").touch()
    assert not list(place.iterdir())


def test_a_launcher_that_was_killed_leaves_it_to_the_next_one(place: Path) -> None:
    subprocess.run([sys.executable, "-c", _KILLED], env={**os.environ, "TMPDIR": str(place)}, timeout=150)
    (left,) = place.iterdir()
    other = place / "of-somebody-else.py"
    other.touch()
    with generated_code_dir() as folder, generated_code_dir() as beside:
        # The one of a launcher that runs stays.
        assert sorted(place.iterdir()) == sorted([Path(str(folder)), Path(str(beside)), other])
    assert not left.exists() and list(place.iterdir()) == [other]


def test_a_place_that_cannot_be_written_leaves_the_choice_to_tensorflow(place: Path) -> None:
    place.rmdir()
    place.touch()
    with generated_code_dir() as folder:
        assert folder is None
