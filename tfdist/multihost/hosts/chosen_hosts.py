"""Chosen hosts: what `--hostfile`, `--hosts`, `--include` and `--exclude` say together.

Host filter: `--include` and `--exclude`, in DeepSpeed's grammar.

    HOSTS = HOST[@HOST ...]        HOST = NAME[:SLOT[,SLOT ...]]

A host without slots means all of its slots. Hosts keep their order of the hostfile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tfdist.cluster.cluster_spec import whole_number
from tfdist.errors import UsageError
from tfdist.multihost.hosts.host_list import MOST_SLOTS, Host, parse_hosts
from tfdist.multihost.hosts.hostfile import read_hostfile

Filter = Mapping[str, tuple[int, ...]]
"""Name of a host -> the slots that are named, ascending; none of them for all."""


def parse_filter(text: str, option: str) -> Filter:
    """Returns what a filter names.

    Args:
        text: The filter.
        option: The option that gave it, for messages.

    Raises:
        UsageError: It is not of the grammar, or names a host twice.
    """
    found: dict[str, tuple[int, ...]] = {}
    for part in text.split("@"):
        name, colon, slots = part.partition(":")
        name = name.strip()
        numbers = [whole_number(slot.strip()) for slot in slots.split(",")] if colon else []
        if not name or any(number is None or number >= MOST_SLOTS for number in numbers):
            raise UsageError(
                f'{option} expected hosts between @, each with its slots or without: "h1:0,1@h2". '
                f"Received: {text[:200]!r}"
            )
        if name in found:
            raise UsageError(
                f'{option} names {name} twice. Expected each host once, with all of its slots: "{name}:0,1". '
                f"Received: {text[:200]!r}"
            )
        found[name] = tuple(sorted({number for number in numbers if number is not None}))
    return found


def include(hosts: Sequence[Host], text: str, source: str) -> tuple[Host, ...]:
    """The hosts that `--include` names, with the slots that it names.

    Args:
        hosts: All that there are.
        text: The filter.
        source: Where `hosts` were given, for messages.

    Raises:
        UsageError: The filter is none, or names a host or a slot that is not there.
    """
    chosen = _checked(hosts, text, "--include", source)
    return tuple(Host(host.name, chosen[host.name] or host.slots) for host in hosts if host.name in chosen)


def exclude(hosts: Sequence[Host], text: str, source: str) -> tuple[Host, ...]:
    """The hosts without what `--exclude` names.

    Args:
        hosts: All that there are.
        text: The filter.
        source: Where `hosts` were given, for messages.

    Raises:
        UsageError: The filter is none, names a host or a slot that is not there, or leaves nothing.
    """
    chosen = _checked(hosts, text, "--exclude", source)
    left = [_without(host, chosen.get(host.name), source) for host in hosts]
    found = tuple(host for host in left if host is not None)
    if not found:
        raise UsageError(f"--exclude leaves no host of {source}. Expected at least one. Received: --exclude {text!r}")
    return found


def _without(host: Host, excluded: tuple[int, ...] | None, source: str) -> Host | None:
    """The host without these slots, None for all of them; None where nothing of it is left."""
    if excluded is None:
        return host
    if not excluded:
        return None
    if host.slots is None:
        raise UsageError(
            f"--exclude names slots of {host.name}, and how many it has is not known. Expected its slots in a "
            f"hostfile, such as `{host.name} slots=8`. Received: {source}"
        )
    slots = tuple(slot for slot in host.slots if slot not in excluded)
    return Host(host.name, slots) if slots else None


def _checked(hosts: Sequence[Host], text: str, option: str, source: str) -> Filter:
    chosen = parse_filter(text, option)
    known = {host.name: host for host in hosts}
    for name, slots in chosen.items():
        if name not in known:
            raise UsageError(
                f"{option} names a host that is not in {source}: {name}. Expected one of {_shown(list(known))}."
            )
        has = known[name].slots
        missing = [slot for slot in slots if has is not None and slot not in has]
        if missing and has is not None:
            raise UsageError(
                f"{option} names slot {missing[0]} of {name}, which has slots={len(has)} in {source}. Expected a "
                f"number from 0 to {len(has) - 1}. Received: {text[:200]!r}"
            )
    return chosen


def _shown(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (f", ... ({len(names)})" if len(names) > 8 else "")


def choose_hosts(
    hostfile: str | None, hosts: str | None, included: str | None, excluded: str | None
) -> tuple[Host, ...]:
    """The hosts of a launch, in the order in which they were given; the first has the chief.

    Args:
        hostfile: `--hostfile`.
        hosts: `--hosts`.
        included: `--include`.
        excluded: `--exclude`.

    Raises:
        UsageError: No host is given, or in two ways; the file cannot be read; a filter does not fit.
    """
    if (hostfile is None) == (hosts is None):
        received = "neither" if hostfile is None else f"--hostfile {hostfile} and --hosts {hosts}"
        raise UsageError(
            f"Expected the hosts by --hostfile FILE or by --hosts h1,h2, one of the two. Received: {received}. "
            "To train on this machine alone: tfdist train"
        )
    if included is not None and excluded is not None:
        raise UsageError(
            "--include says which hosts to use, and --exclude which not. Expected one of the two. "
            f"Received: --include {included!r} --exclude {excluded!r}"
        )
    found, source = (
        (read_hostfile(hostfile), hostfile) if hostfile is not None else (parse_hosts(hosts or ""), "--hosts")
    )
    if included is not None:
        return include(found, included, source)
    return found if excluded is None else exclude(found, excluded, source)
