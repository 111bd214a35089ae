"""The methods of a model that its steps call: which they are, and what is called instead."""

from __future__ import annotations

import contextlib
from typing import Any

import keras
import pytest

from tfdist.keras_repairs.coupling.trials.steps.step_methods import (
    noting_methods,
    replaced_methods,
    ways_to_gather,
)


class Contrasting(keras.Model):
    def call(self, x: Any) -> Any:
        return self.scaled(x)

    def scaled(self, x: Any) -> Any:
        return 2 * x

    def contrast(self, x: Any) -> str:
        return "own"

    def compute_loss(self, x: Any) -> Any:  # type: ignore[override]
        return x

    @staticmethod
    def spread(x: Any) -> Any:
        return x

    def train_step(self, x: Any) -> str:
        self.spread(self.compute_loss(self(x)))
        return self.contrast(x)


ROWS = keras.ops.ones((2, 1))


def test_the_methods_that_a_step_calls_are_noted_in_their_order_but_for_those_of_its_calls() -> None:
    model = Contrasting()
    with noting_methods(model) as names:
        model.train_step(ROWS)
    assert names == ["compute_loss", "spread", "contrast"]
    assert not {"contrast", "spread", "scaled"} & vars(model).keys()


def test_a_method_is_replaced_until_the_last_replica_has_left() -> None:
    model = Contrasting()

    def replaced() -> contextlib.AbstractContextManager[None]:
        return replaced_methods(model, ["contrast", "scaled"], lambda name, method: lambda x: f"other {name}")

    with contextlib.ExitStack() as first, contextlib.ExitStack() as second:
        first.enter_context(replaced())
        second.enter_context(replaced())
        first.close()
        assert model.train_step(ROWS) == "other contrast"
    assert model.train_step(ROWS) == "own"


def test_a_method_is_called_by_the_models_own_call_as_it_is() -> None:
    model = Contrasting()
    with replaced_methods(model, ["scaled"], lambda name, method: lambda x: pytest.fail("replaced")):
        assert model(ROWS).shape == (2, 1)


def test_ways_to_gather_are_each_method_and_all() -> None:
    assert ways_to_gather([]) == []
    assert ways_to_gather(["one"]) == [("one",)]
    assert ways_to_gather(["one", "other"]) == [("one",), ("other",), ("one", "other")]
