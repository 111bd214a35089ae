"""Sets up a session: devices, strategy, seed, the repairs of Keras and their listeners.

The memory that a worker's devices have for a training, and which workers have it together.

Start of the cluster: reports that this worker waits for the others, and bounds the wait.

Until every worker has joined, TensorFlow's `context.ensure_initialized` holds Python's lock in native code and waits
for up to an hour (seen with TensorFlow 2.21): no Python thread of this process can watch it. So others do: the
launcher, which is told beforehand how long it may take; the kernel, where the launcher is gone; and last, a C thread.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import faulthandler
import functools
import logging
import secrets
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfdist import keras_repairs
from tfdist.cluster.cluster_spec import Cluster
from tfdist.launch.environment import Assignment, check_environment, read_gpu_emulation
from tfdist.launch.worker_requests import RecordingRequest, RehearsalRequest
from tfdist.plan.memory.host_memory import most_memory
from tfdist.plan.memory.state_check import SharedMemorySize
from tfdist.rundir import RunDir
from tfdist.rundir.ledger_lines import TimeKind
from tfdist.runtime import devices
from tfdist.runtime import strategy as strategies
from tfdist.runtime.batches.host_feed.host_feed import HostFeed
from tfdist.runtime.collectives.decisions import broadcast
from tfdist.runtime.collectives.traced_progress import TracedProgress
from tfdist.runtime.devices import DeviceRequest, total_memory, workers_on_a_gpu
from tfdist.runtime.nccl_version import lets_workers_share_a_gpu, nccl_version
from tfdist.runtime.offload.offloading import offloading_of
from tfdist.runtime.random_state import run_seed
from tfdist.runtime.step_meter import StepMeter
from tfdist.runtime.strategy_settings import settings_of
from tfdist.sharding.group_sizes import check_group_sizes
from tfdist.sharding.sharding_mode import check_devices
from tfdist.training.checkpoints.checkpoint_options import options_of_start
from tfdist.training.checkpoints.fit_registry import FitRegistry
from tfdist.training.libraries import check_libraries, seed_all
from tfdist.training.probes.recorder import Recorder, devices_for, impose_settings
from tfdist.training.probes.tracer import Tracer
from tfdist.training.rehearsal import rehearsal
from tfdist.training.rehearsal.fit_planner import FitPlanner
from tfdist.training.script_results import ScriptResults
from tfdist.training.session.generated_code import keep_generated_code_apart, keep_generated_code_in
from tfdist.training.session.session import LaunchedSession, Session
from tfdist.training.session.session_description import describe
from tfdist.training.session.worker_context import LaunchedWorkerContext, WorkerContext, idle_options
from tfdist.training.supervision.launcher_link import LauncherLink
from tfdist.training.supervision.training_monitor import TrainingMonitor
from tfdist.training.supervision.watchdog import Watchdog

_log = logging.getLogger("tfdist")
_MIB = 1 << 20
_PR_SET_PDEATHSIG = 1
"""Linux: sets the signal that this process gets when the thread that started it ends."""


def set_up(context: WorkerContext, request: devices.DeviceRequest) -> Session:
    """Makes the session of a process that no launcher started.

    Call this function or `set_up_launched` once a process, before TensorFlow touches a device.

    Raises:
        UsageError: What was asked for does not fit this machine, or a variable would make the training wrong.
    """
    check_environment()
    check_libraries()
    keep_generated_code_apart()
    base = _make_strategy(context, request, None)
    seed = None
    if context.num_workers > 1:
        seed = int(broadcast(np.int64(secrets.randbits(31)), strategy=base.strategy))
        seed_all(seed)
    fit_registry = FitRegistry(base.strategy, None)
    keras_repairs.install(imposed_seed=seed, extra_callbacks=functools.partial(_callbacks_of, fit_registry, None))
    return Session(
        strategy=base.strategy,
        choice=base.choice,
        devices=base.devices,
        index=context.index,
        num_workers=context.num_workers,
        seed=seed,
        fit_registry=fit_registry,
    )


def set_up_launched(context: LaunchedWorkerContext, request: devices.DeviceRequest) -> LaunchedSession:
    """Makes the session of a worker that `tfdist train` started; see `set_up`.

    Raises:
        UsageError: What was asked for does not fit this machine.
    """
    check_libraries()
    assignment, link = context.assignment, context.link
    keep_generated_code_in(assignment.generated_code_dir)
    if assignment.recording is not None:
        request = _set_up_recording(assignment.recording, request, context.num_workers)
    base = _make_strategy(context, request, link)
    run_seed.value = assignment.seed
    seed_all(assignment.seed)
    restoring = functools.partial(link.activity.spending, TimeKind.RESTORE)
    fit_registry = FitRegistry(
        base.strategy,
        options_of_start(assignment),
        link.activity.saving,
        restoring,
        seed=assignment.seed,
        job=assignment.job,
        attempt=assignment.attempt,
        is_elastic=assignment.is_elastic,
        # A config's run saves what it trains itself.
        stop_requests=None if assignment.target_kind == "config" else link.stop_requests,
        activity=link.activity,
    )
    saves = assignment.saves_results and assignment.target_kind in ("script", "module")
    run = RunDir(Path(assignment.run_dir))
    activity = link.activity
    results = ScriptResults(run, base.strategy, activity.saving, lambda: activity.snapshot().calls) if saves else None
    _install_repairs(assignment, link, base, fit_registry, results)
    return LaunchedSession(
        strategy=base.strategy,
        choice=base.choice,
        devices=base.devices,
        index=context.index,
        num_workers=context.num_workers,
        seed=assignment.seed,
        fit_registry=fit_registry,
        job=assignment.job,
        run=run,
        results=results,
        activity=link.activity,
        stop_requests=link.stop_requests,
        saving=link.activity.saving,
        restoring=restoring,
        tell_progress=None if link.channel is None else link.channel.progress,
    )


def _set_up_recording(
    recording: RecordingRequest, request: devices.DeviceRequest, workers: int
) -> devices.DeviceRequest:
    """Gives a recorded run compilation and precision of its own; returns the devices that it has instead."""
    impose_settings(recording)
    seen = len(tf.config.list_physical_devices("GPU")) or request.emulated or 0
    return devices_for(request, recording.replicas, workers, seen)


@dataclass(frozen=True)
class _Base:
    """The part of a session that decides where it computes."""

    strategy: tf.distribute.Strategy
    choice: strategies.StrategyChoice
    devices: tuple[str, ...]
    num_workers: int


def _make_strategy(context: WorkerContext, request: devices.DeviceRequest, link: LauncherLink | None) -> _Base:
    """Configures the devices, makes the strategy, with several workers once all have joined, and installs it."""
    names = devices.apply(request, workers=context.num_workers)
    which = f"{len(names)} devices in one worker: {', '.join(names)}"
    options = context.options
    check_devices(options.shard, len(names), which, options.shard_embeddings, options.offload)
    check_group_sizes(tensor=options.tensor, context=options.context, devices=len(names), which=which)
    choice = strategies.choose(
        names,
        workers=context.num_workers,
        logical=(request.logical or 1) > 1,
        communication=options.communication,
        compression=options.compression,
        linked=len(context.links[0].linked) if context.links else 1,
        emulates_nccl=read_gpu_emulation().nccl,
        nccl_shares_gpu=lets_workers_share_a_gpu(nccl_version()) if request.share_gpu else None,
    )
    if context.index == 0:
        _warn_of_idle_options(context, request, names)
    several = context.num_workers > 1
    with (
        contextlib.nullcontext() if link is None else link.activity.spending(TimeKind.FORMING),
        forming(context.index, context.cluster, context.timeout(), link) if several else contextlib.nullcontext(),
    ):
        strategy, choice = strategies.make(
            choice, names, addresses=context.addresses, index=context.index, links=context.links
        )
    devices.keep_nan()
    _log.info("strategy %s, collectives %s: %s", choice.kind, choice.communication, choice.reason)
    if context.feed_sockets:
        settings_of(strategy).feed = HostFeed(context.index, context.host_workers, context.feed_sockets)
    settings = settings_of(strategy)
    settings.memory_size = memory_of(context.index, request, names)
    settings.emulates_xla = read_gpu_emulation().xla
    settings.batch_norm, settings.jit = options.batch_norm, options.jit
    settings.strict, settings.check = options.strict, options.check
    settings.shard = options.sharding(context.hosts)
    settings.tensor, settings.context = options.tensor, options.context
    settings.shard_embeddings = options.shard_embeddings if several else None
    settings.offload = offloading_of(options.offload, context.scratch_folder)
    if several and options.compression != "none":
        settings.compression = tf.as_dtype(options.compression)
    if several:
        Watchdog(context.timeout, context.end).start()
    if choice.kind != "one":
        strategies.use_everywhere(strategy)
    return _Base(strategy, choice, tuple(names), context.num_workers)


def _warn_of_idle_options(context: WorkerContext, request: devices.DeviceRequest, names: Sequence[str]) -> None:
    shares = request.share_gpu and request.emulated is None
    options = dataclasses.replace(context.options, memory_limit=request.memory_limit, share_gpu=shares)
    for text in idle_options(options, workers=context.num_workers, on_gpus=names[0].startswith("/device:GPU")):
        _log.warning(text)


def _callbacks_of(
    fit_registry: FitRegistry, results: ScriptResults | None, given: Sequence[Any] | None
) -> list[keras.callbacks.Callback]:
    """The callbacks that a call with the callbacks `given` gets besides: of a `fit`; None stands for other calls."""
    if given is None:
        return []
    if results is None:
        return fit_registry.callbacks_for(given)
    record = results.record_for(given)
    kept = results.callbacks_for(given)
    # An epoch's checkpoint has its record, and the model is saved as all others have left it.
    return [*([] if record is None else [record]), *fit_registry.callbacks_for(given, record), *kept]


def _watch_collectives(link: LauncherLink, strategy: tf.distribute.Strategy) -> None:
    """Has the launcher told of the collectives that the script calls."""
    progress, settings = TracedProgress(), settings_of(strategy)
    settings.exchanging, settings.traced_progress = link.activity.exchanging, progress
    link.activity.watch_traced(progress.read)


def _install_repairs(
    assignment: Assignment,
    link: LauncherLink,
    base: _Base,
    fit_registry: FitRegistry,
    results: ScriptResults | None,
) -> None:
    strategy, asked = base.strategy, assignment.rehearsal
    meter = StepMeter()
    settings_of(strategy).meter = meter
    _watch_collectives(link, strategy)
    monitor = TrainingMonitor(link.activity, link.stop_requests, meter)
    recorder: Recorder | Tracer | None = None
    planner: FitPlanner | None = None
    if assignment.recording is not None:
        recorder = Recorder(assignment.recording, assignment.index, strategy)
    elif assignment.trace is not None:
        recorder = Tracer(assignment.trace, assignment, link.activity, strategy)
    elif asked is not None and asked.plans:
        planner = FitPlanner(asked, assignment, link.activity, strategy, base.devices, describe(base))
    probe, fingerprints = recorder or planner, None if recorder is None else recorder.fingerprints

    def extra(given: Sequence[Any] | None) -> list[keras.callbacks.Callback]:
        # A recorded run saves nothing, and neither does one that is planned.
        is_kept = assignment.recording is None and planner is None
        own = _callbacks_of(fit_registry, results, given) if is_kept else []
        return [monitor.callback(), *([] if probe is None else [probe.callback()]), *own]

    keras_repairs.install(
        listener=monitor,
        imposed_seed=assignment.seed,
        extra_callbacks=extra,
        on_batch=None if fingerprints is None else fingerprints.on_batch,
        on_gradients=None if fingerprints is None else fingerprints.on_gradients,
        **({} if asked is None else _rehearsing(asked)),
    )
    if planner is not None:
        planner.refuse_other_trainings()


def _rehearsing(request: RehearsalRequest) -> dict[str, Any]:
    """Returns how the repairs differ in a rehearsal."""
    rehearsal.begin(request)
    chosen = functools.partial(rehearsal.chosen_callbacks, request)
    return {"chosen_callbacks": chosen, "most_epochs": None if request.plans else 1}


def memory_of(index: int, request: DeviceRequest, names: Sequence[str]) -> SharedMemorySize:
    """The memory in which a worker's replicas have what they train.

    Where it is not sure which memory that is, the larger one is told.

    Args:
        index: The worker's.
        request: The devices that it asked for.
        names: The devices of its replicas.
    """
    here = _of_host(index, request, copies=len(names))
    if names[0].startswith("/device:GPU"):
        if request.memory_limit is not None:
            limit = request.memory_limit * _MIB
            return SharedMemorySize(limit, "a device as --memory-limit has it", (index,), host=here)
        gpus = len(tf.config.list_physical_devices("GPU"))
        known = [total_memory(number) for number in range(gpus)]
        size = max((found for found in known if found is not None), default=None)
        sharing = workers_on_a_gpu(gpus if request.gpus is None else len(request.gpus), request)
        return SharedMemorySize(
            size, "a GPU of this host", (index,), copies=(request.logical or 1) * sharing, host=here
        )
    return here


def _of_host(index: int, request: DeviceRequest, copies: int) -> SharedMemorySize:
    first = index - request.local_rank
    # Workers that do not share their cores may be in control groups of their own.
    is_shared = request.sharing in (None, request.local_size) and first >= 0
    workers = tuple(range(first, first + request.local_size)) if is_shared else (index,)
    return SharedMemorySize(most_memory(), "this host, its limits and swap included,", workers, copies=copies)


@contextlib.contextmanager
def forming(index: int, cluster: Cluster | None, seconds: float, link: LauncherLink | None) -> Iterator[None]:
    """Around the forming of a cluster of several workers.

    Args:
        index: This worker's index.
        cluster: All workers.
        seconds: How long it may take; see `bounded`.
        link: The connection to the launcher, which then says what is waited for; None without one.
    """
    if link is None:
        print(
            f"tfdist: worker {index} waits until all of {cluster} have joined, for {seconds:g} s at most. Each must "
            "reach every other on its port: `tfdist doctor --workers ...` finds out whether they do.",
            file=sys.stderr,
            flush=True,
        )
    with (
        contextlib.nullcontext() if link is None else link.heartbeat.forming(),
        bounded(seconds, has_launcher=link is not None and link.channel is not None),
    ):
        yield


@contextlib.contextmanager
def bounded(seconds: float, *, has_launcher: bool) -> Iterator[None]:
    """Ends the process if what is inside takes too long, even while native code holds Python's lock.

    Args:
        seconds: The bound, after which the process ends with exit code 1 and its stacks on stderr.
        has_launcher: Whether the parent of this process is its launcher: then the process ends when the parent does.
    """
    if sys.__stderr__ is not None:
        faulthandler.dump_traceback_later(seconds, exit=True, file=sys.__stderr__)
    if has_launcher:
        _end_with_parent(signal.SIGKILL)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        if has_launcher:
            _end_with_parent(0)


def _end_with_parent(number: int) -> None:
    """Asks the kernel for a signal when the parent ends; 0 for none. It does nothing on other systems than Linux."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
