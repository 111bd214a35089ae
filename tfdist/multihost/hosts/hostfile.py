"""Hostfile: one host a line, `NAME` or `NAME slots=N`, as DeepSpeed's and Open MPI's files have them.

Empty lines do not count, nor what follows a `#`.
"""

from __future__ import annotations

import re

from tfdist.errors import UsageError
from tfdist.multihost.hosts.host_list import MOST_HOSTS, MOST_SLOTS, Host

MOST_BYTES = 4 << 20
_EXPECTED = "Expected a name, and behind it at most slots=N, such as `h1 slots=2`"
_SLOTS = re.compile(r"slots\s*=\s*([0-9]{1,9})")


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
