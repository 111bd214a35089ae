"""What a launcher is asked to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from tfdist.cluster.membership import Membership
from tfdist.errors import UsageError
from tfdist.launch.environment import Communication, Compression, Resume, TargetKind
from tfdist.launch.network import Network
from tfdist.launch.output import Show
from tfdist.launch.process import WORKER_MODULE
from tfdist.launch.recording import RecordingRequest
from tfdist.launch.tracing import TraceRequest


@dataclass(frozen=True)
class JobSpec:
    """What a launcher is asked to do.

    Attributes:
        membership: The cluster, and which of its workers are started here.
        target_kind: What `target` is.
        target: Path or dotted name of what to train.
        args: The script's own arguments.
        name: The run's name, for the default run directory.
        run_dir: Where the run writes on this machine; None for what the chief's launcher chooses.
        overwrite: Whether an earlier run there is replaced.
        seed: The run's seed; None to draw one. The chief's launcher decides for all.
        overrides: KEY=VALUE texts of `--set`.
        settings: Dotted key -> value of what all launchers must have alike in their configs; None without a config.
        devices: GPUs to use; None for all.
        logical_devices: Parts of each device; None for no split.
        memory_limit: MiB of a logical device.
        communication: Which collectives.
        compression: What gradients are sent as between workers.
        start_timeout: Seconds in which the cluster must form.
        first_step_timeout: Seconds that the first step may take, which compiles.
        step_timeout: Seconds without any progress after which the group hangs.
        grace: Seconds that the workers have to stop at a step boundary when the job is asked to stop.
        max_restarts: Restarts of the whole group without progress between them.
        resume: Whether the run goes on from the checkpoint in its run directory.
        network: `host`, or `private` for workers of one machine that nobody else can reach.
        show: Whose output the terminal shows.
        log_prefix: Whether shown lines begin with their worker's index.
        verbose: Say more.
        worker_module: The module that workers run; it reads its `Assignment`.
        environ: What the workers' environment is made from; None for this process's.
        recording: What the workers record for `tfdist verify`; None to train as usual.
        trace: What they trace for `tfdist verify --kill`; None to train as usual.
    """

    membership: Membership
    target_kind: TargetKind
    target: str
    args: tuple[str, ...] = ()
    name: str = "run"
    run_dir: str | None = None
    overwrite: bool = False
    seed: int | None = None
    overrides: tuple[str, ...] = ()
    settings: Mapping[str, Any] | None = None
    devices: tuple[int, ...] | None = None
    logical_devices: int | None = None
    memory_limit: int | None = None
    communication: Communication = "auto"
    compression: Compression = "none"
    start_timeout: float = 120.0
    first_step_timeout: float = 1800.0
    step_timeout: float = 600.0
    grace: float = 30.0
    max_restarts: int = 0
    resume: Resume = "never"
    network: Network = "host"
    show: Show = "chief"
    log_prefix: bool = False
    verbose: bool = False
    worker_module: str = WORKER_MODULE
    environ: Mapping[str, str] | None = None
    recording: RecordingRequest | None = None
    trace: TraceRequest | None = None

    def __post_init__(self) -> None:
        if self.show not in get_args(Show):
            raise UsageError(f"--show must be one of {get_args(Show)}. Received: {self.show!r}")
        if self.run_dir == "":
            raise UsageError("--run-dir is empty. Expected a directory, or no --run-dir at all. Received: --run-dir ''")
        for option in ("start_timeout", "first_step_timeout", "step_timeout", "grace"):
            if not getattr(self, option) > 0:
                flag = "--" + option.replace("_", "-")
                raise UsageError(f"{flag} must be more than 0 seconds. Received: {getattr(self, option)}")
