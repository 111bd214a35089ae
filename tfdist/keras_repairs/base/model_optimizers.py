"""Finds the optimizers of a model: the compiled one, those of its own step, also in lists, and those inside them."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import Any

import keras

_MOST = 64
"""Longer lists are not searched: a vocabulary holds no optimizers, and the search runs after every epoch."""


def optimizers_of(model: Any) -> Iterator[Any]:
    """Each optimizer of a model once, the same on every worker and in the same order."""
    todo = collections.deque([getattr(model, "optimizer", None), *vars(model).values()])
    seen: set[int] = set()
    while todo:
        found = todo.popleft()
        if id(found) in seen:
            continue
        if isinstance(found, keras.optimizers.Optimizer):
            yield found
            todo.extend([getattr(found, "inner_optimizer", None), *getattr(found, "optimizers", ())])
        elif isinstance(found, dict | list | tuple) and len(found) <= _MOST:
            todo.extend(found.values() if isinstance(found, dict) else found)
        else:
            continue
        seen.add(id(found))
