"""The check that Keras is the one that the repairs were written for."""

from __future__ import annotations

import logging

import keras
import pytest

from tfdist import keras_repairs
from tfdist.keras_repairs import keras_versions
from tfdist.keras_repairs.registry import repairs


def known_function() -> int:
    return 1


def other_function() -> int:
    return 2


def warnings_of(caplog: pytest.LogCaptureFixture, version: str, function: object) -> list[str]:
    logger = logging.getLogger("tfdist")
    logger.addHandler(caplog.handler)
    try:
        known = keras_versions.fingerprint(known_function)
        keras_versions.check(version, {"Model.fit": function}, {"Model.fit": known})
    finally:
        logger.removeHandler(caplog.handler)
    return list(dict.fromkeys(record.getMessage() for record in caplog.records))


def test_silent_for_the_tested_keras(caplog: pytest.LogCaptureFixture) -> None:
    assert warnings_of(caplog, "3.15.1", known_function) == []


def test_names_the_tested_range(caplog: pytest.LogCaptureFixture) -> None:
    (said,) = warnings_of(caplog, "3.99.0", known_function)
    assert "3.99.0" in said
    assert "from 3.15, below 3.16" in said
    assert "functions that tfdist repairs are the same" in said


def test_names_a_function_that_changed(caplog: pytest.LogCaptureFixture) -> None:
    (said,) = warnings_of(caplog, "3.15.1", other_function)
    assert "Model.fit" in said


def test_every_repair_was_written_for_this_keras() -> None:
    keras_repairs.install()
    for repair in repairs():
        original = getattr(repair.owner, repair.name).__wrapped__
        if repair.known == keras_versions.UNCHECKED:
            assert callable(original)
            continue
        assert keras_versions.fingerprint(original) == repair.known, f"{repair.path} of Keras {keras.__version__}"


def test_installing_twice_changes_nothing() -> None:
    keras_repairs.install()
    before = [getattr(repair.owner, repair.name) for repair in repairs()]
    keras_repairs.install()
    assert before == [getattr(repair.owner, repair.name) for repair in repairs()]
