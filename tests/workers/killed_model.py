"""The model of a run that is killed by plan. Built in a worker, it watches for the moment from inside."""

from __future__ import annotations

import json
import os
import re
import signal
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tests.helpers import resumable_model
from tests.workers.kill_plan import Kill, planned
from tfdist.launch.environment import Assignment
from tfdist.rundir import RunDir, WorkerState
from tfdist.training.probes.tracer import furthest_checkpoint

_CHECKPOINT = re.compile(r"/checkpoints/\.?(step-\d+)")
_DISK = ("fsync", "rename", "replace")


class Watch:
    """Sees the moments of this worker's attempt, and kills when the planned one comes.

    It writes a line with the checksums of the samples of each step, which outlives the process.
    """

    def __init__(self, assignment: Assignment, kill: Kill | None) -> None:
        self._assignment = assignment
        self._run = RunDir(Path(assignment.run_dir))
        self._furthest = furthest_checkpoint(self._run.checkpoints_dir)
        self._kill = kill if kill is not None and kill.watcher == assignment.index else None
        self._counts: dict[str, int] = {}
        self._saves: set[str] = set()
        path = samples_file(self._run, assignment.index, assignment.attempt)
        self._samples = path.open("w", buffering=1)

    def comes(self, moment: str) -> None:
        """Counts one moment, and kills when it is the planned one."""
        self._counts[moment] = self._counts.get(moment, 0) + 1
        kill = self._kill
        if kill is None or kill.moment != moment or self._counts[moment] < kill.at:
            return
        if moment == "step" and furthest_checkpoint(self._run.checkpoints_dir) <= self._furthest:
            # Not before the attempt has got on for good.
            return
        self._kill = None
        own = self._assignment.index
        for victim in sorted(kill.victims, key=lambda index: index == own):
            os.kill(os.getpid() if victim == own else self._pid(victim), signal.SIGKILL)

    def step(self, rows: np.ndarray) -> np.int32:
        """A step of training begins, on these rows."""
        self._samples.write(json.dumps([zlib.crc32(row.tobytes()) for row in rows]) + "\n")
        self.comes("step")
        return np.int32(0)

    def evaluation(self, rows: np.ndarray) -> np.int32:
        """A step of an evaluation begins."""
        self.comes("evaluation")
        return np.int32(0)

    def watch_disk(self) -> None:
        """Puts itself before the calls by which files become whole."""

        def watched(call: Callable[..., Any]) -> Callable[..., Any]:
            def see_and_call(*arguments: Any, **options: Any) -> Any:
                self._see(arguments)
                return call(*arguments, **options)

            return see_and_call

        for name in _DISK:
            setattr(os, name, watched(getattr(os, name)))

    def _see(self, arguments: tuple[Any, ...]) -> None:
        names = [os.readlink(f"/proc/self/fd/{a}") if isinstance(a, int) else os.fspath(a) for a in arguments]
        self._saves |= {found[1] for name in names if (found := _CHECKPOINT.search(name))}
        if len(self._saves) > 1 and any("/checkpoints" in name for name in names):
            self.comes("save")
        if any(name.endswith((".keras", "done.json")) for name in names):
            self.comes("end")

    def _pid(self, index: int) -> int:
        state = WorkerState.read(self._run.state_file(index))
        assert state is not None and state.attempt == self._assignment.attempt
        return state.pid


def samples_file(run: RunDir, index: int, attempt: int) -> Path:
    """The samples of a worker's steps in one attempt: a line of checksums a step (JSON)."""
    return run.path / f"samples.{index}.{attempt}.jsonl"


@keras.saving.register_keras_serializable("tests")
class Watched(keras.layers.Layer):
    """Passes on what it gets, and tells a `Watch` of it; one that was loaded from a file has none."""

    def __init__(self, watch: Watch | None = None, **options: Any) -> None:
        super().__init__(**options)
        self._watch = watch
        self.supports_jit = False

    def call(self, inputs: tf.Tensor, training: bool = False) -> tf.Tensor:
        # Where tfdist tries layers out they run eagerly, on rows that it makes up.
        if self._watch is None or not tf.inside_function():
            return inputs
        told = tf.numpy_function(self._watch.step if training else self._watch.evaluation, [inputs], tf.int32)
        with tf.control_dependencies([told]):
            return tf.identity(inputs)

    def get_config(self) -> dict[str, Any]:
        return super().get_config()

    def load_own_variables(self, store: Any) -> None:
        if self._watch is not None:
            self._watch.comes("restore")


def model(plain: bool = False) -> keras.Model:
    """`resumable_model.model` behind a layer that sees each step."""
    assignment = Assignment.from_environ()
    assert assignment is not None
    watch = Watch(assignment, planned(assignment.attempt))
    watch.comes("build")
    watch.watch_disk()
    built = resumable_model.model(plain)
    return keras.Sequential([keras.Input((resumable_model.FEATURES,)), Watched(watch), *built.layers])
