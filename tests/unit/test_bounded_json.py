from __future__ import annotations

import json
import math

import pytest

from tfdist.bounded_json import MOST_DEPTH, MOST_DIGITS, parse


@pytest.mark.parametrize("value", [None, 7, -0.5, "é\0", [], {"a": [1, {"b": None}]}, 10 ** (MOST_DIGITS - 1)])
def test_json_is_read(value: object) -> None:
    assert parse(json.dumps(value)) == parse(json.dumps(value).encode()) == value


def test_what_is_not_finite_is_read() -> None:
    assert parse("[Infinity, -Infinity, 1e999]") == [math.inf, -math.inf, math.inf]
    assert math.isnan(parse("NaN"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        b"\xff",
        '"\xe9"'.encode("latin-1"),
        "[" * 100_000,
        '{"a":' * 100_000,
        "1" * (MOST_DIGITS + 1),
        '{"a": [' + "1" * 5000 + "]}",
        *["[" * depth + "]" * depth for depth in (MOST_DEPTH + 1, 900, 950, 990)],
    ],
    ids=lambda text: f"{text[:6]!r} {len(text)}",
)
def test_what_is_not_or_beyond_the_bounds_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError):
        parse(text)


def test_the_deepest_can_be_written_and_shown() -> None:
    value = parse("[" * MOST_DEPTH + "]" * MOST_DEPTH)
    assert json.dumps(value) == repr(value)


def test_the_length_is_bounded() -> None:
    assert parse(b"[1]", 3) == [1]
    with pytest.raises(ValueError, match="more than 3 bytes"):
        parse(b"[10]", 3)
