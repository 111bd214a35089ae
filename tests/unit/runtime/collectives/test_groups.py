from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tfdist.errors import UsageError
from tfdist.runtime.collectives.wire.groups import group_key, make_group, pair_key


def test_a_group_has_its_workers_in_order() -> None:
    group = make_group([np.int64(3), 0], 4)
    assert (group.workers, len(group), 3 in group, 1 in group) == ((0, 3), 2, True, False)
    assert group == make_group(range(0, 4, 3), 4)


@pytest.mark.parametrize("workers", [[], [4], [-1, 0], [0, 0], [0.5], ["0"], 3, None])
def test_other_groups_are_refused(workers: Any) -> None:
    with pytest.raises(UsageError, match="tfdist.group expects"):
        make_group(workers, 4)


def test_every_group_and_every_direction_of_a_pair_has_a_key_of_its_own() -> None:
    parts = [part for size in range(1, 9) for part in itertools.combinations(range(8), size)]
    keys = [group_key(part, 8) for part in parts] + [pair_key(*pair, 8) for pair in itertools.permutations(range(8), 2)]
    keys += [group_key(tuple(range(100))[:size], 100) for size in range(1, 100)]
    keys += [pair_key(998, 999, 1000), pair_key(999, 998, 1000)]
    assert len(set(keys)) == len(keys)
    assert all(0 < key < 2**31 for key in keys)
