from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfdist.config.data_sections import NpzSource
from tfdist.config.schema import CompileConfig, DataConfig, FitConfig, ModelConfig, RunConfig
from tfdist.config.training_sections import DistillConfig
from tfdist.training.step_memory import symbolic_step
from tfdist.training.step_memory.symbolic_step import step_sizes

layers = keras.layers
MIB = 1 << 20


def network(units: int = 8, steps: int | None = None, dropout: float = 0.0) -> keras.Model:
    """Two dense layers, with batch statistics and frozen weights."""
    x = keras.Input((16,))
    hidden = layers.BatchNormalization()(layers.Dense(units, "tanh", name="hidden")(x))
    return keras.Model(x, layers.Dense(3, name="out")(layers.Dropout(dropout)(hidden)))


def recurrent() -> keras.Model:
    """Sequences without a fixed length."""
    x = keras.Input((None, 4))
    return keras.Model(x, layers.Dense(3)(layers.LSTM(5)(x)))


class OwnStep(keras.Sequential):
    """Trains by a step of its own."""

    def train_step(self, data: Any) -> Any:
        return super().train_step(data)


def own_step() -> keras.Model:
    """A model that trains by a step of its own."""
    return OwnStep([keras.Input((16,)), layers.Dense(3)])


def unbuilt() -> keras.Model:
    """A model that learns the size of its samples from its first batch."""
    return keras.Sequential([layers.Dense(8), layers.Dense(3)])


def named_and_read() -> keras.Model:
    """A layer whose name a graph does not take, and a weight that is read before the training."""
    model = keras.Sequential([keras.Input((16,)), layers.Dense(3, name="_out")])
    model.set_weights([weight + 1 for weight in model.get_weights()])
    return model


def named() -> keras.Model:
    """A layer whose name a graph does not take."""
    return keras.Sequential([keras.Input((16,)), layers.Dense(3, name="_out")])


def lookups() -> keras.Model:
    """A large table and a small one."""
    x = keras.Input((16,))
    tables = [layers.Flatten()(layers.Embedding(rows, 4)(x)) for rows in (1000, 10)]
    return keras.Model(x, layers.Dense(3)(layers.Concatenate()(tables)))


@pytest.fixture
def config(tmp_path: Path) -> Any:
    """A config of a model in this file, with a few samples."""

    def made(build: Any, shape: tuple[int, ...] = (16,), optimizer: Any = "adam", **fit: Any) -> RunConfig:
        np.savez(tmp_path / "a.npz", x_train=np.zeros((4, *shape), np.float32), y_train=np.zeros(4, np.int64))
        args = fit.pop("args", {})
        loss = {"name": "sparse_categorical_crossentropy", "from_logits": True}
        return RunConfig(
            name="planned",
            model=ModelConfig(build=f"{__name__}.{build.__name__}", args=args),
            compile=CompileConfig(optimizer=optimizer, loss=loss),
            shard_embeddings=fit.pop("shard_embeddings", None),
            data=DataConfig(batch_size=4, train=NpzSource(path=str(tmp_path / "a.npz"), split="train", shuffle=False)),
            fit=FitConfig(**fit),
        )

    return made


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dotted paths of this file can be resolved."""
    import sys

    monkeypatch.setitem(sys.modules, __name__, sys.modules[network.__module__])


def test_sizes_are_those_of_the_built_model(config: Any) -> None:
    found = step_sizes(config(network), 4)
    model = network()
    model.compile(keras.optimizers.Adam())
    model.optimizer.build(model.trainable_variables)
    assert [(w.value.shape, w.value.bytes) for w in found.weights] == [
        (tuple(v.shape), v.numpy().nbytes) for v in model.trainable_variables
    ]
    slots = [v for v in model.optimizer.variables if v.ndim]
    assert sum(w.slot_bytes for w in found.weights) == sum(v.numpy().nbytes for v in slots)
    assert found.frozen >= sum(v.numpy().nbytes for v in model.non_trainable_variables)
    assert (found.cut, found.optimizer) == ("elements", "Adam")
    assert found.activations is not None and found.activations > 0


@pytest.mark.parametrize(
    ("optimizer", "slots", "cut"),
    [
        ("sgd", 0, "elements"),
        ({"name": "sgd", "momentum": 0.9}, 1, "elements"),
        ({"name": "adam", "gradient_accumulation_steps": 2, "use_ema": True}, 4, "elements"),
        ("lamb", 2, "variables"),
    ],
)
def test_what_an_optimizer_keeps(config: Any, optimizer: Any, slots: int, cut: str) -> None:
    found = step_sizes(config(network, optimizer=optimizer), 4)
    assert all(weight.slot_bytes == slots * weight.value.bytes for weight in found.weights)
    assert found.cut == cut


def test_activations_grow_with_the_batch_and_weights_do_not(config: Any) -> None:
    few, many = (step_sizes(config(network), share) for share in (64, 6400))
    assert few.activations and many.activations
    assert 90 < many.activations / few.activations < 101
    assert [weight.gradient for weight in few.weights] == [weight.gradient for weight in many.weights]


def test_no_weight_is_made(config: Any) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = step_sizes(config(network, args={"units": 40_000_000}), 1)
    assert sum(weight.value.bytes + weight.gradient + weight.slot_bytes for weight in found.weights) > 10_000 * MIB
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500 * 1024  # KiB


@pytest.mark.parametrize(("build", "why"), [(own_step, "the model has a train_step of its own"), (unbuilt, "")])
def test_weights_are_told_of_every_model(config: Any, build: Any, why: str) -> None:
    found = step_sizes(config(build), 4)
    assert found.why_no_activations == why and bool(why) == (found.activations is None)
    assert found.weights


def test_loops_are_named_whose_insides_are_not_seen(config: Any) -> None:
    found = step_sizes(config(recurrent, (7, 4)), 4)
    assert found.activations and "While" in found.uncounted


def test_samples_without_a_fixed_size(config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = tf.TensorSpec((None, None, 4), tf.float32), tf.TensorSpec((None,), tf.int64)
    monkeypatch.setattr(symbolic_step, "_batch_specs", lambda config: batch)
    found = step_sizes(config(recurrent, (7, 4)), 4)
    assert (found.activations, found.why_no_activations) == (None, "samples have no fixed size")


@pytest.mark.parametrize(("build", "made"), [(named, False), (named_and_read, True)])
def test_weights_are_made_only_where_a_model_reads_them(config: Any, build: Any, made: bool) -> None:
    found = step_sizes(config(build), 4)
    assert found.made == made and found.activations
    assert [(weight.value.shape, weight.slot_bytes) for weight in found.weights] == [((16, 3), 384), ((3,), 24)]


def test_tables_that_workers_share_have_sparse_gradients(config: Any) -> None:
    found = step_sizes(config(lookups, shard_embeddings=100), 4)
    assert [weight.by_rows for weight in found.weights] == [True, False, False, False]
    assert found.weights[0].gradient < found.weights[0].value.bytes / 4
    assert not any(weight.by_rows for weight in step_sizes(config(lookups), 4).weights)


def test_a_teacher_is_not_counted_and_that_is_said(config: Any) -> None:
    found = step_sizes(config(network, distill=DistillConfig(teacher="teacher.keras")), 4)
    assert found.activations is None and "teacher" in found.why_no_activations


def test_weights_of_samples_take_part(config: Any) -> None:
    assert step_sizes(config(network, class_weight={0: 1.0, 1: 2.0, 2: 1.0}), 4).activations


def test_memory_of_this_process_is_told(config: Any) -> None:
    assert step_sizes(config(network), 4).process > 100 * MIB
