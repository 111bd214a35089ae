"""Objects of Keras by what a config says of them: an optimizer, losses, metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras

from tfdist.config import resolve_callable
from tfdist.config.field_errors import FieldError, dotted, shown
from tfdist.config.keras_object import is_object
from tfdist.training.config_objects.call_arguments import call
from tfdist.training.config_objects.keras_names import LOSS, METRIC, OPTIMIZER, SCHEDULE, KerasKind
from tfdist.training.config_objects.problems import Problems

_RESOLVED_BY_SHAPE = ("accuracy", "acc", "crossentropy", "ce")
"""Names that Keras resolves by the shapes of labels and predictions."""

Make = Callable[[Any, str], Any]
"""Makes one object of a config's value and its dotted key."""


def make_optimizer(value: Any, key: str) -> keras.optimizers.Optimizer:
    """The optimizer that a config names.

    Raises:
        FieldError: It does not exist, or its arguments do not fit.
        FieldErrors: Several of its arguments do not.
    """
    if isinstance(value, str) or "build" in value:
        return make_object(OPTIMIZER, value, key)
    arguments = dict(value)
    rate = arguments.get("learning_rate")
    if is_object(rate):
        arguments["learning_rate"] = make_object(SCHEDULE, _in_floats(rate), dotted(key, "learning_rate"))
    elif rate is not None:
        arguments["learning_rate"] = _float(rate)
    return make_object(OPTIMIZER, arguments, key)


def _in_floats(schedule: Any) -> Any:
    """A schedule whose rates are floats: with an integer such as 1, Keras would compute it in integers.

    Numbers of steps stay whole.
    """
    if isinstance(schedule, str) or "build" in schedule:
        return schedule
    whole = [name for name in schedule if "steps" in name or name == "boundaries"]
    return {name: value if name in whole else _float(value) for name, value in schedule.items()}


def _float(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_float(entry) for entry in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def make_loss(value: Any, key: str) -> Any:
    """A loss: its name where Keras knows it, else an object or a function; errors as of `make_optimizer`."""
    return _named_or_made(LOSS, value, key, keras.losses.get)


def make_metric(value: Any, key: str) -> Any:
    """A metric, as `make_loss`."""
    return _named_or_made(METRIC, value, key, keras.metrics.get)


def make_object(kind: KerasKind, value: Any, key: str) -> Any:
    """Makes one object of any of the forms that a config has for it; errors as of `make_optimizer`."""
    if isinstance(value, str):
        return call(kind.find(value, key), {}, key)
    if "build" not in value:
        arguments = {name: argument for name, argument in value.items() if name != "name"}
        return call(kind.find(value["name"], dotted(key, "name")), arguments, key)
    path = value["build"]
    made = call(resolve_callable(path, dotted(key, "build")), value.get("args", {}), dotted(key, "args"))
    if not isinstance(made, kind.base) and not (kind in (LOSS, METRIC) and callable(made)):
        expected = f"a class or a function that makes a keras {kind.base.__name__}"
        raise FieldError(
            dotted(key, "build"), f"expected {expected}. Received: {path}, which made a {type(made).__name__}"
        )
    return made


def make_for_outputs(value: Any, key: str, make: Make, problems: Problems) -> Any:
    """Makes the objects of a list, of a mapping of outputs, or the only one; None stands for one that is wrong.

    Args:
        value: What the config has at `key`.
        key: The dotted key.
        make: Makes one of them.
        problems: Takes what is wrong.
    """
    if isinstance(value, Mapping) and not is_object(value):
        return {name: make_for_outputs(entry, dotted(key, name), make, problems) for name, entry in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [make_for_outputs(entry, dotted(key, str(place)), make, problems) for place, entry in enumerate(value)]
    made = None
    with problems.collecting():
        made = make(value, key)
    return made


def check_outputs(value: Any, key: str, outputs: Sequence[str]) -> None:
    """Checks that a mapping or a list of what belongs to the outputs of a model fits them.

    Raises:
        FieldError: It names another output, or has another number.
    """
    if isinstance(value, Mapping) and not is_object(value):
        unknown = next((name for name in value if name not in outputs), None)
        if unknown is not None:
            problem = f"the model has no such output. Expected one of {', '.join(outputs)}"
            raise FieldError(dotted(key, str(unknown)), f"{problem}. Received: {shown(unknown)}")
    elif isinstance(value, Sequence) and not isinstance(value, str) and len(value) != len(outputs):
        expected = f"one for each of the model's {len(outputs)} output(s), {', '.join(outputs)}"
        raise FieldError(key, f"expected {expected}. Received: {len(value)}")


def _named_or_made(kind: KerasKind, value: Any, key: str, get: Callable[[str], Any]) -> Any:
    if not isinstance(value, str):
        return make_object(kind, value, key)
    if value in _RESOLVED_BY_SHAPE:
        return value
    try:
        get(value)
    except (ValueError, TypeError):
        return make_object(kind, value, key)
    return value
