"""Store of predictions on the disk, in parts: files that are whole or not there, until one file is made of them."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import logging
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from tfdist.errors import DataError, UsageError
from tfdist.rundir import atomic_files
from tfdist.rundir.regular_files import is_bare_name, open_regular, read_json
from tfdist.rundir.temp_names import remove_all
from tfdist.training.inference.outputs.output_formats import KINDS, OutputColumn, column_of

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


MANIFEST_FILE = "manifest.json"

_BLOCK_BYTES = 1 << 20
_OUTPUT = "--output"

_log = logging.getLogger("tfdist")


def parts_folder(output: Path) -> Path:
    """The folder of the parts of a file."""
    return output.with_name(f"{output.name}.parts")


class PredictionStore:
    """The parts of one prediction. While it is open no other process adds any.

    Args:
        folder: Where they are; it is made, in a folder that exists.
        work: What they are predictions of; see `PredictionManifest`.
        overwrite: Whether parts of something else are removed.

    Raises:
        UsageError: The folder holds something else, cannot be written, or belongs to another process now.
    """

    def __init__(self, folder: Path, work: Mapping[str, Any], *, overwrite: bool = False) -> None:
        self._folder = folder
        atomic_files.check_folder(folder, named_by=_OUTPUT)
        with _writing(folder):
            folder.mkdir(exist_ok=True)
        self._lock = _locked(folder)
        try:
            self._manifest = self._opened(work, overwrite)
        except BaseException:
            os.close(self._lock)
            raise

    def close(self) -> None:
        """Lets other processes have the folder, which does not stay without a part."""
        try:
            if not self.done:
                self.remove()
        finally:
            os.close(self._lock)

    @property
    def done(self) -> int:
        """Samples, from the first one on, whose predictions are kept."""
        return self._manifest.done

    @property
    def columns(self) -> tuple[OutputColumn, ...]:
        """The outputs; empty before the first part."""
        return self._manifest.columns

    @property
    def facts(self) -> Mapping[str, Any]:
        """The facts that `note` has kept."""
        return self._manifest.facts

    def note(self, facts: Mapping[str, Any]) -> None:
        """Keeps what the model says of its outputs, in JSON's types.

        Raises:
            UsageError: It cannot be written.
        """
        self._save(replace(self._manifest, facts=facts))

    def add(self, arrays: Mapping[str, NDArray]) -> None:
        """Keeps the predictions of the samples that follow those that are `done`.

        Args:
            arrays: Output -> [samples, ...]; see `output_columns`.

        Raises:
            UsageError: They cannot be written.
            DataError: They have other types or shapes than those before.
        """
        columns = tuple(column_of(name, array) for name, array in arrays.items())
        if self.columns and columns != self.columns:
            shown = [", ".join(map(str, some)) for some in (columns, self.columns)]
            raise DataError(
                f"The outputs from sample {self.done} on have other types or shapes than those before: {shown[0]}. "
                f"Expected {shown[1]} for every sample. Let the model pad its outputs to one shape."
            )
        name, start = part_name(self.done), self.done
        path = self._folder / name
        with atomic_files.replacing(path, named_by=_OUTPUT) as temporary:
            with temporary.open("wb") as file:
                np.savez(file, **cast(Any, _members(arrays)))
            size, crc32 = _sum_of(temporary)
        stop = start + len(next(iter(arrays.values())))
        self._save(self._manifest.with_part(Part(name, start, stop, size, crc32), columns))

    def blocks(self) -> Iterator[tuple[int, list[NDArray]]]:
        """The first sample of each part, and the arrays of its outputs, in the order of `columns`.

        Raises:
            DataError: A part has changed since it was written.
        """
        for part in self._manifest.parts:
            yield part.start, _read(self._folder / part.name, self.columns, part)

    def remove(self) -> None:
        """Removes the parts and their manifest; what else is in the folder stays."""
        with _writing(self._folder):
            # First: parts without it are known to be nothing that anybody needs.
            (self._folder / MANIFEST_FILE).unlink(missing_ok=True)
            for path in self._folder.glob("part-*.npz"):
                path.unlink(missing_ok=True)
            remove_all([self._folder])
        with contextlib.suppress(OSError):
            self._folder.rmdir()

    def _opened(self, work: Mapping[str, Any], overwrite: bool) -> PredictionManifest:
        """The manifest as this process begins with it, on the disk too."""
        found = PredictionManifest.read(self._folder / MANIFEST_FILE)
        if found is None:
            self._check_empty()
            found = PredictionManifest(work)
        differences = found.differences(work)
        if differences and found.parts and not overwrite:
            raise UsageError(
                f"{self._folder} holds parts of other predictions, which were not finished: {'; '.join(differences)}. "
                "Finish these with the command that began them, choose another --output, or begin anew with "
                "--overwrite."
            )
        whole = PredictionManifest(work) if differences else self._whole(found)
        self._save(whole)
        kept = {part.name for part in whole.parts}
        with _writing(self._folder):
            for path in self._folder.glob("part-*.npz"):
                if path.name not in kept:
                    path.unlink()
        return whole

    def _check_empty(self) -> None:
        stranger = next((path for path in self._folder.iterdir() if not path.name.startswith(".")), None)
        if stranger is not None:
            raise UsageError(
                f"{self._folder} is where parts of predictions would be kept, and something else is there: "
                f"{stranger.name}. Expected no such folder, or an empty one. Move it away, or choose another --output."
            )

    def _whole(self, manifest: PredictionManifest) -> PredictionManifest:
        """The parts up to the first one that is not as it was written: the others are computed again."""
        for place, part in enumerate(manifest.parts):
            try:
                is_whole = _sum_of(self._folder / part.name) == (part.size, part.crc32)
            except OSError:
                is_whole = False
            if not is_whole:
                _log.warning("%s is damaged: predictions from sample %d on are computed again", part.name, part.start)
                left = manifest.parts[:place]
                return PredictionManifest(manifest.work, manifest.columns if left else (), left, manifest.facts)
        return manifest

    def _save(self, manifest: PredictionManifest) -> None:
        atomic_files.write_json(self._folder / MANIFEST_FILE, manifest.to_json(), named_by=_OUTPUT)
        self._manifest = manifest


def _members(arrays: Mapping[str, NDArray]) -> dict[str, NDArray]:
    """Arrays without objects, by the place of their column: texts as the length of each, and all bytes."""
    members: dict[str, NDArray] = {}
    for place, array in enumerate(arrays.values()):
        if array.dtype.hasobject:
            texts = array.ravel().tolist()
            members[f"{place}.lengths"] = np.array([len(text) for text in texts], np.int64).reshape(array.shape)
            members[f"{place}.bytes"] = np.frombuffer(b"".join(texts), np.uint8)
        else:
            members[str(place)] = array
    return members


def _read(path: Path, columns: tuple[OutputColumn, ...], part: Part) -> list[NDArray]:
    try:
        with open_regular(path) as file, np.load(file, allow_pickle=False) as members:
            arrays = [_array(members, place, column) for place, column in enumerate(columns)]
    except (OSError, ValueError, KeyError, EOFError, zlib.error) as error:
        raise DataError(f"{path} was whole and has changed: {error}. Run the command again.") from error
    rows = part.stop - part.start
    if any(array.shape != (rows, *column.shape) for array, column in zip(arrays, columns, strict=True)):
        raise DataError(f"{path} was whole and has changed: it has other arrays. Run the command again.")
    return arrays


def _array(members: Any, place: int, column: OutputColumn) -> NDArray:
    if not column.is_text:
        return _stored(members, str(place))
    lengths, content = _stored(members, f"{place}.lengths"), _stored(members, f"{place}.bytes").tobytes()
    ends = np.cumsum(lengths.ravel())
    texts = np.empty(lengths.size, np.object_)
    texts[:] = [content[end - size : end] for end, size in zip(ends.tolist(), lengths.ravel().tolist(), strict=True)]
    return texts.reshape(lengths.shape)


def _stored(members: Any, name: str) -> NDArray:
    array = members[name]
    if not isinstance(array, np.ndarray):  # NumPy hands out the bytes of what does not begin as an array does
        raise ValueError(f"{name} does not hold an array")
    return array


def _sum_of(path: Path) -> tuple[int, int]:
    """The bytes of a file, and their CRC-32."""
    size = crc32 = 0
    with open_regular(path) as file:
        while block := file.read(_BLOCK_BYTES):
            size, crc32 = size + len(block), zlib.crc32(block, crc32)
    return size, crc32


def _locked(folder: Path) -> int:
    """A descriptor that holds the lock of a folder, until it is closed or this process ends."""
    with _writing(folder):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # A file system without locks does not notice a second process; the rest works there too.
        with contextlib.suppress(OSError):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UsageError(
                    f"Another `tfdist predict` is writing into {folder} now. Wait until it has ended, or choose "
                    "another --output."
                ) from None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise atomic_files.write_error(path, error, _OUTPUT) from error
