"""Inputs of a plan: the sizes of a source, of the cluster and of the pipeline's buffers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tfdist.errors import UsageError
from tfdist.order.sequential_order import Lanes


@dataclass(frozen=True)
class FileSizes:
    """One file of a source; of an image folder, one class.

    Attributes:
        name: Its path.
        samples: The number of its samples.
        size: Its bytes on the disk; of a lane of a generator, those of its samples.
    """

    name: str
    samples: int
    size: int


@dataclass(frozen=True)
class SequentialRead:
    """The way in which files are read in sequence.

    Attributes:
        why: The reason, such as `GZIP-compressed`.
        lanes: The files that are read at the same time, and how far they are mixed.
        unit: What a file is called, where it is a part of one.
        whole: Whether each is read in one piece, so that a resume skips nothing.
    """

    why: str
    lanes: Lanes
    unit: str = "file"
    whole: bool = False


@dataclass(frozen=True)
class SourceSizes:
    """The sizes of a source, as known before any sample is read.

    Attributes:
        format: The name of the format in a config.
        files: In the order of their samples.
        sample_bytes: Bytes of one sample, `x` and `y`, in a batch.
        estimated: Whether `sample_bytes` is that of the record, because a function makes the sample from it.
        held_bytes: Bytes that every worker holds all the time: arrays, or the places of the records.
        whole: Whether every worker reads all of the files, and not its own records alone.
        random_calls: Calls in functions of the source that draw random numbers, as `name (file:line)`.
        local_disk: The file system, when it is one of this machine alone; None when others may share it.
        sequence: How it is read when it can only be read in sequence; None when records are read in any order.
        shares: Whether each worker has files of its own; these are those of the machine that plans.
    """

    format: str
    files: tuple[FileSizes, ...]
    sample_bytes: int
    estimated: bool = False
    held_bytes: int = 0
    whole: bool = False
    random_calls: tuple[str, ...] = ()
    local_disk: str | None = None
    sequence: SequentialRead | None = None
    shares: bool = False

    @cached_property
    def samples(self) -> int:
        """Samples of an epoch."""
        return sum(file.samples for file in self.files)

    @cached_property
    def size(self) -> int:
        """Bytes on the disk."""
        return sum(file.size for file in self.files)


@dataclass(frozen=True)
class ClusterSize:
    """Workers, replicas and hosts of a cluster.

    Attributes:
        workers: The number of workers.
        replicas: The number of replicas of all workers, equally many on each.
        hosts: The number of machines that the workers are on.

    Raises:
        UsageError: The replicas cannot be dealt to the workers.
    """

    workers: int = 1
    replicas: int = 1
    hosts: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.hosts <= self.workers:
            raise UsageError(f"Expected 1 to {self.workers} hosts of {self.workers} worker(s). Received: {self.hosts}")
        if self.replicas < 1 or self.replicas % self.workers:
            raise UsageError(
                f"{self.replicas} replica(s) cannot be dealt to {self.workers} workers: each has equally many. "
                f"Expected a multiple of {self.workers}, such as --replicas {self.workers}. Received: --replicas "
                f"{self.replicas}"
            )

    @property
    def per_worker(self) -> int:
        """The number of replicas of one worker."""
        return self.replicas // self.workers


@dataclass(frozen=True)
class PipelineBuffers:
    """The buffers that a pipeline holds at once.

    Attributes:
        prefetched: Batches of each replica that wait for their step.
        group_bytes: Bytes of TFRecord files that are read in one call; a batch where that is more.
        groups: What so many calls read at the same time, or is not yet cut into batches.
    """

    prefetched: int
    group_bytes: int
    groups: int
