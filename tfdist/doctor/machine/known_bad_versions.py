"""Table of package combinations that are known not to work, each with the reason and the remedy."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tfdist.runtime.tested_versions import KERAS, TENSORFLOW
from tfdist.versions import OTHER_TENSORFLOWS

Versions = Mapping[str, str]
"""Distribution name, and `python`, -> version; what is not installed is absent."""


@dataclass(frozen=True)
class KnownBad:
    """A combination that does not work.

    Attributes:
        matches: Whether some versions are such a combination.
        reason: What goes wrong.
        advice: What to do.
        fails: Whether tfdist cannot train with it; otherwise it is a warning.
    """

    matches: Callable[[Versions], bool]
    reason: str
    advice: str
    fails: bool = True


def known_bad(versions: Versions) -> list[KnownBad]:
    """The known-bad combinations among some installed versions."""
    return [entry for entry in TABLE if entry.matches(versions)]


def numbers(version: str) -> tuple[int, int]:
    """The first two numbers of a version: (2, 21) of `2.21.0rc1`."""
    found = [int(number) for number in re.findall(r"\d+", version)[:2]]
    return (found[0] if found else 0, found[1] if len(found) > 1 else 0)


def _below(versions: Versions, package: str, major: int, minor: int) -> bool:
    return package in versions and numbers(versions[package]) < (major, minor)


def _from(versions: Versions, package: str, major: int, minor: int) -> bool:
    return package in versions and numbers(versions[package]) >= (major, minor)


def twins(versions: Versions) -> list[str]:
    """Other distributions of TensorFlow that are installed."""
    return [name for name in OTHER_TENSORFLOWS if name in versions]


TABLE: tuple[KnownBad, ...] = (
    KnownBad(
        lambda v: _below(v, "python", 3, 11),
        "tfdist needs Python 3.11",
        "Create a new environment with Python 3.11 to 3.13.",
    ),
    KnownBad(
        lambda v: _below(v, "keras", 3, 0),
        "Keras 2 has another trainer, which tfdist does not repair",
        f"pip install '{KERAS}' '{TENSORFLOW}'",
    ),
    KnownBad(
        lambda v: _from(v, "keras", 3, 0) and _below(v, "tensorflow", 2, 16),
        "TensorFlow before 2.16 brings Keras 2 as tf.keras beside the Keras 3 that is installed",
        f"pip install '{TENSORFLOW}'",
    ),
    KnownBad(
        lambda v: _from(v, "numpy", 2, 0) and _below(v, "tensorflow", 2, 18),
        "TensorFlow before 2.18 was built for NumPy 1 and does not import with NumPy 2",
        f"pip install '{TENSORFLOW}'",
    ),
    KnownBad(
        lambda v: len(twins(v)) + ("tensorflow" in v) > 1,
        "two distributions of TensorFlow are installed, which overwrite each other's files",
        f"Uninstall all of them (pip uninstall tensorflow {' '.join(OTHER_TENSORFLOWS)}), then install one again.",
    ),
    KnownBad(
        lambda v: "tensorflow-io" in v and _from(v, "tensorflow", 2, 21),
        "tensorflow-io does not load with TensorFlow 2.21",
        "Do without it: scripts that import it fail. TensorFlow itself reads gs://, and tfdist s3:// (the extra s3).",
        fails=False,
    ),
)
