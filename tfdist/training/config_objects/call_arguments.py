"""Arguments that a config gives to a function or a class: checked by name, before the call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tfdist.config.field_errors import FieldError, dotted, nearest, one_error, shown
from tfdist.text import safe_str
from tfdist.training.config_objects.problems import UserCodeError
from tfdist.training.supervision.user_frames import is_raised_by_user, user_place_of

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
