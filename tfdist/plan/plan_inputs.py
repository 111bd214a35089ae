"""What a plan is made from: the sizes of a source, and how many take part."""

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
        samples: Samples in it.
        size: Bytes on the disk; of a lane of a generator, those of its samples.
    """

    name: str
    samples: int
    size: int


@dataclass(frozen=True)
class SequentialRead:
    """Files that are read from their beginnings.

    Attributes:
        why: `GZIP-compressed`, say.
        lanes: The files that are read at the same time, and how far they are mixed.
    """

    why: str
    lanes: Lanes


@dataclass(frozen=True)
class SourceSizes:
    """What is known of a source before any sample of it is read.

    Attributes:
        format: As in the config.
        files: In the order of their samples.
        sample_bytes: Bytes of one sample, `x` and `y`, in a batch.
        estimated: Whether `sample_bytes` is that of the record, because a function makes the sample from it.
        held_bytes: Bytes that every worker holds all the time: arrays, or where the records lie.
        whole: Whether every worker reads all of the files, and not its own records alone.
        random_calls: What a parse function draws random numbers with, `name (file:line)`, as far as its source tells.
        local_disk: The file system, when it is one of this machine alone; None when others may share it.
        sequence: How it is read when it can only be read in sequence; None when records are read in any order.
        shares: Whether each worker has files of its own; these are the ones of the machine that plans.
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
    """Who takes part.

    Attributes:
        workers: Of the whole cluster.
        replicas: Of all workers together, equally many on each.
        hosts: Machines that the workers are on.

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
        """Replicas of one worker."""
        return self.replicas // self.workers


@dataclass(frozen=True)
class PipelineBuffers:
    """How many batches a pipeline holds at once.

    Attributes:
        prefetched: Batches of each replica that wait for their step.
        group_bytes: Of TFRecord files, so much is read in one call, or a batch where that is more.
        groups: Such calls at the same time, and what they read that is not batches yet.
    """

    prefetched: int
    group_bytes: int
    groups: int
