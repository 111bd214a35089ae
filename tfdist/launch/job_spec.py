"""Job spec: what a launcher is asked to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from tfdist.cluster.membership import Membership
from tfdist.errors import UsageError
from tfdist.launch.agent.group_policy import RestartPolicy
from tfdist.launch.elastic.elastic_options import ElasticOptions
from tfdist.launch.environment import TargetKind
from tfdist.launch.logs.terminal import Show
from tfdist.launch.network_isolation import Network
from tfdist.launch.progress_display import Progress
from tfdist.launch.requeue_policy import MAX_REQUEUES
from tfdist.launch.worker.worker_process import WORKER_MODULE
from tfdist.launch.worker_options import WorkerOptions, check_seconds, options_of
from tfdist.url_schemes import CHECKPOINTS_INSTEAD, fault_as_local

if TYPE_CHECKING:
    from tfdist.config import RunConfig
    from tfdist.config.yaml_document import Document

LOOPBACK = "127.0.0.1"
"""The address on which metrics are served unless another one is given: this machine alone reaches them."""


@dataclass(frozen=True)
class JobSpec(WorkerOptions):
    """A request to a launcher: what it is asked to do. `WorkerOptions` has what it passes on to its workers.

    Attributes:
        membership: The cluster, and which of its workers are started here.
        target_kind: What `target` is.
        target: Path or dotted name of what to train.
        name: The run's name, for the default run directory.
        run_dir: Where the run writes on this machine; None for what the chief's launcher chooses.
        overwrite: Whether an earlier run there is replaced.
        seed: The run's seed; None to draw one. The chief's launcher decides for all.
        config: What is trained, as the launcher read it; None for a script or a module.
        document: The file of `config`, for the lines of what is found to be wrong with it; None where it has none.
        start_timeout: Seconds in which the cluster must form.
        max_requeues: How often a scheduler may start the run again without progress after it was terminated.
        network: `host`, or `private` for workers of one machine that nobody else can reach.
        show: Whose output the terminal shows.
        progress: How the progress of a run from a config is shown.
        log_prefix: Whether shown lines start with their worker's index.
        worker_module: The module that workers run; it reads its `Assignment`.
        environ: What the workers' environment is made from; None for this process's.
        metrics_port: The port of this machine on which metrics are served; None for none.
        metrics_address: The IP address of this machine on which they are.
        preflight: Called on every host before the run directory is made; what it raises refuses the run.
        while_forming: Called again and again while the launchers meet; what it raises ends that.
        elastic: How few workers it may go on with; None for a job that needs all of them.
        restarts: Whether the job restarts by itself, `max_restarts` times; if not, whoever runs it does.
        goes_on: Whether it goes on with what the same launcher has begun: one start of the run for its ledger.

    Raises:
        UsageError: A value is not one that its option takes.
    """

    membership: Membership
    target_kind: TargetKind
    target: str
    name: str = "run"
    run_dir: str | None = None
    overwrite: bool = False
    seed: int | None = None
    config: RunConfig | None = None
    document: Document | None = None
    start_timeout: float = 120.0
    max_requeues: int = MAX_REQUEUES
    network: Network = "host"
    show: Show = "chief"
    progress: Progress = "none"
    log_prefix: bool = False
    worker_module: str = WORKER_MODULE
    environ: Mapping[str, str] | None = None
    metrics_port: int | None = None
    metrics_address: str = LOOPBACK
    preflight: Callable[[], None] = lambda: None
    while_forming: Callable[[], None] = lambda: None
    elastic: ElasticOptions | None = None
    restarts: bool = True
    goes_on: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, choices in (("show", Show), ("progress", Progress)):
            if getattr(self, name) not in get_args(choices):
                expected = ", ".join(get_args(choices))
                received = getattr(self, name)
                raise UsageError(f"--{name.replace('_', '-')} must be one of {expected}. Received: {received!r}")
        if self.log_format == "json" and self.progress == "bar":
            raise UsageError(
                "--log-format json writes records, and a bar is none. Expected --progress auto, plain or none beside "
                "it. Received: --progress bar. Leave --progress out: the progress comes in records, too."
            )
        if self.run_dir == "":
            raise UsageError("--run-dir is empty. Expected a directory, or no --run-dir at all. Received: --run-dir ''")
        fault = None if self.run_dir is None else fault_as_local(self.run_dir, "--run-dir", CHECKPOINTS_INSTEAD)
        if fault is not None:
            raise UsageError(fault)
        check_seconds("start_timeout", self.start_timeout)
        if self.debug_worker is not None and self.debug_worker >= self.membership.num_workers:
            raise UsageError(
                f"--debug-worker expects a worker of the job, 0 to {self.membership.num_workers - 1}. Received: "
                f"--debug-worker {self.debug_worker}"
            )
        if self.metrics_port is None and self.metrics_address != LOOPBACK:
            raise UsageError(
                "--metrics-address says where --metrics-port listens. Expected both. Received: --metrics-address "
                f"{self.metrics_address} alone. Add --metrics-port, such as 9400."
            )

    def options_in_common(self) -> dict[str, str]:
        """Those options that must be the same on every host of a job, as the command line has them."""
        elastic = {} if self.elastic is None else {"--min-workers": str(self.elastic.min_workers)}
        return {**super().options_in_common(), **elastic}

    def restart_policy(self, *, outlives_loss: bool = False) -> RestartPolicy:
        """The restarts that this launcher may decide on; none where whoever runs the job restarts it."""
        restarts = self.restarts or outlives_loss
        return RestartPolicy(self.max_restarts if restarts else 0, outlives_loss=outlives_loss)

    @classmethod
    def for_config(cls, config: RunConfig, **options: Any) -> JobSpec:
        """The job that trains a config; what the command line says comes before what the config says.

        Args:
            **options: What else `JobSpec` takes; the seed and devices are the config's where they are None or False.
        """
        devices = config.devices
        own = {
            "seed": config.seed,
            "logical_devices": devices.logical,
            "memory_limit": devices.memory_limit,
            "share_gpu": devices.share_gpu,
        }
        for name, value in own.items():
            if options.get(name) is None or options[name] is False:
                options[name] = value
        return cls(target_kind="config", config=config, name=config.name, **{**options_of(config), **options})
