"""Random trainings give the numbers of one replica: some of them, and with TFDIST_TRIAL_MINUTES=N as many as fit."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from tests.devices.repair_removal import take_out
from tests.helpers.marks import slow
from tests.random_trial import judging
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
def test_a_difference_that_float64_does_not_have_is_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bias of a layer before a BatchNormalization, under Adam, where moving the weights does not show it."""
    keras_repairs.install()
    monkeypatch.setattr(judging, "_made_by_rounding", lambda draw, one: {})
    bias = drawn(part("layers.Dense(6)"), part("layers.BatchNormalization()"), optimizer="keras.optimizers.Adam(0.05)")
    verdict = judge(replace(bias, precision="float32", samples=33, batch=16, epochs=2))
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
    assert judge(draw).kind is Kind.MADE_WHOLE  # As the check of the first step has found it.


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
