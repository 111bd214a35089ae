"""Told list: how a hello says which worker list its sender was given, whatever the length of the list.

A short list is told as it is. Of a long one its digests are told: each launcher of a large job tells it to many others,
and two that agree need not read it. From the digests of two lists follows where they differ first.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from tfdist.cluster.cluster_spec import Cluster

LONG_CHARACTERS = 4096
"""From which length on a list is told by its digests; about 150 workers."""

BLOCK = 64
"""Workers whose digest is told together."""

_BLOCK_DIGITS = 8
_DIGESTS = re.compile(r"digests:([1-9][0-9]{0,6}):([0-9a-f]{64}):([0-9a-f]{64}):((?:[0-9a-f]{8})+)")


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
