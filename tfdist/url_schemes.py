"""Schemes of URLs: which stores tfdist reaches by a name such as `s3://bucket/run`, and what it says of all others.

Nothing is reached here. Who takes a path asks for its fault first, so that no URL is ever taken for a local folder.
"""

from __future__ import annotations

import importlib.util
import os
import re

OF_TENSORFLOW = ("gs", "ram", "file")
"""Schemes that TensorFlow has a file system for."""

OF_BUCKETS = ("s3",)
"""Schemes that fsspec reaches, without TensorFlow."""

CHECKPOINTS_INSTEAD = (
    "A run directory has logs that are appended to and states that are replaced every second, which no bucket takes. "
    "Keep it here, and a copy in the bucket: tfdist train --copy-to s3://BUCKET/RUN. Or the checkpoints alone: "
    "checkpoint: {directory: s3://BUCKET/RUN} in the config, or --set checkpoint.directory=s3://BUCKET/RUN"
)
"""The advice for a run directory in a bucket: what to do instead."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_FLATTENED = re.compile(r"(s3|s3a|gs|gcs|hdfs|az|abfs|abfss|wasb|wasbs|https?):/(?!/)")
"""`pathlib.Path("s3://bucket")` is `s3:/bucket`."""

_SUPPORTED = "a path of this machine, s3://BUCKET/NAME or gs://BUCKET/NAME"
_INSTALL = "pip install 'tfdist[s3]'"


def scheme_of(name: str | os.PathLike[str]) -> str | None:
    """The scheme of a URL, as it is written; None for a path."""
    text = os.fspath(name)
    found = _SCHEME.match(text) or _FLATTENED.match(text)
    return found and found[1]


def is_url(name: str | os.PathLike[str]) -> bool:
    """Returns whether a name has a scheme."""
    return scheme_of(name) is not None


def is_bucket(name: str | os.PathLike[str]) -> bool:
    """Returns whether a name is a URL that fsspec reaches."""
    return scheme_of(name) in OF_BUCKETS


def fault_of(name: str | os.PathLike[str]) -> str | None:
    """Returns why a name cannot be used where buckets can, with what to do; None for a path and for a supported URL."""
    scheme, text = scheme_of(name), os.fspath(name)
    if scheme is None:
        return None
    if _FLATTENED.match(text):
        return f"{text} was a URL before pathlib took it for a path. Expected a str, {_SUPPORTED}. Received: {name!r}"
    if scheme in OF_BUCKETS:
        missing = [package for package in ("fsspec", "s3fs") if importlib.util.find_spec(package) is None]
        return missing_package(text, missing[0]) if missing else None
    if scheme in OF_TENSORFLOW:
        return None
    if scheme.lower() in (*OF_TENSORFLOW, *OF_BUCKETS):
        return f"{text} has its scheme in capitals. Expected {scheme.lower()}://. Received: {scheme}://"
    return (
        f"{text} is on a file system that tfdist does not know, {scheme}://. Expected {_SUPPORTED}. Mount it on this "
        "machine and give the path, or copy what is needed."
    )


def missing_package(text: str, package: str) -> str:
    """The fault of an s3:// URL on a machine without what reaches it."""
    return (
        f"{text} is read and written by {package}, which is not installed. Expected the extra s3. Install it on every "
        f"host: {_INSTALL}"
    )


def fault_as_local(name: str | os.PathLike[str], what: str, instead: str) -> str | None:
    """Returns why a name cannot be used where only this machine's files can; None for a path.

    Args:
        name: The name.
        what: What it is the name of: `--run-dir`.
        instead: What to do, a sentence.
    """
    if not is_url(name):
        return None
    return f"{what} is a URL. Expected a path of this machine, or of a mounted file system. Received: {name}. {instead}"
