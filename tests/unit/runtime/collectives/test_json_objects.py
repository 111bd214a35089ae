from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tfdist.errors import UsageError
from tfdist.runtime.collectives.json_objects import decoded, encoded


@pytest.mark.parametrize("value", [None, True, 2**70, 0.1, "\u00e4\ud800\0", [], {"a": [1, {"": None}]}, math.inf])
def test_what_json_has_comes_back_as_it_was(value: Any) -> None:
    found = decoded(encoded(value, "f"))
    assert (found, type(found)) == (value, type(value))


def test_nan_stays_nan_and_tuples_become_lists() -> None:
    assert math.isnan(decoded(encoded(math.nan, "f")))
    assert decoded(encoded((1, (2,)), "f")) == [1, [2]]


class Text(str):
    """Would come back as a str."""


ITSELF: list[Any] = []
ITSELF.append([ITSELF])


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (np.float64(1), "a float64 as the value. Convert it"),
        ({"a": [np.zeros(2)]}, r"a ndarray as the value\['a'\]\[0\]"),
        ({1: 2}, "keys that are texts.*Received: 1 in the value"),
        ({"x": {1, 2}}, r"a set as the value\['x'\]"),
        (b"x", "a bytes"),
        (Text("a"), "a Text"),
        (object(), "a object"),
        (ITSELF, r"contain itself.*the value\[0\]\[0\]"),
    ],
)
def test_what_json_does_not_have_is_refused_with_its_place(value: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        encoded(value, "all_gather_object")
