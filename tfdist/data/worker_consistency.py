"""Do all workers read the same data, or each its own share? Asked once, before the first step.

What one worker finds wrong all workers raise, so none waits for another that has ended.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import tensorflow as tf

from tfdist.data.fingerprints import Fingerprint
from tfdist.data.sample_source import SampleSource
from tfdist.data.worker_differences import check_opened, check_same
from tfdist.errors import DataError, UsageError
from tfdist.runtime.collectives import gather_objects, worker_count, worker_rank

Sharding = Literal["auto", "none"]
"""Whether all workers see the same data, which is dealt to them, or each sees its own share alone."""


@dataclass(frozen=True)
class AgreedSource:
    """A source that all workers have opened.

    Attributes:
        source: This worker's.
        sizes: The samples of each worker's own share; None where all read the same source.
        worker: This worker's index.
    """

    source: SampleSource
    sizes: tuple[int, ...] | None = None
    worker: int = 0

    @property
    def samples(self) -> int:
        """Of an epoch, over all workers."""
        return len(self.source) if self.sizes is None else sum(self.sizes)


def agree(
    open_source: Callable[[], SampleSource], sharding: Sharding, strategy: tf.distribute.Strategy
) -> AgreedSource:
    """Opens a source on every worker; all call this together, in the same order.

    Args:
        open_source: Opens this worker's.
        sharding: With `auto` the workers must see the same data; with `none` each has its own.
        strategy: The strategy in force.

    Raises:
        DataError: On every worker: one cannot open its source, or they differ and must not.
        UsageError: `sharding` is neither.
    """
    if sharding not in ("auto", "none"):
        raise UsageError(f"sharding: expected auto or none. Received: {sharding!r}")
    workers, worker = worker_count(strategy), worker_rank(strategy)
    if workers == 1:
        source = open_source()
        return AgreedSource(source, (len(source),) if sharding == "none" else None)
    opened, own = _try(open_source)
    said = gather_objects(own, strategy)
    check_opened([one.get("error") for one in said])
    assert opened is not None
    found = [Fingerprint(**one["found"]) for one in said]
    if sharding == "none":
        return AgreedSource(opened, tuple(fingerprint.samples for fingerprint in found), worker)
    check_same(found)
    return AgreedSource(opened)


def _try(open_source: Callable[[], SampleSource]) -> tuple[SampleSource | None, dict[str, Any]]:
    """This worker's source, and what it says of it to the others."""
    try:
        source = open_source()
        return source, {"found": dataclasses.asdict(source.fingerprint())}
    except DataError as error:
        return None, {"error": str(error)}
