"""What a launcher says when the cluster did not form in time: who is absent, and what was seen of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tfdist.cluster.cluster_spec import Cluster

_CHIEF = 0


@dataclass(frozen=True)
class Waiting:
    """A launcher that is on the line to the chief's.

    Attributes:
        host: Its machine's name.
        workers: The workers that it starts.
        missing: Workers that it has not met, with what it saw of them.
    """

    host: str
    workers: tuple[int, ...]
    missing: Mapping[int, str]


def explain_absence(
    cluster: Cluster,
    missing: Mapping[int, str],
    *,
    came: Mapping[int, str],
    callers: Sequence[Waiting] | None,
    remote: Sequence[int],
    refused: Mapping[str, str],
    timeout: float,
) -> str:
    """The text of the error.

    Args:
        cluster: All workers.
        missing: Workers that this launcher has not met, with what it saw of them.
        came: Workers whose launchers have reached this one, with their hosts.
        callers: The launchers on the line, for the chief's launcher; None for the others.
        remote: Workers that other launchers start.
        refused: Addresses whose callers cannot take part, with why.
        timeout: Seconds that were waited.
    """
    lines = []
    for index, seen in missing.items():
        though = f", though its launcher on {came[index]} did reach this one" if index in came else ""
        lines.append(_line(cluster, index, seen + though))
    if callers is not None:
        lines += _of_callers(cluster, [index for index in remote if index not in missing], callers)
    lines += [f"  from {host}, a launcher called that {why}" for host, why in refused.items()]
    count = f"{len(missing)} of its {len(cluster)} workers did not come" if missing else "its launchers wait"
    return "\n".join(
        [
            f"The cluster did not form within {timeout:g} s (--start-timeout): {count}.",
            *(lines or [_line(cluster, _CHIEF, "answers, but its launcher misses another")]),
            f"Expected: the same `tfdist train --workers {cluster} ...` started on every host within that "
            "time, and each worker's port reachable from every host. Start all of them again.",
        ]
    )


def _of_callers(cluster: Cluster, met: Sequence[int], callers: Sequence[Waiting]) -> list[str]:
    """What the chief's launcher knows of the workers elsewhere that it has met itself."""
    linked = {index for caller in callers for index in caller.workers}
    lines = [
        _line(cluster, index, f"answers, but has not reached worker {_CHIEF} itself")
        for index in met
        if index not in linked
    ]
    lines += [
        _line(cluster, index, seen, f"from {caller.host}, ")
        for caller in callers
        for index, seen in caller.missing.items()
        if index in met
    ]
    return lines


def _line(cluster: Cluster, index: int, seen: str, prefix: str = "") -> str:
    return f"  {prefix}worker {index} ({cluster.workers[index]}) {seen}"
