"""The optimizers of a model: the compiled one, a second one that its own step uses, and those inside of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras


def optimizers_of(model: Any) -> Iterator[Any]:
    """Each optimizer of a model once, the same on every worker and in the same order."""
    todo = [getattr(model, "optimizer", None), *(value for value in vars(model).values())]
    seen: set[int] = set()
    while todo:
        optimizer = todo.pop(0)
        if isinstance(optimizer, keras.optimizers.Optimizer) and id(optimizer) not in seen:
            seen.add(id(optimizer))
            yield optimizer
            todo.extend([getattr(optimizer, "inner_optimizer", None), *getattr(optimizer, "optimizers", ())])
