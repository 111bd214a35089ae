"""A run from a config: strategy, data, model, fit, saved model.

Reports of a run's progress to the launcher, from a thread of their own: no step waits for them.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import keras

from tfdist import data
from tfdist.checkpoint import CheckpointSummary, SavePolicy
from tfdist.config import RunConfig, to_dict
from tfdist.keras_repairs.files.training_state import build
from tfdist.keras_repairs.sharding_policies.full_state import take_part
from tfdist.launch.environment import Assignment
from tfdist.launch.run_progress import RunProgress
from tfdist.launch.worker.config_handover import receive_config
from tfdist.order.epoch_order import num_steps
from tfdist.order.epoch_span import Position
from tfdist.rundir import State, atomic_files
from tfdist.rundir.run_dir_creation import restore_run_dir
from tfdist.rundir.state_records import completion_text, note_completion
from tfdist.runtime.devices import replica_kernels, used_memory
from tfdist.runtime.strategy_settings import settings_of, waited_for_data
from tfdist.training.checkpoints.resume_files import (
    note_resume,
    warn_of_another_teacher,
    warn_of_other_kernels,
)
from tfdist.training.config_objects.objects import ConfigObjects, checked_objects
from tfdist.training.config_objects.sample_shapes import naming_misfits
from tfdist.training.config_run.epoch_progress import EpochSize, ProgressCallback, progress_of
from tfdist.training.config_run.run_resume import (
    RunCheckpointCallback,
    RunStart,
    check_same_order,
    epoch_span,
    find_run_start,
    was_stopped,
)
from tfdist.training.config_run.run_summary import end_summary, start_summary
from tfdist.training.libraries import versions
from tfdist.training.provenance import write_config
from tfdist.training.run_record_callback import RunRecordCallback
from tfdist.training.session import current_session as sessions
from tfdist.training.session.session import LaunchedSession
from tfdist.training.session.session_description import Announce, announcer
from tfdist.training.supervision.stop_requests import saved_words
from tfdist.training.weights_file import load_initial_weights

_log = logging.getLogger("tfdist")
REPORT_SECONDS = 0.25
"""Between two reports."""

_JOIN_SECONDS = 5.0
"""Seconds that the end of a training waits for the last report."""

Tell = Callable[[Mapping[str, Any] | None], None]


def run_config(assignment: Assignment) -> None:
    """Trains what the assignment's config describes; the chief writes the run directory and prints.

    Raises:
        ConfigError: The config names something that does not exist or does not fit.
        DataError: The data cannot be read or does not fit the model.
        RunDirError: The run directory cannot be written.
    """
    config, document = receive_config(assignment.config_fd)
    request = replace(sessions.requested_devices(assignment), memory_growth=config.devices.memory_growth)
    session = sessions.start(assignment, request)
    keras.config.set_dtype_policy(config.precision)
    announce = announcer(quiet=assignment.quiet)
    start = find_run_start(session, assignment, config)
    if start.is_done:
        if session.is_chief:
            announce(completion_text(config.name, config.fit.epochs, session.run))
        return
    settings_of(session.strategy).gather = config.gather
    # Before any data is read: what is wrong with the config takes seconds to find, and data may take minutes.
    made = checked_objects(config, session.strategy, document)
    if session.is_chief:
        write_config(session, config)
        announce(start_summary(session, config, start))
        if start.resumed is not None:
            note_resume(
                session.run,
                start.resumed,
                workers=session.num_workers,
                replicas=session.strategy.num_replicas_in_sync,
                attempt=assignment.attempt,
            )
            warn_of_other_kernels(start.resumed, replica_kernels())
            warn_of_another_teacher(start.resumed, made.teacher)
    _train(session, config, start, made, announce)


def _train(
    session: LaunchedSession, config: RunConfig, start: RunStart, made: ConfigObjects, announce: Announce
) -> None:
    """From the data to the saved model."""
    model, inputs = made.model, _load_data(session, config, start.position, made)
    resumed = start.resumed
    if resumed is not None:
        check_same_order(resumed, samples=inputs.samples, order=inputs.order)
        build(model, inputs.train)
        session.activity.resume(resumed.last_epoch, resumed.total)
    elif config.model.weights is not None:
        load_initial_weights(model, config.model.weights, inputs.train, session.strategy)
    span = epoch_span(config, inputs.samples)
    progress = ProgressCallback(
        config.fit.epochs, span, start.position.step, lambda: waited_for_data(session.strategy), announce
    )
    restore = functools.partial(_restore_run_dir, session, config)
    record = RunRecordCallback(session.run, None if resumed is None else resumed.record, restore)
    checkpoint_callback = _checkpoint_callback(session, config, inputs, start, record, made)
    session.stop_requests.at_stop(
        lambda: saved_words(checkpoint_callback.save_now(), checkpoint_callback.why_not_saved)
    )
    # The config's first: what they add to an epoch's values is in its record.
    callbacks = [*made.callbacks, *([progress, record] if session.is_chief else []), checkpoint_callback]
    with _reporting(session, config, inputs, progress):
        _fit(model, inputs, config, start, callbacks)
    session.activity.enter(State.SAVING)
    if session.is_chief:
        if restore():
            record.write()
        with atomic_files.replacing(session.run.model_file) as temporary:
            model.save(temporary)
        note_completion(session.run, config.fit.epochs, record.epochs)
        announce(end_summary(session, config, inputs.samples, progress, record))
    else:
        take_part(model)


def _reporting(
    session: LaunchedSession, config: RunConfig, inputs: _Inputs, callback: ProgressCallback
) -> contextlib.AbstractContextManager[None]:
    """While entered, the chief tells its launcher how far the run is."""
    if not session.is_chief or session.tell_progress is None:
        return contextlib.nullcontext()
    size = EpochSize(
        epochs=config.fit.epochs,
        steps=len(epoch_span(config, inputs.samples)),
        validation_steps=num_steps(inputs.validation_samples, config.data.batch_size) or None,
    )
    memory = functools.partial(used_memory, session.devices)

    def progress() -> RunProgress | None:
        state, activity = callback.state, session.activity.snapshot()
        if state is None:
            return None
        return progress_of(size, state, activity, callback.running_wait(), time.perf_counter(), memory)

    return reporting(progress, session.tell_progress)


def _restore_run_dir(session: LaunchedSession, config: RunConfig) -> bool:
    """Makes the run directory again where it was removed: what was trained for hours is saved all the same."""
    was_gone = restore_run_dir(session.run, name=config.name)
    if was_gone:
        text = "The run directory %s was removed or renamed while the run goes on. It is made again, for what comes now"
        _log.warning(f"{text}; logs, events and checkpoints from before are not in it.", session.run)
        write_config(session, config)
    return was_gone


def _checkpoint_callback(
    session: LaunchedSession,
    config: RunConfig,
    inputs: _Inputs,
    start: RunStart,
    record: RunRecordCallback,
    made: ConfigObjects,
) -> RunCheckpointCallback:
    """The callback that makes the checkpoints; a run that is stopped before its end calls its `save_now`."""
    section = config.checkpoint
    base_summary = CheckpointSummary(
        epoch=0,
        step=0,
        total=0,
        seed=session.seed,
        batch_size=config.data.batch_size,
        samples=inputs.samples,
        workers=session.num_workers,
        replicas=session.strategy.num_replicas_in_sync,
        time=0.0,
        config=to_dict(config),
        versions=versions(),
        order=inputs.order,
        job=session.job,
        kernels=replica_kernels(),
        teacher=made.teacher,
    )
    return RunCheckpointCallback(
        start.checkpoints,
        SavePolicy(section.every_steps, section.every_minutes and section.every_minutes * 60.0),
        base_summary,
        len(epoch_span(config, inputs.samples)),
        lambda: record.state,
        start.resumed,
        session.strategy,
        session.saving,
        made.callbacks,
    )


@dataclass(frozen=True)
class _Inputs:
    train: Any
    validation: Any
    validation_samples: int
    samples: int
    order: Mapping[str, Any]


def _load_data(session: LaunchedSession, config: RunConfig, position: Position, made: ConfigObjects) -> _Inputs:
    section, kept = config.data, None if made.lesson is None else made.lesson.kept
    train = data.from_config(
        section.train,
        section.batch_size,
        session.seed,
        session.strategy,
        "data.train",
        position,
        # Not by fit: it weights no data of several replicas, and takes weights of all classes only.
        config.fit.class_weight,
        config.fit.steps_per_epoch,
        None if kept is None else kept.open_companion,
    )
    validation, validation_samples = None, 0
    if section.validation is not None:
        # Where it is shuffled, each evaluation has an order of its own: the next is the one that it would have had.
        evaluated = sum(config.fit.validates_after(epoch) for epoch in range(position.epoch))
        opened = data.from_config(
            section.validation,
            section.batch_size,
            session.seed,
            session.strategy,
            "data.validation",
            Position(evaluated),
        )
        validation, validation_samples = opened.batches, opened.samples
    return _Inputs(train.batches, validation, validation_samples, train.samples, train.order)


def _fit(
    model: keras.Model,
    inputs: _Inputs,
    config: RunConfig,
    start: RunStart,
    callbacks: list[keras.callbacks.Callback],
) -> None:
    section = config.fit
    datasets = {"data.train": inputs.train, "data.validation": inputs.validation}
    with naming_misfits(model, config.compile.loss, datasets):
        model.fit(
            inputs.train,
            validation_data=inputs.validation,
            validation_freq=section.validation_freq,
            epochs=section.epochs,
            # Nothing is left to train, and callbacks end it once more, as with the weights of the best epoch.
            initial_epoch=section.epochs if was_stopped(start.resumed) else start.position.epoch,
            callbacks=callbacks,
            shuffle=False,
            verbose=0,
        )


@contextlib.contextmanager
def reporting(
    progress: Callable[[], RunProgress | None], tell: Tell, seconds: float = REPORT_SECONDS
) -> Iterator[None]:
    """Reports progress while entered, and then that the training has ended.

    Args:
        progress: How far the run is now; None where there is nothing to report. Called in another thread.
        tell: Passes it on; must not wait.
        seconds: Between two reports.
    """
    over = threading.Event()

    def report() -> None:
        is_over = False
        while not is_over:
            is_over = over.wait(seconds)
            now = progress()
            if now is not None:
                tell(now.to_dict())

    thread = threading.Thread(target=report, name="tfdist-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(_JOIN_SECONDS)
        tell(None)
