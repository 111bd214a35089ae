"""The session: what one worker process trains with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tfdist.rundir import RunDir
from tfdist.runtime import strategy as strategies
from tfdist.training.checkpoints.checkpoint_callback import ContextFactory
from tfdist.training.checkpoints.fit_registry import FitRegistry
from tfdist.training.script_results import ScriptResults
from tfdist.training.supervision.activity_tracker import ActivityTracker
from tfdist.training.supervision.stop_requests import StopRequests


@dataclass(frozen=True, kw_only=True)
class Session:
    """All that one worker process trains with.

    Attributes:
        strategy: TensorFlow's default one for a single device.
        choice: The kind of strategy, and why it was chosen.
        devices: The names of this worker's devices.
        index: This worker's index; 0 is the chief.
        num_workers: Workers of the cluster.
        seed: The run's seed, the same on every worker; None in a single process that `tfdist train` did not start.
        fit_registry: The `fit`s of a script.
    """

    strategy: tf.distribute.Strategy
    choice: strategies.StrategyChoice
    devices: tuple[str, ...]
    index: int
    num_workers: int
    seed: int | None
    fit_registry: FitRegistry

    @property
    def is_chief(self) -> bool:
        """True if this worker writes the files of which a run has one."""
        return self.index == 0


@dataclass(frozen=True, kw_only=True)
class LaunchedSession(Session):
    """The session of a worker that `tfdist train` started.

    Attributes:
        seed: The run's seed, the same on every worker.
        job: The job's id, different for every start by hand.
        run: The run directory.
        results: What the `fit`s of a script leave there; None where they leave nothing by themselves.
        activity: What this worker does.
        stop_requests: Stops this worker together with all others.
        saving: Entered while the training waits for a save.
        restoring: Entered while a checkpoint is read to resume from.
        tell_progress: Tells the launcher how far a run from a config is; None without a launcher.
    """

    seed: int
    job: str
    run: RunDir
    results: ScriptResults | None
    activity: ActivityTracker
    stop_requests: StopRequests
    saving: ContextFactory
    restoring: ContextFactory
    tell_progress: Callable[[Mapping[str, Any] | None], None] | None
