"""Every case of the table on 2 and 3 devices gives the numbers of one."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from tests.devices.mirrored import mirrored
from tests.exactness.cases import CASES, outcome
from tests.exactness.comparing import assert_same
from tfdist import keras_repairs

SIZES = [64, 65]
"""The first divides into batches of 32 and those by two; the second leaves a batch of one sample."""


@functools.cache
def of_one_replica(name: str, samples: int) -> dict[str, Any]:
    keras_repairs.install()
    return outcome(name, samples)


@pytest.mark.bound(120)
@pytest.mark.parametrize("samples", SIZES)
@pytest.mark.parametrize("replicas", [2, 3])
@pytest.mark.parametrize("name", CASES)
def test_numbers_of_one_replica(name: str, replicas: int, samples: int) -> None:
    expected = of_one_replica(name, samples)
    with mirrored(replicas).scope():
        assert_same(expected, outcome(name, samples))
