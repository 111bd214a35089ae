"""Host list: the hosts of a launch in their order, each with the slots that it may use."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tfdist.errors import UsageError

MOST_HOSTS = 10_000
MOST_SLOTS = 1024
_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._-]{0,252}[A-Za-z0-9_])?")


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
