"""A run from a config: strategy, data, model, fit, saved model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import keras

from tfdist import data
from tfdist.config import CompileConfig, RunConfig, load_config, resolve_callable
from tfdist.errors import ConfigError
from tfdist.launch.environment import Assignment
from tfdist.rundir import State, atomic
from tfdist.runtime.devices import DeviceRequest
from tfdist.training import session as sessions
from tfdist.training.callbacks import Progress, Record, metrics_line
from tfdist.training.failures import explained, is_raised_by_user
from tfdist.training.misfits import misfit
from tfdist.training.provenance import write_config
from tfdist.training.session import Session

_RESOLVED_BY_SHAPE = ("accuracy", "acc", "crossentropy", "ce")
"""Names that Keras resolves by the shapes of labels and predictions."""


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
        print(_opening(session, config), flush=True)
    inputs = _load_data(session, config)
    model = _build_model(session, config)
    progress = Progress(config.fit.epochs, inputs.samples)
    record = Record(session.run)
    _fit(model, inputs, config, [progress, record] if session.is_chief else [])
    session.heartbeat.enter(State.SAVING)
    if session.is_chief:
        with atomic.replacing(session.run.model_file) as temporary:
            model.save(temporary)
        print(_closing(session, config, inputs.samples, progress, record), flush=True)
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


def _build_model(session: Session, config: RunConfig) -> keras.Model:
    build = resolve_callable(config.model.build, "model.build")
    with session.strategy.scope():
        model = _call(build, config.model.args, "model.args")
        if not isinstance(model, keras.Model):
            raise ConfigError(
                f"model.build must name a function that returns a keras.Model. Received: {config.model.build}, which "
                f"returned {type(model).__name__}."
            )
        section = config.compile
        try:
            _check_names(section)
            model.compile(
                optimizer=keras.optimizers.get(_named(section.optimizer)),
                loss=_plain(section.loss),
                metrics=_metrics(section.metrics) or None,
                loss_weights=_plain(section.loss_weights),
            )
        except (ValueError, TypeError) as error:
            raise ConfigError(f"The section compile does not fit Keras: {_short(error)}.") from error
    return model


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


def _check_names(section: CompileConfig) -> None:
    """Looks up losses and metrics now: Keras would do it in the first step, as an error of its own."""
    for key, value, get in (
        ("compile.loss", section.loss, keras.losses.get),
        ("compile.metrics", _metrics(section.metrics), keras.metrics.get),
    ):
        for name in keras.tree.flatten(_plain(value)):
            if isinstance(name, str) and name not in _RESOLVED_BY_SHAPE:
                try:
                    get(name)
                except ValueError as error:
                    raise ConfigError(f"{key}: Keras knows no {name!r}. Expected a name of Keras's own.") from error


def _call(function: Callable[..., Any], args: Mapping[str, Any], key: str) -> Any:
    """Calls with a config's arguments. What the user's own code raises stays as it is, traceback and all."""
    try:
        return function(**args)
    except (TypeError, ValueError) as error:
        if is_raised_by_user(error):
            raise
        raise ConfigError(
            f"{key} does not fit {function.__module__}.{function.__qualname__}: {_short(error)}. Received: {dict(args)}"
        ) from error


def _short(error: Exception) -> str:
    """An error's text without its full stop; of a failed deserialization, which Keras retells, the reason alone."""
    return str(error).rpartition("Exception encountered: ")[2].strip().rstrip(".")


def _named(value: Any) -> Any:
    """A Keras identifier: a name, or `{name: adam, learning_rate: 0.1}` as Keras writes a config."""
    if isinstance(value, str):
        return value
    arguments = dict(value)
    return {"class_name": arguments.pop("name"), "config": arguments}


def _metrics(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: [_metric(item) for item in _as_list(items)] for key, items in value.items()}
    return [_metric(item) for item in value]


def _metric(value: Any) -> Any:
    return value if isinstance(value, str) else keras.metrics.get(_named(value))


def _as_list(value: Any) -> list[Any]:
    return [value] if isinstance(value, str | Mapping) else list(value)


def _plain(value: Any) -> Any:
    """A list or dict of Keras's own kind from the config's read-only one."""
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, list | tuple) else value


def _opening(session: Session, config: RunConfig) -> str:
    return f"{config.name}: training on {describe(session)}; run directory {session.run}"


def _closing(session: Session, config: RunConfig, samples: int, progress: Progress, record: Record) -> str:
    last = {name: values[-1] for name, values in record.history.items()}
    return "\n".join(
        (
            f"{config.name}: done, {config.fit.epochs} epochs of {samples:,} samples",
            f"  on       {describe(session)}",
            f"  speed    {progress.samples_per_second:,.0f} samples/s",
            f"  metrics  {metrics_line(last)}",
            f"  model    {session.run.model_file}",
        )
    )


def describe(session: Session) -> str:
    """`2 workers, 2 replicas (MultiWorkerMirroredStrategy, ring)`."""
    replicas = session.strategy.num_replicas_in_sync
    kind = "GPU" if session.devices[0].startswith("/device:GPU") else "CPU"
    if session.choice.kind == "one":
        return f"1 replica on one {kind}"
    workers = f"{session.num_workers} workers, " if session.num_workers > 1 else ""
    strategy = "MultiWorkerMirroredStrategy" if session.choice.kind == "multi_worker" else "MirroredStrategy"
    return f"{workers}{replicas} replicas on {kind}s ({strategy}, {session.choice.communication})"
