from __future__ import annotations

import importlib.metadata
import platform

import pytest

from tfdist.doctor.check_result import CheckStatus
from tfdist.doctor.machine.package_versions import check_versions, installed, known_bad, numbers
from tfdist.runtime.tested_versions import KERAS, TENSORFLOW
from tfdist.versions import VERSION

GOOD = {"python": "3.12.4", "tfdist": "0.1.0", "tensorflow": "2.21.0", "keras": "3.15.1", "numpy": "2.4.6"}


def without(package: str) -> dict[str, str]:
    return {name: version for name, version in GOOD.items() if name != package}


@pytest.mark.parametrize(
    ("changed", "reasons"),
    [
        ({}, []),
        ({"python": "3.10.14"}, ["tfdist needs Python 3.11"]),
        ({"keras": "2.15.0"}, ["Keras 2 has another trainer"]),
        ({"tensorflow": "2.15.1"}, ["brings Keras 2 as tf.keras", "was built for NumPy 1"]),
        ({"tensorflow": "2.15.1", "numpy": "1.26.4"}, ["brings Keras 2 as tf.keras"]),
        ({"tensorflow": "2.16.0"}, ["was built for NumPy 1"]),
        ({"tensorflow": "2.18.0rc1"}, []),
        ({"tf-nightly": "2.22.0.dev1"}, ["two distributions of TensorFlow"]),
        ({"tensorflow-io": "0.37.1"}, ["tensorflow-io does not load"]),
        ({"tensorflow-io": "0.37.1", "tensorflow": "2.20.0"}, []),
    ],
)
def test_known_bad(changed: dict[str, str], reasons: list[str]) -> None:
    found = known_bad({**GOOD, **changed})
    assert len(found) == len(reasons)
    assert all(reason in entry.reason for entry, reason in zip(found, reasons, strict=True))


@pytest.mark.parametrize(
    ("versions", "statuses", "text", "advice"),
    [
        (GOOD, [CheckStatus.OK], "keras 3.15.1, numpy 2.4.6: tested", ""),
        (
            {**GOOD, "keras": "3.16.0"},
            [CheckStatus.WARN],
            "keras 3.16.0 is not tested",
            f"pip install '{KERAS}'",
        ),
        (
            {**GOOD, "tensorflow": "2.18.0"},
            [CheckStatus.WARN],
            "tensorflow 2.18.0 is not tested",
            f"'{TENSORFLOW}'",
        ),
        ({**GOOD, "python": "3.14.0"}, [CheckStatus.WARN], "this Python is untested", "Python 3.11 to 3.13"),
        ({**GOOD, "tensorflow-io": "0.37.1"}, [CheckStatus.OK, CheckStatus.WARN], "tested", ""),
        ({**GOOD, "keras": "2.15.0"}, [CheckStatus.FAIL], "Keras 2 has another trainer", "pip install"),
        (
            {**without("tensorflow"), "tensorflow-cpu": "2.21.0"},
            [CheckStatus.OK],
            "tfdist 0.1.0, tensorflow-cpu 2.21.0, keras 3.15.1, numpy 2.4.6: tested",
            "",
        ),
        (
            {**without("tensorflow"), "tensorflow-cpu": "2.30.0"},
            [CheckStatus.WARN],
            "tensorflow 2.30.0 is not tested",
            f"pip install 'tensorflow-cpu{str(TENSORFLOW).removeprefix('tensorflow')}'",
        ),
        (
            {**without("tensorflow"), "tensorflow-cpu": "2.21.0", "tf-nightly": "2.22.0"},
            [CheckStatus.FAIL],
            "two distributions of TensorFlow",
            "Uninstall all of them",
        ),
        (
            {**without("tensorflow"), "tensorflow-rocm": "2.21.0"},
            [CheckStatus.WARN],
            "tensorflow-rocm in place of tensorflow is untested",
            "unless this machine needs that one",
        ),
        (without("tensorflow"), [CheckStatus.FAIL], "tensorflow cannot be found", "pip install tensorflow"),
    ],
)
def test_versions_are_judged(versions: dict[str, str], statuses: list[CheckStatus], text: str, advice: str) -> None:
    checks = check_versions(versions)
    assert [check.status for check in checks] == statuses
    assert text in checks[0].found
    assert advice in checks[0].advice


def test_what_is_installed_is_read_from_metadata() -> None:
    found = installed()
    assert found["python"] == platform.python_version()
    assert found["pyyaml"] == importlib.metadata.version("pyyaml")
    assert found["tensorflow"] == importlib.metadata.version("tensorflow")
    assert found["tfdist"] == VERSION


@pytest.mark.parametrize(("version", "expected"), [("2.21.0rc1", (2, 21)), ("3", (3, 0)), ("none", (0, 0))])
def test_numbers(version: str, expected: tuple[int, int]) -> None:
    assert numbers(version) == expected
