"""What is wrong when workers do not see the same data: one error, with the same words on every worker."""

from __future__ import annotations

from collections.abc import Sequence

from tfdist.data.fingerprints import Fingerprint
from tfdist.errors import DataError

_TOLD = 4
"""Workers that an error names."""


def check_same(found: Sequence[Fingerprint]) -> None:
    """Compares what the workers see.

    Raises:
        DataError: It is not the same.
    """
    others = [worker for worker, fingerprint in enumerate(found) if fingerprint != found[0]]
    if not others:
        return
    shown = [0, *others[: _TOLD - 1]]
    told = "; ".join(f"worker {worker} has {found[worker]}" for worker in shown)
    more = f"; and {len(others) - _TOLD + 1} more that differ from worker 0" if len(others) >= _TOLD else ""
    same = len({(fingerprint.samples, fingerprint.parts) for fingerprint in found}) == 1
    alike = " Their names and numbers are the same, and what is in them is not." if same else ""
    workers = len(found)
    raise DataError(
        f"The workers see different data: {told}{more}.{alike} It looks as if each worker's data were its own share "
        f"already: dealt to the workers once more, each would train on 1/{workers * workers} of all samples and not on "
        f"1/{workers}. If it is, say so with sharding: none in the data's section of the config (in Python "
        'sharding="none"). If it is not, give every worker the same files with the same content.'
    )


def check_opened(errors: Sequence[str | None]) -> None:
    """Looks at what went wrong on each worker, None where nothing did.

    Raises:
        DataError: Something did; with the same words on every worker.
    """
    failed = [index for index, error in enumerate(errors) if error is not None]
    if not failed:
        return
    first = errors[failed[0]]
    if len(failed) == len(errors) and len(set(errors)) == 1:
        raise DataError(str(first))
    names = ", ".join(map(str, failed[:_TOLD])) + (", ..." if len(failed) > _TOLD else "")
    who = f"Worker {names} cannot" if len(failed) == 1 else f"Workers {names} cannot"
    if len(failed) == len(errors):
        raise DataError(f"No worker can open its data. Worker {failed[0]} says: {first}")
    raise DataError(
        f"{who} open the data, and the others can. Worker {failed[0]} says: {first} Every worker needs the files at "
        "the same path, or with sharding: none files of its own."
    )
