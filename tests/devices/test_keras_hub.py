"""Transformers of KerasHub with dropout give the numbers of one device on 2 and 3."""

from __future__ import annotations

import pytest

from tests.exactness.comparison import assert_same
from tests.exactness.table import outcome_of
from tests.helpers.marks import slow
from tests.helpers.mirrored import mirrored
from tfdist import keras_repairs

pytest.importorskip("keras_hub", reason="KerasHub is not installed; pip install keras-hub")

from tests.exactness.keras_hub_cases import HUB_CASES  # noqa: E402 - it imports KerasHub


@pytest.mark.parametrize(("replicas", "samples"), [slow(2, 64), slow(2, 65), slow(3, 64), (3, 65)])
@pytest.mark.parametrize("name", HUB_CASES)
def test_numbers_of_one_replica(name: str, replicas: int, samples: int) -> None:
    keras_repairs.install()
    expected = outcome_of(HUB_CASES[name], samples)
    with mirrored(replicas).scope():
        assert_same(expected, outcome_of(HUB_CASES[name], samples), name)
