"""The teacher of a config's `fit.distill`: a model that every worker loads, or outputs that one has left."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from tfdist.checkpoint.inspection.model_choice import choose_model
from tfdist.config import RunConfig, SourceConfig, resolve_callable, to_dict
from tfdist.config.field_errors import FieldError, dotted, shown
from tfdist.config.section import build as build_section
from tfdist.config.training_sections import DistillConfig
from tfdist.data.format_registry import open_source, sample_specs
from tfdist.data.sample_feed import Companion
from tfdist.data.sample_source import ArraySpec, SampleSource, SequentialSource
from tfdist.errors import DataError, TfdistError
from tfdist.keras_repairs.distillation.distilled_loss import LABELS, TEACHER
from tfdist.keras_repairs.files.training_state import build
from tfdist.runtime.collectives.chief_broadcast import text_from_chief
from tfdist.runtime.random_state import kept
from tfdist.runtime.workers import worker_rank
from tfdist.training.config_objects.object_maker import call
from tfdist.training.config_objects.trained_model import TrainedModel, load_trained
from tfdist.training.inference.outputs.kept_outputs import MANIFEST_FILE, KeptOutputs, identity
from tfdist.training.weights_file import digest_of

OUTPUTS_KEY = "fit.distill.teacher.outputs"

_BY_NUMBER = "kept outputs are found by the number of each sample"
_LIVE = "or name the teacher itself instead of its outputs"


class KeptTeacher:
    """The kept outputs of a teacher: what it has said of the samples of a training.

    Args:
        section: The section that names the folder of its outputs.
        values: The values of the config that are valid, by dotted key.

    Attributes:
        kept: What the folder has.
        digest: Of its manifest.

    Raises:
        FieldError: There are no such outputs, or they cannot be those of the samples as the training takes them.
    """

    def __init__(self, section: DistillConfig, values: Mapping[str, Any]) -> None:
        assert section.outputs is not None, "the section names a folder"
        self._folder = Path(section.outputs)
        try:
            self.kept = KeptOutputs.read(self._folder)
            self.digest = digest_of(str(self._folder / MANIFEST_FILE))
        except (DataError, OSError) as error:
            raise FieldError(OUTPUTS_KEY, str(error)) from error
        self._data: SourceConfig | None = values.get("data.train")
        if self._data is not None:
            _check_samples(self._data)

    @property
    def shapes(self) -> dict[str, tuple[int | None, ...]]:
        """The shapes of the outputs, with the batch, by name."""
        return {column.name: (None, *column.shape) for column in self.kept.columns}

    def open_companion(self, samples: SampleSource) -> Companion:
        """Opens the outputs of the samples of a source.

        Raises:
            DataError: They are of other samples.
        """
        self._check_same(samples)
        outputs = open_source(self.kept.section(self._folder), OUTPUTS_KEY)
        single = self.kept.columns[0].name if len(self.kept.columns) == 1 else None

        def join(batch: Any, more: Any) -> Any:
            x, y, *weights = batch
            said, _ = more
            return (x, {LABELS: y, TEACHER: said if single is None else {single: said}}, *weights)

        return Companion(outputs, join)

    def _check_same(self, samples: SampleSource) -> None:
        if isinstance(samples, SequentialSource) and samples.lanes is not None:
            raise DataError(
                f"{OUTPUTS_KEY}: {_BY_NUMBER}, and data.train can only be read in sequence. Expected files that are "
                f"read in any order: local and not compressed. Make shards of them (`tfdist data shard`), {_LIVE}."
            )
        found, data = samples.fingerprint(), identity(self._data) if self._data is not None else self.kept.data
        same = (len(samples), found.checksum, data) == (self.kept.samples, self.kept.checksum, dict(self.kept.data))
        if not same:
            raise DataError(
                f"{OUTPUTS_KEY}: {self._folder} has the outputs of {self.kept.model} for other data: "
                f"{self.kept.samples:,} samples, {_shown(self.kept.data)}. Expected those of data.train: {found}, "
                f"{_shown(data)}. Make them with `tfdist data predict MODEL --data CONFIG.yaml:train -o DIR`, with "
                "this config."
            )


def _check_samples(section: SourceConfig) -> None:
    """Checks that the training takes the samples as they lie."""
    if section.augment is not None:
        raise FieldError(
            dotted("data.train", "augment"),
            f"expected none beside {OUTPUTS_KEY}: a teacher has seen the samples as they lie. Leave it out, {_LIVE}. "
            f"Received: {section.augment}",
        )
    if section.sharding == "none":
        raise FieldError(
            dotted("data.train", "sharding"),
            f"expected auto beside {OUTPUTS_KEY}: {_BY_NUMBER}, and each worker would count its own. Give all workers "
            f"the same files, {_LIVE}. Received: none",
        )


def _shown(data: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}: {value}" for key, value in data.items() if value is not None)


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
