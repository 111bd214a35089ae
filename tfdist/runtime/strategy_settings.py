"""Settings of a run for all that is under its strategy: batch statistics, compression, shards, meter and sums."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakKeyDictionary

import tensorflow as tf

from tfdist.runtime.workers import worker_count, worker_rank

if TYPE_CHECKING:
    from tfdist.plan.memory.state_check import SharedMemorySize
    from tfdist.runtime.batches.host_feed.host_feed import HostFeed
    from tfdist.runtime.collectives.traced_progress import TracedProgress
    from tfdist.runtime.collectives.wire.engines import TensorFlowEngine
    from tfdist.runtime.offload.offloading import Offloading
    from tfdist.runtime.step_meter import StepMeter
    from tfdist.runtime.transport.compiled_sums import CompiledSums
    from tfdist.runtime.transport.ring_all_reduce import Ring
    from tfdist.runtime.transport.shared_memory.shared_memory import SharedMemory
    from tfdist.runtime.transport.shared_memory.shared_memory_sums import HostSums, SharedMemorySums
    from tfdist.sharding import Sharding


BatchNorm = Literal["synchronized", "replica"]
Jit = Literal["auto", "on", "off"]
Check = Literal["auto", "off", "strict"]


@dataclass
class StrategySettings:
    """The settings of one strategy.

    Attributes:
        batch_norm: Whose statistics BatchNormalization takes: those of the global batch, or each replica its own.
        jit: Whether XLA compiles every model, or none; "auto" for what `compile` was called with, and where that is
            "auto", too, for what Keras chooses on one device.
        compression: The dtype in which gradients are sent, bfloat16 or float16; None for their own.
        feed: What one worker of this host draws for all of its workers; None where each draws its own.
        meter: Counts samples and waiting time of the training steps; None where nobody reads them.
        memory: What all workers share, where they run on one host; None elsewhere.
        memory_size: What this worker's devices have for a training, and who has it with them; None where nobody asks.
        sums: Sums tensors over the workers; None for TensorFlow's own collectives.
        nccl: What TensorFlow calls the implementation of collectives that take the paths of NCCL: `"nccl"`, or `"ring"`
            where these are tried without GPUs; None where workers exchange in another way, or there is one.
        between_devices: What carries tensors between the devices of workers where that takes those paths, one device a
            worker; None elsewhere.
        exchanging: Entered around each eager collective that a script calls, in whatever thread; None where nobody
            watches.
        traced_progress: Counts those in functions; None where nobody watches.
        shard: What each worker holds a part of; None where all of them hold all.
        shard_embeddings: The most rows of an embedding that every worker has whole; None where all are whole.
        offload: Where optimizers keep their state instead of on this worker's device; None for there.
        tensor: How many workers share each weight that a layout cuts; 1 where none is cut, or the script says it.
        context: How many workers share each sequence; 1 where each has whole ones.
        model_parallel: The distribution that `tensor` stands for, once a weight was made; None before that.
        has_tables: Whether an embedding was made of which each worker has some rows.
        emulates_xla: Whether Keras's `jit_compile="auto"` is on CPUs what it is on one GPU.
        gather: Whether losses and layers that need the samples of all replicas get them without being asked to.
        check: Whether the first step of a run is compared with what one device computes: "auto", "off", or "strict",
            which refuses a step that cannot be.
        writes: Whether steps write what they write; not while one is made beside the training, to be looked at.
        strict: Whether what would be warned of, about exactness or cost, is refused.
        made_by_script: Whether the script has made a strategy, for which it was given this one.
    """

    batch_norm: BatchNorm = "synchronized"
    jit: Jit = "auto"
    compression: tf.DType | None = None
    feed: HostFeed | None = None
    meter: StepMeter | None = None
    memory: SharedMemory | None = None
    memory_size: SharedMemorySize | None = None
    sums: CompiledSums | HostSums | Ring | SharedMemorySums | None = None
    nccl: str | None = None
    between_devices: TensorFlowEngine | None = None
    exchanging: Callable[[], AbstractContextManager[Any]] | None = None
    traced_progress: TracedProgress | None = None
    shard: Sharding | None = None
    shard_embeddings: int | None = None
    offload: Offloading | None = None
    tensor: int = 1
    context: int = 1
    model_parallel: Any = None
    has_tables: bool = False
    emulates_xla: bool = False
    gather: bool = True
    check: Check = "auto"
    writes: bool = True
    strict: bool = False
    made_by_script: bool = False

    @property
    def meter_of_sums(self) -> StepMeter | None:
        """The meter that times sums in steps; None without one, or where it would not: on GPUs, in a compiled step."""
        return None if self.sums is None or not self.sums.on_host else self.meter

    @property
    def on_gpus(self) -> bool:
        """True if replicas compute on GPUs, or take the paths of those that do where these are tried without GPUs.

        Ask nothing else where a path is theirs alone: so it runs on CPUs, too.
        """
        return self.nccl is not None or bool(tf.config.list_logical_devices("GPU"))

    @property
    def computes_in_slices(self) -> bool:
        """True if workers share weights by a layout, or sequences. What one computes of the others' rows it decides as
        they do, whatever numbers of rows they have: steps are traced for any.
        """
        return self.context > 1 or (self.shard is not None and self.shard.layouts is not None)

    @property
    def holds_parts(self) -> bool:
        """True if there is something of which each worker has a part, so that all of them take part in saving it."""
        return self.shard is not None or self.has_tables


_settings: WeakKeyDictionary[tf.distribute.Strategy, StrategySettings] = WeakKeyDictionary()


def shares_of(strategy: tf.distribute.Strategy) -> tuple[int, int]:
    """Returns how many parts there are of what is cut, and which this worker has: its place, where all workers share
    it."""
    shard = settings_of(strategy).shard
    if shard is None:
        return worker_count(strategy), worker_rank(strategy)
    return shard.shares, shard.share(worker_rank(strategy))


def settings_of(strategy: tf.distribute.Strategy) -> StrategySettings:
    """The settings of `strategy`, to read and to change."""
    return _settings.setdefault(strategy, StrategySettings())


def waited_for_data(strategy: tf.distribute.Strategy) -> float:
    """Seconds that the training steps of this worker have waited for its own data; 0 without a meter."""
    meter = settings_of(strategy).meter
    return 0.0 if meter is None else meter.read().fetched
