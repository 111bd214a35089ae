"""Objects that workers exchange as JSON: nothing that reading could run."""

from __future__ import annotations

import json
from typing import Any

from tfdist.errors import UsageError
from tfdist.text import safe_repr


def encoded(value: Any, call: str) -> bytes:
    """The JSON of a value that is the same when it is read, except that tuples become lists.

    Raises:
        UsageError: It is, or holds, something that JSON does not have.
    """
    _check(value, call, "the value", ())
    return json.dumps(value).encode()


def decoded(text: bytes) -> Any:
    """The value that has a JSON."""
    return json.loads(text)


def _check(value: Any, call: str, place: str, above: tuple[int, ...]) -> None:
    if value is None or isinstance(value, bool | int | float | str):
        if type(value) in (type(None), bool, int, float, str):
            return
    elif id(value) in above:
        raise UsageError(f"{call} expects a value that does not contain itself. Received: one that does, at {place}.")
    elif type(value) in (list, tuple):
        for index, part in enumerate(value):
            _check(part, call, f"{place}[{index}]", (*above, id(value)))
        return
    elif type(value) is dict:
        for key, part in value.items():
            if type(key) is not str:
                raise UsageError(
                    f"{call} expects keys that are texts, as JSON has no others. Received: "
                    f"{safe_repr(key)} in {place}. Use str(key), or a list of pairs."
                )
            _check(part, call, f"{place}[{key!r}]", (*above, id(value)))
        return
    raise UsageError(
        f"{call} expects None, booleans, numbers, texts, and lists and dicts of these. Received: a "
        f"{type(value).__name__} as {place}. Convert it, as with float(value), value.tolist() or "
        "dataclasses.asdict(value); tensors and arrays are for tfdist.all_gather and tfdist.broadcast."
    )
