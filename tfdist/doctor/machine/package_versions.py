"""Installed package versions, and whether tfdist is tested with them; no package is imported for that."""

from __future__ import annotations

import importlib.metadata
import platform

from tfdist.doctor.check_result import Check, CheckStatus, fail, ok, warn
from tfdist.doctor.machine.known_bad_versions import Versions, known_bad, numbers, twins
from tfdist.runtime.tested_versions import KERAS, TENSORFLOW
from tfdist.versions import VERSION, installed_version

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
