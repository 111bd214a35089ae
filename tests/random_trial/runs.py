"""Runs the script of a draw on one replica and on several."""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import keras
import numpy as np

from tests.helpers.cli_process import tfdist
from tests.helpers.mirrored import checking, mirrored
from tests.random_trial.draw import Draw
from tests.random_trial.script import script_of
from tfdist.keras_repairs.first_step.checked_step import CheckedStep
from tfdist.keras_repairs.first_step.rounding_bounds import Finding

LOGICAL_CPUS = 4
WORKERS_BOUND = 200.0
"""Seconds that a job of two workers may take."""

Numbers = dict[str, np.ndarray]


class JobFailedError(Exception):
    """A job of several workers ended with an error, whose text this is."""


def of_one_replica(draw: Draw, nudge: tuple[float, int] | None = None) -> Numbers:
    """What the training gives under TensorFlow's default strategy; whatever the script raises is raised."""
    return _run_here(script_of(draw, nudge))


def of_several_replicas(draw: Draw) -> list[Numbers]:
    """What it gives on several replicas, of each worker; whatever the script raises is raised.

    Raises:
        JobFailedError: The draw is of workers, which failed.
        subprocess.TimeoutExpired: They took longer than their bound.
    """
    if draw.is_of_workers:
        return _run_on_workers(draw)
    with mirrored(draw.replicas).scope(), checking(mirrored(draw.replicas)), _unless_made_whole():
        return [_run_here(script_of(draw))]


class MadeWholeError(Exception):
    """The check of a first step has found a difference, and had the step run whole on every replica."""


@contextlib.contextmanager
def _unless_made_whole() -> Iterator[None]:
    """Raises where the code inside is right because of a check alone."""
    told: list[str] = []

    def refuse(step: CheckedStep, finding: Finding) -> None:
        told.append(str(finding))
        climb(step, finding)

    climb = CheckedStep._climb
    with mock.patch.object(CheckedStep, "_climb", refuse):
        yield
    if told:
        raise MadeWholeError("; ".join(told))


def _run_here(source: str) -> Numbers:
    _forget()
    with tempfile.TemporaryDirectory() as folder:
        # A file: TensorFlow and Keras ask for the source of functions.
        path = Path(folder) / "random_training.py"
        path.write_text(source, encoding="utf-8")
        spec = importlib.util.spec_from_file_location("random_training", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        try:
            return flat(module.run())
        finally:
            keras.config.set_floatx("float32")
            keras.config.set_dtype_policy("float32")
            _forget()


def _run_on_workers(draw: Draw) -> list[Numbers]:
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder) / "random_training.py", Path(folder) / "several"
        path.write_text(script_of(draw), encoding="utf-8")
        done = tfdist("train", "--nproc", draw.replicas, "--run-dir", Path(folder) / "run", path, out,
                      timeout=WORKERS_BOUND)  # fmt: skip
        if done.returncode != 0:
            raise JobFailedError(f"tfdist train ended with {done.returncode}:\n{done.stderr[-4000:]}")
        return [flat(json.loads(Path(f"{out}.{worker}").read_text())) for worker in range(draw.replicas)]


def _forget() -> None:
    keras.backend.clear_session(free_memory=False)
    gc.collect()


def flat(outcome: Any, path: str = "") -> Numbers:
    """The arrays of nested dicts and lists of numbers by their place."""
    if isinstance(outcome, dict):
        return {place: value for key in outcome for place, value in flat(outcome[key], f"{path}/{key}").items()}
    return {path: np.asarray(outcome, dtype="float64")}
