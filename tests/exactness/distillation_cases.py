"""`keras.distillation.Distiller`: a student that learns from a teacher, too."""

from __future__ import annotations

from typing import Any

import keras

from tests.exactness.coupling_cases import weights
from tests.exactness.table import BATCH, EPOCHS, ONLY_TRAINED, case, classifier, fitted, layers, numbers
from tfdist.keras_repairs.distillation.distilled_loss import Distillation, SoftTerm, distill
from tfdist.keras_repairs.distillation.soft_targets import Softening, SoftTargets

distillation = keras.distillation


def teacher() -> keras.Model:
    """With dropout, which is off, and statistics that must stay."""
    return keras.Sequential(
        [
            keras.Input((6,)),
            layers.Dense(8, "tanh", name="wide"),
            layers.BatchNormalization(),
            layers.Dropout(0.5),
            layers.Dense(3, name="logits"),
        ]
    )


def student(*hidden: layers.Layer) -> keras.Model:
    return keras.Sequential([keras.Input((6,)), layers.Dense(8, "relu", name="narrow"), *hidden, layers.Dense(3)])


def distilled(samples: int, *losses: Any, hidden: Any = (), compiled: Any = None, **fit: Any) -> dict[str, Any]:
    of_teacher = teacher()
    distiller = distillation.Distiller(
        of_teacher, student(*hidden), list(losses), [0.7, 0.3][: len(losses)], student_loss_weight=0.4
    )
    settings = {"loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True), "metrics": ["accuracy"]}
    made = fitted(distiller, *numbers(samples), settings | (compiled or {}), **fit)
    return made | {"seen": [weight.tolist() for weight in of_teacher.get_weights()]}


@case("`keras.distillation.Distiller`")
def distillation_of_probabilities(samples: int) -> dict[str, Any]:
    student = keras.Sequential([keras.Input((6,)), layers.Dense(4, "relu"), layers.Dense(3, activation="softmax")])
    distiller = distillation.Distiller(
        classifier(), student, distillation.LogitsDistillation(temperature=2.0), student_loss_weight=0.4
    )
    return fitted(distiller, *numbers(samples), {"metrics": ["accuracy"]})


@case("`Distiller` with `FeatureDistillation`, dropout and statistics")
def distillation_of_features(samples: int) -> dict[str, Any]:
    features = distillation.FeatureDistillation("mse", teacher_layer_name="wide", student_layer_name="narrow")
    hidden = [layers.Dropout(0.3), layers.BatchNormalization()]
    return distilled(samples, distillation.LogitsDistillation(temperature=2.0), features, hidden=hidden)


@case("`Distiller` with weights of samples, which it leaves out, and a divergence of softened outputs")
def distillation_with_weights(samples: int) -> dict[str, Any]:
    losses = [distillation.LogitsDistillation(2.0, keras.losses.KLDivergence())]
    return distilled(samples, *losses, sample_weight=weights(samples)) | ONLY_TRAINED


@case("`Distiller` with weights of classes, and a crossentropy of logits")
def distillation_with_weights_of_classes(samples: int) -> dict[str, Any]:
    losses = [distillation.LogitsDistillation(loss=keras.losses.CategoricalCrossentropy(from_logits=True))]
    return distilled(samples, *losses, class_weight={0: 1.0, 1: 5.0, 2: 0.5}) | ONLY_TRAINED


@case("`Distiller` with a cosine similarity, clipped and accumulated gradients")
def distillation_of_directions(samples: int) -> dict[str, Any]:
    optimizer = keras.optimizers.Adam(0.01, global_clipnorm=0.5, gradient_accumulation_steps=2)
    features = distillation.FeatureDistillation("cosine_similarity")
    return distilled(samples, features, compiled={"optimizer": optimizer}) | ONLY_TRAINED


def alone(outputs: Any) -> dict[str, Any]:
    """The one output, by its name."""
    return {"output": outputs}


def learning_from(
    model: keras.Model, samples: int, compiled: dict[str, Any] | None = None, **fit: Any
) -> dict[str, Any]:
    """Fits a model to which `fit.distill` of a config has given a teacher."""
    x, y = numbers(samples)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
    model.compile(**{"loss": loss, "optimizer": optimizer, "metrics": ["accuracy"]} | (compiled or {}))
    of_teacher = teacher()
    term = SoftTerm(SoftTargets(Softening("categorical", True, True), 2.0))
    distill(model, Distillation(0.6, {"output": term}, alone, lambda x: alone(of_teacher(x, training=False))))
    history = model.fit(x, y, batch_size=BATCH, epochs=EPOCHS, verbose=0, **fit)
    seen = [weight.tolist() for weight in of_teacher.get_weights()]
    return {"model": model, "x": x, "y": y, "history": history.history, "seen": seen}


@case("`fit.distill` of a config, with dropout, statistics and a regularizer")
def distillation_of_a_config(samples: int) -> dict[str, Any]:
    hidden = [layers.Dropout(0.3), layers.BatchNormalization(gamma_regularizer="l2")]
    return learning_from(student(*hidden), samples)


@case("`fit.distill` with weights of samples")
def distillation_of_a_config_with_weights(samples: int) -> dict[str, Any]:
    return learning_from(student(), samples, sample_weight=weights(samples)) | ONLY_TRAINED


@case("`fit.distill` with XLA and several steps in one execution")
def distillation_of_a_config_by_xla(samples: int) -> dict[str, Any]:
    compiled = {"jit_compile": True, "steps_per_execution": 2}
    return learning_from(student(), samples, compiled) | ONLY_TRAINED
