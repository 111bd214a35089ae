"""The program that mpirun starts: `python -m tfdist.multihost.mpi.rank_end HOST`, or with all hosts between commas.

Calls the launching host back, makes that connection its stdin and stdout, and a second one its stderr, and becomes the
remote end of `multihost.remote`.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping, Sequence

from tfdist.cluster.cluster_spec import whole_number
from tfdist.cluster.environment_variables import environment_with
from tfdist.multihost.launching.protocol import REMOTE_MODULE
from tfdist.multihost.mpi.call_back import PLACES, SECRET, CallError, StreamName, call, parse_places
from tfdist.net.shared_token import Token

_CONNECT_SECONDS = 5.0
_STREAMS: tuple[tuple[StreamName, tuple[int, ...]], ...] = (("control", (0, 1)), ("errors", (2,)))


def connect(places: list[tuple[str, int]], token: Token, host: str, stream: StreamName) -> socket.socket:
    """A connection to the launching host, at the first of its addresses where it answers.

    Raises:
        CallError: It answers at none.
    """
    tried = []
    for place in places:
        try:
            connection = socket.create_connection(place, _CONNECT_SECONDS)
        except OSError as error:
            tried.append(f"{place[0]} port {place[1]}: {error}")
            continue
        try:
            call(connection, token, host, stream)
        except (OSError, CallError) as error:
            connection.close()
            tried.append(f"{place[0]} port {place[1]}: {error}")
            continue
        connection.settimeout(None)
        return connection
    raise CallError(f"{host} cannot call the launching host back: {'; '.join(tried)}")


def own_name(hosts: Sequence[str], environ: Mapping[str, str]) -> str:
    """The launch's name of this host: the only one, or that of the rank's number.

    Raises:
        CallError: The rank has no number, or one without a host.
    """
    rank = whole_number(environ.get("PMI_RANK", "")) if len(hosts) > 1 else 0
    if rank is None or rank >= len(hosts):
        raise CallError(f"mpirun's PMI_RANK expected a number below {len(hosts)}. Received: {rank}")
    return hosts[rank]


def main() -> int:
    """Becomes the remote end; returns only where it cannot."""
    environ = environment_with({})
    try:
        places, token = parse_places(environ.pop(PLACES, "")), Token(environ.pop(SECRET, "none"))
        host = own_name(sys.argv[1].split(","), environ)
        connections = {stream: connect(places, token, host, stream) for stream, _ in _STREAMS}
    except CallError as error:
        print(f"tfdist: {error}", file=sys.stderr, flush=True)
        return 3
    reached = connections["control"].getsockname()[0]
    for stream, descriptors in _STREAMS:
        for descriptor in descriptors:
            os.dup2(connections[stream].fileno(), descriptor)
    os.execve(sys.executable, [sys.executable, "-P", "-m", REMOTE_MODULE, "--rank-at", reached], environ)


if __name__ == "__main__":
    sys.exit(main())
