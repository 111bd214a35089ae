"""Manifest of predictions in parts: what they are predictions of, and which parts are whole. Pure, but for reading."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tfdist.errors import UsageError
from tfdist.rundir.regular_files import is_bare_name, read_json
from tfdist.training.model_outputs.output_columns import KINDS, OutputColumn

VERSION = 1

_MOST_SAMPLES = 1 << 62
_MOST_DIMENSIONS = 32

@dataclass(frozen=True)
class Part:
    """A part that is whole.

    Attributes:
        name: Its file, beside the manifest.
        start: Its first sample.
        stop: The sample after its last.
        size: Bytes of the file.
        crc32: Of the file.
    """

    name: str
    start: int
    stop: int
    size: int
    crc32: int

    def check(self) -> None:
        """Raises `ValueError` for what no part is."""
        numbers = (self.start, self.stop, self.size, self.crc32)
        if not all(type(number) is int and 0 <= number < _MOST_SAMPLES for number in numbers):
            raise ValueError("expected whole numbers for a part")
        if self.stop <= self.start or not is_bare_name(self.name) or self.name != part_name(self.start):
            raise ValueError(f"expected parts such as {part_name(0)}, each with samples")


@dataclass(frozen=True)
class PredictionManifest:
    """The parts of one prediction, one after another from sample 0 on.

    Attributes:
        work: What they are predictions of, by name; in JSON's types.
        columns: The outputs; empty before the first part.
        parts: Those that are whole.
        facts: What the model has said of its outputs, which a start that predicts no more has no model for; in JSON's
            types.
    """

    work: Mapping[str, Any]
    columns: tuple[OutputColumn, ...] = ()
    parts: tuple[Part, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def done(self) -> int:
        """Samples in the parts."""
        return self.parts[-1].stop if self.parts else 0

    def with_part(self, part: Part, columns: Sequence[OutputColumn]) -> PredictionManifest:
        """The manifest with one more part."""
        return dataclasses.replace(self, columns=tuple(columns), parts=(*self.parts, part))

    def differences(self, work: Mapping[str, Any]) -> list[str]:
        """Returns how other predictions differ from these; none where they are the same."""
        return [
            f"{name}: {self.work.get(name)} then, {work.get(name)} now"
            for name in {**self.work, **work}
            if self.work.get(name) != work.get(name)
        ]

    def check(self) -> None:
        """Raises `ValueError` for what no manifest is."""
        if not isinstance(self.work, Mapping) or not isinstance(self.facts, Mapping):
            raise ValueError("expected objects for work and facts")
        for column in self.columns:
            _check_column(column)
        if bool(self.parts) != bool(self.columns) or len({column.name for column in self.columns}) < len(self.columns):
            raise ValueError("expected columns of their own names, and none without parts")
        done = 0
        for part in self.parts:
            part.check()
            if part.start != done:
                raise ValueError(f"expected a part from sample {done} on")
            done = part.stop

    def to_json(self) -> dict[str, Any]:
        """The manifest in JSON's types."""
        return {"version": VERSION, **dataclasses.asdict(self)}

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """Reads the manifest in a file; None where there is no such file.

        Raises:
            UsageError: The file cannot be read, or is not a manifest.
        """
        try:
            content = read_json(path)
            if content["version"] != VERSION:
                raise ValueError("another version wrote it")
            columns = [
                OutputColumn(entry["name"], entry["dtype"], tuple(entry["shape"])) for entry in content["columns"]
            ]
            parts = [Part(**entry) for entry in content["parts"]]
            manifest = cls(content["work"], tuple(columns), tuple(parts), content.get("facts", {}))
            manifest.check()
            return manifest
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise UsageError(
                f"{path} does not say what the parts beside it are: {error}. Expected what this version of `tfdist "
                "predict` writes. Remove its folder, or choose another --output."
            ) from error


def part_name(start: int) -> str:
    """The file of the part that begins with a sample."""
    return f"part-{start:012}.npz"


def _check_column(column: OutputColumn) -> None:
    sizes = column.shape
    if not isinstance(column.name, str) or column.dtype not in KINDS or len(sizes) > _MOST_DIMENSIONS:
        raise ValueError("expected columns with a name, a type of numbers or texts, and a shape")
    if not all(type(size) is int and 0 <= size < _MOST_SAMPLES for size in sizes):
        raise ValueError("expected whole numbers for a shape")
