"""Collectives go between workers: one with several replicas takes part once, outside of their steps."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tests.helpers.mirrored import mirrored
from tfdist.errors import UnsupportedError
from tfdist.runtime.collectives.calls import Call
from tfdist.runtime.collectives.strategy_communicator import check_replicas, communicator_of


def total(strategy: tf.distribute.Strategy) -> tf.Tensor:
    check_replicas(strategy, "all_reduce")
    found: tf.Tensor = communicator_of(strategy).run(Call("all_reduce", "sum"), tf.constant(2.0))
    return found


@pytest.mark.parametrize("compiled", [False, True])
def test_a_replica_among_others_of_its_worker_is_refused(compiled: bool) -> None:
    strategy = mirrored(2)

    def run() -> None:
        strategy.run(lambda: total(strategy))

    said = r"tfdist.all_reduce goes between workers.*each of the 2 replicas.*tf.distribute.get_replica_context\(\)"
    with strategy.scope(), pytest.raises(UnsupportedError, match=said):
        (tf.function(run) if compiled else run)()


def test_a_worker_takes_part_once_outside_of_its_replicas() -> None:
    strategy = mirrored(2)
    with strategy.scope():
        assert float(total(strategy)) == 2
        assert float(tf.function(lambda: total(strategy))()) == 2
    assert float(total(tf.distribute.get_strategy())) == 2
