"""Descriptor limit: as many sockets as the chief's launcher needs, or an error that says how to get them."""

from __future__ import annotations

import resource

from tfdist.errors import FormingError

_SPARE = 128
"""Of the launcher besides its links: logs, workers, and whom it dials meanwhile."""

_COMFORT = 1024
"""More than that while all call at once, strangers among them."""


def raise_limit(links: int) -> None:
    """Lets this process have so many links to other launchers, as far as the system allows it.

    Args:
        links: How many there may be.

    Raises:
        FormingError: The system's limit does not allow them.
    """
    needed = links + _SPARE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise FormingError(
            f"The launcher of the chief keeps a link to each of up to {links} other launchers, for which it needs "
            f"{needed} open files. Expected a limit that allows them. Received: {hard} at most (ulimit -Hn). Raise it "
            f"for the chief's host: `ulimit -n {needed}` as root in the shell that starts tfdist, LimitNOFILE={needed} "
            f"for a service, --ulimit nofile={needed} for a container."
        )
    wanted = needed + _COMFORT if hard == resource.RLIM_INFINITY else min(needed + _COMFORT, hard)
    # In small jobs what every process has is enough.
    if soft != resource.RLIM_INFINITY and soft < wanted and links > _SPARE:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
