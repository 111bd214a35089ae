"""The check that Keras and TensorFlow are those that the repairs were written for."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any

import keras
import pytest
from keras.src.losses import loss

from tests.devices.repair_removal import take_out
from tfdist import keras_repairs
from tfdist.errors import UnsupportedError
from tfdist.keras_repairs import keras_versions
from tfdist.keras_repairs.assumed_functions import assumed_functions
from tfdist.keras_repairs.fingerprints import FINGERPRINTS
from tfdist.keras_repairs.registry import repairs
from tfdist.runtime import tested_versions

INSTALLED = {"tensorflow": "2.21.0", "keras": "3.15.1"}


def known_function() -> int:
    return 1


def other_function() -> int:
    return 2


def warnings_of(caplog: pytest.LogCaptureFixture, versions: dict[str, str], function: object) -> list[str]:
    logger = logging.getLogger("tfdist")
    logger.addHandler(caplog.handler)
    try:
        known = {"Model.fit": [keras_versions.fingerprint(known_function)]}
        keras_versions.check(versions, {"Model.fit": function}, known)
    finally:
        logger.removeHandler(caplog.handler)
    return list(dict.fromkeys(record.getMessage() for record in caplog.records))


def test_silent_for_the_tested_versions(caplog: pytest.LogCaptureFixture) -> None:
    assert warnings_of(caplog, INSTALLED, known_function) == []


@pytest.mark.parametrize("package", ["keras", "tensorflow"])
def test_warns_of_another_version_whose_functions_are_the_same(
    caplog: pytest.LogCaptureFixture, package: str
) -> None:
    (said,) = warnings_of(caplog, {**INSTALLED, package: "9.9.0"}, known_function)
    assert f"{package} 9.9.0 is not tested" in said
    assert "functions that tfdist repairs or relies on are the same" in said
    assert tested_versions.remedy() in said


@pytest.mark.parametrize("keras_version", ["3.15.1", "3.99.0"])
def test_refuses_a_function_that_does_something_else(
    caplog: pytest.LogCaptureFixture, keras_version: str
) -> None:
    with pytest.raises(UnsupportedError, match=r"Model\.fit \(replaced by .*test_keras_versions") as refused:
        warnings_of(caplog, {**INSTALLED, "keras": keras_version}, other_function)
    assert f"keras {keras_version}" in str(refused.value)


def test_refuses_where_a_function_is_gone(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(UnsupportedError, match=r"Model\.fit \(not there\)"):
        warnings_of(caplog, INSTALLED, None)


def test_what_a_module_lacks_is_told_of_an_untested_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keras_versions, "installed", lambda: {**INSTALLED, "keras": "3.99.0"})
    said = "keras 3.99.0 is not tested.*no module named 'keras.src.export'"
    with pytest.raises(UnsupportedError, match=said), keras_versions.importing():
        raise ImportError("no module named 'keras.src.export'")


def test_a_fault_of_the_tested_versions_is_told_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keras_versions, "installed", lambda: INSTALLED)
    with pytest.raises(ImportError, match="keras.src"), keras_versions.importing():
        raise ImportError("keras.src")


METHOD = '''    @decorated("#")
    def method(self):  # of a class
        """What it does.

not indented
        """
        x = "# no comment"  # but this

        return x
'''


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ("What it does", "Another text", True),
        ("  # but this", "", True),
        ("        return", "        # more\n        return", True),
        ("# no comment", "# another string", False),
        ("return x", "return -x", False),
        ('("#")', '("##")', False),
    ],
)
def test_comments_and_docstrings_do_not_count(before: str, after: str, same: bool) -> None:
    changed = METHOD.replace(before, after)
    assert changed != METHOD
    assert (keras_versions.code_of(changed) == keras_versions.code_of(METHOD)) is same


def test_code_of_a_method() -> None:
    assert keras_versions.code_of(METHOD) == (
        '@decorated("#")\ndef method(self):\n    x = "# no comment"\n    return x'
    )


def with_lines_at_the_margin(given: str) -> str:
    return given + """
at the margin
    # no comment
"""


@pytest.mark.parametrize(
    "function",
    [known_function, with_lines_at_the_margin, keras.Model.compile, keras.layers.MultiHeadAttention.build],
)
def test_the_end_of_a_function_is_found(function: Callable[..., Any]) -> None:
    assert keras_versions.code_of_function(function) == keras_versions.code_of(inspect.getsource(function))


def test_every_repair_was_written_for_these_versions() -> None:
    keras_repairs.install()
    for repair in repairs():
        original = repair.function.__wrapped__
        if not repair.is_checked:
            assert callable(original)
            continue
        known = FINGERPRINTS[repair.path]
        assert keras_versions.fingerprint(original) in known, f"{repair.path} of Keras {keras.__version__}"


def test_what_repairs_rely_on_is_as_it_was() -> None:
    for reliance in assumed_functions():
        known = FINGERPRINTS[reliance.path]
        assert keras_versions.fingerprint(reliance.function) in known, f"{reliance.path} of Keras {keras.__version__}"


def test_what_is_replaced_is_not_relied_on_and_nothing_is_named_twice() -> None:
    paths = [known.path for known in (*repairs(), *assumed_functions())]
    assert sorted(set(paths)) == sorted(paths)


def test_a_function_that_is_relied_on_and_changed_is_refused_before_anything_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keras_repairs.install()
    take_out("Model.export", monkeypatch)
    plain = keras.Model.export
    monkeypatch.setattr(keras_versions, "installed", lambda: {**INSTALLED, "keras": "3.99.0"})
    monkeypatch.setattr(loss, "apply_mask", other_function)
    said = r"keras 3\.99\.0 .*: keras\.src\.losses\.loss\.apply_mask \(replaced by .*test_keras_versions\)\."
    with pytest.raises(UnsupportedError, match=said):
        keras_repairs.install()
    assert keras.Model.export is plain


def test_every_fingerprint_of_these_versions_is_of_what_is_repaired_or_relied_on() -> None:
    installed = {version.rpartition(".")[0] for version in keras_versions.installed().values()}
    of_these = {path for path, known in FINGERPRINTS.items() if installed & set(" ".join(known.values()).split())}
    known_here = (*repairs(), *assumed_functions())
    assert of_these == {known.path for known in known_here if getattr(known, "is_checked", True)}


def test_installing_twice_changes_nothing() -> None:
    keras_repairs.install()
    before = [getattr(repair.owner, repair.name) for repair in repairs()]
    keras_repairs.install()
    assert before == [getattr(repair.owner, repair.name) for repair in repairs()]
