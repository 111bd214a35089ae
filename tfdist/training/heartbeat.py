"""What this worker does, written to its state file: at every change, and about once a second while it steps."""

from __future__ import annotations

import dataclasses
import os
import socket
import time

import keras

from tfdist.launch.environment import Assignment
from tfdist.rundir import State, WorkerState

INTERVAL = 1.0
"""Seconds between two writes while the state stays the same."""


class Heartbeat:
    """The writer of one worker's state file.

    Args:
        path: The file.
        assignment: Who this worker is.
    """

    def __init__(self, path: os.PathLike[str], assignment: Assignment) -> None:
        self._path = path
        self._written = 0.0
        self._state = WorkerState(
            index=assignment.index,
            address=assignment.address,
            host=socket.gethostname(),
            pid=os.getpid(),
            attempt=assignment.attempt,
            state=State.STARTING,
            epoch=0,
            step=0,
            time=time.time(),
        )
        self.enter(State.STARTING)

    @property
    def state(self) -> WorkerState:
        """What was last known; the file may be up to a second older."""
        return self._state

    def enter(self, state: State) -> None:
        """Notes what the worker does from now on, and writes it."""
        self._state = dataclasses.replace(self._state, state=state)
        self._write()

    def begin_epoch(self, epoch: int) -> None:
        """Notes the epoch, counted from 0."""
        self._state = dataclasses.replace(self._state, epoch=epoch)
        self._write()

    def step(self, batches: int = 1) -> None:
        """Notes one or more batches trained."""
        self._state = dataclasses.replace(self._state, step=self._state.step + batches)
        if self._state.state is not State.TRAINING:
            self.enter(State.TRAINING)
        elif time.time() - self._written >= INTERVAL:
            self._write()

    def callback(self) -> keras.callbacks.Callback:
        """A new callback that tells this heartbeat of one `fit` or `evaluate`."""
        return _Callback(self)

    def _write(self) -> None:
        self._written = time.time()
        self._state = dataclasses.replace(self._state, time=self._written)
        # Not durable: a state file is read while the run lives, and fsync would stall the step.
        self._state.write(self._path, durable=False)


class _Callback(keras.callbacks.Callback):
    async_safe = True
    ignores_batches = True

    def __init__(self, heartbeat: Heartbeat) -> None:
        super().__init__()
        self._heartbeat = heartbeat
        self._last_batch = -1
        self._before_test = State.TRAINING

    def on_train_begin(self, logs: dict | None = None) -> None:
        self._heartbeat.enter(State.COMPILING)

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        self._heartbeat.begin_epoch(epoch)
        self._last_batch = -1

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        # With several steps in one execution Keras names the last of them.
        self._heartbeat.step(batch - self._last_batch)
        self._last_batch = batch

    def on_test_begin(self, logs: dict | None = None) -> None:
        self._before_test = self._heartbeat.state.state
        self._heartbeat.enter(State.EVALUATING)

    def on_test_end(self, logs: dict | None = None) -> None:
        self._heartbeat.enter(self._before_test)
