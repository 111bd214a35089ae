"""Request of an export: what `tfdist export` asks its process to do. Nothing here loads TensorFlow.

Nothing here loads TensorFlow.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfdist.config import RunConfig
from tfdist.errors import UsageError


@dataclass(frozen=True)
class CalibrationRequest:
    """By what integers are chosen, and what they may cost.

    Attributes:
        section: The section of the data, in JSON's types.
        key: Its dotted key.
        samples: How many samples are read, at most.
        seed: Of their order.
        max_drop: How much worse the metric may be, as `DropBudget.of` reads it.
        metric: The metric to judge by; None for the model's first.
    """

    section: Mapping[str, Any]
    key: str
    samples: int
    seed: int
    max_drop: str
    metric: str | None = None


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


@dataclass(frozen=True)
class ExportRequest:
    """A request for an export: what is exported, where to, and what it is tried with.

    Attributes:
        format: A name of `FORMATS`.
        target: The file or folder to make, under its temporary name; absolute.
        version: The folder within it that has the model; empty where it lies in `target` itself.
        name: Of the model, for its server.
        model: A `.keras` file, or a checkpoint's file of weights.
        is_whole_model: Whether that file is all that is needed; else `config` builds the model.
        shown_model: The model in words.
        config: The run's config; None for a file.
        section: The section of the data in JSON's types; None for samples that are made from the signature.
        key: Its dotted key; empty where there is none.
        samples: How many samples it is tried with, at most.
        signature: Inputs that the user gives.
        tolerance: Up to which difference it is the same; None for that of the model's precision.
        modules: What is imported first.
        seconds: How long the export may take in all, and running the artefact of it.
        calibration: How it becomes integers; None for formats that stay in float.
    """

    format: str
    target: str
    version: str
    name: str
    model: str
    is_whole_model: bool
    shown_model: str
    config: RunConfig | None
    section: Mapping[str, Any] | None
    key: str
    samples: int = 256
    signature: tuple[InputEntry, ...] = ()
    tolerance: float | None = None
    modules: tuple[str, ...] = ()
    seconds: float = 1800.0
    calibration: CalibrationRequest | None = None
