"""The input of a run from a config: where it comes from, how long steps wait for it, and what would help most."""

from __future__ import annotations

import enum
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import tensorflow as tf

from tfdist.config.data_sections import (
    GeneratorSource,
    ImagesSource,
    NpzSource,
    SourceConfig,
    TextSource,
    TfrecordSource,
)
from tfdist.config.dotted_path import resolve_callable
from tfdist.data.files.file_facts import local_file_system
from tfdist.data.files.file_patterns import matching
from tfdist.data.files.image_folder import ImageFiles
from tfdist.data.files.remote_files import is_remote
from tfdist.data.formats.npz_files import read_headers
from tfdist.errors import DataError

_MOST_STATS = 256
"""Files whose size is looked up; that of the others is taken for the same on average."""

_KEPT = 0.5
"""The share of the machine's memory up to which the system keeps files there, beside what programs need."""


class Place(enum.Enum):
    """The place that samples come from.

    MEMORY: arrays of the process. KEPT: files that the system keeps in memory after they were read once. DISK: files on
    a disk of this machine, more than memory holds. NETWORK: files on a file system that is mounted, and that other
    hosts may see. REMOTE: files with an address, such as `gs://`, which are read anew in every epoch.
    """

    MEMORY = "memory"
    KEPT = "kept"
    DISK = "disk"
    NETWORK = "network"
    REMOTE = "remote"


def place_of(section: SourceConfig, memory: int | None = None) -> Place:
    """Returns where the samples of a section come from; a disk where that cannot be found out.

    Args:
        section: `data.train`.
        memory: Bytes of memory; None for this machine's.
    """
    if isinstance(section, GeneratorSource):
        return Place.MEMORY
    try:
        if isinstance(section, NpzSource) and not _is_mapped(section):
            return Place.MEMORY
        files = _files_of(section)
        if not files:
            return Place.REMOTE
        if _bytes_of(files) <= _KEPT * (_machine_memory() if memory is None else memory):
            return Place.KEPT
        return Place.NETWORK if local_file_system(files[0]) is None else Place.DISK
    except (DataError, OSError, ValueError):
        return Place.DISK  # it was readable before; a run that is at its end need not fail for it


def _is_mapped(section: NpzSource) -> bool:
    (x,) = read_headers(section.path, section.arrays[:1])
    return x.mapped


def _files_of(section: SourceConfig) -> Sequence[Path]:
    """The files of this machine; none where one of them is elsewhere."""
    if isinstance(section, ImagesSource):
        return ImageFiles.find(section.path).paths
    patterns = [value for name in section.PATHS for value in _listed(getattr(section, name))]
    return () if any(map(is_remote, patterns)) else matching(patterns)


def _listed(value: str | Sequence[str] | None) -> Sequence[str]:
    return [value] if isinstance(value, str) else value or []


def _bytes_of(files: Sequence[Path]) -> float:
    some = files[:: max(1, len(files) // _MOST_STATS)]
    return len(files) * sum(path.stat().st_size for path in some) / len(some)


def _machine_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


MUCH = 0.1
"""The share of the steps' time from which waiting for data is worth a remedy."""

MUCH_SECONDS = 1.0
"""Seconds of waiting in an epoch: below this there is nothing to gain."""


@dataclass(frozen=True)
class InputWait:
    """The wait of an interval of training.

    Attributes:
        seconds: Seconds that its steps took.
        waited: Those in which a step had begun and its data was not there; 0 where they are not measured.
        busy: Mean number of cores that this process kept busy.
        free: Mean number of cores of the machine that no process kept busy; any number where that is not known.
    """

    seconds: float
    waited: float
    busy: float
    free: float = math.inf

    @property
    def share(self) -> float:
        """The share of the steps' time that waited for data, 0 to 1."""
        return min(1.0, self.waited / self.seconds) if self.seconds > 0 else 0.0

    @property
    def is_much(self) -> bool:
        """True if it is worth a remedy."""
        return self.share > MUCH and self.waited > MUCH_SECONDS


def idle_seconds(statistics: Path = Path("/proc/stat")) -> float | None:
    """Seconds since the start of the machine that its cores were idle, all together; None where that is not known.

    Args:
        statistics: The kernel's, in which cores that wait for a disk are idle, too.
    """
    try:
        first = statistics.read_text("ascii").split("\n", 1)[0].split()
        return (int(first[4]) + int(first[5])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None


class InputWaitClock:
    """Measures the wait of an interval of steps.

    Args:
        fetched: Seconds that training steps have waited for data since the process began.
        clock: Seconds, never going back.
        cpu: Seconds of processor time of all threads of this process.
        idle: Seconds that the cores of the machine were idle, all together; None where that is not known.
    """

    def __init__(
        self,
        fetched: Callable[[], float],
        clock: Callable[[], float] = time.perf_counter,
        cpu: Callable[[], float] = time.process_time,
        idle: Callable[[], float | None] = idle_seconds,
    ) -> None:
        self._fetched, self._clock, self._cpu, self._idle = fetched, clock, cpu, idle
        self.begin()

    def begin(self) -> None:
        """Begins the interval."""
        self._fetched_before = self._fetched()
        self._begun = self._last = (self._clock(), self._cpu())
        self._idle_before = self._idle()

    @property
    def last(self) -> float:
        """The time at which the last step ended, by `clock`; before the first one, that at which the interval began."""
        return self._last[0]

    def step(self) -> None:
        """A step is done. It takes a microsecond."""
        self._last = (self._clock(), self._cpu())

    def end(self) -> InputWait:
        """The wait of the interval, which ended with the last step."""
        seconds, cpu = (last - begun for last, begun in zip(self._last, self._begun, strict=True))
        seconds = max(seconds, 1e-9)
        return InputWait(seconds, self._fetched() - self._fetched_before, cpu / seconds, self._free())

    def _free(self) -> float:
        """Of the interval until now, as looking for it takes too long for every step."""
        before, now, seconds = self._idle_before, self._idle(), self._clock() - self._begun[0]
        return math.inf if before is None or now is None or seconds <= 0 else max(0.0, now - before) / seconds


_SATURATED = 0.75
"""The share of busy cores from which the input lacks cores."""


@dataclass(frozen=True)
class InputDescription:
    """The known facts about the input of a training.

    Attributes:
        format: As in the config.
        decodes: Whether encoded images are decoded.
        python: What runs Python code for each sample, such as `parse`; empty where nothing does.
        function: The user's function that each sample goes through, `parse` or `augment`; empty without one.
        cores: Cores that this process may use.
        place: Where the samples come from.
        gpus: GPUs of this worker.
    """

    format: str
    decodes: bool
    python: str
    function: str
    cores: int
    place: Place = Place.DISK
    gpus: int = 0


def remedy(source: InputDescription, wait: InputWait) -> str:
    """The one change that would help most, in a sentence."""
    if source.python:
        return (
            f"{source.python} runs Python code for each sample, one at a time: write it in TensorFlow's operations, "
            "which run on all cores."
        )
    if source.format in ("csv", "text"):
        return (
            "Lines are parsed by Python, one at a time: make TFRecord files of them with `tfdist data shard`, which "
            "TensorFlow parses on all cores."
        )
    if source.format == "generator":
        return (
            f"{source.function} makes samples one at a time, in Python: give it lanes, which the workers share, or "
            "write what it makes to TFRecord files once."
        )
    cores = f"{wait.busy:.1f} of {source.cores} cores are busy"
    if wait.busy < _SATURATED * source.cores:
        if wait.free >= (1 - _SATURATED) * source.cores:
            return _where_cores_are_idle(source, cores)
        cores = f"This worker has {wait.busy:.1f} of {source.cores} cores, and other processes keep the rest busy"
    if source.function:
        return (
            f"{cores}: give the run more of them, or do in the files once what {source.function} does alike in every "
            "epoch."
        )
    if source.decodes:
        return (
            f"{cores}, decoding among others: store the images in about the size that they are resized to, or give "
            "the run more cores."
        )
    return f"{cores}: give the run more of them."


_SHARDS = "`tfdist data shard` makes a few large files of an image folder"
_SLOW: Mapping[Place, str] = {
    Place.DISK: "so the disk is too slow for these files, of which memory holds only a part: put them on a faster one",
    Place.NETWORK: "so the files come too slowly from where they are, most likely over the network: copy them to a "
    "disk of each host",
    Place.REMOTE: "so the files come too slowly over the network: copy them to a disk of each host, or make more files "
    "of them, of which up to data.train.interleave are read at the same time",
}


def _where_cores_are_idle(source: InputDescription, cores: str) -> str:
    """Returns what helps where something is waited for that is no computation, or that one thread does alone."""
    if source.place in _SLOW:
        also = f"; {_SHARDS}" if source.format == "images" else ""
        return f"{cores}, {_SLOW[source.place]}{also}."
    if source.format == "images":
        return f"{cores}, and the images fit into memory: it is opening a file for each that takes the time. {_SHARDS}."
    where, work = "The samples are in memory", "putting batches together"
    if source.place is Place.KEPT:
        where, work = "The files fit into memory, which keeps them", "reading records and putting batches together"
    share = f"; with --nproc {source.gpus} each GPU has a worker of its own for it" if source.gpus > 1 else ""
    return (
        f"{where}, and {cores}: what takes the time is {work}, in one thread of each worker. Larger batches "
        f"(data.batch_size) cost less a sample{share}."
    )


def describe_input(section: SourceConfig, gpus: int = 0) -> InputDescription:
    """Describes the input that a section of the config stands for.

    Args:
        section: `data.train`. Its functions are traced again, with unknown records.
        gpus: GPUs of this worker.
    """
    parse, spec = _parse_of(section)
    features = section.features or {} if isinstance(section, TfrecordSource) else {}
    images = isinstance(section, ImagesSource) or any(feature.dtype == "image" for feature in features.values())
    return InputDescription(
        format=section.format,
        decodes=images,
        python=parse if parse and _runs_python(parse, spec) else "",
        function=parse or _function_of(section) or section.augment or "",
        cores=len(os.sched_getaffinity(0)),
        place=place_of(section),
        gpus=gpus,
    )


def _function_of(section: SourceConfig) -> str:
    """The dotted path of the function that makes the samples, empty without one."""
    return section.function if isinstance(section, GeneratorSource) else ""


def _parse_of(section: SourceConfig) -> tuple[str, tf.TensorSpec]:
    """The dotted path of the function that parses, empty without one, and what it is called with."""
    if isinstance(section, TfrecordSource):
        return section.parse or "", tf.TensorSpec([], tf.string)
    if isinstance(section, TextSource):
        return section.vectorize or "", tf.TensorSpec([None], tf.string)
    return "", tf.TensorSpec([], tf.string)


def _runs_python(path: str, spec: tf.TensorSpec) -> bool:
    """Returns whether the graph of a function calls Python, by `tf.py_function` or `tf.numpy_function`."""
    graph = tf.function(resolve_callable(path, "parse")).get_concrete_function(spec).graph.as_graph_def()
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    return any("PyFunc" in node.op for node in nodes)
