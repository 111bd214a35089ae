"""The session: what one worker process trains with."""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from tfdist.rundir import RunDir
from tfdist.runtime import strategy as strategies
from tfdist.training.checkpoints.checkpoint_callback import ContextFactory
from tfdist.training.checkpoints.fit_registry import FitRegistry
from tfdist.training.supervision.heartbeat import Heartbeat
from tfdist.training.supervision.stop_requests import StopRequests


@dataclass(frozen=True)
class Session:
    """What one worker process trains with.

    Attributes:
        strategy: TensorFlow's default one for a single device.
        choice: The kind of strategy, and why it was chosen.
        devices: The names of this worker's devices.
        index: This worker's index; 0 is the chief.
        num_workers: Workers of the cluster.
        seed: The run's seed, the same on every worker; None in a lone process that `tfdist train` did not start.
        job: The job's id, different for every start by hand; empty when `tfdist train` did not start this process.
        run: The run directory, or None when `tfdist train` did not start this process.
        heartbeat: Reports this worker's state, or None when `tfdist train` did not start this process.
        stopping: Stops this worker together with all others, or None likewise.
        saving: Entered while the training waits for a save.
        restoring: Entered while a checkpoint is read to resume from.
        fits: The `fit`s of a script.
    """

    strategy: tf.distribute.Strategy
    choice: strategies.StrategyChoice
    devices: tuple[str, ...]
    index: int
    num_workers: int
    seed: int | None
    job: str
    run: RunDir | None
    heartbeat: Heartbeat | None
    stopping: StopRequests | None
    saving: ContextFactory
    restoring: ContextFactory
    fits: FitRegistry

    @property
    def is_chief(self) -> bool:
        """Whether this worker writes the files of which a run has one."""
        return self.index == 0
