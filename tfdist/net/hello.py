"""Hello: what a launcher or a doctor says of itself to another when they meet, and which worker list it was given.

A short list is told as it is. Of a long one its digests are told: each launcher of a large job tells it to many others,
and two that agree need not read it. From the digests of two lists follows where they differ first.
"""

from __future__ import annotations

import hashlib
import platform
import re
import secrets
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from tfdist.cluster.cluster_spec import Cluster
from tfdist.net.line_socket import LineError, Message
from tfdist.versions import installed_version

LONG_CHARACTERS = 4096
"""From which length on a list is told by its digests; about 150 workers."""

BLOCK = 64
"""Workers whose digest is told together."""

_BLOCK_DIGITS = 8
_DIGESTS = re.compile(r"digests:([1-9][0-9]{0,6}):([0-9a-f]{64}):([0-9a-f]{64}):((?:[0-9a-f]{8})+)")
PROTOCOL = 4
_PACKAGES = ("tfdist", "tensorflow", "keras")


@dataclass(frozen=True)
class _Digests:
    """The digests that are told of a long list.

    Attributes:
        workers: How many it has.
        ordered: The digest of the list.
        content: That of its sorted entries.
        blocks: Short ones of each `BLOCK` entries in turn.
    """

    workers: int
    ordered: str
    content: str
    blocks: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> _Digests | None:
        """The digests that a text tells; None of one that tells none."""
        found = _DIGESTS.fullmatch(text)
        if found is None:
            return None
        blocks = tuple(found[4][at : at + _BLOCK_DIGITS] for at in range(0, len(found[4]), _BLOCK_DIGITS))
        digests = cls(int(found[1]), found[2], found[3], blocks)
        return digests if len(blocks) == -(-digests.workers // BLOCK) else None


def told_list(cluster: Cluster) -> str:
    """Returns what a hello tells of a list."""
    text = str(cluster)
    if len(text) < LONG_CHARACTERS:
        return text
    entries = text.split(",")
    blocks = [_digest(entries[at : at + BLOCK])[:_BLOCK_DIGITS] for at in range(0, len(entries), BLOCK)]
    return f"digests:{len(entries)}:{_digest(entries)}:{_digest(sorted(entries))}:{''.join(blocks)}"


def count_of(told: str) -> int:
    """Returns how many workers the list has that was told so."""
    digests = _Digests.parse(told)
    return told.count(",") + 1 if digests is None else digests.workers


def have_same_workers(here: str, there: str) -> bool:
    """Returns whether two lists have the same workers, in whatever order."""
    ours, theirs = _Digests.parse(here), _Digests.parse(there)
    if ours is None or theirs is None:
        return sorted(here.split(",")) == sorted(there.split(","))
    return ours.content == theirs.content


def difference(here: str, there: str) -> str:
    """Returns how two lists differ, in lines below a sentence."""
    ours, theirs = _Digests.parse(here), _Digests.parse(there)
    if ours is None or theirs is None:
        return f"  here: {in_words(here)}\n  there: {in_words(there)}"
    pairs = zip(ours.blocks, theirs.blocks, strict=False)
    block = next((number for number, (a, b) in enumerate(pairs) if a != b), min(len(ours.blocks), len(theirs.blocks)))
    first, last = block * BLOCK, (block + 1) * BLOCK - 1
    return (
        f"  here: {in_words(here)}\n  there: {in_words(there)}\n"
        f"  the first entry that differs is one of the workers {first} to {last}"
    )


def in_words(told: str) -> str:
    """A list as a message shows it."""
    digests = _Digests.parse(told)
    return told if digests is None else f"{digests.workers} workers (SHA-256 of the list: {digests.ordered[:16]}...)"


def _digest(entries: Sequence[str]) -> str:
    return hashlib.sha256(",".join(entries).encode()).hexdigest()


@dataclass(frozen=True)
class Hello:
    """A launcher's hello.

    Attributes:
        speaker: What says it, in words.
        sender: Different for every process.
        host: Its machine's name.
        cluster: The worker list that it was given.
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
