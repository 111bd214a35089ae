"""Slurm's short forms of lists: the names of a job's nodes, and how many tasks each has.

The judge of names and of their order is `scontrol show hostnames`.
"""

from __future__ import annotations

import itertools
import math
import re

from tfdist.errors import ClusterError

_MOST_TASKS = 1 << 16
"""Of one job step; text of a few letters could stand for more than a machine's memory holds."""
_MOST_LETTERS = 253
"""Of a host name (RFC 1035)."""


def expand_counts(text: str) -> list[int]:
    """`2(x3),1` -> [2, 2, 2, 1].

    Raises:
        ClusterError: The text is not of that form.
    """
    counts: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"([0-9]{1,9})(?:\(x([0-9]{1,9})\))?", part)
        if match is None or len(counts) + int(match[2] or 1) > _MOST_TASKS:
            raise ClusterError(
                f"Slurm's tasks per node must look like 2(x3),1, for {_MOST_TASKS:,} nodes at most. "
                f"Received: {text[:200]!r}"
            )
        counts += [int(match[1])] * int(match[2] or 1)
    return counts


def expand_hosts(text: str) -> list[str]:
    """`gpu[8-10,12],login` -> gpu8, gpu9, gpu10, gpu12, login: the order in which Slurm numbers the tasks.

    Raises:
        ClusterError: The text is not of that form.
    """
    parts = re.findall(r"(?:[^,\[\]]|\[[^\[\]]*\])+", text)
    if not text or ",".join(parts) != text:
        raise _bad_hosts(text)
    hosts: list[str] = []
    for part in parts:
        hosts += _expand_part(part, text, _MOST_TASKS - len(hosts))
    return hosts


def _expand_part(part: str, text: str, most: int) -> list[str]:
    """The names of one part of the list `text`, at most so many."""
    pieces = re.findall(r"\[[^\[\]]*\]|[^\[\]]+", part)
    choices: list[list[str]] = []
    for piece in pieces:
        choices.append(_expand_ranges(piece[1:-1], text, most) if piece.startswith("[") else [piece])
        if math.prod(map(len, choices)) > most or sum(len(each[-1]) for each in choices) > _MOST_LETTERS:
            raise _bad_hosts(text)
    # Slurm's order: the last brackets change first, then the first ones, and those before the last ones least.
    brackets = [place for place, piece in enumerate(pieces) if piece.startswith("[")]
    order = [*reversed(brackets[:-1]), *brackets[-1:]]
    return [
        "".join(dict(zip(order, chosen, strict=True)).get(place, piece) for place, piece in enumerate(pieces))
        for chosen in itertools.product(*(choices[place] for place in order))
    ]


def _expand_ranges(ranges: str, text: str, most: int) -> list[str]:
    numbers: list[str] = []
    for piece in ranges.split(","):
        match = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", piece)
        first, last = ("1", "0") if match is None else (match[1], match[2] or match[1])
        if not 0 <= int(last) - int(first) < most - len(numbers):
            raise _bad_hosts(text)
        numbers += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return numbers


def _bad_hosts(text: str) -> ClusterError:
    return ClusterError(
        f"Slurm's list of nodes must look like gpu[8-10,12],login, with {_MOST_TASKS:,} names at most. "
        f"Received: {text[:200]!r}"
    )
