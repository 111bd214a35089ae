"""What launchers say when they meet, and whether what two of them say fits together."""

from __future__ import annotations

import importlib.metadata
import platform
import secrets
import socket
from dataclasses import dataclass
from typing import Any

from tfdist.cluster.cluster_spec import Cluster
from tfdist.net.line_socket import LineError, Message

PROTOCOL = 1
_PACKAGES = ("tfdist", "tensorflow", "keras")


@dataclass(frozen=True)
class Hello:
    """One launcher's introduction.

    Attributes:
        launcher: Different for every launcher process.
        host: Its machine's name.
        cluster: The worker list that it was given.
        local: The workers that it starts.
        versions: Of what must be the same on every host.
        protocol: The language that it speaks.
    """

    launcher: str
    host: str
    cluster: str
    local: tuple[int, ...]
    versions: dict[str, str]
    protocol: int = PROTOCOL

    @classmethod
    def own(cls, cluster: Cluster, local: tuple[int, ...]) -> Hello:
        """This launcher's."""
        return cls(secrets.token_hex(8), socket.gethostname(), str(cluster), local, versions())

    def to_message(self, *, link: bool = False) -> Message:
        """The hello as it is sent; `link` asks the launcher of the chief to keep the connection for the job's life."""
        return {"hello": {**vars(self), "local": list(self.local)}, "link": link}

    @classmethod
    def from_message(cls, message: Message) -> Hello:
        """The hello that another launcher sent.

        Raises:
            LineError: It is none.
        """
        hello: Any = message.get("hello")
        try:
            fields = {name: hello[name] for name in ("launcher", "host", "cluster", "versions", "protocol")}
            local = tuple(hello["local"])
        except (TypeError, KeyError):
            raise LineError("a message that is no hello of a tfdist launcher") from None
        texts = [fields["launcher"], fields["host"], fields["cluster"]]
        if not all(map(_is_text, texts)) or not _is_versions(fields["versions"]):
            raise LineError("a hello with something else than texts")
        if type(fields["protocol"]) is not int or not _are_indices(local, fields["cluster"].count(",") + 1):
            raise LineError("a hello without workers of its cluster")
        return cls(local=local, **fields)


# A hello may come from anybody, and parts of it go to the terminal: no control characters, no other types.
def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable()


def _is_versions(value: Any) -> bool:
    return isinstance(value, dict) and all(_is_text(name) and _is_text(version) for name, version in value.items())


def _are_indices(local: tuple[Any, ...], size: int) -> bool:
    return (
        bool(local)
        and len(set(map(str, local))) == len(local)
        and all(type(index) is int and 0 <= index < size for index in local)
    )


def versions() -> dict[str, str]:
    """The versions that must agree, read from the packages' metadata: importing TensorFlow takes seconds."""
    found = {"python": ".".join(platform.python_version_tuple()[:2])}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "unknown"
    return found


def disagreement(mine: Hello, theirs: Hello, reached: int | None = None) -> str | None:
    """Why two launchers cannot run one job, or None when they can.

    Args:
        mine: This launcher's hello.
        theirs: The other's.
        reached: The worker whose address this launcher dialled to meet the other; None when the other dialled.
    """
    them = f"the launcher on {theirs.host}"
    if mine.launcher == theirs.launcher:
        return f"the address of worker {reached} leads back to this machine, whose worker(s) are {_list(mine.local)}"
    if mine.protocol != theirs.protocol:
        return f"{them} speaks another version of tfdist: {theirs.versions} there, {mine.versions} here"
    if mine.cluster != theirs.cluster:
        same_workers = sorted(mine.cluster.split(",")) == sorted(theirs.cluster.split(","))
        what = "the workers in another order" if same_workers else "another worker list"
        return (
            f"{them} was given {what}; the list must be the same, in the same order, on every host\n"
            f"  here: {mine.cluster}\n  there: {theirs.cluster}"
        )
    if mine.versions != theirs.versions:
        names = sorted({*mine.versions, *theirs.versions})
        differing = [
            f"{name} {mine.versions.get(name)} here and {theirs.versions.get(name)} there"
            for name in names
            if mine.versions.get(name) != theirs.versions.get(name)
        ]
        return f"{them} has other versions: {'; '.join(differing)}. Install the same on every host"
    twice = sorted(set(mine.local) & set(theirs.local))
    if twice:
        return f"worker(s) {_list(twice)} are started twice: here and by {them}. Give each launcher its own --index"
    if reached is not None and reached not in theirs.local:
        return (
            f"the address of worker {reached} leads to {them}, which starts worker(s) {_list(theirs.local)}. "
            "Check what that name resolves to here, and --index there"
        )
    return None


def _list(indices: tuple[int, ...] | list[int]) -> str:
    return ", ".join(map(str, indices))
