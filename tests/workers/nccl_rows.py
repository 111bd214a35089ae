"""Rows of all tables by their names: `python -m tests.workers.nccl_rows OUT SAMPLES [NAME ...]`.

One job runs those of several tables so: of what people fit with Keras, and behind a word of embeddings and of
activations that are computed again, such as `embeddings.adagrad`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from tests.exactness import recomputed_cases
from tests.exactness.__main__ import write_outcomes
from tests.exactness.cases import CASES, SECTIONS, cases_of, outcome
from tests.exactness.comparison import assert_same, assert_same_case
from tests.exactness.table import outcome_of
from tests.workers import embedding_cases

BY_SECTION = {
    "Fit, evaluate, predict": "plain",
    "Data": "ragged_inputs",
    "Losses": "add_loss_of_a_mean_and_of_a_vector",
    "Losses over the batch": "hinge_of_other_labels",
    "Layers and models over the batch": "operations_along_the_batch",
    "What trials find out": "moving_mean_in_a_tf_variable",
    "Metrics": "metrics_that_are_no_sums",
    "Optimizers and gradients": "global_clipnorm",
    "Outside of the step": "compiled_again_inside_of_fit",
    "Steps": "validation_frequency_and_initial_epoch",
    "What the first step builds": "variable_of_a_value",
    "Steps of one's own": "own_step_with_a_total",
    "Steps and optimizers of which no part is exact": "sharpness_aware_step",
    "Steps of guides and repositories": "sharpness_aware",
    "Distillation": "distillation_of_a_config",
    "What steps of one's own keep": "own_step_that_remembers",
    "Steps of `predict`, decorated steps, ragged rows": "own_predict_step_over_the_batch",
    "Logs of steps of one's own": "logged_values",
    "What steps write": "queued_loss",
    "Fewer samples than replicas": "operations_that_take_no_row",
    "Layers": "convolutions_in_float32",
    "Batch statistics": "batch_normalization",
    "Random layers": "dropout",
    "Random numbers": "shuffled_rows",
    "Random numbers of TensorFlow": "stateless_draws_of_steps",
    "Callbacks": "reduced_learning_rate",
    "Precision": "mixed_float16",
}
"""A fast row of each section of the table."""

EXCHANGED_ALIKE = {
    *("Data", "Losses", "Outside of the step", "Steps", "What the first step builds", "Random numbers of TensorFlow"),
    *("Steps of guides and repositories", "Distillation", "What steps of one's own keep", "What steps write"),
    *("Logs of steps of one's own", "Layers", "Random layers", "Random numbers", "Callbacks"),
}
"""Sections whose rows exchange nothing but gradients, logs and what a gather brings, as those of others do."""

ALONE_HERE = ("own_metrics_everywhere", "activity_regularizers_under_xla", "gradients_of_places_in_a_loop", "adafactor")
"""Rows that no other default test runs so: a model that the first step of a job builds, sums in a layer that XLA
compiles, workers of which each traces a loop by its own rows, and shards of state that no variable was named for."""

BY_DEFAULT = (*(name for section, name in BY_SECTION.items() if section not in EXCHANGED_ALIKE), *ALONE_HERE)
"""The rows of the default tests."""

WHOLE = {"plain", "metrics_that_are_no_sums", "own_predict_step_over_the_batch"}
"""Rows that evaluate and predict, too; the others train alone."""

EMBEDDINGS, RECOMPUTED = "embeddings.", "recomputed."


def all_names() -> list[str]:
    """The names of all rows of all tables, but for XLA's, which some modes refuse."""
    rows = [case.name for section in SECTIONS for case in cases_of(section)]
    rows += [EMBEDDINGS + name for name in embedding_cases.CASES]
    return rows + [RECOMPUTED + name for name in recomputed_cases.CASES if name != "xla"]


def make_of(*, whole: bool) -> Callable[[str, int], dict[str, Any]]:
    """What makes the outcome of a row, of a name and a number of samples.

    Args:
        whole: Whether all rows evaluate and predict.
    """

    def make(name: str, samples: int) -> dict[str, Any]:
        if name.startswith(EMBEDDINGS):
            return embedding_cases.outcome(name.removeprefix(EMBEDDINGS), samples)
        if name.startswith(RECOMPUTED):
            return outcome_of(recomputed_cases.CASES[name.removeprefix(RECOMPUTED)], samples)
        return outcome(name, samples, of_training_alone=not whole and name not in WHOLE)

    return make


def assert_same_row(name: str, one: dict[str, Any], other: dict[str, Any], where: str) -> None:
    """Asserts that a row has the same numbers, but for the rounding of what it computes in."""
    if name in CASES:
        assert_same_case(name, one, other, where)
    elif name.startswith(RECOMPUTED):
        precision = recomputed_cases.CASES[name.removeprefix(RECOMPUTED)].precision
        for part, numbers in one.items():
            relative = precision.weights if part == "weights" else precision.losses
            assert_same(numbers, other[part], f"{where}.{part}", relative)
    else:
        assert_same(one, other, where)


def main(out: str, samples: str, *names: str) -> None:
    whole = "--whole" in names
    make = make_of(whole=whole)
    rows = [name for name in names if name != "--whole"]
    write_outcomes(out, rows or all_names(), lambda name: make(name, int(samples)))


if __name__ == "__main__":
    main(*sys.argv[1:])
