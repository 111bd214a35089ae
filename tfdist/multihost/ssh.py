"""Many hosts by the user's own ssh: how it is called, what its failures mean, and the link to one host."""

from __future__ import annotations

import contextlib
import re
import shlex
import subprocess
import time
from collections.abc import Sequence

from tfdist.errors import UsageError
from tfdist.multihost.hosts import Host
from tfdist.multihost.launching.host_link import HostLink, HostProblem, words_of
from tfdist.multihost.launching.protocol import REMOTE_MODULE, HostSpec

SSH_FAILED = 255
"""The exit code of ssh when it is ssh itself that failed."""

_NOT_FOUND = (126, 127)
_ALIVE_SECONDS = 10
_ALIVE_COUNT = 3
_TIMED_OUT = "timed out|Connection timeout"
_CAUSES: tuple[tuple[str, str, str], ...] = (
    (
        r"REMOTE HOST IDENTIFICATION HAS CHANGED",
        "has another host key than before, so it may be another machine",
        "If you know why it changed: ssh-keygen -R {host}, then connect once by hand: {ssh} {host}",
    ),
    (
        r"Host key verification failed",
        "has a host key that is not known here",
        "Connect once by hand and compare it: {ssh} {host}",
    ),
    (
        r"Permission denied",
        "refuses your key",
        "No password is asked for. Put your key there (ssh-copy-id {host}), or name it in ssh's config (IdentityFile)",
    ),
    (
        r"Could not resolve hostname",
        "has a name that does not resolve",
        "Correct it, or give it an address in ssh's config (Host, HostName)",
    ),
    (
        r"Connection refused",
        "refuses the connection",
        "Start an ssh server there, or name its port in ssh's config (Port)",
    ),
    (
        _TIMED_OUT,
        "does not answer",
        "Check that it runs and that no firewall is between, or wait longer with --connect-timeout",
    ),
    (r"No route to host|Network is unreachable", "cannot be reached: {line}", "Check that it runs, and the network"),
    (
        r"Bad configuration option|Bad owner or permissions|terminating, \d+ bad|Can't open user config",
        "was not called: ssh does not take its config ({line})",
        "Correct it, or the command of --ssh",
    ),
    (
        r"kex_exchange_identification|Connection (closed|reset) by|banner exchange",
        "closed the connection before it let you in",
        "Look into its ssh server's log; it may admit few connections at once (MaxStartups)",
    ),
)
_LAST_WORDS_SECONDS = 1.0


def parse_ssh(text: str) -> tuple[str, ...]:
    """The words of `--ssh`. Raises `UsageError` as `words_of`."""
    return words_of(text, '--ssh expected a command such as "ssh -F FILE"')


def ssh_command(ssh: Sequence[str], host: str, python: str, connect_seconds: int) -> list[str]:
    """The command that starts the remote end on a host.

    It asks nobody for a password, and notices within `_ALIVE_SECONDS * _ALIVE_COUNT` that the host is gone.
    """
    options = {
        "BatchMode": "yes",
        "ConnectTimeout": str(connect_seconds),
        "ServerAliveInterval": str(_ALIVE_SECONDS),
        "ServerAliveCountMax": str(_ALIVE_COUNT),
    }
    # exec, so that the shell does not stay between; -P, so that nothing in the home directory hides the package.
    remote = f"exec {shlex.quote(python)} -P -m {REMOTE_MODULE}"
    return [*ssh, "-T", *(f"-o{name}={value}" for name, value in options.items()), "--", host, remote]


def explain_connecting(
    host: str, code: int | None, said: str, python: str, ssh: Sequence[str] = ("ssh",)
) -> HostProblem:
    """Returns why the remote end of a host has never answered.

    Args:
        code: What ssh exited with; None where it still runs, and time is over.
        said: What came on its stderr.
        python: The interpreter that was to run.
        ssh: How ssh is called, for what to try by hand.
    """
    by_hand = shlex.join(ssh)
    last = last_line(said)
    if code is None and re.search(_TIMED_OUT, last):
        code = SSH_FAILED  # It has said so and is about to end.
    if code is None:
        return HostProblem(
            "has not answered in time" + (f" ({last})" if last else ""),
            f"See what is slow there: {by_hand} {host} {python} --version. Or wait longer with --connect-timeout",
        )
    if code in _NOT_FOUND:
        remedy = "Name its Python with --python PATH, one in which tfdist is installed"
        return HostProblem(f"has no {python}", remedy, UsageError.exit_code)
    if found := _without_tfdist(said, python):
        return found
    if code == SSH_FAILED:
        for pattern, what, remedy in _CAUSES:
            match = re.search(rf"^.*(?:{pattern}).*$", said, re.MULTILINE)
            if match:
                line = match[0].strip()
                return HostProblem(what.format(line=line), remedy.format(host=host, ssh=by_hand))
        return HostProblem(f"cannot be reached by ssh: {last or 'it said nothing'}", f"Try by hand: {by_hand} {host}")
    return HostProblem(
        f"ended with exit code {code} before it answered: {last or 'it said nothing'}",
        f"Try by hand: {by_hand} {host} {python} -m {REMOTE_MODULE} </dev/null",
    )


def _without_tfdist(said: str, python: str) -> HostProblem | None:
    if re.search(r"No module named '?tfdist(?!\.)\b", said):
        return HostProblem(
            f"has no tfdist in {python}",
            f"Install it there ({python} -m pip install tfdist), or name another interpreter with --python PATH",
            UsageError.exit_code,
        )
    if re.search(r"No module named '?tfdist\.", said):
        return HostProblem(
            f"has a tfdist in {python} that cannot be launched",
            "Install the same version on every host",
            UsageError.exit_code,
        )
    if re.search(r"[Uu]nknown option:? -P", said):
        return HostProblem(
            f"has a Python older than 3.11 as {python}", "Name a newer one with --python PATH", UsageError.exit_code
        )
    return None


def explain_loss(code: int | None, said: str) -> HostProblem:
    """Returns why the connection to a host ended while its run went on.

    Args:
        code: What ssh exited with; None where it was ended here.
        said: What came on its stderr since the run started.
    """
    last = last_line(said).rstrip(".")
    if code is not None and code < 0:
        return HostProblem(f"was lost: its ssh was killed by signal {-code}")
    told = f": {last}" if last else ""
    return HostProblem(f"was lost: its ssh ended{f' with exit code {code}' if code is not None else ''}{told}")


def last_line(said: str) -> str:
    """The last line with something on it, cut to what fits into a message."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


class SshLink(HostLink):
    """A started ssh.

    Args:
        nonce: Marks the host's answers.

    Raises:
        UsageError: There is no such program.
    """

    def __init__(self, command: Sequence[str], nonce: str) -> None:
        super().__init__(nonce)
        self._ended: float | None = None
        try:
            # In a session of its own: Ctrl-C at the terminal is for the launch, which tells the hosts.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            raise UsageError(
                f"ssh cannot be started: {command[0]}: {error.strerror}. Expected a program. Install OpenSSH's client, "
                'or give another command with --ssh "ssh -F FILE"'
            ) from None
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._pipes = (self._process.stdin, self._process.stdout, self._process.stderr)
        self.attach(*self._pipes)

    def poll(self) -> int | None:
        code = self._process.poll()
        if code is None or not self._open:
            return code
        # A master of ssh's shared connections stays behind with its stderr.
        self._ended = self._ended or time.monotonic()
        return code if time.monotonic() - self._ended > _LAST_WORDS_SECONDS else None

    def explain_loss(self) -> HostProblem:
        return explain_loss(self._process.poll(), self.said)

    def hang_up(self) -> None:
        with contextlib.suppress(OSError):
            self._pipes[0].close()

    def close(self) -> None:
        self.hang_up()
        if self._process.poll() is None:
            self._process.kill()
        for pipe in self._pipes[1:]:
            pipe.close()
        self._process.wait()


class SshLinks:
    """Makes links by ssh.

    Args:
        python: The interpreter on every host.
        seconds: How long a host may take to answer ssh.
    """

    def __init__(self, ssh: Sequence[str], python: str, seconds: int) -> None:
        self._ssh, self._python, self._seconds = ssh, python, seconds

    def open(self, host: Host, spec: HostSpec) -> HostLink:
        """Connects to a host, and tells it what to check."""
        link = SshLink(ssh_command(self._ssh, host.name, self._python, self._seconds), spec.nonce)
        link.send(spec.to_line())
        return link

    def explain(self, host: Host, link: HostLink, code: int | None) -> HostProblem:
        """Returns why a host has never answered."""
        return explain_connecting(host.name, code, link.said, self._python, self._ssh)
