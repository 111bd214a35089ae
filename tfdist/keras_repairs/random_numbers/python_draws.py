"""Numbers from NumPy's and Python's generators, which replicas cannot share: refused in a step.

A step that is compiled draws such a number once, when it is traced, and each replica is traced by itself: every one of
them would have a number of its own for good. In a step that runs eagerly each replica draws for its own samples.
"""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.context_variables import changing
from tfdist.keras_repairs.base.replica_step import current_step, is_alone
from tfdist.keras_repairs.draw_slices.draw_scope import DRAW_SCOPE

Function = Callable[..., Any]

_NO_DRAWS = {"seed", "get_state", "set_state", "getstate", "setstate"}

NAMES = {
    np.random: sorted({name for name in np.random.__all__ if hasattr(np.random.RandomState, name)} - _NO_DRAWS),
    random: sorted({name for name in random.__all__ if hasattr(random.Random, name)} - _NO_DRAWS),
}
"""The functions of the modules that draw from the global generators."""


def watched(original: Function, name: str) -> Function:
    """Repairs a function of `np.random` or `random`, called `name`: it is refused in a step.

    Keras takes a seed for its global generator by it, which replicas share.
    """

    def repaired(*args: Any, **kwargs: Any) -> Any:
        if DRAW_SCOPE.get().of_python is not None or current_step() is not None or is_alone():
            caller = sys._getframe(1).f_globals.get("__name__", "")
            if not caller.startswith(("keras.src.", "tensorflow.")):
                _note(name)
        return original(*args, **kwargs)

    return repaired


@contextlib.contextmanager
def refused_in_trial() -> Iterator[None]:
    """Around code that is tried out, which may raise and catch what it likes: draws in it are refused at its end.

    Raises:
        UnsupportedError: The code has drawn.
    """
    if DRAW_SCOPE.get().of_python is not None:
        # What is tried out is part of something that is.
        yield
        return
    noted: list[str] = []
    try:
        with changing(DRAW_SCOPE, of_python=noted):
            yield
    except Exception as error:
        if noted:
            raise _refusal(noted[0]) from error
        raise
    if noted:
        raise _refusal(noted[0])


def note_generator(generator: Any) -> None:
    """Notes that code which is tried out has drawn from a generator that the user's objects hold."""
    _note(f"a {type(generator).__module__.partition('.')[0]}.{type(generator).__name__}")


def _note(name: str) -> None:
    noted = DRAW_SCOPE.get().of_python
    if noted is None:
        raise _refusal(name)
    noted.append(name)


def _refusal(name: str) -> UnsupportedError:
    return UnsupportedError(
        f"Random numbers are drawn by {name} in a step, a model, a layer, a loss or a metric. Each replica would draw "
        "other ones than one device does (and where the step is compiled, once for all steps). Draw with the function "
        "of the same name in keras.random, with seed=keras.random.SeedGenerator(...) made once, or in the data "
        "(dataset.map, a generator, a PyDataset), or train on one device (`tfdist train` without --workers, --nproc "
        "and --logical-devices)."
    )
