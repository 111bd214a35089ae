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
from tfdist.launch.worker_options import SHARED_MODEL, WorkerOptions

if TYPE_CHECKING:
    from tfdist.config import RunConfig
    from tfdist.config.yaml_document import Document

_OF_REPLICAS = ("batch_norm", "communication", "compression", *SHARED_MODEL)
"""Decide how the replicas of a run work together."""


@dataclass(frozen=True)
class TargetSpec(WorkerOptions):
    """The request of all kinds of verification, and the options of their runs, those that a config has as well.

    Attributes:
        target_kind: What `target` is.
        target: Path or dotted name of what to train.
        name: What the run is called.
        config: What is trained, read once for all runs; None for a script or a module.
        document: The file of `config`; None where it has none.
        seed: The seed of every run.
        start_timeout: Seconds in which the workers must find one another.
        show: Whose output the terminal shows.
        keep: Where the run directories stay; None to remove them.
    """

    target_kind: TargetKind
    target: str
    name: str
    config: RunConfig | None = None
    document: Document | None = None
    seed: int = 1
    start_timeout: float = 120.0
    show: Show = "none"
    keep: str | None = None

    @property
    def replica_options(self) -> dict[str, str | int | None]:
        """The options that decide how the replicas of a run work together, for reports."""
        return {name: getattr(self, name) for name in _OF_REPLICAS}

    def job(self, workers: int | Membership, run_dir: Path, **options: Any) -> JobSpec:
        """One run of the target, whatever cluster the environment describes.

        Args:
            workers: How many processes, of this machine alone; or who takes part.
            run_dir: Where all its files go, checkpoints too: those of the user's own run stay as they are.
            **options: Other fields of `JobSpec`; one that a spec has, too, comes before that of the spec. A worker
                alone offloads where they say so.
        """
        options = {
            **self.worker_options(),
            # A worker alone, with whatever replicas, holds all of everything, where it is asked for nothing else.
            **{name: getattr(WorkerOptions if workers == 1 else self, name) for name in SHARED_MODEL},
            "membership": workers if isinstance(workers, Membership) else discover(nproc=workers, environ={}),
            "target": self.target,
            "run_dir": str(run_dir),
            "seed": self.seed,
            "start_timeout": self.start_timeout,
            "show": self.show,
            "quiet": self.config is None,
            **options,
        }
        if self.config is None:
            return JobSpec(target_kind=self.target_kind, name=self.name, **options)
        sharing = {name: options[name] for name in SHARED_MODEL}
        own = replace(self.config, checkpoint=replace(self.config.checkpoint, directory=None), **sharing)
        return JobSpec.for_config(own, document=self.document, **options)
