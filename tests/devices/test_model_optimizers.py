"""The optimizers of a model are found, wherever it holds them."""

from __future__ import annotations

from typing import Any

import keras
import pytest

from tfdist.keras_repairs.base.model_optimizers import optimizers_of

PLACES: dict[str, Any] = {
    "attribute": lambda model, first, second: setattr(model, "second", second),
    "list": lambda model, first, second: setattr(model, "others", [first, second]),
    "tuples in a dict": lambda model, first, second: setattr(model, "others", {"of": (None, second), "again": second}),
    "inside of another": lambda model, first, second: setattr(
        model, "outer", keras.optimizers.LossScaleOptimizer(second)
    ),
}


@pytest.mark.parametrize("place", PLACES)
def test_each_is_found_once_wherever_it_is(place: str) -> None:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    first, second = keras.optimizers.SGD(0.5), keras.optimizers.Adam(0.5)
    model.compile(first, "mse")
    PLACES[place](model, first, second)
    outer = [model.outer] if place == "inside of another" else []
    assert [id(found) for found in optimizers_of(model)] == [id(each) for each in (first, *outer, second)]


def test_long_lists_are_not_searched() -> None:
    class Unread(list[Any]):
        def __iter__(self) -> Any:
            raise AssertionError("a vocabulary was looked through")

    model = keras.Sequential([keras.layers.Dense(1)])
    object.__setattr__(model, "vocabulary", Unread(["word"] * 1000))
    assert not list(optimizers_of(model))


def test_a_model_that_is_not_compiled_has_none() -> None:
    assert not list(optimizers_of(keras.Sequential([keras.layers.Dense(1)])))
