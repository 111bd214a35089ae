"""Chooses and makes the strategy that a process trains under, and the collectives of its replicas."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import tensorflow as tf

from tfdist.errors import UsageError
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.transport.ring_all_reduce import Ring

_IMPLEMENTATION = {
    "nccl": tf.distribute.experimental.CommunicationImplementation.NCCL,
    "ring": tf.distribute.experimental.CommunicationImplementation.RING,
}


@dataclass(frozen=True)
class StrategyChoice:
    """The choice of a strategy and its collectives, with the reason.

    Attributes:
        kind: `"one"` (a single device, no strategy), `"mirrored"` or `"multi_worker"`.
        communication: `"nccl"`, `"ring"`, `"copy"` (between logical devices of one machine) or `"none"`.
        reason: Why, in half a sentence, for the log.
    """

    kind: str
    communication: str
    reason: str


def choose(devices: Sequence[str], *, workers: int, logical: bool, communication: str = "auto") -> StrategyChoice:
    """Chooses strategy and collectives from what there is.

    Args:
        devices: This process's devices (of `devices.apply`).
        workers: How many workers the cluster has.
        logical: Whether the devices are logical ones, several to a physical device.
        communication: `"auto"`, `"nccl"` or `"ring"`, as the user asked.

    Raises:
        UsageError: These devices do not have what was asked for.
    """
    on_gpu = devices[0].startswith("/device:GPU")
    if communication == "nccl" and (not on_gpu or logical):
        raise UsageError(
            "--communication nccl needs a physical GPU for every replica. Received: "
            + ("several logical devices on one GPU" if on_gpu else "replicas on the CPU")
            + ". Use --communication auto."
        )
    if workers > 1:
        if communication != "auto":
            return StrategyChoice("multi_worker", communication, "as asked for by --communication")
        if on_gpu and not logical:
            return StrategyChoice("multi_worker", "nccl", "the replicas are on GPUs")
        return StrategyChoice("multi_worker", "ring", "NCCL needs a physical GPU for every replica")
    if len(devices) == 1:
        return StrategyChoice("one", "none", "one worker with one device")
    if on_gpu and not logical and communication != "ring":
        return StrategyChoice("mirrored", "nccl", "several GPUs of one machine")
    return StrategyChoice("mirrored", "copy", "the devices of one process copy to one another")


def make(
    choice: StrategyChoice, devices: Sequence[str], *, addresses: Sequence[str] = (), index: int = 0
) -> tf.distribute.Strategy:
    """Makes the chosen strategy; for one device TensorFlow's default, which adds nothing.

    Args:
        choice: Of `choose`.
        devices: This process's devices.
        addresses: `host:port` of every worker, for several workers.
        index: This worker's place among them.
    """
    if choice.kind == "multi_worker":
        # Without timeout_seconds, which costs a sleeping thread a collective: a watchdog bounds the waiting.
        options = tf.distribute.experimental.CommunicationOptions(implementation=_IMPLEMENTATION[choice.communication])
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
            tf.train.ClusterSpec({"worker": list(addresses)}), task_type="worker", task_id=index, rpc_layer="grpc"
        )
        strategy = tf.distribute.MultiWorkerMirroredStrategy(resolver, options)
        if choice.communication == "ring" and strategy.num_replicas_in_sync == len(addresses):
            settings_of(strategy).ring = Ring(len(addresses))
        return strategy
    if choice.kind == "mirrored":
        operations = None if choice.communication == "nccl" else tf.distribute.ReductionToOneDevice()
        return tf.distribute.MirroredStrategy(list(devices), cross_device_ops=operations)
    return tf.distribute.get_strategy()


@functools.cache
def use_everywhere(strategy: tf.distribute.Strategy) -> object:
    """Makes `strategy` the one under which everything in a script is built, as unmodified scripts have no scope.

    Returns:
        The scope that this thread is in, for the cache to keep. Otherwise Python would close it in a process that
        another thread forks, where it was never entered: an error in the log for every process of a pool.
    """
    tf.distribute.experimental_set_strategy(strategy)
    return getattr(tf.compat.v1.get_default_graph(), "_global_distribute_strategy_scope", None)
