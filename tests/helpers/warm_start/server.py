"""Runs workers in forks of a process that has imported TensorFlow and Keras: `server.py`, by `warm_workers`.

Its descriptor 0 is a socket that listens, its descriptor 1 one that ends when the tests do. Nothing of the project is
imported before the fork.
"""

import contextlib
import fcntl
import gc
import json
import os
import random
import resource
import runpy
import selectors
import signal
import socket
import sys
import tempfile
from typing import Any

gc.disable()
import keras  # noqa: E402, F401
import numpy  # noqa: E402
import tensorflow  # noqa: E402
from handed_over import LIMITS  # noqa: E402

READ_AT_IMPORT = ("TF_", "KERAS_", "XLA_", "OMP_", "OPENBLAS_", "CUDA_", "ABSL_", "LC_", "LANG", "HOME", "TZ")
OF_NO_NUMBER = {"TF_CONFIG", "TF_GRPC_REUSE_PORT", "TF_CPP_MIN_LOG_LEVEL"}
"""Variables that are read later, or only choose what is logged."""

if not os.environ.get("TFDIST_SLOW_TESTS"):
    # To optimize a graph that runs a few times takes half as long as to trace it.
    tensorflow.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})

_HIGH = 500
"""A descriptor's number above those that a process is started with."""

gc.freeze()
own_environ = dict(os.environ)


def settings(environ: dict[str, str]) -> dict[str, str]:
    """The variables that what is imported has read."""
    read = {name for name in environ if name.startswith(READ_AT_IMPORT)} - OF_NO_NUMBER
    return {name: environ[name] for name in read}


class Server:
    """Forks for each process that asks, and tells it how the fork has ended."""

    def __init__(self) -> None:
        self._listener, self._tests = socket.socket(fileno=os.dup(0)), os.dup(1)
        self._selector = selectors.DefaultSelector()
        self._asking: dict[int, socket.socket] = {}
        self._ended: dict[int, int] = {}
        """Descriptors by the processes that they stand for."""

    def next_request(self) -> tuple[dict[str, Any], list[int]]:
        """Serves, and returns in each fork what it is to run, with its descriptors. Exits with the tests."""
        self._selector.register(self._listener, selectors.EVENT_READ, "asks")
        self._selector.register(self._tests, selectors.EVENT_READ, "over")
        while True:
            for key, _ in self._selector.select():
                if key.data == "over":
                    for pid in self._ended:
                        self._kill(pid)
                    os._exit(0)
                elif key.data == "asks":
                    if request := self._forked():
                        return request
                elif key.fileobj == self._ended.get(key.data):
                    self._has_ended(key.data)
                elif key.fileobj == self._asking.get(key.data):
                    self._is_alone(key.data)

    def _forked(self) -> tuple[dict[str, Any], list[int]] | None:
        """Answers a process, and returns its request in the fork for it, if there is one."""
        asking, _ = self._listener.accept()
        message, descriptors, _, _ = socket.recv_fds(asking, 1 << 18, 250)
        request = json.loads(message) if message else {}
        has_read_the_same = request and settings(request["environ"]) == settings(own_environ)
        pid = os.fork() if has_read_the_same else None
        if pid == 0:
            self._let_go(asking)
            return request, descriptors
        for each in descriptors:
            os.close(each)
        with contextlib.suppress(OSError):  # it has been killed
            asking.send(str(pid or 0).encode())
        if pid is None:
            asking.close()
            return None
        self._asking[pid], self._ended[pid] = asking, os.pidfd_open(pid)
        self._selector.register(asking, selectors.EVENT_READ, pid)
        self._selector.register(self._ended[pid], selectors.EVENT_READ, pid)
        return None

    def _let_go(self, asking: socket.socket) -> None:
        """Closes in a fork what is the server's: later it would close whatever has the same number."""
        self._selector.close()
        for each in (self._listener, asking, *self._asking.values()):
            each.close()
        for each in (self._tests, *self._ended.values()):
            os.close(each)

    def _is_alone(self, pid: int) -> None:
        """Ends a fork for which nobody waits any more."""
        asking = self._asking.pop(pid)
        self._selector.unregister(asking)
        asking.close()
        self._kill(pid)

    def _has_ended(self, pid: int) -> None:
        self._kill(pid)  # and what it has started
        _, status = os.waitpid(pid, 0)
        ended = self._ended.pop(pid)
        self._selector.unregister(ended)
        os.close(ended)
        if asking := self._asking.pop(pid, None):
            self._selector.unregister(asking)
            with contextlib.suppress(OSError):  # it has been killed
                asking.send(str(status).encode())
            asking.close()

    def _kill(self, pid: int) -> None:
        for kill in (os.kill, os.killpg):
            with contextlib.suppress(ProcessLookupError):
                kill(pid, signal.SIGKILL)


def become(request: dict[str, Any], descriptors: list[int]) -> None:
    """Gives this process what the other one had."""
    os.setsid()
    moved = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, _HIGH) for each in descriptors]
    for each in descriptors:
        os.close(each)
    for number, each in zip(request["descriptors"], moved, strict=True):
        os.dup2(each, number)
        os.close(each)
    for limit, values in zip(LIMITS, request["limits"], strict=True):
        resource.setrlimit(limit, values)
    for number in request["ignored"]:
        signal.signal(number, signal.SIG_IGN)
    os.sched_setaffinity(0, request["processors"])
    os.umask(request["umask"])
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environ"])
    sys.path[:], sys.orig_argv[:] = request["path"], request["argv"]
    tempfile.tempdir = None
    random.seed()
    numpy.random.seed()
    gc.enable()


become(*Server().next_request())
# As `python -m` does: the module's names stay what they are until the process is over.
sys.argv = ["-m"]
runpy._run_module_as_main("tfdist.training.worker")
