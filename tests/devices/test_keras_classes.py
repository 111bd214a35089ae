"""Every class that Keras exports is exact on several devices, or the table says why there is nothing to compare."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from typing import Any

import pytest

from tests.devices.mirrored import mirrored
from tests.exactness.comparison import assert_same
from tests.exactness.keras_classes.exported import exported
from tests.exactness.keras_classes.outcomes import measured
from tests.exactness.keras_classes.rows import Row
from tests.exactness.keras_classes.table import EAGERLY, GROUPS, NOT_RUN, ROWS
from tests.exactness.results import COUNTS, SIZES, Comparison, recorded
from tfdist import keras_repairs

SLOW = bool(os.environ.get("TFDIST_SLOW_TESTS"))
RUN = [(count, samples) for count in COUNTS for samples in SIZES] if SLOW else [(2, 65)]
"""Devices and samples. With 65 the last batch is one sample, and all devices but one have none."""


def _group_of(row: Row) -> str:
    return next(group for group, rows in GROUPS.items() if row in rows)


@functools.cache
def _outcomes(name: str, replicas: int, samples: int) -> dict[str, dict[str, Any]]:
    """The numbers of a row by its name, with those of its group by default."""
    keras_repairs.install()
    group = _group_of(ROWS[name])
    rows: Sequence[Row] = [ROWS[name]] if SLOW else GROUPS[group]
    eagerly = group in EAGERLY and not SLOW
    if replicas == 1:
        return measured(rows, samples, eagerly=eagerly)
    with mirrored(replicas).scope():
        return measured(rows, samples, eagerly=eagerly)


def _outcome(name: str, replicas: int, samples: int) -> dict[str, Any]:
    # By default the first row of a group stands for all of them, so that they are trained once.
    key = name if SLOW else _first_of(name)
    return _outcomes(key, replicas, samples)[name]


def _first_of(name: str) -> str:
    return GROUPS[_group_of(ROWS[name])][0].name


@pytest.mark.parametrize(("replicas", "samples"), RUN)
@pytest.mark.parametrize("name", ROWS)
def test_numbers_of_one_replica(name: str, replicas: int, samples: int) -> None:
    with recorded(Comparison(name, "devices", replicas, samples)):
        assert_same(_outcome(name, 1, samples), _outcome(name, replicas, samples), name, relative=ROWS[name].tolerance)


def test_every_exported_class_has_a_row() -> None:
    """A class that is new in Keras fails here until it has a row, and so does a row whose class is gone."""
    assert sorted([*ROWS, *NOT_RUN]) == sorted(exported())
