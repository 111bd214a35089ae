"""Tensors that the user's objects keep for a while, as a model's `call` does for its step: each replica has its own.

The replicas of a process are threads that share all objects of Python, and take turns where they meet. What one of them
has kept on an object, the next one has replaced when its turn comes again: it would go on with the features of another
replica's samples, without a word.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tfdist.keras_repairs.base.context_variables import setting
from tfdist.keras_repairs.coupling.trials.kept_state import is_of_user, own_attributes

_MANY = 10_000
"""Items of a container from which on they are not looked through."""

_TENSORS = tf.Tensor | tf.RaggedTensor | tf.SparseTensor | tf.IndexedSlices

_model: contextvars.ContextVar[keras.Model | None] = contextvars.ContextVar("tfdist_model_of_step", default=None)


def in_step_of(model: keras.Model) -> contextlib.AbstractContextManager[None]:
    """The code inside is a replica's step of this model."""
    return setting(_model, model)


def merge_call(original: Callable[..., Any]) -> Callable[..., Any]:
    """Repairs `_MirroredReplicaContext._merge_call`, in which the other replicas of a process have their turns."""

    def repaired(self: Any, *args: Any, **kwargs: Any) -> Any:
        model = _model.get()
        if model is None:
            return original(self, *args, **kwargs)
        kept = KeptTensors(model)
        state = kept.read()
        result = original(self, *args, **kwargs)
        kept.write(state)
        return result

    return repaired


class KeptTensors:
    """The tensors that a model and what it holds keep in attributes, lists and dicts.

    Args:
        model: The model, of which objects of the user's classes are looked through.
    """

    def __init__(self, model: Any) -> None:
        self._model = model

    def read(self) -> list[tuple[Any, Any]]:
        """Objects that hold tensors now, each with those of its attributes, or with its items."""
        found: list[tuple[Any, Any]] = []
        seen: dict[int, Any] = {}
        waiting = [self._model]
        while waiting:
            value = waiting.pop()
            if id(value) in seen:
                continue
            seen[id(value)] = value
            if isinstance(value, dict | list):
                items = _items(value)
                if _hold_tensors(items):
                    found.append((value, value.copy()))
                waiting.extend(items)
                continue
            if isinstance(value, keras.layers.Layer):
                waiting.extend(value._flatten_layers(include_self=False))
            attributes = own_attributes(value) if is_of_user(type(value)) and hasattr(value, "__dict__") else {}
            tensors = {name: part for name, part in attributes.items() if _hold_tensors([part])}
            if tensors:
                found.append((value, tensors))
            waiting.extend(attributes.values())
        return found

    def write(self, state: list[tuple[Any, Any]]) -> None:
        """Puts the tensors back where they were."""
        for owner, kept in state:
            if isinstance(owner, list):
                if not _are_same(owner, kept):
                    owner[:] = kept
            elif isinstance(owner, dict):
                if list(owner) != list(kept) or not _are_same(list(owner.values()), list(kept.values())):
                    owner.clear()
                    owner.update(kept)
            else:
                for name, part in kept.items():
                    if vars(owner).get(name) is not part:
                        # Past Keras, which tracks what is assigned.
                        object.__setattr__(owner, name, part)


def _items(container: Any) -> list[Any]:
    items = list(container.values()) if isinstance(container, dict) else list(container)
    return items if len(items) <= _MANY else []


def _hold_tensors(values: list[Any]) -> bool:
    """Whether some values are tensors, or tuples of them; lists and dicts are looked at by themselves."""
    return any(
        isinstance(value, _TENSORS) or (isinstance(value, tuple) and len(value) <= _MANY and _hold_tensors(list(value)))
        for value in values
    )


def _are_same(one: list[Any], other: list[Any]) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))
