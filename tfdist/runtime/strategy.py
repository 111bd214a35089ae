"""Chooses and makes the strategy that a process trains under, and the collectives of its replicas."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tfdist.errors import UsageError
from tfdist.net.host_links import LinkEnds
from tfdist.runtime.batches.dataset_description import description_of
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.transport.sum_setup import set_up_sums

_IMPLEMENTATION = {
    "nccl": tf.distribute.experimental.CommunicationImplementation.NCCL,
    "ring": tf.distribute.experimental.CommunicationImplementation.RING,
    # For TensorFlow's own collectives, such as a script's strategy.reduce; sums are tfdist's.
    "shm": tf.distribute.experimental.CommunicationImplementation.RING,
    "shm+ring": tf.distribute.experimental.CommunicationImplementation.RING,
}


@dataclass(frozen=True)
class StrategyChoice:
    """The choice of a strategy and its collectives, with the reason.

    Attributes:
        kind: `"one"` (a single device, no strategy), `"mirrored"` or `"multi_worker"`.
        communication: `"nccl"`, `"ring"`, `"shm"` (memory that workers of one host share), `"shm+ring"` (that on each
            host, and a ring between the hosts), `"copy"` (between logical devices of one machine) or `"none"`.
        reason: Why, in half a sentence, for the log.
        implementation: TensorFlow's collectives under those; "" for the ones of `communication`.
    """

    kind: str
    communication: str
    reason: str
    implementation: str = ""


def choose(
    devices: Sequence[str],
    *,
    workers: int,
    logical: bool,
    communication: str = "auto",
    compression: str = "none",
    linked: int = 1,
    emulates_nccl: bool = False,
    nccl_shares_gpu: bool | None = None,
) -> StrategyChoice:
    """Chooses strategy and collectives from what there is.

    Args:
        devices: This process's devices (of `devices.apply`).
        workers: How many workers the cluster has.
        logical: Whether the devices are logical ones, several to a physical device.
        communication: `"auto"`, `"nccl"`, `"ring"` or `"shm"`, as the user asked.
        compression: The type in which gradients are sent; `"none"` for their own.
        linked: How many workers share memory with this one, itself included: those that one launcher starts here.
        emulates_nccl: Whether workers on CPUs take the paths of NCCL, over the ring.
        nccl_shares_gpu: Where workers may share a GPU, whether NCCL is one that exchanges between them; None elsewhere.

    Raises:
        UsageError: These devices do not have what was asked for.
    """
    on_gpu = devices[0].startswith("/device:GPU")
    if workers > 1 and not on_gpu and emulates_nccl and communication in ("auto", "nccl"):
        return StrategyChoice("multi_worker", "nccl", "NCCL is emulated by the ring", implementation="ring")
    if communication == "nccl":
        _check_nccl_serves(on_gpu=on_gpu, logical=logical, can_share=workers == 1 or nccl_shares_gpu is not False)
    if workers > 1:
        shares = linked == workers and not on_gpu
        if communication == "shm":
            _check_memory_serves(on_gpu=on_gpu, shares=shares, compression=compression)
        if communication in ("nccl", "ring"):
            return StrategyChoice("multi_worker", communication, "as asked for by --communication")
        if on_gpu and not logical and nccl_shares_gpu is False:
            return StrategyChoice("multi_worker", "ring", "NCCL before 2.30 has no workers that share a GPU")
        if on_gpu and not logical:
            reason = "the replicas are on GPUs" + (", which workers share" if nccl_shares_gpu else "")
            return StrategyChoice("multi_worker", "nccl", reason)
        if shares and compression == "none":
            return StrategyChoice("multi_worker", "shm", "the workers are on the CPUs of one host")
        if (linked > 1 and not on_gpu and not shares) or communication == "shm":
            return StrategyChoice("multi_worker", "shm+ring", "workers of a host share memory")
        if on_gpu:
            return StrategyChoice("multi_worker", "ring", "NCCL needs a physical GPU for every replica")
        alone = "this worker shares memory with no other one"
        return StrategyChoice("multi_worker", "ring", alone if compression == "none" else "gradients are compressed")
    if len(devices) == 1:
        return StrategyChoice("one", "none", "one worker with one device")
    if on_gpu and not logical and communication != "ring":
        return StrategyChoice("mirrored", "nccl", "several GPUs of one machine")
    return StrategyChoice("mirrored", "copy", "the devices of one process copy to one another")


def _check_nccl_serves(*, on_gpu: bool, logical: bool, can_share: bool) -> None:
    if not on_gpu or logical:
        raise UsageError(
            "--communication nccl needs a physical GPU for every replica. Received: "
            + ("several logical devices on one GPU" if on_gpu else "replicas on the CPU")
            + ". Use --communication auto."
        )
    if not can_share:
        raise UsageError(
            "--communication nccl exchanges between workers that share a GPU from NCCL 2.30 on, and this environment "
            "has an older one, or one of unknown version. Received: --share-gpu. Use --communication auto, or install "
            "nvidia-nccl-cu12>=2.30."
        )


def _check_memory_serves(*, on_gpu: bool, shares: bool, compression: str) -> None:
    if on_gpu:
        raise UsageError(
            "--communication shm is for workers on CPUs. Received: replicas on GPUs. Use --communication auto."
        )
    if shares and compression != "none":
        raise UsageError(
            "--communication shm sends nothing over a network where all workers are on one host, and --compression is "
            f"for what is sent. Received: both, with --compression {compression}. Leave one of them out."
        )


def make(
    choice: StrategyChoice,
    devices: Sequence[str],
    *,
    addresses: Sequence[str] = (),
    index: int = 0,
    links: Sequence[LinkEnds] = (),
) -> tuple[tf.distribute.Strategy, StrategyChoice]:
    """Makes the chosen strategy; for one device TensorFlow's default, which adds nothing.

    Args:
        choice: Of `choose`.
        devices: This process's devices.
        addresses: `host:port` of every worker, for several workers.
        index: This worker's place among them.
        links: Its ends of the sets of links to the others on its host, or none; what the choice does without is closed.

    Returns:
        The strategy, and the choice as all workers have it: what a host can do may depend on the others.

    Raises:
        UsageError: Memory that workers share was asked for, and none do.
    """
    if choice.kind == "multi_worker":
        implementation = choice.implementation or choice.communication
        # Without timeout_seconds, which costs a sleeping thread a collective: a watchdog bounds the waiting.
        options = tf.distribute.experimental.CommunicationOptions(implementation=_IMPLEMENTATION[implementation])
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
            tf.train.ClusterSpec({"worker": list(addresses)}), task_type="worker", task_id=index, rpc_layer="grpc"
        )
        strategy = tf.distribute.MultiWorkerMirroredStrategy(resolver, options)
        if choice.communication == "nccl":
            settings_of(strategy).nccl = implementation
        hosts = set_up_sums(strategy, choice.communication, len(addresses), links)
        if hosts is not None:
            reason = f"workers of a host share memory, and {hosts} of them send"
            choice = StrategyChoice("multi_worker", "shm+ring", reason)
        return _distributing_once(strategy), choice
    if choice.kind == "mirrored":
        operations = None if choice.communication == "nccl" else tf.distribute.ReductionToOneDevice()
        return _distributing_once(tf.distribute.MirroredStrategy(list(devices), cross_device_ops=operations)), choice
    return tf.distribute.get_strategy(), choice


def _distributing_once(strategy: tf.distribute.Strategy) -> tf.distribute.Strategy:
    """Lets `experimental_distribute_dataset` return what is distributed already, as the datasets of `tfdist.data` are.

    A loop that is written as TensorFlow's guides have it passes every dataset there. On one device, where those
    datasets are plain ones, that is right, and so it has to be on several.
    """
    distribute = strategy.experimental_distribute_dataset

    @functools.wraps(distribute)
    def once(dataset: Any, options: tf.distribute.InputOptions | None = None) -> Any:
        if isinstance(dataset, tf.distribute.DistributedDataset):
            return dataset
        distributed = distribute(dataset, options)
        if isinstance(dataset, tf.data.Dataset):
            description_of(distributed).global_batches = dataset
        return distributed

    strategy.experimental_distribute_dataset = once
    return strategy


@functools.cache
def use_everywhere(strategy: tf.distribute.Strategy) -> object:
    """Makes `strategy` the one under which everything in a script is built, as unmodified scripts have no scope.

    Returns:
        The scope that this thread is in, for the cache to keep. Otherwise Python would close it in a process that
        another thread forks, where it was never entered: an error in the log for every process of a pool.
    """
    tf.distribute.experimental_set_strategy(strategy)
    return getattr(tf.compat.v1.get_default_graph(), "_global_distribute_strategy_scope", None)
