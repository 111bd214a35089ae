"""The methods of a model that its own steps call: noted in a trial, and replaced while a step runs."""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
from keras.src.backend.common import global_state

Method = Callable[..., Any]

_MOST_ALONE = 6
"""At most so many methods of a step are tried out one by one."""


@contextlib.contextmanager
def noting_methods(model: keras.Model) -> Iterator[list[str]]:
    """Gives the names of those methods of the user's class that steps call on the model meanwhile, in their order."""
    called: dict[str, None] = {}

    def noting(name: str, method: Method) -> Method:
        @functools.wraps(method)
        def noted(*args: Any, **kwargs: Any) -> Any:
            called[name] = None
            names[:] = called
            return method(*args, **kwargs)

        return noted

    names: list[str] = []
    with replaced_methods(model, _own_methods(model), noting):
        yield names


@contextlib.contextmanager
def replaced_methods(
    model: keras.Model, names: Sequence[str], replacement: Callable[[str, Method], Method]
) -> Iterator[None]:
    """Replaces methods of a model, as its steps call them, until the last one who asked for it has left.

    Replicas of one process take turns within a step, each in a thread of its own.

    Args:
        model: Whose methods they are.
        names: Theirs.
        replacement: Makes what is called instead, of the name and the method.
    """
    held = model.__dict__
    for name in names:
        if name not in held:
            method = getattr(model, name)
            held[name] = _Replaced(method, replacement(name, method))
        held[name].users += 1
    try:
        yield
    finally:
        for name in names:
            held[name].users -= 1
            if not held[name].users:
                del held[name]


class _Replaced:
    """What a step calls instead of a method, and how many ask for it.

    The calls of layers and models are tried out by themselves, once for all steps, and call the method.
    """

    def __init__(self, method: Method, other: Method) -> None:
        self._method, self._other = method, other
        self.users = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        is_in_call = global_state.get_global_attribute("current_call_ctx") is not None
        return (self._method if is_in_call else self._other)(*args, **kwargs)


def ways_to_gather(called: Sequence[str]) -> list[tuple[str, ...]]:
    """The methods to gather, from cheap to dear: each by itself, and all of them."""
    alone: list[tuple[str, ...]] = [(name,) for name in called[:_MOST_ALONE]]
    return [*alone, tuple(called)] if len(called) > 1 else alone


def _own_methods(model: keras.Model) -> list[str]:
    """The methods that the user's class adds to Keras's, and `compute_loss`, which steps of one's own call in any way.

    One that stands in the model's own attributes is left alone.
    """
    classes = [kind for kind in type(model).__mro__ if not kind.__module__.startswith("keras.")]
    functions = types.FunctionType | staticmethod
    names = {name: None for kind in classes for name, value in vars(kind).items() if isinstance(value, functions)}
    of_keras = set(dir(keras.Model)) - {"compute_loss"}
    return [name for name in names if name not in of_keras and name not in model.__dict__]
