"""Contents of a checkpoint: the summary of where the training was, and checks of its files before they are read.

Its marker tells that no byte has changed, not who wrote them. A file may name another one, or claim sizes beyond all
memory; Keras and NumPy would follow it. What tfdist writes has neither links nor compression, so that no array is
larger than its file.
"""

from __future__ import annotations

import contextlib
import math
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

import h5py
import numpy as np

from tfdist.checkpoint.checkpoint_files import REPLICAS, WEIGHTS, StoredCheckpoint, StoredPath, opened, summary_of
from tfdist.checkpoint.shards.joined_file import opened_weights
from tfdist.errors import RunDirError
from tfdist.order.epoch_span import Position
from tfdist.rundir.json_record import JsonRecord

_COUNTS = ("epoch", "step", "total", "seed", "batch_size", "samples", "workers", "replicas")
_FIT_FIELDS: Mapping[str, Any] = {
    "mark": str,
    "after": str,
    "first_epoch": int,
    "stopped": bool,
    "data": Mapping,
    "optimizers": list,
    "callbacks": Mapping,
}
"""Types of the record of a script's `fit`."""
_MAPPINGS = ("logs", "metrics", "record", "config", "versions", "order")


@dataclass(frozen=True)
class CheckpointSummary(JsonRecord):
    """The summary of a checkpoint, a JSON file next to its arrays.

    Attributes:
        epoch: The epoch of the training, from 0.
        step: Steps of the epoch that are done.
        total: Steps of the run that are done.
        seed: The run's seed.
        batch_size: Samples of a global batch.
        samples: Samples of an epoch.
        workers: The number of workers that trained.
        replicas: The number of their replicas.
        time: When it was made, in seconds since 1970 (UTC).
        variables: Shape and dtype of each variable in the file of weights: the model's, then the optimizer's.
        logs: The logs of the last step, by name.
        metrics: The metrics of the epoch at whose end it was made, by name; empty within an epoch.
        record: The run's record of its epochs so far.
        config: The config of the run.
        versions: Package -> version.
        order: What else the order of the samples depends on, by name.
        job: The job that made it, a new one with every `tfdist train`; empty without a launcher.
        kernels: By which kernels its replicas computed, as `--kernels` calls them; empty on GPUs, and where that is not
            known.
        teacher: What tells the teacher of `fit.distill` from others; empty without one, and for one that code makes.
    """

    epoch: int
    step: int
    total: int
    seed: int
    batch_size: int
    samples: int
    workers: int
    replicas: int
    time: float
    variables: Sequence[Sequence[Any]] = ()
    logs: Mapping[str, float] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    record: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    order: Mapping[str, Any] = field(default_factory=dict)
    job: str = ""
    kernels: str = ""
    teacher: str = ""

    def __post_init__(self) -> None:
        """Checks the types that a file may have otherwise.

        Raises:
            ValueError: A field is not what its name says.
        """
        counts = {name: getattr(self, name) for name in _COUNTS}
        wrong = [name for name, value in counts.items() if not isinstance(value, int) or value < 0]
        wrong += [name for name in _MAPPINGS if not isinstance(getattr(self, name), Mapping)]
        wrong += [name for name in ("time",) if not isinstance(self.time, int | float)]
        wrong += [name for name in ("kernels", "teacher") if not isinstance(self.kernels, str)]
        if wrong:
            raise ValueError(f"{', '.join(wrong)} of another type")
        for shape, dtype in self.variables:
            if not isinstance(dtype, str) or not all(isinstance(size, int) for size in shape):
                raise ValueError(f"variables hold {[shape, dtype]!r:.100}")

    def check(self) -> None:
        """Checks what is restored from the record, which a training would meet in the middle of its resume."""
        history, lines = self.record.get("history", {}), self.record.get("lines", ())
        if not isinstance(history, Mapping) or not all(map(_are_numbers, history.values())):
            raise ValueError("a history that is not of numbers")
        if not isinstance(lines, list | tuple) or not all(isinstance(line, str) for line in lines):
            raise ValueError("lines of metrics that are no texts")
        fit = self.record.get("fit")
        if fit is not None and not (isinstance(fit, Mapping) and _has_types(fit, _FIT_FIELDS)):
            raise ValueError("a record of fit that is none")

    @property
    def position(self) -> Position:
        """The position of the training."""
        return Position(self.epoch, self.step)

    @property
    def last_epoch(self) -> int:
        """The epoch, from 0, of the last step; the next one has not begun where the checkpoint is of an epoch's end."""
        return max(0, self.epoch - 1) if self.step == 0 else self.epoch


def _are_numbers(values: Any) -> bool:
    return isinstance(values, list | tuple) and all(isinstance(value, int | float | None) for value in values)


def _has_types(content: Mapping[str, Any], types: Mapping[str, Any]) -> bool:
    return all(isinstance(content.get(name), kind) for name, kind in types.items())


_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def contents_fault(checkpoint: StoredCheckpoint) -> str | None:
    """Returns what is wrong with what a whole checkpoint holds, for people; None for nothing.

    Raises:
        RunDirError: It cannot be reached.
    """
    try:
        summary = summary_of(checkpoint)
        with _damaged(REPLICAS), opened(checkpoint.path / REPLICAS) as file:
            check_arrays(file)
    except ValueError as error:
        return str(error)
    fault = weights_fault(checkpoint)
    if fault is not None:
        return fault
    try:
        CheckpointSummary.from_dict(summary)
    except RunDirError as error:
        return str(error)
    return None


def weights_fault(checkpoint: StoredCheckpoint) -> str | None:
    """Returns what is wrong with what its file of weights holds, for people; None for nothing."""
    try:
        with _damaged(WEIGHTS), opened_weights(checkpoint.path) as file, h5py.File(file, "r") as weights:
            check_weights(weights, _size_of(file))
    except ValueError as error:
        return str(error)
    return None


def check_weights(weights: h5py.File, size: int) -> None:
    """Checks that a file of weights holds all of its arrays itself.

    Args:
        weights: The open file.
        size: Its bytes.

    Raises:
        ValueError: It leads to another file, or its arrays would take more memory than it has bytes.
    """
    claimed = 0

    # h5py stops at what these functions return; it loses what they raise.
    def fault_of_link(name: str, link: Any) -> str | None:
        return None if isinstance(link, h5py.HardLink) else f"{name} is a link"

    def fault_of(name: str, item: Any) -> str | None:
        nonlocal claimed
        if not isinstance(item, h5py.Dataset):
            return None
        if item.external or item.is_virtual:
            return f"{name} lies in another file"
        claimed += item.nbytes
        return f"{name} would take more memory than the file has bytes" if claimed > size else None

    fault = weights.visititems_links(fault_of_link) or weights.visititems(fault_of)
    if fault is not None:
        raise ValueError(fault)


def check_arrays(file: IO[bytes]) -> None:
    """Checks that a file of `numpy.savez` holds plain arrays, none of which takes more memory than it has bytes.

    Raises:
        ValueError: It holds something else.
        zipfile.BadZipFile: It is no such file.
    """
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        if sum(member.file_size for member in members) > _size_of(file):
            raise ValueError("its arrays would take more memory than it has bytes")
        for member in members:
            with archive.open(member) as content:
                _check_header(member.filename, content, member.file_size)


def load_arrays(path: StoredPath) -> dict[str, np.ndarray]:
    """The arrays of a file of `numpy.savez` by name.

    Raises:
        ValueError: It holds something else; see `check_arrays`.
    """
    with _damaged(path.name), opened(path) as file:
        check_arrays(file)
        file.seek(0)
        with np.load(file, allow_pickle=False) as arrays:
            return dict(arrays)


def _check_header(name: str, content: IO[bytes], size: int) -> None:
    version = np.lib.format.read_magic(content)
    if version not in _HEADERS:
        raise ValueError(f"{name} has the version {version} of NumPy's format")
    shape, _, dtype = _HEADERS[version](content)
    if dtype.hasobject:
        raise ValueError(f"{name} holds Python objects")
    if math.prod(shape) * dtype.itemsize > size:
        raise ValueError(f"{name} would take more memory than it has bytes")


def _size_of(file: IO[bytes]) -> int:
    place = file.tell()
    size = file.seek(0, 2)
    file.seek(place)
    return size


@contextlib.contextmanager
def _damaged(name: str) -> Iterator[None]:
    """Turns what reading a damaged file raises, which HDF5, zip and NumPy do in many types, into a `ValueError`."""
    try:
        yield
    except Exception as error:
        raise ValueError(f"{name} cannot be used: {error}") from error
