"""Link to one host by an ssh process."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Sequence

from tfdist.errors import UsageError
from tfdist.multihost.hosts.host_list import Host
from tfdist.multihost.launching.host_link import HostLink
from tfdist.multihost.launching.host_problems import HostProblem
from tfdist.multihost.launching.protocol import HostSpec
from tfdist.multihost.ssh.ssh_command import explain_connecting, explain_loss, ssh_command

_LAST_WORDS_SECONDS = 1.0


class SshLink(HostLink):
    """A started ssh.

    Args:
        command: How it is called.
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
        ssh: How ssh is called.
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
