"""Sets up a session: devices, strategy, seed, and the repairs of Keras with what listens to them."""

from __future__ import annotations

import contextlib
import functools
import logging
import secrets
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfdist import keras_repairs
from tfdist.rundir.ledger_lines import TimeKind
from tfdist.runtime import collectives, devices
from tfdist.runtime import strategy as strategies
from tfdist.runtime.default_seed import set_default_seed
from tfdist.runtime.step_meter import StepMeter, use_meter
from tfdist.runtime.transport import replica_sums
from tfdist.training.checkpoints.fit_registry import FitRegistry
from tfdist.training.probes.recorder import Recorder
from tfdist.training.probes.recording_setup import devices_for, impose
from tfdist.training.session.cluster_start import forming
from tfdist.training.session.libraries import check_libraries, seed_all
from tfdist.training.session.session import Session
from tfdist.training.session.worker_context import WorkerContext
from tfdist.training.supervision.launcher_link import LauncherLink
from tfdist.training.supervision.training_monitor import TrainingMonitor
from tfdist.training.supervision.watchdog import Watchdog

_log = logging.getLogger("tfdist")


def set_up(place: WorkerContext, request: devices.DeviceRequest) -> Session:
    """Makes a session. Call it once a process, before TensorFlow touches a device.

    Raises:
        UsageError: What was asked for does not fit this machine.
    """
    check_libraries()
    request = _request_of(place, request)
    names = devices.apply(request, workers=place.num_workers)
    choice = strategies.choose(
        names, workers=place.num_workers, logical=(request.logical or 1) > 1, communication=place.communication
    )
    _log.info("strategy %s, collectives %s: %s", choice.kind, choice.communication, choice.reason)
    strategy = _make_strategy(place, choice, names)
    seed = _agreed_seed(place, strategy)
    session = _session_of(place, strategy, choice, names, seed)
    _install_repairs(place, strategy, seed, session.fits)
    return session


def _request_of(place: WorkerContext, request: devices.DeviceRequest) -> devices.DeviceRequest:
    """The devices to use; a recorded run has its own, and its own compilation and precision too."""
    if place.recording is None:
        return request
    seen = len(tf.config.list_physical_devices("GPU"))
    request = devices_for(request, place.recording.replicas, place.num_workers, seen)
    impose(place.recording)
    return request


def _make_strategy(
    place: WorkerContext, choice: strategies.StrategyChoice, names: Sequence[str]
) -> tf.distribute.Strategy:
    """Makes the strategy, with several workers once all of them have come, and puts it in force."""
    several = place.num_workers > 1
    with (
        _spending(place.line, TimeKind.FORMING),
        forming(place.index, place.cluster, place.timeout(), place.line) if several else contextlib.nullcontext(),
    ):
        strategy = strategies.make(choice, names, addresses=place.addresses, index=place.index)
    if several and place.compression != "none":
        replica_sums.use_compression(strategy, tf.as_dtype(place.compression))
    if several:
        Watchdog(place.timeout, place.end).start()
    if choice.kind != "one":
        strategies.use_everywhere(strategy)
    return strategy


def _agreed_seed(place: WorkerContext, strategy: tf.distribute.Strategy) -> int | None:
    """Seeds this process with the run's seed; without a launcher several workers draw one together."""
    seed = place.seed
    if seed is not None:
        set_default_seed(strategy, seed)
    if seed is None and place.num_workers > 1:
        seed = int(collectives.broadcast(np.int64(secrets.randbits(31)), strategy=strategy))
    if seed is not None:
        seed_all(seed)
    return seed


def _session_of(
    place: WorkerContext,
    strategy: tf.distribute.Strategy,
    choice: strategies.StrategyChoice,
    names: Sequence[str],
    seed: int | None,
) -> Session:
    heartbeat, stopping = (None, None) if place.line is None else (place.line.heartbeat, place.line.stopping)
    saving = contextlib.nullcontext if place.line is None else functools.partial(_saving, place.line)
    restoring = functools.partial(_spending, place.line, TimeKind.RESTORE)
    fits = FitRegistry(
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
    return Session(
        strategy=strategy,
        choice=choice,
        devices=tuple(names),
        index=place.index,
        num_workers=place.num_workers,
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
def _saving(line: LauncherLink) -> Iterator[None]:
    with line.heartbeat.saving(), line.account.spending(TimeKind.CHECKPOINT):
        yield


def _spending(line: LauncherLink | None, kind: TimeKind) -> contextlib.AbstractContextManager[None]:
    """Around what the ledger counts as a kind of its own."""
    return contextlib.nullcontext() if line is None else line.account.spending(kind)


def _install_repairs(
    place: WorkerContext, strategy: tf.distribute.Strategy, seed: int | None, fits: FitRegistry
) -> None:
    recorder = None if place.recording is None else Recorder(place.recording, place.index, strategy)
    tracer = None if place.trace is None else place.trace(strategy)
    follower = None
    if place.line is not None:
        meter = StepMeter()
        use_meter(strategy, meter)
        follower = TrainingMonitor(place.line.heartbeat, place.line.stopping, place.line.account, meter)
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
