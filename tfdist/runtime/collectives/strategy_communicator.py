"""The communicator of a strategy's workers: in memory that they share, or over TensorFlow's collectives."""

from __future__ import annotations

import contextlib
import functools
from typing import Any

import tensorflow as tf

from tfdist.errors import UnsupportedError
from tfdist.runtime.collectives.communicator import Communicator
from tfdist.runtime.collectives.wire.engine import CollectiveEngine
from tfdist.runtime.collectives.wire.engines import SharedMemoryEngine, TensorFlowEngine
from tfdist.runtime.strategy_settings import StrategySettings, settings_of
from tfdist.runtime.workers import local_replicas, worker_count, worker_rank


@functools.cache
def communicator_of(strategy: tf.distribute.Strategy) -> Communicator:
    """The communicator of a strategy's workers."""
    settings = settings_of(strategy)

    def noted() -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext() if settings.exchanging is None else settings.exchanging()

    def waiting() -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext() if settings.meter is None else settings.meter.waiting()

    return Communicator(
        worker_rank(strategy),
        worker_count(strategy),
        _engine_of(settings),
        noted,
        waiting,
        lambda: settings.traced_progress,
        settings.between_devices,
    )


def _engine_of(settings: StrategySettings) -> CollectiveEngine:
    if settings.memory is None:
        return TensorFlowEngine()
    return SharedMemoryEngine(settings.memory)


def check_replicas(strategy: tf.distribute.Strategy, call: str) -> None:
    """Raises where a replica calls a collective that is between workers, each of which has several replicas.

    Raises:
        UnsupportedError: It does.
    """
    replicas = len(local_replicas(strategy))
    if replicas > 1 and tf.distribute.has_strategy() and not tf.distribute.in_cross_replica_context():
        raise UnsupportedError(
            f"tfdist.{call} goes between workers, and a step of strategy.run calls it on each of the {replicas} "
            "replicas of this worker. Expected a call outside of strategy.run, or one replica a worker. Between "
            "replicas there is tf.distribute.get_replica_context().all_reduce."
        )
