"""Worker options: the part of a job's options that every worker gets, the same for all of them."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from tfdist.errors import UsageError
from tfdist.launch.logs.log_records import LogFormat
from tfdist.launch.worker.kernel_choice import Kernels
from tfdist.launch.worker_requests import RecordingRequest, RehearsalRequest, TraceRequest
from tfdist.rundir.run_dir_creation import Resume
from tfdist.sharding import Sharding, sharding_of
from tfdist.sharding.group_sizes import check_group_sizes, check_groups
from tfdist.sharding.shard_groups import check_over
from tfdist.sharding.sharding_mode import Offload, ShardMode, check_devices, check_rows

if TYPE_CHECKING:
    from tfdist.config import RunConfig


_TEXT = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<minutes>m?)")
BatchNorm = Literal["synchronized", "replica"]
Communication = Literal["auto", "nccl", "ring", "shm"]
Compression = Literal["none", "bfloat16", "float16"]
Jit = Literal["auto", "on", "off"]
Check = Literal["auto", "off", "strict"]
_CHOICES = {
    "batch_norm": BatchNorm,
    "check": Check,
    "communication": Communication,
    "compression": Compression,
    "jit": Jit,
    "kernels": Kernels,
    "log_format": LogFormat,
    "offload": Offload,
    "resume": Resume,
    "shard": ShardMode,
}
SHARED_MODEL = ("shard", "shard_over", "shard_embeddings", "offload", "tensor", "context")
"""Say what several workers hold together, or keep elsewhere than on their devices."""
OF_CONFIGS = ("batch_norm", "kernels", *SHARED_MODEL)
"""Options that are keys of a config, too."""
OF_COMPUTATION = ("check", "communication", "compression", "jit", "strict", *OF_CONFIGS)
"""Say how workers compute, whoever starts them."""
_IN_COMMON = ("checkpoint_every", "share_gpu", *OF_COMPUTATION)
"""Decide which collectives the workers run, how they round, or what they refuse: the same on every host."""
_SECONDS = ("first_step_timeout", "step_timeout", "grace")


@dataclass(frozen=True)
class CheckpointInterval:
    """The interval at which checkpoints are made, besides at the end of every epoch.

    Attributes:
        steps: After each multiple of so many steps; None where the clock decides.
        minutes: When the last one is so old; None where the steps do.
    """

    steps: int | None
    minutes: float | None

    @classmethod
    def parse(cls, text: str) -> CheckpointInterval:
        """The interval of a text such as `500` or `2.5m`.

        Raises:
            UsageError: It is neither.
        """
        match = _TEXT.fullmatch(text) if text.isascii() else None
        number = float(match["number"]) if match else 0.0
        if match is None or not 0 < number < math.inf or not (match["minutes"] or number.is_integer()):
            raise UsageError(
                "--checkpoint-every expects a whole number of steps, such as 500, or minutes, such as 2.5m. Received: "
                f"{text}"
            )
        return cls(None, number) if match["minutes"] else cls(int(number), None)

    def config_entries(self) -> tuple[str, ...]:
        """The same as entries of a config, as `--set` has them."""
        steps, minutes = ("null" if value is None else f"{value:g}" for value in (self.steps, self.minutes))
        return (f"checkpoint.every_steps={steps}", f"checkpoint.every_minutes={minutes}")


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """The part of a `JobSpec` that its launcher hands to each worker in its `Assignment`, unchanged.

    Attributes:
        args: The script's own arguments.
        devices: GPUs that the workers of this machine may use, by TensorFlow's index; None for all.
        logical_devices: Parts that each GPU (or the CPU, when there is none) is split into; None for no split.
        memory_limit: MiB of a logical device; None for no limit.
        share_gpu: Whether workers of this machine share its GPUs where there are fewer of these.
        worker_per_gpu: Whether tfdist itself has chosen to start one worker for each GPU.
        batch_norm: Whose statistics BatchNormalization takes: those of the global batch, or each replica its own.
        check: Whether the first steps are compared with what one device computes; "strict" refuses one that cannot be.
        communication: Which collectives to use.
        compression: The type in which gradients are sent between workers; "none" for their own.
        jit: Whether XLA compiles every model, or none; "auto" for what the program says.
        kernels: By which kernels workers compute on the CPU.
        strict: Whether what would be warned of, about exactness or cost, is refused.
        shard: What each worker holds a part of; "none" where all of them hold all.
        shard_over: Which workers share one copy of what is cut: `"all"`, those of each `"host"`, or so many neighbors.
        shard_embeddings: The most rows of an embedding that each worker has whole; None where all are whole.
        offload: What is kept in the host's memory or on its disk, and updated there; "none" for nothing.
        tensor: How many workers share each weight that a layout cuts; 1 where none is cut.
        context: How many workers share each sequence; 1 where each has whole ones.
        first_step_timeout: Seconds that the first step of a `fit`, `evaluate` or `predict` may take, and any one call
            into TensorFlow outside of them.
        step_timeout: Seconds without a step, a callback or a batch after which the worker hangs.
        grace: Seconds that the workers have to stop at a step boundary, with a checkpoint.
        max_restarts: Restarts of all workers that the job allows without progress between them.
        resume: Whether the run resumes from the checkpoint in its directory: if there is one, in any case, or never.
        verbose: Say more, and keep tracebacks.
        quiet: Say nothing of the run itself on the terminal, only warnings and errors.
        log_format: Whether the terminal shows text, or a record of JSON for each line, for which lines of tfdist's own
            begin with their levels.
        checkpoint_every: When a script's checkpoints are made, as a `CheckpointInterval` has it; None for what the
            script says, or the default.
        debug_worker: The worker that has the launcher's standard input, for a debugger; None for none.
        recording: What to record for `tfdist verify`; None in any other run.
        trace: What to trace for `tfdist verify --kill`; None in any other run.
        rehearsal: How the run is only rehearsed; None for one that is kept.
        saves_results: Whether history and model of a script are written into the run directory.

    Raises:
        UsageError: A value is not one that its option takes, or options exclude each other.
    """

    args: tuple[str, ...] = ()
    devices: tuple[int, ...] | None = None
    logical_devices: int | None = None
    memory_limit: int | None = None
    share_gpu: bool = False
    worker_per_gpu: bool = False
    batch_norm: BatchNorm = "synchronized"
    check: Check = "auto"
    communication: Communication = "auto"
    compression: Compression = "none"
    jit: Jit = "auto"
    kernels: Kernels = "auto"
    strict: bool = False
    shard: ShardMode = "none"
    shard_over: str | int = "all"
    shard_embeddings: int | None = None
    offload: Offload = "none"
    tensor: int = 1
    context: int = 1
    first_step_timeout: float = 1800.0
    step_timeout: float = 600.0
    grace: float = 30.0
    max_restarts: int = 0
    resume: Resume = "never"
    verbose: bool = False
    quiet: bool = False
    log_format: LogFormat = "text"
    checkpoint_every: str | None = None
    debug_worker: int | None = None
    recording: RecordingRequest | None = None
    trace: TraceRequest | None = None
    rehearsal: RehearsalRequest | None = None
    saves_results: bool = False

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in get_args(choices):
                expected = ", ".join(get_args(choices))
                raise UsageError(f"{_option(name)} must be one of {expected}. Received: {getattr(self, name)!r}")
        for name in _SECONDS:
            check_seconds(name, getattr(self, name))
        if self.checkpoint_every is not None:
            CheckpointInterval.parse(self.checkpoint_every)
        check_rows(self.shard_embeddings)
        check_over(self.shard_over, self.shard_embeddings)
        devices, which = self.logical_devices or 1, f"--logical-devices {self.logical_devices}"
        check_devices(self.shard, devices, which, self.shard_embeddings, self.offload)
        check_group_sizes(tensor=self.tensor, context=self.context, devices=devices, which=which)

    def worker_options(self) -> dict[str, Any]:
        """These options by name, as arguments for another object that has them."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(WorkerOptions)}

    @property
    def saves_by_itself(self) -> bool:
        """True if a script's checkpoints are made, as it is to go on with them."""
        return bool(self.resume != "never" or self.max_restarts or self.checkpoint_every)

    def sharding(self, hosts: Sequence[str]) -> Sharding | None:
        """Returns how workers on these hosts shard, in the order of the cluster; see `sharding_of`.

        Raises:
            UsageError: They cannot be put into groups of `--shard-over`, `--tensor` or `--context`.
        """
        check_groups(len(hosts), tensor=self.tensor, context=self.context)
        return sharding_of(self.shard, self.shard_over, hosts)

    def options_in_common(self) -> dict[str, str]:
        """Those options that must be the same on every host of a job, as the command line has them."""
        return {_option(name): str(getattr(self, name) or "none") for name in _IN_COMMON}


def options_of(config: RunConfig) -> dict[str, Any]:
    """The options that a config has as keys, by name."""
    return {name: getattr(config, name) for name in OF_CONFIGS}


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def check_seconds(option: str, seconds: float) -> None:
    """Raises `UsageError` unless a timeout is positive."""
    if not seconds > 0:
        raise UsageError(f"{_option(option)} must be more than 0 seconds. Received: {seconds}")
