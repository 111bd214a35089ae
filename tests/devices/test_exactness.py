"""Every case of the table on 2 and 3 devices gives the numbers of one."""

from __future__ import annotations

import functools
import os
from typing import Any

import pytest

from tests.devices.mirrored import mirrored
from tests.exactness.cases import CASES, outcome
from tests.exactness.comparing import assert_same
from tfdist import keras_repairs

SLOW = bool(os.environ.get("TFDIST_SLOW_TESTS"))
SIZES = [(3, 65), *([(2, 64), (2, 65), (3, 64)] if SLOW else [])]
"""Replicas and samples, in batches of 32: with 65 the last batch is one sample, and all replicas but one have none.
What divides is compared over workers.
"""


@functools.cache
def of_one_replica(name: str, samples: int) -> dict[str, Any]:
    keras_repairs.install()
    return outcome(name, samples)


@pytest.mark.bound(120)
@pytest.mark.parametrize(("replicas", "samples"), SIZES)
@pytest.mark.parametrize("name", CASES)
def test_numbers_of_one_replica(name: str, replicas: int, samples: int) -> None:
    expected = of_one_replica(name, samples)
    with mirrored(replicas).scope():
        assert_same(expected, outcome(name, samples))
