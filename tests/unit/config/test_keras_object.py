"""The three forms of an object of Keras in a config, and the values that no optimizer takes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tfdist.config import load_config
from tfdist.errors import ConfigError


@pytest.mark.parametrize(
    "entry",
    [
        "optimizer=sgd",
        "optimizer={name: sgd, momentum: 0.9, learning_rate: 0}",
        "optimizer={name: adam, learning_rate: {name: cosine_decay, initial_learning_rate: 0.1, decay_steps: 9}}",
        "optimizer={name: adam, clipnorm: 1, gradient_accumulation_steps: 2, weight_decay: null}",
        "optimizer={build: my.optimizers.Own}",
        "optimizer={build: my.optimizers.Own, args: {learning_rate: -1}}",  # who knows what it means there
        "loss={name: huber, delta: 2}",
        "loss={build: my.losses.Own, args: {margin: 0.2}}",
        "loss={first: mse, second: {name: huber}}",
        "loss=[mse, {name: huber}]",
        "metrics=[accuracy, {name: auc, num_thresholds: 3}, {build: my.Metric}]",
        "metrics={first: accuracy, second: [auc, {build: my.Metric, args: {}}]}",
    ],
)
def test_forms(config_file: Path, entry: str) -> None:
    load_config(config_file, [f"compile.{entry}"])


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("optimizer={name: 3}", "compile.optimizer: expected a name, {name: NAME} with its arguments beside the name"),
        ("optimizer={name: ''}", "compile.optimizer: expected a name, "),
        ("optimizer={build: Own}", "compile.optimizer: expected a name, "),
        ("optimizer={build: my.Own, learning_rate: 1}", "or {build: my.module.Class, args: {...}}. Received: "),
        ("optimizer={build: my.Own, args: [1]}", "compile.optimizer: expected a name, "),
        ("optimizer=[adam]", "compile.optimizer: expected a name, "),
        ("loss={build: Own}", "compile.loss: expected a loss: a name, "),
        ("metrics={name: auc}", "compile.metrics: expected a list of metrics, each a name, "),
        ("metrics=[{build: Own}]", "compile.metrics: expected a list of metrics, each a name, "),
        ("optimizer={name: adam, learning_rate: -1}", "optimizer.learning_rate: expected a number of 0 or more. Rec"),
        ("optimizer={name: adam, learning_rate: true}", "optimizer.learning_rate: expected a number of 0 or more. R"),
        (
            "optimizer={name: adam, learning_rate: {class_name: CosineDecay}}",
            "optimizer.learning_rate: expected a number, or a schedule such as {name: cosine_decay, ",
        ),
        ("optimizer={name: adam, beta_1: 1}", "optimizer.beta_1: expected a number of 0 or more and below 1. Received"),
        ("optimizer={name: adam, beta_2: 1.5}", "optimizer.beta_2: expected a number of 0 or more and below 1."),
        ("optimizer={name: rmsprop, rho: -0.1}", "optimizer.rho: expected a number of 0 or more and below 1."),
        ("optimizer={name: sgd, momentum: 1.1}", "optimizer.momentum: expected a number from 0 to 1. Received: 1.1"),
        ("optimizer={name: sgd, ema_momentum: 2}", "optimizer.ema_momentum: expected a number from 0 to 1. Received"),
        ("optimizer={name: adam, epsilon: -1e-7}", "optimizer.epsilon: expected a number of 0 or more. Received: -1"),
        ("optimizer={name: adam, weight_decay: -1}", "optimizer.weight_decay: expected a number of 0 or more. Recei"),
        ("optimizer={name: adam, clipnorm: 0}", "optimizer.clipnorm: expected a number above 0. Received: 0"),
        ("optimizer={name: adam, clipvalue: -1}", "optimizer.clipvalue: expected a number above 0. Received: -1"),
        ("optimizer={name: adam, global_clipnorm: 0}", "optimizer.global_clipnorm: expected a number above 0."),
        ("optimizer={name: adam, clipnorm: 1, clipvalue: 1}", "expected one way to clip gradients. Received: clipnorm"),
        ("optimizer={name: adam, gradient_accumulation_steps: 1}", "steps: expected an integer of 2 or more, or null"),
        ("optimizer={name: adam, gradient_accumulation_steps: 2.5}", "steps: expected an integer of 2 or more, or nu"),
    ],
)
def test_what_is_refused(config_file: Path, entry: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)) as raised:
        load_config(config_file, [f"compile.{entry}"])
    assert str(raised.value).startswith(f"--set compile.{entry}: compile.")
