"""Objects of Keras by what a config says of them, their names and arguments checked: an optimizer, losses, metrics."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any

import keras

from tfdist.config import resolve_callable
from tfdist.config.field_errors import FieldError, dotted, nearest, one_error, shown
from tfdist.config.keras_object import is_object
from tfdist.text import safe_str
from tfdist.training.config_objects.problems import Problems, UserCodeError
from tfdist.training.pruning.pruning_callback import Pruning
from tfdist.training.quantization_aware_callback import QuantizationAware
from tfdist.training.supervision.thread_stacks import is_raised_by_user, user_place_of

_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SHORT = {
    "acc": "accuracy",
    "mse": "mean_squared_error",
    "mae": "mean_absolute_error",
    "mape": "mean_absolute_percentage_error",
    "msle": "mean_squared_logarithmic_error",
    "bce": "binary_crossentropy",
    "kld": "kl_divergence",
}
"""Names that Keras has for some losses and metrics besides."""


def snake_case(name: str) -> str:
    """`early_stopping` for `EarlyStopping`."""
    return _WORDS.sub("_", name.replace("IoU", "Iou").replace("NaN", "Nan")).lower()


@dataclass(frozen=True)
class KerasKind:
    """One kind of object.

    Attributes:
        word: What it is, for errors: `optimizer`.
        module: Where Keras has its classes.
        base: What all of them are.
        left_out: Classes that no config can make use of.
        shown: How the name of a class is written in a config.
        own: Classes of tfdist beside them.
    """

    word: str
    module: ModuleType
    base: type
    left_out: tuple[str, ...] = ()
    shown: Callable[[str], str] = snake_case
    own: tuple[type, ...] = ()

    @cached_property
    def classes(self) -> Mapping[str, type]:
        """Every name that a class goes by -> the class."""
        found: dict[str, type] = {}
        for name, value in (*vars(self.module).items(), *((kind.__name__, kind) for kind in self.own)):
            is_one = isinstance(value, type) and issubclass(value, self.base) and value is not self.base
            if is_one and name not in self.left_out:
                found |= dict.fromkeys((name, snake_case(name), name.lower(), _WORDS.sub("_", name).lower()), value)
        return found | {short: found[name] for short, name in _SHORT.items() if name in found}

    def find(self, name: str, key: str) -> type:
        """The class that a config's `key` names.

        Raises:
            FieldError: There is none.
        """
        found = self.classes.get(name) or self.classes.get(name.lower())
        if found is None:
            raise self.unknown(name, key)
        return found

    def unknown(self, name: str, key: str) -> FieldError:
        """The error for a name that Keras does not have."""
        names = sorted({self.shown(value.__name__) for value in self.classes.values()})
        near = nearest(name, [*names, *_SHORT])
        hint = f"did you mean {near}? Expected Keras's name of one" if near else f"expected one of {', '.join(names)}"
        return FieldError(
            key, f"Keras has no {self.word} {name}; {hint}, or {{build: my.module.Class}}. Received: {name}"
        )


OPTIMIZER = KerasKind(
    "optimizer", keras.optimizers, keras.optimizers.Optimizer, ("LossScaleOptimizer", "MultiOptimizer"), str.lower
)
LOSS = KerasKind("loss", keras.losses, keras.losses.Loss)
METRIC = KerasKind("metric", keras.metrics, keras.metrics.Metric)
SCHEDULE = KerasKind(
    "learning rate schedule", keras.optimizers.schedules, keras.optimizers.schedules.LearningRateSchedule
)
CALLBACK = KerasKind(
    "callback", keras.callbacks, keras.callbacks.Callback, ("CallbackList",), own=(Pruning, QuantizationAware)
)


_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def call(function: Callable[..., Any], args: Mapping[str, Any], key: str) -> Any:
    """Calls a function or a class with a config's arguments.

    Args:
        function: What is called.
        args: The keyword arguments.
        key: Their dotted key in the config.

    Raises:
        FieldError: An argument is unknown or missing, or the function takes none of these values.
        FieldErrors: Several are.
        UserCodeError: Code of the user's own raised the error that is the cause of this one.
    """
    check_arguments(function, args, key)
    try:
        return function(**args)
    except Exception as error:
        if is_raised_by_user(error):
            raise UserCodeError(
                key,
                f"{_name(function)} raised {type(error).__name__} {user_place_of(error)}: {_line(error)}. "
                f"Received: {shown(args)}",
            ) from error
        raise FieldError(key, f"{_name(function)} refuses {shown(args)}: {_line(error)}") from error


def check_arguments(function: Callable[..., Any], args: Mapping[str, Any], key: str) -> None:
    """Checks the names of keyword arguments; see `call`."""
    known = _Arguments.of(function)
    if known is None:
        return
    problems = []
    for name in args:
        if name not in known.names and not known.takes_others:
            near = nearest(str(name), known.names)
            hint = f"; did you mean {near}?" if near else "."
            expected = f"one of {', '.join(known.names)}" if known.names else "none"
            text = f"{_name(function)} has no such argument{hint} Expected {expected}. Received: {shown(args[name])}"
            problems.append(FieldError(dotted(key, str(name)), text))
    missing = [name for name in known.required if name not in args]
    if missing:
        received = f"only {', '.join(args)}" if args else "no argument"
        text = f"{_name(function)} needs {', '.join(missing)} as well. Received: {received}"
        problems.append(FieldError(key, text))
    if problems:
        raise one_error(problems)


@dataclass(frozen=True)
class _Arguments:
    """The arguments that a function can be called with.

    Attributes:
        names: Its keyword arguments.
        required: Those without a default.
        takes_others: Whether it may take arguments of other names.
    """

    names: tuple[str, ...]
    required: tuple[str, ...]
    takes_others: bool

    @classmethod
    def of(cls, function: Callable[..., Any]) -> _Arguments | None:
        """The arguments of a function or of a class; None where Python does not know them."""
        constructors = [function]
        if inspect.isclass(function):
            constructors = [vars(base)["__init__"] for base in function.__mro__[:-1] if "__init__" in vars(base)]
        names: dict[str, None] = {}
        required: tuple[str, ...] = ()
        for place, constructor in enumerate(constructors):
            try:
                parameters = list(inspect.signature(constructor).parameters.values())[inspect.isclass(function) :]
            except (TypeError, ValueError):
                return None
            named = [parameter for parameter in parameters if parameter.kind in _NAMED]
            names |= dict.fromkeys(parameter.name for parameter in named)
            if place == 0:
                required = tuple(parameter.name for parameter in named if parameter.default is parameter.empty)
            if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
                return cls(tuple(names), required, takes_others=False)
            # Keras's own classes hand what is left on to their base, which refuses what it does not know.
            if not getattr(constructor, "__module__", "").startswith("keras."):
                return cls(tuple(names), required, takes_others=True)
        return cls(tuple(names), required, takes_others=not inspect.isclass(function))


def _name(function: Any) -> str:
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", repr(function))
    return name if module is None or module.startswith("keras.src") else f"{module}.{name}"


def _line(error: Exception) -> str:
    """An error's text on one line, without its full stop; its type where it says nothing."""
    return " ".join(safe_str(error).split()).rstrip(".") or type(error).__name__


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
