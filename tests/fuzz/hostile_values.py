"""Values, texts and bytes as they should not be, and valid ones that were changed."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

DEPTHS = (50, 101, 900, 950, 980, 1000, 1100, 100_000)
"""Of lists in lists: where Python's own stack ends is somewhere about 1000."""

_NUMBERS = (0, 1, -1, 2**31, 2**63 - 1, 2**63, -(2**63), 2**64, 10**20, 10**299, -(10**299), 10**400, int("9" * 4300))
_FLOATS = (0.5, -0.0, 1e300, -1e300, 1e400, -1e400, float("nan"), 1e-320, 1e18, 253402300800.0)
_TEXTS = ("", "\0", "\n", "\x1b[2J", "\ud800", "é", "٣", "NaN", "../../x", "/dev/zero", "-1", "9" * 5000, "x" * 70_000)

numbers = st.sampled_from(_NUMBERS) | st.integers()
floats = st.sampled_from(_FLOATS) | st.floats()
texts = st.sampled_from(_TEXTS) | st.text(max_size=20)
scalars = st.none() | st.booleans() | numbers | floats | texts
values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda part: st.lists(part, max_size=4) | st.dictionaries(texts, part, max_size=4),
    max_leaves=8,
)
"""Whatever JSON can say."""


@st.composite
def changed(draw: st.DrawFn, document: Any) -> Any:
    """A document with some of its values replaced, moved, repeated or left out."""
    found = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 4))):
        places = list(_places(found))
        if not places:
            return draw(values)
        holder, key = draw(st.sampled_from(places))
        act = draw(st.sampled_from(("replace", "replace", "replace", "remove", "copy", "nest", "add")))
        if act == "replace":
            holder[key] = draw(values)
        elif act == "remove":
            del holder[key]
        elif act == "copy":
            holder[key] = copy.deepcopy(draw(st.sampled_from([other[name] for other, name in places])))
        elif act == "nest":
            holder[key] = draw(st.sampled_from(([holder[key]], {"a": holder[key]}, [holder[key]] * 3)))
        elif isinstance(holder, dict):
            holder[draw(texts)] = draw(values)
        else:
            holder.append(draw(values))
    return found


def _places(document: Any) -> Iterator[tuple[Any, Any]]:
    entries = document.items() if isinstance(document, dict) else enumerate(document) if _is_list(document) else ()
    for key, value in list(entries):
        yield document, key
        yield from _places(value)


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def to_json(value: Any) -> bytes:
    """JSON of a value, with numbers of any length."""
    # Python writes no integer of more digits than it reads.
    text = json.dumps(value, default=str)
    return text.encode()


@st.composite
def changed_json(draw: st.DrawFn, *documents: Any) -> bytes:
    """The JSON of one of some documents, after its values or its bytes were changed."""
    text = to_json(draw(changed(draw(st.sampled_from(documents)))))
    act = draw(st.sampled_from(("", "", "", "bytes", "deep", "digits", "twice", "spaces")))
    if act == "bytes":
        return draw(changed_bytes(text))
    if act in ("deep", "digits"):
        inner = b"[" * draw(st.sampled_from(DEPTHS)) if act == "deep" else b"1" * 5000
        inner += b"]" * len(inner) if act == "deep" and draw(st.booleans()) else b""
        colon = text.find(b": ") + 2
        return text[:colon] + inner + b", " + text[colon:] if draw(st.booleans()) else inner
    if act == "twice":
        return text[:-1] + b", " + text[1:]
    return b" " * 1000 + text + b"\t" if act == "spaces" else text


@st.composite
def changed_bytes(draw: st.DrawFn, valid: bytes) -> bytes:
    """Valid bytes after bits were flipped, or parts were cut, repeated, replaced or put in between."""
    data = bytearray(valid)
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        stop = min(len(data), start + draw(st.sampled_from((0, 1, 2, 4, 8, 16, 100))))
        act = draw(st.sampled_from(("flip", "flip", "cut", "remove", "repeat", "replace", "insert", "number")))
        if act == "flip" and start < len(data):
            data[start] ^= 1 << draw(st.integers(0, 7))
        elif act == "cut":
            del data[start:]
        elif act == "remove":
            del data[start:stop]
        elif act == "repeat":
            data[start:start] = data[start:stop] * draw(st.sampled_from((1, 2, 100)))
        elif act == "replace":
            data[start:stop] = draw(st.sampled_from((b"\0", b"\xff", b"\x80"))) * (stop - start)
        elif act == "insert":
            data[start:start] = draw(st.binary(max_size=20))
        elif act == "number":
            width = draw(st.sampled_from((2, 4, 8)))
            number = draw(st.sampled_from((0, 1, (1 << 8 * width - 1) - 1, 1 << 8 * width - 1, (1 << 8 * width) - 1)))
            data[start : start + width] = number.to_bytes(width, draw(st.sampled_from(("little", "big"))))
    return bytes(data)
