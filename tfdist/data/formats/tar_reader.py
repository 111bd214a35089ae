"""Reader of the samples of tar files: the parts that are wanted of each, as arrays."""

from __future__ import annotations

import io
import math
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tfdist.config.data_sections import FeatureConfig
from tfdist.data.random_access.file_scans import key_and_extension
from tfdist.data.random_access.numbered_records import Records
from tfdist.data.random_access.record_reader import RecordReader
from tfdist.data.sample_source import ArraySpec
from tfdist.errors import DataError

_NPY = b"\x93NUMPY"


class TarReader:
    """Random access to the samples of plain tar files.

    Args:
        paths: The files.
        features: Extension -> what it holds: the bytes of an image or a text (`image`, `string`), or numbers, written
            as text or as a .npy file.

    Raises:
        DataError: A file cannot be read, is compressed, damaged or cut off, or there is no sample.
    """

    def __init__(self, paths: Sequence[Path], features: Mapping[str, FeatureConfig]) -> None:
        self.records = Records.open(paths, "tar")
        self.features = {name.lower().removeprefix("."): feature for name, feature in features.items()}
        self._reader = RecordReader(self.records)

    def __len__(self) -> int:
        return len(self.records)

    @property
    def paths(self) -> tuple[Path, ...]:
        """See `SampleReader.paths`."""
        return self.records.paths

    @property
    def specs(self) -> tuple[ArraySpec, ...]:
        """See `SampleReader.specs`: one array a feature."""
        return tuple(
            ArraySpec(feature.dtype, tuple(feature.shape)) if _is_number(feature) else ArraySpec("string")
            for feature in self.features.values()
        )

    def read(self, indices: NDArray[np.int64]) -> list[NDArray]:
        """Returns the features of the samples `indices` [k], each [k, ...].

        Raises:
            DataError: A sample lacks a part, a part is no number of its type and shape, or its file has changed.
        """
        arrays = [np.empty((len(indices), *spec.shape), _numpy_type(spec)) for spec in self.specs]
        for place, record in enumerate(self._reader.read(indices).cut()):
            number = int(indices[place])
            parts = self._parts(number, record)
            for array, (name, feature) in zip(arrays, self.features.items(), strict=True):
                array[place] = self._value(number, name, feature, parts)
        return arrays

    def name(self, index: int) -> str:
        """Names a sample for errors: its file, its number in it, counted from 0, and its key."""
        (record,) = self._reader.read(np.array([index])).cut()
        keys = [found[0] for member, _ in _members(record) if (found := key_and_extension(member))]
        return f"{self._where(index)} ({keys[0]})"

    def _where(self, index: int) -> str:
        spans = self.records.locate(np.array([index]))
        return f"{self.records.paths[int(spans.files[0])]}, sample {int(spans.records[0])}"

    def _parts(self, number: int, record: bytes) -> dict[str, bytes]:
        """The parts of a sample, by their extensions."""
        parts: dict[str, bytes] = {}
        try:
            for member, content in _members(record):
                found = key_and_extension(member)
                if found is None:
                    continue
                if found[1] in parts:
                    raise DataError(f"{self._where(number)} ({found[0]}) has two members that end in .{found[1]}.")
                parts[found[1]] = content
        except tarfile.TarError as error:
            raise DataError(f"{self._where(number)} is damaged: {error}.") from error
        return parts

    def _value(self, number: int, name: str, feature: FeatureConfig, parts: Mapping[str, bytes]) -> bytes | NDArray:
        if name not in parts:
            found = ", ".join(parts) or "nothing"
            raise DataError(f"{self.name(number)} has no {name}. It has: {found}. Expected all features in it.")
        if not _is_number(feature):
            return parts[name]
        try:
            return _numbers(parts[name], feature)
        except (ValueError, EOFError, OverflowError) as error:
            expected = f"{feature.dtype} of the shape {list(feature.shape)}"
            raise DataError(f"{self.name(number)}, {name}: {error}. Expected {expected}, as text or .npy.") from error


def _members(record: bytes) -> list[tuple[tarfile.TarInfo, bytes]]:
    """The members of a sample, with their content."""
    found = []
    with tarfile.open(fileobj=io.BytesIO(record), mode="r:") as archive:
        while (member := archive.next()) is not None:
            content = archive.extractfile(member) if member.isreg() else None
            found.append((member, b"" if content is None else content.read()))
    return found


def _is_number(feature: FeatureConfig) -> bool:
    return feature.dtype in ("int64", "float32")


def _numbers(content: bytes, feature: FeatureConfig) -> NDArray:
    """The numbers of a part. Raises ValueError, EOFError or OverflowError for what is none of that type and shape."""
    kind = np.dtype(feature.dtype)
    if content.startswith(_NPY):
        array = np.load(io.BytesIO(content), allow_pickle=False)
    else:
        words = content.decode("utf-8").split()
        array = np.array([int(word) if kind.kind == "i" else float(word) for word in words])
    if array.size and array.dtype.kind not in ("biu" if kind.kind == "i" else "biuf"):
        raise ValueError(f"its numbers are of the type {array.dtype}")
    if array.size != math.prod(feature.shape):
        raise ValueError(f"it has {array.size} number(s)")
    return array.astype(kind).reshape(tuple(feature.shape))


def _numpy_type(spec: ArraySpec) -> np.dtype:
    return np.dtype(np.object_) if spec.dtype == "string" else np.dtype(spec.dtype)
