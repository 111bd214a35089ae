from __future__ import annotations

from typing import Any

import pytest

from tests.unit.plan.sources import plan, source
from tfdist.plan.plan import DataPlan
from tfdist.plan.plan_inputs import ClusterSize
from tfdist.plan.plan_warnings import warnings_of

BIG = source(1000, record=1 << 20, held_bytes=1 << 30, whole=True)


def names(made: DataPlan) -> list[tuple[str, str]]:
    return [(warning.name, warning.key) for warning in warnings_of(made)]


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (plan(source(100)), []),
        (plan(source(100), 12, ClusterSize(1, 4)), []),
        (plan(source(100), 11), []),  # a smaller last batch is no reason to worry
        (plan(source(9), 10), [("one-step", "data.batch_size")]),
        (plan(source(100), 3, ClusterSize(1, 4)), [("empty-replicas", "data.batch_size")]),
        (plan(source(100), 4, ClusterSize(1, 3)), [("uneven-replicas", "data.batch_size")]),
        (plan(source(1000), 40, ClusterSize(1, 3)), []),  # 14 or 13: no replica waits long
        (plan(source(100), seed=None), [("no-seed", "seed")]),
        (plan(source(100, random_calls=("random.random (a.py:3)",))), [("random-parse", "data.train")]),
        (plan(source(100), validation=source(9, random_calls=("a",))), [("random-parse", "data.validation")]),
        (plan(BIG), []),  # one worker has to read it
        (plan(BIG, layout=ClusterSize(2, 2)), [("read-whole", "data.train")]),
        (plan(source(9, whole=True, held_bytes=1 << 30), 2, ClusterSize(2, 2)), [("read-whole", "data.train")]),
        (plan(source(100, whole=True), layout=ClusterSize(2, 2)), []),  # too little to matter
        (plan(source(100, local_disk="ext4"), layout=ClusterSize(2, 2, hosts=1)), []),
        (plan(source(100, local_disk="ext4"), layout=ClusterSize(2, 2, hosts=2)), [("local-disk", "data.train")]),
        (plan(source(100, local_disk=None), layout=ClusterSize(2, 2, hosts=2)), []),
    ],
)
def test_what_is_warned_of(made: DataPlan, expected: list[tuple[str, str]]) -> None:
    assert names(made) == expected


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"batch_size": 3, "layout": ClusterSize(1, 4)}, "1 of them have nothing to do in any step"),
        ({"batch_size": 4, "layout": ClusterSize(1, 3)}, "about 50% more than an even one would"),
        ({"batch_size": 4, "layout": ClusterSize(1, 3)}, "6 samples would be even"),
    ],
)
def test_a_warning_says_what_it_costs(arguments: dict[str, Any], text: str) -> None:
    [warning] = warnings_of(plan(source(100), **arguments))
    assert text in warning.text
