"""Installed package versions, and whether tfdist is tested with them; no package is imported for that."""

from __future__ import annotations

import importlib.metadata
import platform
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tfdist.doctor.check_result import Check, CheckStatus, fail, ok, warn
from tfdist.runtime.tested_versions import KERAS, TENSORFLOW
from tfdist.versions import OTHER_TENSORFLOWS, VERSION, installed_version

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


_PYTHON = ((3, 11), (3, 14))
"""The first supported Python, and the first that is not."""
_NEEDED = ("tfdist", "tensorflow", "keras", "numpy")
_TESTED_TWIN = "tensorflow-cpu"
"""The same TensorFlow without its CUDA kernels."""


def installed() -> dict[str, str]:
    """The version of every installed distribution, by its name in lower case, and Python's as `python`."""
    found = {"python": platform.python_version()}
    for distribution in importlib.metadata.distributions():
        # A broken installation has metadata without a name or a version.
        name, version = distribution.metadata["Name"], distribution.metadata["Version"]
        if name and version:
            found.setdefault(name.lower().replace("_", "-"), version)
    found["tfdist"] = VERSION  # metadata are those of the last installation, of an editable one as well
    if "tensorflow" not in found and not twins(found) and (unheard_of := installed_version("tensorflow")):
        found["tensorflow"] = unheard_of
    return found


def check_versions(versions: Versions) -> list[Check]:
    """Judges what is installed."""
    build = _tensorflow_build(versions)
    names = ("python", *(build if name == "tensorflow" else name for name in _NEEDED))
    said = ", ".join(f"{name} {versions.get(name, 'not installed')}" for name in names)
    if build not in ("tensorflow", _TESTED_TWIN):
        advice = f"pip install '{TENSORFLOW}' in its place, unless this machine needs that one."
        return [warn("versions", f"{said}: {build} in place of tensorflow is untested", advice)]
    judged = {"tensorflow" if name == build else name: version for name, version in versions.items()}
    absent = [name for name in _NEEDED if name not in judged]
    if absent:
        advice = f"pip install {' '.join(absent)}, into the environment that runs tfdist."
        return [fail("versions", f"{said}: {', '.join(absent)} cannot be found", advice)]
    bad = [
        (fail if entry.fails else warn)("versions", f"{entry.reason} ({said})", entry.advice)
        for entry in known_bad(judged)
    ]
    # Of a combination that is known to fail it does not matter whether it was tested.
    return bad if any(check.status is CheckStatus.FAIL for check in bad) else [_tested(judged, said, build), *bad]


def _tensorflow_build(versions: Versions) -> str:
    """The distribution that installed TensorFlow, or should have."""
    return "tensorflow" if "tensorflow" in versions else next(iter(twins(versions)), "tensorflow")


def _tested(versions: Versions, said: str, build: str) -> Check:
    ranges = (TENSORFLOW, KERAS)
    untested = [tested for tested in ranges if not tested.includes(versions[tested.package])]
    # Not the other distribution beside this one, whose files it would overwrite.
    wishes = [f"'{tested}'".replace(TENSORFLOW.package, build) for tested in untested]
    first, beyond = _PYTHON
    if not first <= numbers(versions["python"]) < beyond:
        return warn("versions", f"{said}: this Python is untested", "Use Python 3.11 to 3.13.")
    if untested:
        texts = "; ".join(tested.untested(versions[tested.package]) for tested in untested)
        return warn("versions", f"{said}: {texts}", f"Install tested ones: pip install {' '.join(wishes)}")
    return ok("versions", f"{said}: tested")
