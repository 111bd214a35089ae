"""An ssh server on each of some hosts that are network namespaces, with keys and a client's config of their own.

Nothing of this user's is read or written: the keys, the config and the known hosts lie in one folder.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.helpers.waiting import until
from tfdist.verify.hosts.namespace_hosts import NamespaceHost

SSHD = "/usr/sbin/sshd"
_PORT = 22


@dataclass(frozen=True)
class SshServers:
    """Hosts with ssh servers.

    Attributes:
        hosts: Name for ssh -> host: `h1`, `h2` and so on.
        folder: Where keys and configs are.
        servers: Name for ssh -> its server.
    """

    hosts: Mapping[str, NamespaceHost]
    folder: Path
    servers: dict[str, subprocess.Popen[bytes]]

    def start(self, name: str) -> None:
        """Starts the server of a host on which none runs."""
        files = ["-f", self.folder / f"sshd.{name}", "-E", self.folder / f"{name}.log"]
        self.servers[name] = subprocess.Popen(
            [*self.hosts[name].prefix, SSHD, "-D", *files],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def config(self) -> Path:
        """The client's config: `ssh -F CONFIG h1`."""
        return self.folder / "config"

    @property
    def known_hosts(self) -> Path:
        """The keys of the hosts, as the client knows them."""
        return self.folder / "known_hosts"


def why_not() -> str:
    """What lacks for ssh servers here; empty where nothing does."""
    lacking = [tool for tool in (SSHD, "ssh", "ssh-keygen") if shutil.which(tool) is None]
    return f"needs {', '.join(lacking)}: apt-get install openssh-server openssh-client" if lacking else ""


@contextlib.contextmanager
def ssh_servers(
    hosts: Sequence[NamespaceHost], folder: Path, variables: Mapping[str, str]
) -> Iterator[SshServers]:
    """Starts a server on each host; at the end they are gone. Their sessions end with the hosts.

    Args:
        hosts: They become `h1`, `h2` and so on.
        folder: For keys and configs.
        variables: What every session has in its environment.
    """
    named = {f"h{number}": host for number, host in enumerate(hosts, 1)}
    folder.mkdir()
    for key in ("client", "server"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True, timeout=150)
    _write_client(named, folder)
    servers = SshServers(named, folder, {})
    Path("/run/sshd").mkdir(exist_ok=True)
    try:
        for name, host in named.items():
            _write_server(name, host, folder, variables)
            servers.start(name)
        for name in named:
            log = folder / f"{name}.log"
            until(lambda log=log: log.exists() and "Server listening" in log.read_text())
        yield servers
    finally:
        for server in servers.servers.values():
            server.kill()
            server.wait()


def _write_client(hosts: Mapping[str, NamespaceHost], folder: Path) -> None:
    public = " ".join((folder / "server.pub").read_text().split()[:2])
    (folder / "authorized").write_text((folder / "client.pub").read_text())
    (folder / "known_hosts").write_text("".join(f"{host.ipv4} {public}\n" for host in hosts.values()))
    entries = [f"Host {name}\n  HostName {host.ipv4}\n" for name, host in hosts.items()]
    common = {
        "IdentityFile": folder / "client",
        "IdentitiesOnly": "yes",
        "UserKnownHostsFile": folder / "known_hosts",
        "GlobalKnownHostsFile": "/dev/null",
        "StrictHostKeyChecking": "yes",
        "User": "root",
        "Port": _PORT,
    }
    lines = "".join(f"  {name} {value}\n" for name, value in common.items())
    (folder / "config").write_text("".join(entries) + f"Host *\n{lines}")


def _write_server(name: str, host: NamespaceHost, folder: Path, variables: Mapping[str, str]) -> None:
    settings = {
        "Port": _PORT,
        "ListenAddress": host.ipv4,
        "HostKey": folder / "server",
        "AuthorizedKeysFile": folder / "authorized",
        "StrictModes": "no",
        "PermitRootLogin": "prohibit-password",
        "PasswordAuthentication": "no",
        "KbdInteractiveAuthentication": "no",
        "UsePAM": "no",
        "PidFile": folder / f"{name}.pid",
        "MaxStartups": 100,
        "SetEnv": " ".join(f"{key}={value}" for key, value in variables.items()),
    }
    (folder / f"sshd.{name}").write_text("".join(f"{key} {value}\n" for key, value in settings.items()))
