"""Hello: what a launcher or a doctor says of itself to another when they meet."""

from __future__ import annotations

import platform
import secrets
import socket
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from tfdist.cluster.cluster_spec import Cluster
from tfdist.net.line_socket import LineError, Message
from tfdist.net.told_list import count_of, told_list
from tfdist.versions import installed_version

PROTOCOL = 4
_PACKAGES = ("tfdist", "tensorflow", "keras")


@dataclass(frozen=True)
class Hello:
    """A launcher's hello.

    Attributes:
        speaker: What says it, in words.
        sender: Different for every process.
        host: Its machine's name.
        cluster: The worker list that it was given, see `told_list`.
        local: The workers of its machine that it speaks for.
        versions: Of what must be the same on every host.
        protocol: The version of the protocol that it speaks.
    """

    speaker: ClassVar[str] = "launcher"

    sender: str
    host: str
    cluster: str
    local: tuple[int, ...]
    versions: dict[str, str]
    protocol: int = PROTOCOL

    @classmethod
    def own(cls, cluster: Cluster, local: tuple[int, ...]) -> Self:
        """This process's hello."""
        return cls(secrets.token_hex(8), socket.gethostname(), told_list(cluster), local, versions())

    def to_message(self, *, link: bool = False) -> Message:
        """The hello as it is sent; `link` asks the other side to keep the connection."""
        fields = dict(vars(self))
        return {"hello": {"launcher": fields.pop("sender"), **fields, "local": list(self.local)}, "link": link}

    @classmethod
    def from_message(cls, message: Message) -> Self:
        """The hello that another process sent.

        Raises:
            LineError: The message is not one.
        """
        hello: Any = message.get("hello")
        try:
            fields = {name: hello[name] for name in ("host", "cluster", "versions", "protocol")}
            fields["sender"] = hello["launcher"]
            local = tuple(hello["local"])
        except (TypeError, KeyError):
            raise LineError(f"a message that is not the hello of a tfdist {cls.speaker}") from None
        texts = [fields["sender"], fields["host"], fields["cluster"]]
        if not all(map(_is_text, texts)) or not _is_versions(fields["versions"]):
            raise LineError("a hello whose texts are not texts")
        if type(fields["protocol"]) is not int or not _are_indices(local, count_of(fields["cluster"])):
            raise LineError("a hello without workers of its cluster")
        return cls(local=local, **fields)

    def version_differences(self, other: Hello) -> list[tuple[str, str | None, str | None]]:
        """Packages whose versions differ, each with this version and the other; None where it is missing."""
        names = sorted({*self.versions, *other.versions})
        pairs = [(name, self.versions.get(name), other.versions.get(name)) for name in names]
        return [(name, here, there) for name, here, there in pairs if here != there]


# A hello may come from anybody, and parts of it are printed: no control characters, no other types.
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
    return found | {package: installed_version(package) or "unknown" for package in _PACKAGES}
