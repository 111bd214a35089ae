"""Summaries that a run from a config prints when it starts and when it ends.

The best epoch of a history.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from tfdist.config import RunConfig
from tfdist.config.data_sections import SourceConfig
from tfdist.rundir.state_records import trained_text
from tfdist.text import format_count, format_duration
from tfdist.training.checkpoints.resume_files import change_of, place_of
from tfdist.training.config_run.epoch_progress import ProgressCallback
from tfdist.training.config_run.input_report import InputWait, describe_input, remedy
from tfdist.training.config_run.run_resume import RunStart
from tfdist.training.metric_values import metrics_line
from tfdist.training.run_record_callback import RunRecordCallback
from tfdist.training.session.session import LaunchedSession
from tfdist.training.session.session_description import describe


def start_summary(session: LaunchedSession, config: RunConfig, start: RunStart) -> str:
    """Returns what a run prints first: what trains, on what, where it writes, and where it resumes if it does."""
    line = f"{config.name}: training on {describe(session)}; run directory {session.run}"
    resumed = start.resumed
    if resumed is None:
        return line
    change = change_of(resumed, session.strategy.num_replicas_in_sync)
    return f"{line}\n{config.name}: resumes {place_of(resumed)} from {start.path}{change}"


def end_summary(
    session: LaunchedSession, config: RunConfig, samples: int, progress: ProgressCallback, record: RunRecordCallback
) -> str:
    """Returns what a run prints last: on what it trained, how fast, with which metrics, and where everything is."""
    last = {name: values[-1] for name, values in record.history.items()}
    return "\n".join(
        (
            f"{config.name}: done, {trained_text(config.fit.epochs, record.epochs, _epoch_size(config, samples))}",
            f"  on       {describe(session)}",
            f"  time     {_took(session, record, progress)}",
            *_speed(progress),
            *_waiting(session, config.data.train, progress.wait),
            f"  metrics  {metrics_line(last)}",
            *(f"  best     {line}" for line in best_epoch(record.history, config.fit.validates_after)),
            f"  model    {session.run.model_file}",
            f"  files    {_files(session, config)}",
        )
    )


def _epoch_size(config: RunConfig, samples: int) -> str:
    steps = config.fit.steps_per_epoch
    return format_count(samples, "sample") if steps is None else format_count(steps, "step")


def _took(session: LaunchedSession, record: RunRecordCallback, progress: ProgressCallback) -> str:
    """Returns how long this process took, from its start on, and for which part of the run where it has resumed
    that."""
    seconds = format_duration(session.activity.age)
    is_part = 0 < progress.first < record.epochs
    return f"{seconds}, epochs {progress.first + 1} to {record.epochs}" if is_part else seconds


def _speed(progress: ProgressCallback) -> Iterator[str]:
    """Yields how fast it was, unless nothing was left to train."""
    if progress.samples_per_second:
        yield f"  speed    {progress.samples_per_second:,.0f} samples/s"


def _files(session: LaunchedSession, config: RunConfig) -> str:
    elsewhere = config.checkpoint.directory
    checkpoints = "checkpoints/, " if elsewhere is None else ""
    also = "" if elsewhere is None else f"; checkpoints in {elsewhere}"
    return f"history.json, metrics.jsonl, events/, {checkpoints}logs/ in {session.run}{also}"


def _waiting(session: LaunchedSession, section: SourceConfig, wait: InputWait | None) -> Iterator[str]:
    """Yields how long steps waited for data, where that is worth a remedy."""
    if wait is not None and wait.is_much:
        gpus = sum(name.startswith("/device:GPU") for name in session.devices)
        advice = remedy(describe_input(section, gpus), wait)
        yield f"  input    {100 * wait.share:.0f} % of the steps' time waited for data. {advice}"


def best_epoch(
    history: Mapping[str, Sequence[float]], validated: Callable[[int], bool] = lambda epoch: True
) -> Iterator[str]:
    """`epoch 8, val_loss 0.0911`: the lowest loss of the validation, or without one of the training; else nothing.

    Args:
        history: Metric -> one float an epoch, of a validation for each epoch that had one.
        validated: Whether an epoch, counted from 0, was to have one.
    """
    name = next((name for name in ("val_loss", "loss") if name in history), "")
    numbers = (epoch for epoch in itertools.count() if name == "loss" or validated(epoch))
    values = zip(numbers, history.get(name, ()), strict=False)
    finite = {epoch: value for epoch, value in values if math.isfinite(value)}
    if finite:
        best = min(finite, key=lambda epoch: finite[epoch])
        yield f"epoch {best + 1}, {metrics_line({name: finite[best]})}"
