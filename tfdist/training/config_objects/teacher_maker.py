"""The teacher of a config's `fit.distill`: found by the chief alone, loaded on every worker, and never trained."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from tfdist.checkpoint.inspection.model_choice import choose_model
from tfdist.config import RunConfig, resolve_callable, to_dict
from tfdist.config.distill_section import DistillConfig
from tfdist.config.field_errors import FieldError, dotted, shown
from tfdist.config.section import build as build_section
from tfdist.data.format_registry import sample_specs
from tfdist.data.sample_source import ArraySpec
from tfdist.errors import TfdistError
from tfdist.keras_repairs.files.training_state import build
from tfdist.runtime.collectives.chief_broadcast import text_from_chief
from tfdist.runtime.random_state import kept
from tfdist.runtime.workers import worker_rank
from tfdist.training.config_objects.call_arguments import call
from tfdist.training.config_objects.trained_model import TrainedModel, load_trained
from tfdist.training.weights_file import digest_of

KEY = "fit.distill.teacher"

_UNBUILT = (
    "it has no variables before it has seen data, and what data.train has is not known before it is read. Expected a "
    "model with a keras.Input"
)


def make_teacher(
    section: DistillConfig, values: Mapping[str, Any], strategy: tf.distribute.Strategy
) -> tuple[keras.Model, str]:
    """The teacher, and what tells it from others; all workers call it together.

    What is random in the model that learns from it stays what it would be without.

    Args:
        section: The section.
        values: The values of the config that are valid, by dotted key.
        strategy: The strategy in force.

    Returns:
        The teacher, and a digest of its file; empty for one that code makes.

    Raises:
        FieldError: There is no such teacher, or it cannot be loaded.
        FieldErrors: Several of its arguments are wrong.
    """
    digest = ""
    with kept():
        if isinstance(section.teacher, str):
            teacher, digest = _loaded(section.teacher, section.checkpoint, values, strategy)
        else:
            with strategy.scope():
                teacher = _made(section.teacher)
            if not teacher.built:
                raise FieldError(KEY, f"{_UNBUILT}. Received: {shown(section.teacher)}")
    teacher.trainable = False
    return teacher, digest


def _made(value: Mapping[str, Any]) -> keras.Model:
    if "build" in value:
        function, args = resolve_callable(value["build"], dotted(KEY, "build")), value.get("args", {})
        model = call(function, args, dotted(KEY, "args"))
    else:
        args = {name: argument for name, argument in value.items() if name != "name"}
        model = call(_registered(value["name"]), args, KEY)
    if not isinstance(model, keras.Model):
        raise FieldError(KEY, f"expected what makes a keras.Model. Received: {shown(value)}, a {type(model).__name__}")
    return model


def _registered(name: str) -> Any:
    found = keras.saving.get_registered_object(name)
    if found is None:
        raise FieldError(
            dotted(KEY, "name"),
            "nothing is registered under this name. Expected that of a class or a function which "
            "keras.saving.register_keras_serializable has registered, such as mine>Teacher, in a module that "
            f"model.build imports; or {{build: my.module.teacher}}. Received: {name}",
        )
    return found


def _loaded(
    place: str, checkpoint: str | None, values: Mapping[str, Any], strategy: tf.distribute.Strategy
) -> tuple[keras.Model, str]:
    try:
        trained, digest = _found_by_chief(place, checkpoint, strategy)
        return load_trained(trained, strategy, lambda model: _build(model, values), compiles=False), digest
    except FieldError:
        raise
    except TfdistError as error:
        raise FieldError(KEY, str(error)) from error


def _found_by_chief(place: str, checkpoint: str | None, strategy: tf.distribute.Strategy) -> tuple[TrainedModel, str]:
    """Returns where the chief finds the teacher, and its file's digest: the other workers' machines need not have
    it."""
    found = json.loads(text_from_chief(_found(place, checkpoint) if worker_rank(strategy) == 0 else "", strategy))
    if "error" in found:
        raise FieldError(KEY, found["error"])
    config = None if found["config"] is None else build_section(RunConfig, found["config"])
    by = "by a module that model.build imports"
    advice = "Let its code be that of its training, or choose another by fit.distill.checkpoint."
    return TrainedModel(found["file"], found["shown"], config, by, advice), found["digest"]


def _found(place: str, checkpoint: str | None) -> str:
    try:
        chosen = choose_model(place, checkpoint, named_by="fit.distill.checkpoint")
        digest = digest_of(chosen.file)
    except (TfdistError, OSError) as error:
        return json.dumps({"error": str(error)})
    config = None if chosen.is_whole or chosen.config is None else to_dict(chosen.config)
    return json.dumps({"file": chosen.file, "shown": chosen.shown, "config": config, "digest": digest})


def _build(model: keras.Model, values: Mapping[str, Any]) -> None:
    """Builds a teacher without an Input by what the headers of the training's data say."""
    source = values.get("data.train")
    specs = None if source is None else sample_specs(source)
    if specs is None:
        raise FieldError(KEY, f"{_UNBUILT}. Received: {type(model).__name__}")
    signature = (_spec(specs.x), _spec(specs.y))
    build(model, tf.data.Dataset.from_generator(lambda: iter(()), output_signature=signature))


def _spec(spec: ArraySpec | Mapping[str, ArraySpec]) -> Any:
    if isinstance(spec, Mapping):
        return {name: _spec(entry) for name, entry in spec.items()}
    return tf.TensorSpec((None, *spec.shape), spec.dtype)
