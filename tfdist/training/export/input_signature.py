"""The inputs of a model as `--input-signature` gives them: `NAME=DTYPE:DIMS`. Nothing here loads TensorFlow."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tfdist.errors import UsageError

_FREE = ("none", "?")
_DTYPE = re.compile(r"bool|string|float(?:16|32|64)|u?int(?:8|16|32|64)")
_NAME = re.compile(r"[A-Za-z_]\w*")
_EXPECTED = (
    "Expected [NAME=]DTYPE:DIMS with the batch as the first of DIMS, and None for a size that is free: "
    "--input-signature image=float32:None,28,28,1."
)


@dataclass(frozen=True)
class InputEntry:
    """An input.

    Attributes:
        name: Its name; empty where it is the only one.
        dtype: TensorFlow's name of its type.
        shape: With the batch's dimension; None for a size that is free.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...]


def parse_signature(texts: Sequence[str]) -> tuple[InputEntry, ...]:
    """Reads the values of `--input-signature`, one an input.

    Raises:
        UsageError: One cannot be read, or two have one name.
    """
    entries = tuple(map(_entry, texts))
    names = [entry.name for entry in entries]
    if len(entries) > 1 and (not all(names) or len({*names}) < len(names)):
        raise UsageError(
            f"Several inputs need a name each. {_EXPECTED} Received: "
            f"{' '.join(f'--input-signature {text}' for text in texts)}"
        )
    return entries


def _entry(text: str) -> InputEntry:
    named, equals, rest = text.rpartition("=")
    dtype, colon, dims = rest.strip().partition(":")
    name = named.strip()
    if not colon or (equals and not _NAME.fullmatch(name)) or not _DTYPE.fullmatch(dtype):
        raise UsageError(f"An input cannot be read. {_EXPECTED} Received: --input-signature {text}")
    shape: list[int | None] = []
    for dim in dims.split(","):
        if dim.strip().lower() in _FREE:
            shape.append(None)
        elif dim.strip().isdecimal() and int(dim) > 0:
            shape.append(int(dim))
        else:
            raise UsageError(
                f"{dim.strip() or 'nothing'} is no size. {_EXPECTED} Received: --input-signature {text}"
            )
    return InputEntry(name, dtype, tuple(shape))
