"""Description of a session in words, and what a run says of itself on the terminal."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Protocol, TextIO

import tensorflow as tf

from tfdist.runtime.devices import uses_onednn
from tfdist.runtime.strategy import StrategyChoice
from tfdist.runtime.strategy_settings import settings_of
from tfdist.text import format_count

_log = logging.getLogger("tfdist")

Announce = Callable[[str], None]


def announcer(*, quiet: bool, stream: TextIO | None = None) -> Announce:
    """A function that says a text: on `stream` (default: stdout), or quietly in this worker's log."""
    if quiet:
        return lambda text: _log.info("%s", text)
    return lambda text: print(text, file=stream or sys.stdout, flush=True)


class Described(Protocol):
    """The part of a session that is described; see `Session`."""

    @property
    def strategy(self) -> tf.distribute.Strategy: ...
    @property
    def choice(self) -> StrategyChoice: ...
    @property
    def devices(self) -> tuple[str, ...]: ...
    @property
    def num_workers(self) -> int: ...


def describe(session: Described) -> str:
    """`2 workers, 2 replicas on CPUs (MultiWorkerMirroredStrategy, ring, oneDNN)`."""
    replicas = session.strategy.num_replicas_in_sync
    on_gpu = session.devices[0].startswith("/device:GPU")
    kind = "GPU" if on_gpu else "CPU"
    kernels = [] if on_gpu else ["oneDNN" if uses_onednn() else "without oneDNN"]
    if session.choice.kind == "one":
        return f"1 replica on one {kind}" + "".join(f" ({name})" for name in kernels)
    workers = f"{session.num_workers} workers, " if session.num_workers > 1 else ""
    strategy = "MultiWorkerMirroredStrategy" if session.choice.kind == "multi_worker" else "MirroredStrategy"
    settings = settings_of(session.strategy)
    shards = [] if settings.shard is None or settings.shard.mode == "none" else [str(settings.shard)]
    if settings.shard_embeddings is not None:
        shards.append(f"embeddings of more than {settings.shard_embeddings} rows sharded")
    if settings.tensor > 1:
        shards.append(f"tensor over {settings.tensor} workers")
    if settings.context > 1:
        shards.append(f"context over {settings.context} workers")
    if settings.offload is not None:
        shards.append(f"optimizer {settings.offload}")
    how = ", ".join([strategy, session.choice.communication, *kernels, *shards])
    kinds = kind if replicas == 1 else f"{kind}s"
    return f"{workers}{format_count(replicas, 'replica')} on {kinds} ({how})"
