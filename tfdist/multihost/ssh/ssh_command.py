"""The call of ssh, and what it means when it fails: one line with the cause, and one with the remedy."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from tfdist.errors import UsageError
from tfdist.multihost.launching.host_problems import HostProblem
from tfdist.multihost.launching.protocol import REMOTE_MODULE

SSH_FAILED = 255
"""The exit code of ssh when it is ssh itself that failed."""
_NOT_FOUND = (126, 127)
_ALIVE_SECONDS = 10
_ALIVE_COUNT = 3


def parse_ssh(text: str) -> tuple[str, ...]:
    """The words of `--ssh`.

    Raises:
        UsageError: It has none, or a quote without an end.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f'--ssh expected a command such as "ssh -F FILE" ({error}). Received: {text!r}') from None
    if not words:
        raise UsageError(f'--ssh expected a command such as "ssh -F FILE". Received: {text!r}')
    return tuple(words)


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


def explain_connecting(
    host: str, code: int | None, said: str, python: str, ssh: Sequence[str] = ("ssh",)
) -> HostProblem:
    """Returns why the remote end of a host has never answered.

    Args:
        host: Its name for ssh.
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
