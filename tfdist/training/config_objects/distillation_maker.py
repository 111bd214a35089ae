"""The distillation that a config's `fit.distill` describes: a model is given a teacher, once the two fit.

Outputs of models for a distillation: their names and shapes, and whether they are logits or probabilities.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from tfdist.config import SourceConfig
from tfdist.config.field_errors import FieldError, dotted, shown
from tfdist.config.training_sections import DistillConfig
from tfdist.errors import DataError, UsageError
from tfdist.keras_repairs.distillation.distilled_loss import Distillation, SoftTerm, distill
from tfdist.keras_repairs.distillation.soft_targets import Kind, Softening, SoftTargets
from tfdist.keras_repairs.model_checks.model_facts import is_overridden
from tfdist.training.config_objects.object_maker import snake_case
from tfdist.training.config_objects.problems import Problems
from tfdist.training.config_objects.sample_shapes import misfit_of
from tfdist.training.config_objects.teachers import KEY, KeptTeacher, make_teacher
from tfdist.training.inference.outputs.step_outputs import Gives, gives, named_outputs, names_of

_CATEGORICAL = (
    "sparse_categorical_crossentropy",
    "categorical_crossentropy",
    "categorical_focal_crossentropy",
    "kl_divergence",
)
_BINARY = ("binary_crossentropy", "binary_focal_crossentropy")
_BY_SHAPE = ("crossentropy", "ce")
"""Names for which Keras takes the one for two classes where an output has one value."""

_EXPECTED = (
    f"expected beside fit.distill a loss that says whether the model gives logits or probabilities: one of "
    f"{', '.join((*_CATEGORICAL, *_BINARY))}, with from_logits: true for logits"
)


@dataclass(frozen=True)
class LabelLoss:
    """The description of an output by its loss.

    Attributes:
        kind: Which choice the output is.
        gives: What it is.
    """

    kind: Kind
    gives: Gives


def label_losses(model: keras.Model) -> dict[str, LabelLoss]:
    """Returns what the losses of a compiled model say of its outputs, by their names.

    Raises:
        FieldError: A loss takes neither logits nor probabilities.
    """
    losses = _losses_of(model)
    shapes = output_shapes(model) or {}
    return {name: _label_loss(loss, key, shapes.get(name)) for name, (loss, key) in losses.items()}


def _losses_of(model: keras.Model) -> dict[str, tuple[Any, str]]:
    """The loss of each output and its dotted key, by the output's name."""
    given, names = model.loss, list(names_of(model))
    if isinstance(given, Mapping):
        return {name: (loss, dotted("compile.loss", name)) for name, loss in given.items()}
    if isinstance(given, list | tuple):
        named = names if len(names) == len(given) else [f"output_{place}" for place in range(len(given))]
        return {
            name: (loss, dotted("compile.loss", str(place)))
            for place, (name, loss) in enumerate(zip(named, given, strict=True))
        }
    return {name: (given, "compile.loss") for name in (names if len(names) > 1 else ["output"])}


def _label_loss(loss: Any, key: str, shape: Sequence[int | None] | None) -> LabelLoss:
    name = loss if isinstance(loss, str) else _name_of(loss)
    if name in _BY_SHAPE:
        is_binary = shape is not None and shape[-1] == 1
        return LabelLoss("binary" if is_binary else "categorical", "probabilities")
    name = snake_case(_name_of(keras.losses.get(loss)) if isinstance(loss, str) else name)
    if name not in (*_CATEGORICAL, *_BINARY):
        raise FieldError(key, f"{_EXPECTED}. Received: {name}")
    axis = getattr(loss, "axis", -1)
    if axis not in (-1, len(shape or ()) - 1):
        raise FieldError(key, f"expected the classes along the last axis, beside fit.distill. Received: axis {axis}")
    gives: Gives = "logits" if getattr(loss, "from_logits", False) else "probabilities"
    return LabelLoss("binary" if name in _BINARY else "categorical", gives)


def _name_of(loss: Any) -> str:
    """The name of the class of Keras's that a loss is, or that of a function."""
    if not isinstance(loss, keras.losses.Loss):
        return str(getattr(loss, "__name__", type(loss).__name__))
    kinds = [kind for kind in type(loss).__mro__ if kind.__module__.startswith("keras.src.losses.losses")]
    known = [kind.__name__ for kind in kinds if snake_case(kind.__name__) in (*_CATEGORICAL, *_BINARY)]
    return known[0] if known else type(loss).__name__


def output_shapes(model: keras.Model) -> dict[str, tuple[int | None, ...]] | None:
    """The shapes of a model's outputs, with the batch, by name; None where the model does not say."""
    outputs, names = getattr(model, "outputs", None), names_of(model)
    if not outputs or (len(outputs) > 1 and len(outputs) != len(names)):
        return None
    named = names if len(outputs) > 1 else ["output"]
    return {name: tuple(value.shape) for name, value in zip(named, outputs, strict=True)}


@dataclass(frozen=True)
class Lesson:
    """The facts that a run has to know of the teacher of its model.

    Attributes:
        digest: What tells it from others; empty for one that code makes.
        kept: What it has said of the samples, which their batches are to bring; None where it says it itself.
    """

    digest: str
    kept: KeptTeacher | None = None


def add_distillation(
    model: keras.Model | None, values: Mapping[str, Any], strategy: tf.distribute.Strategy, problems: Problems
) -> Lesson | None:
    """Gives a model the teacher that a config names, where it names one. All workers call it together.

    Args:
        model: The compiled model; None where it cannot be made.
        values: The values of the config that are valid, by dotted key.
        strategy: The strategy in force.
        problems: Takes what is wrong.

    Returns:
        What is to be known of it; None where the config names none, or something is wrong.
    """
    section = values.get("fit.distill")
    if section is None or model is None or not model.compiled:
        return None
    lesson = None
    with problems.collecting():
        _check_steps(model)
        lesson = _taught(model, section, values, strategy)
    return lesson


def _taught(
    model: keras.Model, section: DistillConfig, values: Mapping[str, Any], strategy: tf.distribute.Strategy
) -> Lesson:
    # Before the teacher is loaded, which may take minutes.
    losses = label_losses(model)
    weights = _loss_weights(values.get("compile.loss_weights"), list(losses))
    if section.outputs is not None:
        kept = KeptTeacher(section, values)
        pair = _Pair(section, losses, weights, kept.shapes, kept.kept.gives.get)
        distill(model, pair.distillation(model, None))
        return Lesson(kept.digest, kept)
    teacher, digest = make_teacher(section, values, strategy)
    _check_inputs(teacher, values.get("data.train"))
    pair = _Pair(section, losses, weights, output_shapes(teacher), lambda name: gives(teacher, name))
    distill(model, pair.distillation(model, _outputs_of(teacher)))
    return Lesson(digest)


def _check_steps(model: keras.Model) -> None:
    own = next((name for name in ("train_step", "compute_loss") if is_overridden(model, name)), None)
    if own is not None:
        raise FieldError(
            "fit.distill",
            f"expected a model whose steps are Keras's. Received: {type(model).__name__}, which has a {own}() of its "
            "own. Compute the divergence from the teacher in it.",
        )


def _check_inputs(teacher: keras.Model, source: SourceConfig | None) -> None:
    """Checks that a teacher takes the samples of the training, as far as their headers tell."""
    problem = None
    # What is wrong with the data itself is found where the data is checked.
    with contextlib.suppress(DataError, UsageError):
        problem = None if source is None else misfit_of(teacher, source)
    if problem is not None:
        raise FieldError(KEY, f"data.train is not what the teacher takes: {problem}")


def _outputs_of(teacher: keras.Model) -> Callable[[Any], dict[str, Any]]:
    def outputs(x: Any) -> dict[str, Any]:
        return dict(named_outputs(teacher(x, training=False), names_of(teacher)))

    return outputs


@dataclass(frozen=True)
class _Pair:
    """A model's outputs, and a teacher's.

    Attributes:
        section: How the one is to learn the others.
        losses: What the losses say of the model's outputs.
        weights: The weights of these losses.
        shapes: Those of the teacher's outputs; None where they are not known yet.
        said: What the teacher gives as an output of a name; None where that is not known.
    """

    section: DistillConfig
    losses: Mapping[str, LabelLoss]
    weights: Mapping[str, float]
    shapes: Mapping[str, tuple[int | None, ...]] | None
    said: Callable[[str], str | None]

    def distillation(self, model: keras.Model, teacher: Callable[[Any], dict[str, Any]] | None) -> Distillation:
        """Returns how the model learns, once it is known to fit."""
        _check_shapes(output_shapes(model), self.shapes, shown(self.section.teacher))

        def named(values: Any) -> dict[str, Any]:
            return dict(named_outputs(values, names_of(model)))

        terms = {name: self._term(name, of_labels) for name, of_labels in self.losses.items()}
        return Distillation(self.section.alpha, terms, named, teacher)

    def _term(self, name: str, of_labels: LabelLoss) -> SoftTerm:
        found = self.section.teacher_gives if self.section.teacher_gives != "auto" else self.said(name)
        if found is None:
            raise FieldError(
                "fit.distill.teacher_gives",
                "expected logits or probabilities, as the last layer of the teacher does not say which of them its "
                "outputs are. Received: auto",
            )
        softening = Softening(of_labels.kind, of_labels.gives == "logits", found == "logits")
        return SoftTerm(SoftTargets(softening, float(self.section.temperature)), self.weights[name])


def _loss_weights(given: Any, names: Sequence[str]) -> dict[str, float]:
    """The weights that `compile` gives the losses of outputs."""
    if given is None:
        return dict.fromkeys(names, 1.0)
    if isinstance(given, Mapping):
        return {name: float(given.get(name, 1.0)) for name in names}
    return dict(zip(names, map(float, given), strict=True))


def _check_shapes(
    of_student: Mapping[str, tuple[int | None, ...]] | None,
    of_teacher: Mapping[str, tuple[int | None, ...]] | None,
    teacher: str,
) -> None:
    """Checks that a teacher gives what a student does, as far as both say it before they are called."""
    if of_student is None or of_teacher is None:
        return
    for name, shape in of_student.items():
        found = of_teacher.get(name) if len(of_teacher) > 1 else next(iter(of_teacher.values()))
        if found is None:
            raise FieldError(
                KEY,
                f"expected a teacher with an output {name}, as the student has. Received: {teacher}, with "
                f"{', '.join(of_teacher)}",
            )
        if found[1:] != shape[1:]:
            raise FieldError(
                KEY,
                f"expected a teacher whose output has the shape of the student's, {shape}. Received: {teacher}, with "
                f"an output of shape {found}",
            )
