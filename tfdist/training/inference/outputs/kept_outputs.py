"""A folder of kept outputs: those of a model for all samples of some data, in TFRecord files, and what they are of."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tfdist.config.data_sections import FeatureConfig, SourceConfig, TfrecordSource
from tfdist.errors import DataError
from tfdist.rundir.regular_files import is_bare_name, read_json
from tfdist.training.inference.outputs.output_formats import INDEX, KINDS, OutputColumn

MANIFEST_FILE = "outputs.json"
VERSION = 1

_IDENTIFYING = ("format", "split", "name", "function", "sharding")
"""Keys of a section of data that say which samples of its files, or of no files, they are."""


@dataclass(frozen=True)
class KeptFile:
    """A TFRecord file of outputs.

    Attributes:
        name: Its name, beside the manifest.
        samples: Its records.
        size: Its bytes.
    """

    name: str
    samples: int
    size: int


@dataclass(frozen=True)
class KeptOutputs:
    """The outputs that a folder has.

    Attributes:
        samples: Samples of all files.
        columns: The outputs.
        files: The files, in the order of the samples.
        gives: Output's name -> `logits` or `probabilities`, where the model says it.
        model: The model in words.
        checksum: That of the data's fingerprint.
        data: What else says which data it was; see `identity`.
    """

    samples: int
    columns: tuple[OutputColumn, ...]
    files: tuple[KeptFile, ...]
    gives: Mapping[str, str]
    model: str
    checksum: int
    data: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """The manifest in JSON's types."""
        return {"version": VERSION, **dataclasses.asdict(self)}

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Reads the manifest of a folder, and looks whether its files are there.

        Raises:
            DataError: It is no such folder, or a file is missing or of another size.
        """
        made_by = "Expected a folder that `tfdist data predict ... -o DIR` has made. Make it again, or name another."
        try:
            found = cls._of(read_json(folder / MANIFEST_FILE))
        except FileNotFoundError:
            raise DataError(f"{folder} has no kept outputs: there is no {MANIFEST_FILE} in it. {made_by}") from None
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise DataError(f"{folder / MANIFEST_FILE} cannot be read: {error}. {made_by}") from error
        for file in found.files:
            path = folder / file.name
            size = path.stat().st_size if path.is_file() else None
            if size != file.size:
                has = "is missing" if size is None else f"has {size:,} bytes, and had {file.size:,}"
                raise DataError(f"{path} {has}. {made_by}")
        return found

    @classmethod
    def _of(cls, content: Mapping[str, Any]) -> Self:
        if content["version"] != VERSION:
            raise ValueError("another version of tfdist wrote it")
        columns = tuple(OutputColumn(one["name"], one["dtype"], tuple(one["shape"])) for one in content["columns"])
        files = tuple(KeptFile(**one) for one in content["files"])
        found = cls(**{**{key: content[key] for key in _keys()}, "columns": columns, "files": files})
        found._check()
        return found

    def _check(self) -> None:
        of_files = [number for file in self.files for number in (file.samples, file.size)]
        numbers = [self.samples, self.checksum, *of_files]
        if not all(type(number) is int and number >= 0 for number in numbers):
            raise ValueError("expected whole numbers")
        if not self.files or not self.columns or sum(file.samples for file in self.files) != self.samples:
            raise ValueError("expected outputs, and files that have all samples")
        if not all(is_bare_name(file.name) for file in self.files):
            raise ValueError("expected names of files beside it")
        names = {INDEX, *(column.name for column in self.columns)}
        if len(names) <= len(self.columns):
            raise ValueError("expected columns of names of their own")
        for column in self.columns:
            sizes = all(type(size) is int and size > 0 for size in column.shape)
            if not isinstance(column.name, str) or column.dtype not in KINDS or not sizes:
                raise ValueError("expected columns with a name, a type and a shape")
        if not isinstance(self.gives, Mapping) or not isinstance(self.data, Mapping):
            raise ValueError("expected objects for gives and data")

    def section(self, folder: Path) -> TfrecordSource:
        """The section of a config that reads the files: the outputs, with the samples' numbers as labels."""
        features = {INDEX: FeatureConfig(dtype="int64")}
        for column in self.columns:
            kind: Any = "string" if column.is_text else "float32" if column.dtype.startswith("float") else "int64"
            features[column.name] = FeatureConfig(dtype=kind, shape=column.shape)
        # Named one by one: a pattern would take what else is there.
        names = [str(folder / file.name) for file in self.files]
        return TfrecordSource(files=names, features=features, label=INDEX)


def identity(section: SourceConfig | Mapping[str, Any]) -> dict[str, Any]:
    """Returns what says, besides the fingerprint of its files, which data a section describes, in JSON's types."""
    entries = section if isinstance(section, Mapping) else vars(section)
    return {key: entries[key] for key in _IDENTIFYING if key in entries}


def _keys() -> list[str]:
    return [field.name for field in dataclasses.fields(KeptOutputs)]
