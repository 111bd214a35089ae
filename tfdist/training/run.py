"""A run from a config: strategy, data, model, fit, saved model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras

from tfdist import data
from tfdist.config import RunConfig, load_config
from tfdist.launch.environment import Assignment
from tfdist.rundir import State, atomic
from tfdist.runtime.devices import DeviceRequest
from tfdist.training import session as sessions
from tfdist.training.building import build_model
from tfdist.training.callbacks import Progress, Record
from tfdist.training.failures import explained
from tfdist.training.misfits import misfit
from tfdist.training.provenance import write_config
from tfdist.training.session import Session
from tfdist.training.summary import closing, opening


def run_config(assignment: Assignment) -> None:
    """Trains what the assignment's config describes; the chief writes the run directory and prints.

    Raises:
        ConfigError: The config names something that does not exist or does not fit.
        DataError: The data cannot be read or does not fit the model.
        RunDirError: The run directory cannot be written.
    """
    config = load_config(assignment.target, assignment.overrides)
    session = sessions.start(assignment, _device_request(assignment, config))
    keras.config.set_dtype_policy(config.precision)
    if session.is_chief:
        write_config(session, config)
        print(opening(session, config), flush=True)
    inputs = _load_data(session, config)
    model = build_model(config, session.strategy)
    progress = Progress(config.fit.epochs, inputs.samples)
    record = Record(session.run)
    _fit(model, inputs, config, [progress, record] if session.is_chief else [])
    session.heartbeat.enter(State.SAVING)
    if session.is_chief:
        with atomic.replacing(session.run.model_file) as temporary:
            model.save(temporary)
        print(closing(session, config, inputs.samples, progress, record), flush=True)
    session.heartbeat.enter(State.FINISHED)


@dataclass(frozen=True)
class _Inputs:
    train: Any
    validation: Any
    samples: int


def _device_request(assignment: Assignment, config: RunConfig) -> DeviceRequest:
    """The command line's wishes before the config's."""
    return DeviceRequest(
        gpus=assignment.devices,
        logical=assignment.logical_devices or config.devices.logical,
        memory_limit=assignment.memory_limit or config.devices.memory_limit,
        memory_growth=config.devices.memory_growth,
        local_rank=assignment.local_rank,
        local_size=assignment.local_size,
    )


def _load_data(session: Session, config: RunConfig) -> _Inputs:
    section = config.data
    train, samples = data.from_config(section.train, section.batch_size, session.seed, session.strategy, "data.train")
    validation = None
    if section.validation is not None:
        validation, _ = data.from_config(
            section.validation, section.batch_size, session.seed, session.strategy, "data.validation"
        )
    return _Inputs(train, validation, samples)


def _fit(model: keras.Model, inputs: _Inputs, config: RunConfig, callbacks: list[keras.callbacks.Callback]) -> None:
    try:
        model.fit(
            inputs.train,
            validation_data=inputs.validation,
            epochs=config.fit.epochs,
            callbacks=callbacks,
            shuffle=False,
            verbose=0,
        )
    except Exception as error:
        if explained(error) is not None:
            raise
        datasets = {"data.train": inputs.train, "data.validation": inputs.validation}
        reason = misfit(model, config.compile.loss, datasets)
        if reason is None:
            raise
        raise reason from error
