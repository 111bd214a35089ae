"""Random trainings give the numbers of one replica: some of them, and with TFDIST_TRIAL_MINUTES=N as many as fit."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from tests.devices.repair_removal import take_out
from tests.marks import slow
from tests.random_trial.draw import Draw, Head, Part
from tests.random_trial.drawing import draw_of
from tests.random_trial.judging import Kind, judge
from tests.random_trial.shrinking import shrunken
from tests.random_trial.trial import BOUND, trial
from tfdist import keras_repairs

MINUTES = os.environ.get("TFDIST_TRIAL_MINUTES")
SEED = int(os.environ.get("TFDIST_TRIAL_SEED", "1"))
SMALL = 2074
"""The seed of a small draw: a step of one's own with a norm of gradients, dropout, accumulation."""

DENSE, NORMALIZATION = 'layers.Dense(6, activation="tanh")', "layers.BatchNormalization()"
ITS_REPAIR = "BatchNormalization._moments"


@pytest.mark.slow
def test_a_small_draw() -> None:
    report = trial(SMALL, minutes=4.0, draws=1)
    assert report.kinds == {Kind.SAME: 1}, str(report)


@pytest.mark.parametrize("seed", [slow(197), slow(973), 1038])
def test_small_draws_in_this_process(seed: int) -> None:
    keras_repairs.install()
    assert judge(draw_of(seed)).kind is Kind.SAME


@pytest.mark.slow
def test_a_difference_that_float64_does_not_have_is_rounding() -> None:
    """A gradient that is zero but for rounding, under Adam, of images whose colors are moved in float32."""
    keras_repairs.install()
    verdict = judge(of_moved_colors())
    assert verdict.kind is Kind.UNSTABLE and "the same in float64" in verdict.line


@pytest.mark.skipif(not MINUTES, reason="TFDIST_TRIAL_MINUTES says for how many minutes to try")
@pytest.mark.bound(60.0 * float(MINUTES or 0) + 2 * BOUND)
def test_as_many_draws_as_fit() -> None:
    report = trial(SEED, float(MINUTES or 0))
    print(report)
    assert report.seeds, "no draw was made"
    assert not report.findings, str(report)


def test_a_draw_that_differs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    keras_repairs.install()
    draw = drawn(part(NORMALIZATION))
    assert judge(draw).kind is Kind.SAME
    take_out(ITS_REPAIR, monkeypatch)
    assert judge(draw).kind is Kind.DIFFERENT


@pytest.mark.slow
@pytest.mark.bound(900)
def test_a_draw_that_differs_is_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left but the layer that differs."""
    keras_repairs.install()
    take_out(ITS_REPAIR, monkeypatch)
    draw = drawn(part(DENSE), part(NORMALIZATION))
    verdict = judge(draw)
    smallest = shrunken(draw, lambda simpler: judge(simpler).is_like(verdict), lambda: True)
    assert (smallest.parts, smallest.callbacks, smallest.form) == ((part(NORMALIZATION),), (), "functional")


@pytest.mark.slow
def test_a_draw_in_which_rounding_decides_is_no_finding() -> None:
    """The gradient of the bias is 0 but for rounding, and the optimizer goes by its sign."""
    keras_repairs.install()
    bias = drawn(part("layers.Dense(6)"), part("layers.BatchNormalization()"), optimizer="keras.optimizers.Lion(0.05)")
    assert judge(bias).kind is Kind.UNSTABLE


def part(layer: str) -> Part:
    return Part("vector", "vector", (layer,))


def drawn(*parts: Part, optimizer: str = "keras.optimizers.SGD(0.05)") -> Draw:
    loss = "keras.losses.MeanSquaredError()"
    head = Head("left", part('layers.Dense(2, name="left")'), "rng.normal(size=(SAMPLES, 2))", loss, loss)
    return Draw(
        seed=1,
        replicas=2,
        is_of_workers=False,
        precision="float64",
        form="sequential",
        start="vector",
        parts=parts,
        heads=(head,),
        optimizer=optimizer,
        compiled=(),
        feed="arrays",
        samples=5,
        batch=4,
        epochs=1,
        fitted=(),
        callbacks=("keras.callbacks.TerminateOnNaN()",),
    )


def of_moved_colors() -> Draw:
    flat = Part("image", "vector", ("layers.Flatten()", DENSE), "{1}({0}({x}))")
    hue = Part("image", "image", ("layers.RandomHue(0.3, value_range=(0.0, 1.0), seed=3)",))
    parts = (hue, flat, part("recomputed(MeanLoss)"), part("layers.AlphaDropout(0.3, seed=33)"))
    classes = Head(
        name="left",
        part=Part("any", "same", ('layers.Dense(4, activation="softmax", name="left")',)),
        target="np.eye(4)[rng.integers(0, 4, SAMPLES)]",
        plain="keras.losses.CategoricalCrossentropy()",
        loss='keras.losses.CategoricalCrossentropy(reduction="sum")',
        weight="numbered(rng, SAMPLES)",
    )
    numbers = Head(
        name="right",
        part=Part("any", "same", ('layers.Dense(2, activation="softplus", name="right")',)),
        target="rng.uniform(0.5, 2.0, (SAMPLES, 2))",
        plain="keras.losses.Poisson()",
        loss='keras.losses.Poisson(reduction="mean_with_sample_weight")',
        loss_weight=0.3,
        weight="numbered(rng, SAMPLES)",
    )
    return replace(
        drawn(),
        start="image",
        parts=parts,
        seed=2062,
        precision="float32",
        form="subclassed",
        heads=(classes, numbers),
        optimizer="keras.optimizers.Adam(0.02, weight_decay=0.01)",
        feed="dataset",
        samples=27,
        batch=3,
        epochs=3,
        callbacks=(),
    )
