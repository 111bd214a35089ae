from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tfdist import url_schemes
from tfdist.url_schemes import fault_as_local, fault_of, is_bucket, is_url, scheme_of


@pytest.mark.parametrize(
    ("name", "scheme"),
    [
        ("runs/a", None),
        ("/runs/a", None),
        ("", None),
        ("C:/runs", None),
        ("data:/x", None),  # a folder may be called so
        ("a/s3://b", None),
        ("s3://b/x", "s3"),
        ("gs://b/train-*", "gs"),
        ("S3://b", "S3"),
        ("hdfs://namenode:9000/x", "hdfs"),
        (Path("s3://b/x"), "s3"),
        ("s3:/b/x", "s3"),
    ],
)
def test_schemes(name: str | Path, scheme: str | None) -> None:
    assert scheme_of(name) == scheme
    assert is_url(name) == (scheme is not None)
    assert is_bucket(name) == (scheme == "s3")


@pytest.mark.parametrize("name", ["runs/a", "s3://b/x", "gs://b/x", "ram://x", "file:///x"])
def test_what_is_supported_has_no_fault(name: str) -> None:
    assert fault_of(name) is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("hdfs://n/x", "hdfs://n/x is on a file system that tfdist does not know, hdfs://. Expected a path of this"),
        ("az://c/x", "does not know, az://"),
        ("s3a://b/x", "does not know, s3a://"),
        ("S3://b/x", "S3://b/x has its scheme in capitals. Expected s3://. Received: S3://"),
        (Path("s3://b/x"), "s3:/b/x was a URL before pathlib took it for a path. Expected a str, "),
    ],
)
def test_others_are_told_what_to_do(name: str, expected: str) -> None:
    assert expected in str(fault_of(name))


def test_without_the_extra_the_package_and_the_command_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(url_schemes.importlib.util, "find_spec", lambda name: None if name == "s3fs" else found(name))
    fault = str(fault_of("s3://b/x"))
    assert "s3fs, which is not installed" in fault and "pip install 'tfdist[s3]'" in fault
    assert fault_of("gs://b/x") is None


def test_what_must_be_local() -> None:
    assert fault_as_local("runs/a", "--run-dir", "Do this.") is None
    fault = fault_as_local("gs://b/run", "--run-dir", "Do this.")
    assert fault == (
        "--run-dir is a URL. Expected a path of this machine, or of a mounted file system. Received: gs://b/run. "
        "Do this."
    )
