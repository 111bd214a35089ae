"""TCP ports of this machine: which ones tfdist may choose, and which process has one that is taken."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

# Below 32768, from where Linux assigns ports to outgoing connections, and above the ports of common services.
FIRST_PORT, END_PORT = 20000, 32000
_LISTEN = "0A"
_COMMAND_CHARACTERS = 120


def candidate_ports(start: int) -> Iterator[int]:
    """Every port that tfdist may choose, each once; `start`, any number, determines the first one."""
    count = END_PORT - FIRST_PORT
    for offset in range(count):
        yield FIRST_PORT + (start + offset) % count


def listener_inodes(table: str, port: int) -> list[str]:
    """Socket inodes that listen on `port`, from the text of /proc/net/tcp or tcp6."""
    return [fields[9] for fields in _sockets(table, port) if fields[3] == _LISTEN]


def has_recent_connections(table: str, port: int) -> bool:
    """Returns whether the text of /proc/net/tcp or tcp6 shows sockets other than listening ones on local `port`."""
    return any(fields[3] != _LISTEN for fields in _sockets(table, port))


def _sockets(table: str, port: int) -> Iterator[list[str]]:
    for line in table.splitlines()[1:]:
        fields = line.split()
        if len(fields) > 9 and int(fields[1].rpartition(":")[2], 16) == port:
            yield fields


def listening_inodes(port: int) -> list[str]:
    """Inodes of the sockets of this machine that listen on `port`, IPv4 or IPv6."""
    return [inode for table in tcp_tables() for inode in listener_inodes(table, port)]


def tcp_tables() -> list[str]:
    """The kernel's lists of TCP sockets, IPv4 and IPv6; empty texts where there is no /proc."""
    return [_read(Path("/proc/net", name)) for name in ("tcp", "tcp6")]


def port_owner(port: int) -> str | None:
    """The process that listens on `port`, such as `pid 123 (python train.py)`; None when that is unknown."""
    return _owner(listening_inodes(port))


def unix_socket_owner(name: str) -> str | None:
    """The process that has bound the abstract unix socket `name`; None when that is unknown."""
    lines = [line.split() for line in _read(Path("/proc/net/unix")).splitlines()[1:]]
    return _owner([fields[6] for fields in lines if len(fields) > 7 and fields[7] == f"@{name}"])


def _owner(inodes: Iterable[str]) -> str | None:
    """The process that has one of the socket inodes open. Other users' processes stay unknown without root."""
    wanted = {f"socket:[{inode}]" for inode in inodes}
    if not wanted:
        return None
    for process in sorted(Path("/proc").glob("[0-9]*"), key=lambda path: int(path.name)):
        if wanted & set(_open_files(process)):
            command = _read(process / "cmdline").replace("\0", " ").strip()
            return f"pid {process.name} ({re.sub(r'[^ -~]', '?', command)[:_COMMAND_CHARACTERS] or 'unknown command'})"
    return None


def _open_files(process: Path) -> Iterator[str]:
    try:
        for descriptor in os.scandir(process / "fd"):
            yield os.readlink(descriptor.path)
    except OSError:
        # The process has ended, or belongs to another user, whose open files stay unknown.
        return


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
