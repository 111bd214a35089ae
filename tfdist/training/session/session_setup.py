"""The process's strategy, made at first need, with the repairs installed and the random state agreed on."""

from __future__ import annotations

import contextlib
import functools
import logging
import secrets
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfdist import keras_repairs
from tfdist.cluster.discover import discover
from tfdist.launch.environment import Assignment
from tfdist.rundir import RunDir
from tfdist.rundir.ledger_lines import Kind
from tfdist.runtime import collectives, devices
from tfdist.runtime import strategy as strategies
from tfdist.runtime.default_seed import set_default_seed
from tfdist.runtime.step_meter import Meter, use_meter
from tfdist.runtime.transport import replica_sums
from tfdist.training.checkpoints.checkpoint_callback import Saving
from tfdist.training.checkpoints.fit_registry import Fits
from tfdist.training.probes.recorder import Recorder
from tfdist.training.probes.recording_setup import devices_for, impose
from tfdist.training.session.cluster_start import bounded
from tfdist.training.session.libraries import check_libraries, seed_all
from tfdist.training.session.worker_context import JobPlace, place_of
from tfdist.training.supervision.heartbeat import Heartbeat
from tfdist.training.supervision.launcher_link import Line
from tfdist.training.supervision.stop_requests import Stopping
from tfdist.training.supervision.training_monitor import Follower
from tfdist.training.supervision.watchdog import Watchdog
from tfdist.training.supervision.worker_signals import tell_of

_log = logging.getLogger("tfdist")


@dataclass(frozen=True)
class Session:
    """What one worker process trains with.

    Attributes:
        strategy: TensorFlow's default one for a single device.
        choice: Why it is this one.
        devices: The names of this worker's devices.
        index: This worker's index; 0 is the chief.
        num_workers: Workers of the cluster.
        seed: The run's seed, the same on every worker; None in a lone process that `tfdist train` did not start.
        job: The job's, different for every start by hand; empty when `tfdist train` did not start this process.
        run: The run directory, or None when `tfdist train` did not start this process.
        heartbeat: Tells this worker's state, or None when `tfdist train` did not start this process.
        stopping: Its part in a stop of all workers, or None likewise.
        saving: Entered around whatever the training waits for until something is saved.
        restoring: Entered around the reading of a checkpoint with which a training goes on.
        fits: The `fit`s of a script.
    """

    strategy: tf.distribute.Strategy
    choice: strategies.Choice
    devices: tuple[str, ...]
    index: int
    num_workers: int
    seed: int | None
    job: str
    run: RunDir | None
    heartbeat: Heartbeat | None
    stopping: Stopping | None
    saving: Saving
    restoring: Saving
    fits: Fits

    @property
    def is_chief(self) -> bool:
        """Whether this worker writes what one worker should."""
        return self.index == 0


@functools.cache
def current() -> Session:
    """This process's session; the first call makes it.

    Under `tfdist train` the launcher's assignment decides; otherwise TF_CONFIG or a scheduler does, or there is one
    worker with every device.

    Raises:
        UsageError: What was asked for does not fit this machine.
    """
    assignment = Assignment.from_environ()
    if assignment is not None:
        return start(assignment, requested_devices(assignment))
    membership = discover()
    return _start(JobPlace(membership.local[0], membership.cluster), devices.DeviceRequest())


def requested_devices(assignment: Assignment) -> devices.DeviceRequest:
    """What the command line asks for, and this worker's place on its machine."""
    return devices.DeviceRequest(
        gpus=assignment.devices,
        logical=assignment.logical_devices,
        memory_limit=assignment.memory_limit,
        local_rank=assignment.local_rank,
        local_size=assignment.local_size,
    )


def start(assignment: Assignment, request: devices.DeviceRequest) -> Session:
    """Makes the session of a worker that `tfdist train` started. Call it once, before TensorFlow touches a device."""
    place = place_of(assignment)
    session = _start(place, request)
    if place.line is not None and place.line.channel is not None:
        # Not before: TensorFlow's own handler would take its place.
        tell_of(signal.SIGTERM, place.line.channel.signalled)
    return session


def _start(place: JobPlace, request: devices.DeviceRequest) -> Session:
    addresses = () if place.cluster is None else tuple(str(address) for address in place.cluster.workers)
    workers = max(1, len(addresses))
    check_libraries()
    if place.recording is not None:
        seen = len(tf.config.list_physical_devices("GPU"))
        request = devices_for(request, place.recording.replicas, workers, seen)
        impose(place.recording)
    names = devices.apply(request, workers=workers)
    choice = strategies.choose(
        names, workers=workers, logical=(request.logical or 1) > 1, communication=place.communication
    )
    _log.info("strategy %s, collectives %s: %s", choice.kind, choice.communication, choice.reason)
    with _spending(place.line, Kind.FORMING), _forming(place) if workers > 1 else contextlib.nullcontext():
        strategy = strategies.make(choice, names, addresses=addresses, index=place.index)
    if workers > 1 and place.compression != "none":
        replica_sums.use_compression(strategy, tf.as_dtype(place.compression))
    if workers > 1:
        Watchdog(place.timeout, place.end).start()
    if choice.kind != "one":
        strategies.use_everywhere(strategy)
    if place.seed is not None:
        set_default_seed(strategy, place.seed)
    seed = _agreed_seed(place, strategy, workers)
    heartbeat, stopping = (None, None) if place.line is None else (place.line.heartbeat, place.line.stopping)
    saving = contextlib.nullcontext if place.line is None else functools.partial(_saving, place.line)
    restoring = functools.partial(_spending, place.line, Kind.RESTORE)
    fits = Fits(
        strategy,
        place.keeping,
        saving,
        restoring,
        seed=seed,
        job=place.job,
        attempt=place.attempt,
        stopping=stopping,
        heartbeat=heartbeat,
    )
    _install_repairs(place, strategy, seed, fits)
    return Session(
        strategy=strategy,
        choice=choice,
        devices=tuple(names),
        index=place.index,
        num_workers=workers,
        seed=seed,
        job=place.job,
        run=place.run,
        heartbeat=heartbeat,
        stopping=stopping,
        saving=saving,
        restoring=restoring,
        fits=fits,
    )


@contextlib.contextmanager
def _forming(place: JobPlace) -> Iterator[None]:
    line = place.line
    if line is None:  # nobody else would say what is waited for; and meanwhile nothing in this process can
        print(
            f"tfdist: worker {place.index} waits until all of {place.cluster} have come, for {place.timeout():g} s at "
            "most. Each must reach every other on its port: `tfdist doctor --workers ...` finds out whether they do.",
            file=sys.stderr,
            flush=True,
        )
    with (
        contextlib.nullcontext() if line is None else line.heartbeat.forming(),
        bounded(place.timeout(), has_launcher=line is not None and line.channel is not None),
    ):
        yield


@contextlib.contextmanager
def _saving(line: Line) -> Iterator[None]:
    with line.heartbeat.saving(), line.account.spending(Kind.CHECKPOINT):
        yield


def _spending(line: Line | None, kind: Kind) -> contextlib.AbstractContextManager[None]:
    """Around what the worker's account knows by itself."""
    return contextlib.nullcontext() if line is None else line.account.spending(kind)


def _agreed_seed(place: JobPlace, strategy: tf.distribute.Strategy, workers: int) -> int | None:
    """The run's seed, in force from now on; without a launcher several workers draw one together."""
    seed = place.seed
    if seed is None and workers > 1:
        seed = int(collectives.broadcast(np.int64(secrets.randbits(31)), strategy=strategy))
    if seed is not None:
        seed_all(seed)
    return seed


def _install_repairs(place: JobPlace, strategy: tf.distribute.Strategy, seed: int | None, fits: Fits) -> None:
    recorder = None if place.recording is None else Recorder(place.recording, place.index, strategy)
    tracer = None if place.trace is None else place.trace(strategy)
    follower = None
    if place.line is not None:
        meter = Meter()
        use_meter(strategy, meter)
        follower = Follower(place.line.heartbeat, place.line.stopping, place.line.account, meter)
    tellers = [teller for teller in (follower, recorder, tracer) if teller is not None]
    observer = recorder.observer if recorder is not None else tracer and tracer.observer

    def extra(given: Sequence[Any] | None) -> list[keras.callbacks.Callback]:
        kept = [] if given is None or recorder is not None else fits.callbacks_for(given)
        return [*(teller.callback() for teller in tellers), *kept]

    keras_repairs.install(
        listener=follower,
        imposed_seed=seed,
        extra_callbacks=extra,
        on_batch=observer and observer.on_batch,
        on_gradients=observer and observer.on_gradients,
    )
