"""Shard groups: how many workers share one copy of what `--shard` cuts."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tfdist.errors import UsageError
from tfdist.sharding.mesh import Mesh


def check_over(over: str | int, rows: int | None = None) -> None:
    """Raises `UsageError` unless it is a value of `--shard-over`, whatever the workers are.

    Args:
        over: The value.
        rows: Of `--shard-embeddings`; None where no embedding is to be sharded.
    """
    if over not in ("all", "host") and _count(over) is None:
        raise UsageError(f"--shard-over expects all, host, or how many workers. Received: {over!r}")
    if over != "all" and rows is not None:
        raise UsageError(
            "--shard-embeddings shares the rows out to all workers, and --shard-over has groups of them hold a copy "
            f"each. Received: --shard-over {over} and --shard-embeddings {rows}. Leave one of them out."
        )


def mesh_over(over: str | int, hosts: Sequence[str]) -> Mesh:
    """The mesh of a job whose workers share what is cut in groups.

    Args:
        over: Who shares one copy: `"all"` workers of the job, those of each `"host"`, or so many neighbors in the order
            of the cluster.
        hosts: The host of each worker, in that order.

    Raises:
        UsageError: There is no such value, or the workers cannot be put into such groups.
    """
    check_over(over)
    if over == "all":
        return Mesh.of(shard=len(hosts))
    size = _count(over)
    if size is None:
        return _within_hosts(hosts)
    if size < 2 or len(hosts) % size:
        raise UsageError(
            "--shard-over N makes groups of N workers, at least 2, and expects as many workers as fill one or several "
            f"groups. Received: --shard-over {size} with {len(hosts)} workers"
        )
    return Mesh.of(data=len(hosts) // size, shard=size)


def _within_hosts(hosts: Sequence[str]) -> Mesh:
    runs = [(host, len(list(group))) for host, group in itertools.groupby(hosts)]
    if len({host for host, _ in runs}) < len(runs):
        raise UsageError(
            "--shard-over host expects the workers of a host to follow one another in the cluster. Received: "
            f"{', '.join(hosts)}"
        )
    sizes = [count for _, count in runs]
    if set(sizes) == {1}:
        raise UsageError(
            "--shard-over host shares what is cut out to the workers of one host, and each host has one. Give "
            "each several (--workers h1:20000,h1:20001,h2:20000,h2:20001), or leave --shard-over out, so that all "
            "workers share it."
        )
    return Mesh.within_hosts(sizes)


def _count(over: object) -> int | None:
    """The number of workers that a value names, whatever was given; None where it names none."""
    if isinstance(over, bool) or not isinstance(over, str | int):
        return None
    text = str(over)
    return int(text) if text.isascii() and text.isdigit() and int(text) > 0 else None
