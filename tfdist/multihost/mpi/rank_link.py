"""Link to one host by its rank's connections, once it has called.

mpirun while it runs, and what it has said.

Rank listener: where the ranks of a launch call back, each twice; it listens until all of them have.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, get_args

from tfdist.cluster.cluster_spec import is_loopback
from tfdist.cluster.environment_variables import environment_with
from tfdist.cluster.interfaces import own_addresses
from tfdist.errors import FormingError, UsageError
from tfdist.multihost.hosts import Host
from tfdist.multihost.launching.host_link import Heard, HostLink, HostProblem, Stream
from tfdist.multihost.launching.protocol import HostSpec
from tfdist.multihost.mpi.call_back import PLACES, SECRET, CallError, StreamName, answer_call, places_text
from tfdist.multihost.mpi.mpirun_command import INTEL_PIN, MpiFamily, mpirun_command
from tfdist.net.shared_token import Token

_BACKLOG: Final = 512
_AT_ONCE = 128


class RankListener:
    """Answers calls, in threads of its own; a context manager that ends them."""

    def __init__(self, token: Token, hosts: Iterable[str]) -> None:
        self._token = token
        self._known = frozenset((host, stream) for host in hosts for stream in get_args(StreamName))
        self._missing = set(self._known)
        self._calls: dict[tuple[str, str], socket.socket] = {}
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(_AT_ONCE)
        self._woken, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._socket = socket.create_server(("", 0), family=_family(), backlog=_BACKLOG, dualstack_ipv6=_is_dual())
        threading.Thread(target=self._accept, daemon=True).start()

    def fileno(self) -> int:
        """Readable after a rank has called."""
        return self._woken

    @property
    def places(self) -> str:
        """The places to call, as ranks are told: the machine's addresses, those of loopback last."""
        found = [address for address in own_addresses() if not is_loopback(address) and not address.startswith("fe80")]
        return places_text([*found, "127.0.0.1"], self._socket.getsockname()[1])

    def take(self, host: str) -> tuple[socket.socket, socket.socket] | None:
        """The connections of a host's rank, control and errors, once both are there."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._woken, 4096)
        with self._lock:
            keys = (host, "control"), (host, "errors")
            if not all(key in self._calls for key in keys):
                return None
            control, errors = (self._calls.pop(key) for key in keys)
            return control, errors

    def close(self) -> None:
        """Answers no more calls."""
        self._stop_listening()
        with self._lock:
            for connection in self._calls.values():
                connection.close()
            self._calls.clear()

    def _stop_listening(self) -> None:
        # A thread that waits in accept() is not woken by close() alone.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                connection = self._socket.accept()[0]
            except OSError:
                return
            self._slots.acquire()
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        try:
            key = answer_call(connection, self._token)
            if key not in self._known:
                raise CallError("it is on no host of the launch")
        except (OSError, CallError):
            connection.close()
            return
        finally:
            self._slots.release()
        # A host that is cut off is noticed by its silence.
        connection.settimeout(None)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in ((socket.TCP_KEEPIDLE, 10), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3)):
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 30_000)
        with self._lock:
            self._calls[key] = connection
            self._missing.discard(key)
            is_complete = not self._missing
        if is_complete:
            self._stop_listening()
        with contextlib.suppress(BlockingIOError, OSError):
            os.write(self._wake, b"x")


def _is_dual() -> bool:
    return socket.has_dualstack_ipv6()


def _family() -> socket.AddressFamily:
    return socket.AF_INET6 if _is_dual() else socket.AF_INET


_SHOWN = 300
_NO_PROGRAM = r"unable to find the specified executable|could not access or execute|No such file or directory"
_LEAVE_SECONDS = 10.0
_MOST_SAID = 16_384


class RankLink(HostLink):
    """A rank that mpirun starts.

    Args:
        listener: Where it calls back.
        nonce: Marks the host's answers.
    """

    def __init__(self, mpirun: MpirunProcess, listener: RankListener, host: str, nonce: str) -> None:
        super().__init__(nonce)
        self._mpirun = mpirun
        self._listener = listener
        self._host = host
        self._connections: tuple[socket.socket, ...] = ()

    def sources(self) -> list[Stream]:
        return super().sources() if self._connections else [self._listener]

    def hear(self, ready: Collection[int] | None = None) -> Heard:
        if not self._connections and (found := self._listener.take(self._host)) is not None:
            self._connections = found
            self.attach(found[0], *found)
            return super().hear()
        return super().hear(ready)

    def poll(self) -> int | None:
        if not self._connections:
            return self._mpirun.poll()
        return None if self._open else self._mpirun.poll() or 0

    def explain_loss(self) -> HostProblem:
        return self.failure_of_program() or HostProblem("was lost: the connection of its rank has ended")

    def failure_of_program(self) -> HostProblem | None:
        code = self._mpirun.poll()
        if not code:
            return None
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        said = _brief(self._mpirun.said())
        return HostProblem(f"was lost: mpirun {how}{f': {said}' if said else ''}")

    def hang_up(self) -> None:
        # The host notices the end of its stdin, and its last words still come.
        for connection in self._connections[:1]:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        for connection in self._connections:
            connection.close()


class RankLinks:
    """Makes links by one mpirun; a context manager that ends it.

    Args:
        python: The interpreter on every host.
    """

    def __init__(self, mpirun: Sequence[str], family: MpiFamily, hosts: Sequence[Host], python: str) -> None:
        self._python = python
        token = secrets.token_hex(32)
        self._listener = RankListener(Token(token), [host.name for host in hosts])
        # What the user has set for Intel's mpirun stays.
        environ = {INTEL_PIN: "off", **environment_with({PLACES: self._listener.places, SECRET: token})}
        try:
            self._mpirun = MpirunProcess(mpirun_command(mpirun, family, hosts, python), environ)
        except OSError as error:
            self._listener.close()
            raise UsageError(
                f"mpirun cannot be started: {mpirun[0]}: {error.strerror}. Expected a program. Name it with --mpirun."
            ) from None

    def __enter__(self) -> RankLinks:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        self._mpirun.close()

    def open(self, host: Host, spec: HostSpec) -> HostLink:
        """The link to a host, whose rank is told what to check as soon as it calls."""
        link = RankLink(self._mpirun, self._listener, host.name, spec.nonce)
        link.send(spec.to_line())
        return link

    def explain(self, host: Host, link: HostLink, code: int | None) -> HostProblem:
        """Returns why a rank has never answered."""
        said = " ".join(self._mpirun.said().split())
        if code is None:
            return HostProblem(f"has not answered in time; mpirun says: {_brief(said) or 'nothing'}")
        if self._python in said and re.search(_NO_PROGRAM, said):
            remedy = "Name its Python with --python PATH, one in which tfdist is installed"
            return HostProblem(f"has no {self._python}", remedy, UsageError.exit_code)
        if re.search(r"No module named '?tfdist", said):
            remedy = "Install tfdist there, in the same version, or name another interpreter with --python PATH"
            return HostProblem(f"has no tfdist in {self._python} that fits", remedy, UsageError.exit_code)
        if "--allow-run-as-root" in said:
            remedy = 'Launch as another user, or with --mpirun "mpirun --allow-run-as-root"'
            return HostProblem("mpirun refuses to run as root", remedy, UsageError.exit_code)
        what = f"mpirun ended with exit code {code} before the hosts answered: {_brief(said) or 'it said nothing'}"
        return HostProblem(what, "Try by hand: mpirun with the same hosts and `hostname`", FormingError.exit_code)


def _brief(said: str) -> str:
    """Returns what mpirun said, in one line."""
    text = " ".join(said.split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


class MpirunProcess:
    """A started mpirun; its output is kept in a file.

    Raises:
        OSError: It cannot be started.
    """

    def __init__(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  closed with the process
        # In a session of its own: Ctrl-C at the terminal is for the launch, which tells the hosts.
        self._process = subprocess.Popen(
            command,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._process.poll()

    def said(self) -> str:
        """The end of what it has said, without empty lines and rulers."""
        size = os.fstat(self._output.fileno()).st_size
        text = os.pread(self._output.fileno(), _MOST_SAID, max(0, size - _MOST_SAID)).decode(errors="replace")
        return "\n".join(line.strip() for line in text.splitlines() if line.strip(" -\t="))

    def close(self) -> None:
        """Waits a moment for its end, as that of its ranks is known, and ends it."""
        for number, seconds in ((None, _LEAVE_SECONDS), (signal.SIGTERM, _LEAVE_SECONDS), (signal.SIGKILL, None)):
            if number is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
                break
        self._output.close()
