"""Agreement of the workers on their data, before the first step: all see the same data, or each has its own share.

What one worker finds wrong all workers raise, with the same words, so none waits for another that has ended.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import tensorflow as tf

from tfdist.data.fingerprints import Fingerprint
from tfdist.data.sample_source import SampleSource
from tfdist.errors import DataError, UsageError
from tfdist.runtime.collectives.decisions import gather_objects
from tfdist.runtime.workers import worker_count, worker_rank

Sharding = Literal["auto", "none"]
"""True if all workers see the same data, which is dealt to them, or each sees its own share alone."""

_SHOWN = 4
"""Workers that an error names at most."""


@dataclass(frozen=True)
class AgreedSource:
    """A source that all workers have opened.

    Attributes:
        source: This worker's source.
        sizes: The samples in each worker's own share; None where all read the same source.
        worker: This worker's index.
    """

    source: SampleSource
    sizes: tuple[int, ...] | None = None
    worker: int = 0

    @property
    def samples(self) -> int:
        """Samples of an epoch, over all workers."""
        return len(self.source) if self.sizes is None else sum(self.sizes)


def agree(
    open_source: Callable[[], SampleSource], sharding: Sharding, strategy: tf.distribute.Strategy
) -> AgreedSource:
    """Opens a source on every worker; all call this together, in the same order.

    Args:
        open_source: Opens this worker's source.
        sharding: With `auto` the workers must see the same data; with `none` each has its own share.
        strategy: The strategy in force.

    Raises:
        DataError: On every worker, when one of them cannot open its source, or the sources differ and must not.
        UsageError: `sharding` is neither `auto` nor `none`.
    """
    if sharding not in ("auto", "none"):
        raise UsageError(f"sharding: expected auto or none. Received: {sharding!r}")
    workers, worker = worker_count(strategy), worker_rank(strategy)
    if workers == 1:
        source = open_source()
        return AgreedSource(source, (len(source),) if sharding == "none" else None)
    opened, own = _try(open_source)
    messages = gather_objects(own, strategy)
    check_opened([one.get("error") for one in messages])
    assert opened is not None
    found = [Fingerprint(**one["found"]) for one in messages]
    if sharding == "none":
        return AgreedSource(opened, tuple(fingerprint.samples for fingerprint in found), worker)
    check_same(found)
    return AgreedSource(opened)


def _try(open_source: Callable[[], SampleSource]) -> tuple[SampleSource | None, dict[str, Any]]:
    """This worker's source, and its message to the other workers."""
    try:
        source = open_source()
        return source, {"found": dataclasses.asdict(source.fingerprint())}
    except DataError as error:
        return None, {"error": str(error)}


def check_same(found: Sequence[Fingerprint]) -> None:
    """Checks that all workers see the same data.

    Raises:
        DataError: They do not.
    """
    others = [worker for worker, fingerprint in enumerate(found) if fingerprint != found[0]]
    if not others:
        return
    shown = [0, *others[: _SHOWN - 1]]
    each = "; ".join(f"worker {worker} has {found[worker]}" for worker in shown)
    more = f"; and {len(others) - _SHOWN + 1} more that differ from worker 0" if len(others) >= _SHOWN else ""
    same = len({(fingerprint.samples, fingerprint.parts) for fingerprint in found}) == 1
    alike = " Their names and numbers are the same, but their content is not." if same else ""
    workers = len(found)
    raise DataError(
        f"The workers see different data: {each}{more}.{alike} It looks as if each worker's data were its own share "
        f"already: if it were dealt to the workers once more, each would train on 1/{workers * workers} of all samples "
        f"and not on 1/{workers}. If it is, say so with sharding: none in the data's section of the config (in Python "
        'sharding="none"). If it is not, give every worker the same files with the same content.'
    )


def check_opened(errors: Sequence[str | None]) -> None:
    """Checks that every worker has opened its data.

    Args:
        errors: What went wrong on each worker; None where nothing did.

    Raises:
        DataError: Something did; in the same words on every worker.
    """
    failed = [index for index, error in enumerate(errors) if error is not None]
    if not failed:
        return
    first = errors[failed[0]]
    if len(failed) == len(errors) and len(set(errors)) == 1:
        raise DataError(str(first))
    names = ", ".join(map(str, failed[:_SHOWN])) + (", ..." if len(failed) > _SHOWN else "")
    who = f"Worker {names} cannot" if len(failed) == 1 else f"Workers {names} cannot"
    if len(failed) == len(errors):
        raise DataError(f"No worker can open its data. Worker {failed[0]} says: {first}")
    raise DataError(
        f"{who} open the data, and the others can. Worker {failed[0]} says: {first} Every worker needs the files at "
        "the same path, or with sharding: none files of its own."
    )
