"""Every class that Keras exports is exact on several devices, or the table says why there is nothing to compare."""

from __future__ import annotations

import functools
import json
import os
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.exactness.__main__ import write_outcomes_together
from tests.exactness.comparison import assert_same
from tests.exactness.keras_classes.exported import exported
from tests.exactness.keras_classes.outcomes import measured
from tests.exactness.keras_classes.table import EAGERLY, GROUPS, NOT_RUN, ROWS, group_of, models_of, names_by_default
from tests.exactness.results import COUNTS, SIZES, Comparison, recorded
from tests.helpers.mirrored import mirrored
from tfdist import keras_repairs

SLOW = bool(os.environ.get("TFDIST_SLOW_TESTS"))
RUN = [(count, samples) for count in COUNTS for samples in SIZES] if SLOW else [(2, 65)]
"""Devices and samples. With 65 the last batch is one sample, and all devices but one have none."""

NAMES = list(ROWS) if SLOW else names_by_default()

ALONE = [(2, 65)] if SLOW else []
"""Where each row has a model of its own: there no other row can hide what is wrong with it. Elsewhere, and by default,
those of a group are trained together, once for all of them."""

BOUND = 1800 if SLOW else 300
"""The first row of a group waits for all of them."""


def _together(name: str) -> tuple[str, ...]:
    """The names of the rows that one model shows with this one."""
    return next(names for names in _models() if name in names)


@functools.cache
def _models() -> list[tuple[str, ...]]:
    return [tuple(row.name for row in rows) for rows in models_of(NAMES)]


@functools.cache
def _outcomes(names: tuple[str, ...], replicas: int, samples: int) -> dict[str, dict[str, Any]]:
    """The numbers of rows by their names. What their model raises, and its bound, is that of each of them."""
    keras_repairs.install()
    rows = [ROWS[name] for name in names]
    eagerly = group_of(rows[0]) in EAGERLY and not SLOW
    try:
        if replicas == 1:
            return measured(rows, samples, eagerly=eagerly, predicts=SLOW)
        with mirrored(replicas).scope():
            return measured(rows, samples, eagerly=eagerly, predicts=SLOW)
    except (Exception, pytest.fail.Exception):
        return dict.fromkeys(names, {"raised": traceback.format_exc()})


@pytest.mark.bound(BOUND)
@pytest.mark.parametrize(("replicas", "samples"), RUN)
@pytest.mark.parametrize("name", NAMES)
def test_numbers_of_one_replica(name: str, replicas: int, samples: int) -> None:
    names = (name,) if (replicas, samples) in ALONE else _together(name)
    with recorded(Comparison(name, "devices", replicas, samples)):
        one, several = (_outcomes(names, count, samples)[name] for count in (1, replicas))
        for outcome in (one, several):
            assert "raised" not in outcome, outcome["raised"]
        assert_same(one, several, name, relative=ROWS[name].tolerance)


def test_every_exported_class_has_a_row() -> None:
    """A class that is new in Keras fails here until it has a row, and so does a row whose class is gone."""
    assert sorted([*ROWS, *NOT_RUN]) == sorted(exported())


def test_every_row_is_in_one_model() -> None:
    models = [tuple(row.name for row in rows) for rows in models_of(ROWS)]
    assert sorted(name for names in models for name in names) == sorted(ROWS)
    assert {names for names in models if len(names) == 1} == {(row.name,) for row in ROWS.values() if row.is_apart}


def test_some_rows_of_every_group_are_in_the_default_tests() -> None:
    by_default = set(names_by_default())
    assert all(by_default & {row.name for row in rows} for rows in GROUPS.values())


def _raises(*args: Any, **options: Any) -> NoReturn:
    raise ValueError("no such layer")


def test_what_a_model_raises_is_that_of_each_of_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.measured", _raises)
    names = ("layers.Dense", "layers.ELU")
    for outcome in map(_outcomes.__wrapped__(names, 1, 65).get, names):
        assert outcome is not None
        assert "no such layer" in outcome["raised"]


def test_what_a_group_of_a_script_raises_is_that_of_each_of_its_names(tmp_path: Path) -> None:
    def make(names: Sequence[str]) -> dict[str, dict[str, Any]]:
        return {"last": {"weights": [1.5]}} if names == ["last"] else _raises()

    write_outcomes_together(str(tmp_path / "out"), [["first", "second"], ["last"]], make)
    outcomes = dict(map(json.loads, (tmp_path / "out.0").read_text().splitlines()))
    assert list(outcomes) == ["first", "second", "last"]
    assert all("no such layer" in outcomes[name]["raised"] for name in ("first", "second"))
    assert outcomes["last"] == {"weights": [1.5]}
