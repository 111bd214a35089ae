"""Every case of the table on 2 and 3 devices gives the numbers of one."""

from __future__ import annotations

import os

import pytest

from tests.devices.mirrored import mirrored
from tests.devices.references import of_one_replica
from tests.exactness.cases import CASES, names_by_default, outcome
from tests.exactness.comparison import assert_same_case
from tests.exactness.results import COUNTS, SIZES, Comparison, recorded

SLOW = bool(os.environ.get("TFDIST_SLOW_TESTS"))
RUN = [(count, samples) for count in COUNTS for samples in SIZES] if SLOW else [(3, 65)]
"""Devices and samples. By default what divides nowhere, all replicas but one without a sample in the last batch."""

NAMES = list(CASES) if SLOW else names_by_default("devices")


@pytest.mark.parametrize(("replicas", "samples"), RUN)
@pytest.mark.parametrize("name", NAMES)
def test_numbers_of_one_replica(name: str, replicas: int, samples: int) -> None:
    with recorded(Comparison(name, "devices", replicas, samples)):
        expected = of_one_replica(name, samples)
        with mirrored(replicas).scope():
            assert_same_case(name, expected, outcome(name, samples))
