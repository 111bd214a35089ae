"""How much worse a metric may become."""

from __future__ import annotations

import math

import pytest

from tfdist.errors import UsageError
from tfdist.training.quantization.layer_choice import DropBudget, JudgedMetric, choose_metric


@pytest.mark.parametrize(
    ("text", "before", "allowed"),
    [("0.5%", 0.8, 0.004), ("0.005", 0.8, 0.005), ("10 %", -2.0, 0.2), ("0%", 0.8, 0.0), ("0", 3.0, 0.0)],
)
def test_shares_and_amounts(text: str, before: float, allowed: float) -> None:
    assert DropBudget.of(text).allowed(before) == pytest.approx(allowed)


@pytest.mark.parametrize("text", ["", "%", "much", "-1%", "-0.1", "nan", "inf", "1%%", "inf%"])
def test_what_is_no_budget(text: str) -> None:
    with pytest.raises(UsageError, match=r"--max-drop takes .* Received: --max-drop"):
        DropBudget.of(text)


def test_a_budget_as_it_is_said() -> None:
    assert [str(DropBudget.of(text)) for text in ("0.5%", "0.005")] == ["0.5%", "0.005"]


@pytest.mark.parametrize(
    ("asked", "name", "best"),
    [
        (None, "accuracy", "max"),
        ("loss", "loss", "min"),
        ("mae", "mae", "min"),
        ("top_k_accuracy", "top_k_accuracy", "max"),
    ],
)
def test_the_metric_to_judge_by(asked: str | None, name: str, best: str) -> None:
    metrics = {"loss": 1.0, "mae": 2.0, "accuracy": 0.5, "top_k_accuracy": 0.7}
    assert choose_metric(asked, metrics) == JudgedMetric(name, best)  # type: ignore[arg-type]


def test_without_another_metric_it_is_the_loss() -> None:
    assert choose_metric(None, {"loss": 1.0, "strange": 3.0}) == JudgedMetric("loss", "min")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("acc", "no such metric. Expected one of loss, strange. Received: acc"),
        ("strange", "does not say whether more or less of it is better. Expected one of loss"),
    ],
)
def test_metrics_that_judge_nothing(asked: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        choose_metric(asked, {"loss": 1.0, "strange": 3.0})
    with pytest.raises(UsageError, match="NaN, so that nothing can be worse"):
        choose_metric(None, {"loss": math.nan})


def test_drops() -> None:
    rising, falling = JudgedMetric("accuracy", "max"), JudgedMetric("loss", "min")
    assert rising.drop(0.9, 0.8) == pytest.approx(0.1) and rising.drop(0.8, 0.9) == pytest.approx(-0.1)
    assert falling.drop(0.9, 0.8) == pytest.approx(-0.1)
    assert rising.drop(0.9, math.nan) == falling.drop(0.9, math.nan) == math.inf
