from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import pytest

from tfdist.config.section import PositiveInt, Rule, describe, matches


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        (3, int, True),
        (True, int, False),  # Python's bool is an int
        (3.0, int, False),
        (3, float, True),
        (True, float, False),
        (float("nan"), float, False),
        (float("inf"), float, False),
        (1, bool, False),
        (None, int | None, True),
        ("a", int | None, False),
        (0, PositiveInt, False),
        ("0", PositiveInt, False),  # the rule is not applied to another type
        ("a", Literal["a", "b"], True),
        ("c", Literal["a", "b"], False),
        (True, Literal[1, 3], False),
        ("ab", Sequence[str], False),
        (["a"], Sequence[str], True),
        (("a", 1), Sequence[str], False),
        ({"a": 1}, Mapping[str, int], True),
        ({1: 1}, Mapping[str, int], False),
        ({"a": "b"}, Mapping[str, int], False),
        (object(), Any, True),
    ],
)
def test_matches(value: object, hint: Any, expected: bool) -> None:
    assert matches(value, hint) is expected


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (int | None, "an integer or null"),
        (Literal["a", "b"], "one of a, b"),
        (Literal["a"], "a"),
        (Sequence[float], "a list of numbers"),
        (Mapping[str, Any], "a mapping of strings to values"),
        (Sequence[PositiveInt], "a list of entries that are each an integer of 1 or more"),
        (Annotated[int, Rule("an even number", lambda value: value % 2 == 0)], "an even number"),
    ],
)
def test_describe(hint: Any, words: str) -> None:
    assert describe(hint) == words
