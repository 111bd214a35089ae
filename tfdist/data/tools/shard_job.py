"""Job that makes TFRecord shards of other formats in several processes; a second start continues the first.

A shard gets its name when it is whole, and is then noted in the manifest next to it, with what it was made of. Shards
that a process had not finished are written again.

Directory of shards: it exists, can be written, and belongs to one command at a time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import glob
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfdist.config.data_sections import ImagesSource, SourceConfig
from tfdist.data.files.image_folder import ImageFiles
from tfdist.data.format_registry import measure
from tfdist.data.random_access.index_files import places as index_places
from tfdist.data.tools.process_pool import TaskProgress, run_in_processes
from tfdist.data.tools.shard_manifest import MANIFEST_SUFFIX, ShardManifest, digest_of, shard_name
from tfdist.data.tools.shard_writer import LABEL, UNFINISHED, Shard, inputs_of, make_writer
from tfdist.errors import RunDirError, UsageError
from tfdist.order.epoch_order import bounds
from tfdist.plan.plan_inputs import SourceSizes
from tfdist.rundir import atomic_files

_SHARD_BYTES = 128_000_000
_SHARDS = 8
_SHARD_SAMPLES = 1000
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EINVAL)
"""Errors of a file system without locks, on which two commands at once are not noticed."""


@dataclass(frozen=True)
class ShardRequest:
    """The shards that are to be made.

    Attributes:
        section: The source, with absolute file names.
        directory: Where the shards are to be.
        name: What their names begin with.
        shards: Their number; None for shards of about 128 MB.
        processes: Processes that work at once.
        overwrite: Whether shards of the same name that were made of other data are replaced.
    """

    section: SourceConfig
    directory: Path
    name: str
    shards: int | None = None
    processes: int = 1
    overwrite: bool = False


class ShardJob:
    """Shards in the making. While this context is open, no other command writes shards here."""

    def __init__(self, request: ShardRequest) -> None:
        """Looks at the source, and at the shards that exist already.

        Raises:
            DataError: The source is missing, damaged or empty.
            UsageError: The directory cannot be used, or holds shards of other data.
        """
        self._request = request
        section = request.section
        sizes = measure(section)
        self._path = request.directory / f"{request.name}{MANIFEST_SUFFIX}"
        self._stack = contextlib.ExitStack()
        make_directory(request.directory)
        self._stack.enter_context(locked(request.directory))
        try:
            before = ShardManifest.read(self._path)
            if before is not None:
                self._check_names(before)
            shards = request.shards or (before.shards if before else _suitable(sizes))
            self._manifest = self._beginning(before, _planned(section, sizes.samples, shards))
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self) -> ShardJob:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def samples(self) -> int:
        """Samples in all shards."""
        return self._manifest.samples

    @property
    def shards(self) -> int:
        """The number of shards when all are finished."""
        return self._manifest.shards

    @property
    def finished(self) -> int:
        """The number of finished shards."""
        return len(self._manifest.sizes)

    @property
    def size(self) -> int:
        """Bytes of the finished shards."""
        return sum(self._manifest.sizes.values())

    @property
    def left(self) -> int:
        """Samples in shards that are not finished."""
        return sum(shard.stop - shard.start for shard in self._left())

    def run(self, advance: Callable[[int], object]) -> None:
        """Makes the shards that are not finished.

        Args:
            advance: Called with the number of samples that have been written since the last call.

        Raises:
            DataError: A sample cannot be read.
            UsageError: A shard cannot be written.
            WorkerFailedError: A process died.
        """
        self._clear()
        events = run_in_processes(make_writer, self._request.section, self._left(), self._request.processes)
        try:
            with contextlib.closing(events):
                for event in events:
                    if isinstance(event, TaskProgress):
                        advance(event.amount)
                        continue
                    self._save(self._manifest.with_shard(str(event.task), event.result.size, event.result.features))
        finally:
            self._clear()

    def section(self) -> dict[str, Any]:
        """The section of a config that reads the shards, in YAML's types."""
        prefix = glob.escape(f"{self._request.directory.resolve()}/{self._request.name}")
        # Not `*`: next to the shards of `train` may be those of `train-more`.
        pattern = f"{prefix}-?????-of-{self.shards:05}.tfrecord"
        return {
            "format": "tfrecord",
            "files": pattern,
            "features": dict(self._manifest.features),
            "label": LABEL,
        }

    def _left(self) -> list[Shard]:
        count, name = self._manifest.shards, self._request.name
        names = [shard_name(name, place, count) for place in range(count)]
        pieces = [bounds(self._manifest.samples, count, place) for place in range(count)]
        return [
            Shard(self._request.directory / name, *piece)
            for name, piece in zip(names, pieces, strict=True)
            if name not in self._manifest.sizes
        ]

    def _check_names(self, manifest: ShardManifest) -> None:
        """Checks that a manifest names this job's shards alone, which `--overwrite` removes.

        Raises:
            UsageError: It names another file.
        """
        own = re.compile(rf"{re.escape(self._request.name)}-[0-9]{{5,}}-of-[0-9]{{5,}}\.tfrecord")
        stranger = next((name for name in manifest.sizes if not own.fullmatch(name)), None)
        if stranger is not None:
            raise UsageError(
                f"{self._path} does not say what the shards next to it were made of: it names {stranger!r:.200}. "
                f"Expected files such as {shard_name(self._request.name, 0, manifest.shards)} alone. Remove it with "
                "its shards, or choose another DEST."
            )

    def _beginning(self, before: ShardManifest | None, planned: ShardManifest) -> ShardManifest:
        """The manifest at the start: of the shards that were made before, those that still exist."""
        directory, name = self._request.directory, self._request.name
        if before is None:
            if strangers := sorted(directory.glob(f"{glob.escape(name)}-?????-of-?????.tfrecord")):
                raise UsageError(
                    f"{strangers[0]} exists already, and nothing says what it was made of. Choose another --name or "
                    "DEST, or remove it."
                )
            return planned
        if differences := planned.differences(before):
            if not self._request.overwrite:
                raise UsageError(
                    f"{directory} holds shards named {name} of something else: {'; '.join(differences)}. Choose "
                    "another --name or DEST, or replace them with --overwrite."
                )
            self._remove(before)
            return planned
        there = {shard: size for shard, size in before.sizes.items() if _size(directory / shard) == size}
        return dataclasses.replace(before, sizes=there, features=before.features if there else {})

    def _remove(self, manifest: ShardManifest) -> None:
        """Removes the shards that a manifest names, then the manifest."""
        with self._writing(self._path):
            for shard in manifest.sizes:
                for path in (self._request.directory / shard, *index_places(self._request.directory / shard)):
                    path.unlink(missing_ok=True)
            self._path.unlink()

    def _save(self, manifest: ShardManifest) -> None:
        self._manifest = manifest
        with self._writing(self._path):
            atomic_files.write_json(self._path, manifest.to_json())

    def _clear(self) -> None:
        """Removes unfinished files, of this start or of one that was killed."""
        name = glob.escape(self._request.name)
        for pattern in (f"{name}-*.tfrecord{UNFINISHED}", f".{name}.shards.*.tmp.json"):
            for path in self._request.directory.glob(pattern):
                with contextlib.suppress(OSError):
                    path.unlink()

    @contextlib.contextmanager
    def _writing(self, path: Path) -> Iterator[None]:
        try:
            yield
        except (OSError, RunDirError) as error:
            raise unwritable(path, error.__cause__ or error) from error


def _planned(section: SourceConfig, samples: int, shards: int) -> ShardManifest:
    if shards > samples:
        raise UsageError(f"--shards: expected at most one for each of {samples} samples. Received: --shards {shards}")
    classes = ImageFiles.find(section.path).classes if isinstance(section, ImagesSource) else ()
    source: Mapping[str, Any] = json.loads(json.dumps(dataclasses.asdict(section)))
    return ShardManifest(source, digest_of(inputs_of(section)), samples, shards, classes)


def _suitable(sizes: SourceSizes) -> int:
    """The number of shards of about 128 MB; several even for less data, so that processes can share the work."""
    size = sizes.size if sizes.format in ("images", "text") else sizes.samples * sizes.sample_bytes
    return max(1, -(-size // _SHARD_BYTES), min(_SHARDS, sizes.samples // _SHARD_SAMPLES))


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None


def make_directory(directory: Path) -> None:
    """Makes the directory if it does not exist.

    Raises:
        UsageError: It cannot be made or written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(directory, error) from error
    if not os.access(directory, os.W_OK | os.X_OK):
        raise unwritable(directory, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Locks the directory against other commands; the lock ends with this process, however that ends.

    Raises:
        UsageError: Another process holds the lock.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"Another `tfdist data shard` is writing into {directory} now. Wait until it has ended, or choose "
                "another DEST."
            ) from None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise unwritable(directory, error) from error
        yield
    finally:
        os.close(descriptor)


def unwritable(path: Path, error: BaseException) -> UsageError:
    """The error for a path that could not be written."""
    reason = getattr(error, "strerror", None) or error
    return UsageError(
        f"{path} cannot be written: {reason}. Expected DEST to be a directory that this user can write to. Choose "
        "another."
    )
