"""Target of a verification, and the job that each of its runs is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfdist.cluster.discover import discover
from tfdist.cluster.membership import Membership
from tfdist.launch.environment import TargetKind
from tfdist.launch.job_spec import JobSpec
from tfdist.launch.logs.terminal import Show
from tfdist.launch.worker.kernel_choice import Kernels
from tfdist.launch.worker_options import BatchNorm, Communication, Compression, Jit
from tfdist.sharding import ShardMode
from tfdist.sharding.sharding_mode import Offload

if TYPE_CHECKING:
    from tfdist.config import RunConfig
    from tfdist.config.yaml_document import Document


@dataclass(frozen=True)
class TargetSpec:
    """Options that both kinds of verification share.

    Attributes:
        target_kind: What `target` is.
        target: Path or dotted name of what to train.
        name: What the run is called.
        args: The script's own arguments.
        config: What is trained, read once for all runs; None for a script or a module.
        document: The file of `config`; None where it has none.
        seed: The seed of every run.
        devices: GPUs to use; None for all.
        memory_limit: MiB of a logical GPU.
        share_gpu: Whether workers share GPUs where there are fewer of these.
        batch_norm: Whose statistics BatchNormalization takes in a script or a module; a config says it itself.
        jit: Whether XLA compiles every model of a script or a module; a config says it itself.
        kernels: By which kernels runs of a script or a module compute on the CPU; a config says it itself.
        shard: What each worker of a run of a script or a module holds a part of; a config says it itself.
        shard_over: Which workers of such a run share one copy of that; a config says it itself.
        shard_embeddings: Of embeddings of more rows each worker of a run of a script or a module has some rows; None
            for no embeddings; a config says it itself.
        offload: What several workers of a run of a script or a module keep elsewhere than on their devices; a config
            says it itself.
        communication: The collectives of runs on several replicas.
        compression: The type in which workers send gradients; "none" for their own.
        start_timeout: Seconds in which the workers must find one another.
        step_timeout: Seconds that a step may take.
        show: Whose output the terminal shows.
        verbose: Whether launchers say more.
        keep: Where the run directories stay; None to remove them.
    """

    target_kind: TargetKind
    target: str
    name: str
    args: tuple[str, ...] = ()
    config: RunConfig | None = None
    document: Document | None = None
    seed: int = 1
    devices: tuple[int, ...] | None = None
    memory_limit: int | None = None
    share_gpu: bool = False
    batch_norm: BatchNorm = "synchronized"
    jit: Jit = "auto"
    kernels: Kernels = "auto"
    shard: ShardMode = "none"
    shard_over: str | int = "all"
    shard_embeddings: int | None = None
    offload: Offload = "none"
    communication: Communication = "auto"
    compression: Compression = "none"
    start_timeout: float = 120.0
    step_timeout: float = 600.0
    show: Show = "none"
    verbose: bool = False
    keep: str | None = None

    @property
    def replica_options(self) -> dict[str, str | int | None]:
        """What decides how the replicas of a run work together, for reports."""
        batch_norm = self.batch_norm if self.config is None else self.config.batch_norm
        return {
            "batch_norm": batch_norm,
            "communication": self.communication,
            "compression": self.compression,
            "shard": self.shard_mode,
            "shard_over": self.sharded_over,
            "shard_embeddings": self.sharded_from,
            "offload": self.offload_choice,
        }

    @property
    def shard_mode(self) -> ShardMode:
        """What each of several workers holds a part of."""
        return self.shard if self.config is None else self.config.shard

    @property
    def sharded_over(self) -> str | int:
        """Which of several workers share one copy of that."""
        return self.shard_over if self.config is None else self.config.shard_over

    @property
    def sharded_from(self) -> int | None:
        """Of embeddings of more rows than this several workers have some rows each."""
        return self.shard_embeddings if self.config is None else self.config.shard_embeddings

    @property
    def offload_choice(self) -> Offload:
        """What several workers keep elsewhere than on their devices."""
        return self.offload if self.config is None else self.config.offload

    def job(self, workers: int | Membership, run_dir: Path, **options: Any) -> JobSpec:
        """One run of the target, whatever cluster the environment describes.

        Args:
            workers: How many processes, of this machine alone; or who takes part.
            run_dir: Where all its files go, checkpoints too: those of the user's own run stay as they are.
            **options: Other fields of `JobSpec`; one that a spec has, too, comes before that of the spec. A worker
                alone offloads where they say so.
        """
        options = {
            "membership": workers if isinstance(workers, Membership) else discover(nproc=workers, environ={}),
            "target": self.target,
            "run_dir": str(run_dir),
            "seed": self.seed,
            "devices": self.devices,
            "memory_limit": self.memory_limit,
            "share_gpu": self.share_gpu,
            "communication": self.communication,
            "compression": self.compression,
            "start_timeout": self.start_timeout,
            "step_timeout": self.step_timeout,
            "show": self.show,
            "verbose": self.verbose,
            **options,
        }
        # A worker alone, with whatever replicas, holds all of everything, where it is asked for nothing else.
        offload = options.pop("offload", "none" if workers == 1 else self.offload_choice)
        shard = "none" if workers == 1 else self.shard_mode
        over = "all" if workers == 1 else self.sharded_over
        rows = None if workers == 1 else self.sharded_from
        sharing = {"shard": shard, "shard_over": over, "shard_embeddings": rows, "offload": offload}
        if self.config is None:
            options = {"jit": self.jit, **options, "batch_norm": self.batch_norm, "kernels": self.kernels}
            options |= sharing
            options.setdefault("quiet", True)
            return JobSpec(target_kind=self.target_kind, args=self.args, name=self.name, **options)
        checkpoint = replace(self.config.checkpoint, directory=None)
        own = replace(self.config, checkpoint=checkpoint, **sharing)
        return JobSpec.for_config(own, document=self.document, **options)
