"""Copies and sums of `tfdist selftest` between logical CPUs, right and damaged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.marks import slow
from tests.helpers.mirrored import mirrored
from tfdist.selftest.matrix import device_rows
from tfdist.selftest.matrix.device_rows import check_pair, check_sums, local_devices

SIZES = (8, 1000)


def names() -> list[str]:
    return [device.name for device in local_devices()]


def test_a_pair_that_copies_every_bit() -> None:
    one, other = names()[:2]
    found = check_pair(one, other, SIZES)
    assert (found["source"], found["target"]) == ("CPU:0", "CPU:1")
    assert (found["wrong"], found["damaged"]) == (0, 0)
    assert found["bytes_per_second"] > 0


def test_a_bit_that_is_turned_on_the_way_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    copied = device_rows._copied

    def damage(tensor: tf.Tensor, target: str) -> tuple[tf.Tensor, float]:
        copy, seconds = copied(tensor, target)
        bits = copy.numpy().view(np.uint32)
        bits[3] ^= 1
        return tf.constant(bits.view(np.float32)), seconds

    monkeypatch.setattr(device_rows, "_copied", damage)
    found = check_pair(*names()[:2], SIZES)
    assert (found["wrong"], found["damaged"]) == (len(SIZES), 0)


@pytest.mark.parametrize("replicas", [slow(2), 3])
def test_sums_of_all_replicas(replicas: int) -> None:
    found = list(check_sums(mirrored(replicas), SIZES))
    assert [(one["elements"], one["wrong"]) for one in found] == [(8, 0), (1000, 0)]


def test_a_sum_that_is_wrong_on_one_replica_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right = device_rows._sum_of

    def wrong(strategy: tf.distribute.Strategy, size: int) -> Any:
        step = right(strategy, size)

        def damaged() -> list[tf.Tensor]:
            first, second = step()
            return [first, second + tf.one_hot(2, size)]

        return damaged

    monkeypatch.setattr(device_rows, "_sum_of", wrong)
    assert [one["wrong"] for one in check_sums(mirrored(2), SIZES)] == [1, 1]
