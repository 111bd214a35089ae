"""No verb takes a URL for a local path."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tfdist.cli.main import main


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("train --run-dir s3://b/run a.py", "--set checkpoint.directory=s3://BUCKET/RUN"),
        ("train --run-dir hdfs://n/run a.py", "--run-dir is a URL"),
        ("train --run-dir gs://b/run a.py", "--run-dir is a URL"),
        ("train s3://b/a.py", "TARGET is a URL"),
        ("train gs://b/a.yaml", "TARGET is a URL"),
        ("verify s3://b/a.py", "TARGET is a URL"),
        ("status s3://b/run", "RUN_DIR is a URL"),
        ("ledger s3://b/run", "RUN_DIR is a URL"),
        ("ledger runs --html s3://b/a.html", "--output is a URL"),
        ("checkpoints ls s3://b/run", "its config says where the checkpoints lie"),
        ("checkpoints verify az://b/run", "RUN_DIR is a URL"),
        ("checkpoints export runs s3://b/a.keras", "DEST is a URL"),
        ("config check s3://b/a.yaml", "CONFIG is a URL"),
        ("config init a.npz s3://b/a.yaml", "CONFIG is a URL"),
        ("config init s3://b/x.npz", "DATA is a URL"),
        ("data shard s3://b/a.npz x", "SOURCE is a URL"),
        ("plan s3://b/a.yaml", "TARGET is a URL"),
        ("examples copy s3://b/x", "DIR is a URL"),
        ("data shard a.npz s3://b/x", "DEST is a URL"),
    ],
)
def test_a_url_is_refused(command: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.py").write_text("")
    result = CliRunner().invoke(main, command.split())
    assert result.exit_code == 2
    assert expected in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["a.py"]


@pytest.mark.parametrize(
    ("source", "code", "expected"),
    [
        ("{format: tfrecord, files: 'hdfs://n/*', parse: a.b}", 5, "data.train.files: hdfs://n/* is on a file system"),
        ("{format: csv, files: 's3://b/*.csv', label: y}", 5, "s3://b/*.csv is on another file system"),
        ("{format: npz, path: 'gs://b/a.npz', split: train}", 5, "gs://b/a.npz is on another file system"),
        ("{format: images, path: 'az://b/a', size: [8, 8]}", 5, "does not know, az://"),
    ],
)
def test_data_that_cannot_be_read_is_refused_before_the_start(
    source: str, code: int, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.yaml").write_text(
        f"model: {{build: tfdist.models.mlp}}\ncompile: {{optimizer: adam, loss: mse}}\n"
        f"data: {{batch_size: 8, train: {source}}}\n"
    )
    result = CliRunner().invoke(main, ["train", "a.yaml"])
    assert result.exit_code == code
    assert expected in result.stderr and "a.yaml:3" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["a.yaml"]


def test_a_place_of_checkpoints_that_nothing_reaches_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.yaml").write_text(
        "model: {build: tfdist.models.mlp}\ncompile: {optimizer: adam, loss: mse}\n"
        "data: {batch_size: 8, train: {format: npz, path: a.npz, split: train}}\n"
        "checkpoint: {directory: 'abfs://c/run'}\n"
    )
    result = CliRunner().invoke(main, ["config", "check", "a.yaml"])
    assert result.exit_code == 2
    assert "a.yaml:4: checkpoint.directory: abfs://c/run is on a file system" in result.stdout + result.stderr
