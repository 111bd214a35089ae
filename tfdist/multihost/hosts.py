"""Hosts of a launch, in order, each with its slots: what `--hostfile`, `--hosts`, `--include` and `--exclude` choose.

A hostfile has one host a line, `NAME` or `NAME slots=N`, as DeepSpeed's and Open MPI's have them. Empty lines do not
count, nor what follows a `#`. Filters are in DeepSpeed's grammar:

    HOSTS = HOST[@HOST ...]        HOST = NAME[:SLOT[,SLOT ...]]

A host without slots means all of its slots. Hosts keep their order of the hostfile.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tfdist.cluster.cluster_spec import whole_number
from tfdist.errors import UsageError

MOST_HOSTS = 10_000
MOST_SLOTS = 1024
_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._-]{0,252}[A-Za-z0-9_])?")
MOST_BYTES = 4 << 20
_EXPECTED = "Expected a name, and behind it at most slots=N, such as `h1 slots=2`"
_SLOTS = re.compile(r"slots\s*=\s*([0-9]{1,9})")
Filter = Mapping[str, tuple[int, ...]]
"""Name of a host -> the slots that are named, ascending; none of them for all."""


@dataclass(frozen=True)
class Host:
    """One host of a launch.

    Attributes:
        name: As ssh or mpirun knows it: a name, an alias of ssh's config, or an IPv4 address.
        slots: Numbers of its GPUs that may be used, ascending; None for all that it has, whatever their number.

    Raises:
        UsageError: It is no name of a host.
    """

    name: str
    slots: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        # A name that began with a dash would be an option of ssh's.
        if not _NAME.fullmatch(self.name):
            raise UsageError(
                "A host must be a name or an IPv4 address. Received: "
                f"{self.name[:100]!r}. Give users, ports and IPv6 addresses a name: in ssh's config (Host, HostName), "
                "which mpirun's ssh reads, too, or an address one in /etc/hosts."
            )


def parse_hosts(text: str) -> tuple[Host, ...]:
    """The hosts of `--hosts`: names between commas.

    Raises:
        UsageError: An entry is empty or no host's name, or a host stands there twice.
    """
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise UsageError(f"--hosts expected names between commas, such as h1,h2. Received: {text[:200]!r}")
    for place, name in enumerate(names):
        if name in names[:place]:
            raise UsageError(
                f"--hosts names a host twice: {name}. Expected each once. For several workers on each host, "
                f"add --workers-per-host N. Received: {text[:200]!r}"
            )
    return tuple(Host(name) for name in names)


def read_hostfile(path: str) -> tuple[Host, ...]:
    """The hosts of a file.

    Raises:
        UsageError: The file cannot be read, names no host, or has a line that is none; the text has the line's number.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(
            f"The hostfile {path} cannot be read: {error.strerror}. Expected a file with a host on each line, such as "
            "`h1 slots=2`. Nothing was started."
        ) from None
    if len(content) > MOST_BYTES:
        raise UsageError(f"The hostfile {path} has more than {MOST_BYTES >> 20} MiB. {_EXPECTED} on each line.")
    return parse_hostfile(content.decode(errors="replace"), path)


def parse_hostfile(text: str, path: str) -> tuple[Host, ...]:
    """The hosts of a file's text; `path` is the file's name, for messages.

    Raises:
        UsageError: As `read_hostfile`.
    """
    hosts: list[Host] = []
    lines: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        entry = line.partition("#")[0].strip()
        if not entry:
            continue
        host = _host_of(entry, f"{path}, line {number}")
        if host.name in lines:
            raise UsageError(
                f"{path}, line {number}: {host.name} stands on line {lines[host.name]} already. Expected every host "
                "once. For several workers on each host, add --workers-per-host N."
            )
        lines[host.name] = number
        hosts.append(host)
        if len(hosts) > MOST_HOSTS:
            raise UsageError(f"{path}, line {number}: more than {MOST_HOSTS:,} hosts. Expected fewer.")
    if not hosts:
        raise UsageError(f"The hostfile {path} names no host. {_EXPECTED} on each line. Nothing was started.")
    return tuple(hosts)


def _host_of(entry: str, place: str) -> Host:
    name, *more = entry.split(None, 1)
    rest = "".join(more)
    try:
        if not rest:
            return Host(name)
        match = _SLOTS.fullmatch(rest)
        if match is None:
            raise UsageError(f"{_EXPECTED}. Received: {entry[:200]!r}")
        slots = int(match[1])
        if not 1 <= slots <= MOST_SLOTS:
            raise UsageError(f"slots must be 1 to {MOST_SLOTS}. Received: slots={slots}. Leave out a host without any.")
        return Host(name, tuple(range(slots)))
    except UsageError as error:
        raise UsageError(f"{place}: {error}") from None


def parse_filter(text: str, option: str) -> Filter:
    """Returns what a filter names.

    Args:
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
        source: Where `hosts` were given, for messages.

    Raises:
        UsageError: The filter is none, or names a host or a slot that is not there.
    """
    chosen = _checked(hosts, text, "--include", source)
    return tuple(Host(host.name, chosen[host.name] or host.slots) for host in hosts if host.name in chosen)


def exclude(hosts: Sequence[Host], text: str, source: str) -> tuple[Host, ...]:
    """The hosts without what `--exclude` names.

    Args:
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
