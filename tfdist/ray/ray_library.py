"""The library Ray: imported when it is needed, and connected to a cluster within a bound."""

from __future__ import annotations

import contextlib
import importlib
import io
import socket
from collections.abc import Iterator
from typing import Any

from tfdist.errors import FormingError, UsageError

_CONNECT_SECONDS = 10.0
_NO_CLUSTER = "Start one with `ray start --head`, or give --address HOST:PORT of its head node."


def ray_library() -> Any:
    """The module `ray`.

    Raises:
        UsageError: It is not installed; the text says how to install it.
    """
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise UsageError(
            f'Ray is not installed here ({error}). Expected the extra `ray`: pip install "tfdist[ray]", on every node '
            "of the cluster."
        ) from None


@contextlib.contextmanager
def connected(address: str) -> Iterator[Any]:
    """Connects this process to a cluster, as its driver; at the end it leaves, and what it has started there ends.

    Meanwhile `sys.stdout` leads nowhere.

    Args:
        address: `auto` for that of RAY_ADDRESS or of this machine, or HOST:PORT of the head node.

    Raises:
        UsageError: Ray is not installed, or the address is none.
        FormingError: No cluster answers there.
    """
    ray = ray_library()
    _check(address)
    # A thread of Ray's prints pages of its logs there when a process of the cluster dies.
    with contextlib.redirect_stdout(_Nowhere()):
        try:
            ray.init(address=address, log_to_driver=False, logging_level="ERROR", configure_logging=False)
        except (ConnectionError, ValueError, RuntimeError, OSError) as error:
            said = str(error).strip().partition("\n")[0]
            raise FormingError(f"No Ray cluster answers at the address {address!r}: {said} {_NO_CLUSTER}") from error
        try:
            yield ray
        finally:
            ray.shutdown()


class _Nowhere(io.TextIOBase):
    """A stream that forgets what is written."""

    def write(self, text: str) -> int:
        return len(text)


def _check(address: str) -> None:
    """Checks an address before Ray does, which waits for long where nobody listens."""
    if address in ("auto", "local"):
        if address == "local":
            raise UsageError(f"--address local would make a cluster of its own. {_NO_CLUSTER}")
        return
    if "://" in address:
        raise UsageError(
            f"--address expected auto or HOST:PORT of the head node. Received: {address!r}. From outside of the "
            "cluster, submit the command: ray job submit -- tfdist launch --on ray ..."
        )
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise UsageError(f"--address expected auto or HOST:PORT of the head node. Received: {address!r}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
    except OSError as error:
        why = error.strerror or error
        raise FormingError(f"No Ray cluster answers at the address {address!r}: {why}. {_NO_CLUSTER}") from error
