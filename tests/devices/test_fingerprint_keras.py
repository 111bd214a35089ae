"""The tool that compares functions that are repaired or relied on with those that are known, and writes their table."""

from __future__ import annotations

import ast
import sys

import pytest

from tfdist import keras_repairs
from tfdist.keras_repairs.fingerprints import FINGERPRINTS
from tools import fingerprint_keras


def test_the_table_is_written_as_it_is() -> None:
    assert fingerprint_keras.written(FINGERPRINTS) == fingerprint_keras.TABLE.read_text(encoding="utf-8")


def test_another_version_is_noted_at_the_same_function_and_another_function_beside_it() -> None:
    table = {"Model.export": {"a": "3.14"}, "Layer.__call__": {"b": "3.14"}}
    found = {"Model.export": "a", "Layer.__call__": "c"}
    merged = fingerprint_keras.with_versions(table, found, {"keras": "3.9", "tensorflow": "2.21"})
    assert merged == {"Model.export": {"a": "3.9 3.14"}, "Layer.__call__": {"b": "3.14", "c": "3.9"}}
    text = fingerprint_keras.written(merged)
    assert ast.literal_eval(text[text.index("= {") + 2 :]) == merged
    assert '"Layer.__call__": {"b": "3.14", "c": "3.9"}' in text


def test_a_difference_is_shown_line_by_line() -> None:
    assert "  -return 1\n  +return 2" in fingerprint_keras.difference("x\nreturn 1", "x\nreturn 2")


def test_what_relies_on_a_changed_function_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(FINGERPRINTS, "keras.src.losses.loss.apply_mask", {"another": "3.12"})
    monkeypatch.setattr(sys, "argv", ["fingerprint_keras.py"])
    with pytest.raises(SystemExit, match="1"):
        fingerprint_keras.main()
    said = "keras.src.losses.loss.apply_mask\n  relied on by tfdist.keras_repairs.forward.loss_reduction\n"
    assert capsys.readouterr().out == said


@pytest.mark.parametrize("installed", [False, True])
def test_everything_is_known_here(installed: bool) -> None:
    """Functions are those of Keras also where others replace them."""
    if installed:
        keras_repairs.install()
    found = fingerprint_keras.fingerprints_here()
    assert [path for path, fingerprint in found.items() if fingerprint not in FINGERPRINTS[path]] == []
