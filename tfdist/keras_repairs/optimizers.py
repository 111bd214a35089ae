"""The optimizers of a model: the compiled one, those of its own step, also in lists, and those inside of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras


def optimizers_of(model: Any) -> Iterator[Any]:
    """Each optimizer of a model once, the same on every worker and in the same order."""
    todo = [getattr(model, "optimizer", None), *(value for value in vars(model).values())]
    seen: set[int] = set()
    while todo:
        found = todo.pop(0)
        if id(found) in seen:
            continue
        if isinstance(found, keras.optimizers.Optimizer):
            yield found
            todo.extend([getattr(found, "inner_optimizer", None), *getattr(found, "optimizers", ())])
        elif isinstance(found, dict):
            todo.extend(found.values())
        elif isinstance(found, list | tuple):
            todo.extend(found)
        else:
            continue
        seen.add(id(found))
