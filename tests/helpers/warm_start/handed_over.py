"""What a process does that another runs for: it gives it all that it has, and ends as that does."""

import json
import os
import resource
import signal
import socket
import sys

FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
LIMITS = (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_AS)
_MESSAGE_BYTES = 64


def run_elsewhere(address: str) -> None:
    """Has a fork of the server run this process's module. Returns where the server cannot, and this process goes on."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        try:
            server.connect(f"\0{address}")
        except OSError:
            return
        descriptors = [number for number in map(int, os.listdir("/proc/self/fd")) if _is_inherited(number, server)]
        socket.send_fds(server, [json.dumps(_surroundings(descriptors)).encode()], descriptors)
        pid = int(server.recv(_MESSAGE_BYTES) or 0)
        if not pid:
            return
        for number in FORWARDED:
            signal.signal(number, lambda number, _: os.kill(pid, number))
        # Who reads what the module writes waits until all have closed it.
        for number in descriptors:
            os.close(number)
        code = os.waitstatus_to_exitcode(int(server.recv(_MESSAGE_BYTES) or signal.SIGKILL))
    if code < 0:
        if -code in FORWARDED:
            signal.signal(-code, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.kill(os.getpid(), -code)
    os._exit(code)


def _is_inherited(number: int, server: socket.socket) -> bool:
    try:
        os.fstat(number)
    except OSError:  # that by which the folder was listed
        return False
    return number != server.fileno()


def _surroundings(descriptors: list[int]) -> dict[str, object]:
    ignored = [number for number in FORWARDED if signal.getsignal(number) == signal.SIG_IGN]
    os.umask(umask := os.umask(0))
    return {
        "descriptors": descriptors,
        "environ": dict(os.environ),
        "argv": sys.orig_argv,
        "path": [os.getcwd(), *sys.path],
        "folder": os.getcwd(),
        "umask": umask,
        "ignored": ignored,
        "processors": sorted(os.sched_getaffinity(0)),
        "limits": [resource.getrlimit(limit) for limit in LIMITS],
    }
