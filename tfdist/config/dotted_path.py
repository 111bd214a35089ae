"""Imports the function or class that a dotted path in a config names."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from tfdist.config.field_errors import FieldError, nearest
from tfdist.text import safe_str


def search_in(directory: str) -> None:
    """Lets dotted paths name the modules in a directory too, as in training, besides those that are installed."""
    if directory not in sys.path:
        sys.path.insert(0, directory)


def resolve_callable(path: str, key: str) -> Callable[..., Any]:
    """Imports what a dotted path names: a function or class in a module, or in a class of it.

    Args:
        path: Such as `tfdist.models.mlp`.

    Raises:
        ConfigError: It cannot be imported, does not exist or is not callable.
    """
    names = path.split(".")
    found: Any = _import(names[0], path, key)
    for position, name in enumerate(names[1:], start=1):
        parent = ".".join(names[:position])
        if not _has(found, name, path, key) and isinstance(found, ModuleType) and hasattr(found, "__path__"):
            _import(f"{parent}.{name}", path, key, missing_is_fine=True)
        if not _has(found, name, path, key):
            near = nearest(name, [entry for entry in dir(found) if not entry.startswith("_")])
            hint = f"; did you mean {'.'.join([parent, near, *names[position + 1 :]])}?" if near else "."
            raise FieldError(key, f"{parent} has no {name}{hint} Received: {path}")
        found = getattr(found, name)
    if not callable(found):
        raise FieldError(key, f"expected a function or a class. Received: {path}, which is a {type(found).__name__}")
    return found


def _has(parent: Any, name: str, path: str, key: str) -> bool:
    try:
        return hasattr(parent, name)
    except Exception as error:
        # From a package that imports its parts lazily.
        said = safe_str(error)
        raise FieldError(key, f"looking for {name} raised {type(error).__name__}: {said}. Received: {path}") from error


def _import(module: str, path: str, key: str, missing_is_fine: bool = False) -> ModuleType | None:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name == module:
            if missing_is_fine:
                return None
            raise FieldError(
                key,
                f"there is no module {module}. Expected one that is installed or lies in the working directory. "
                f"Received: {path}",
            ) from error
        problem: BaseException = error
    except (Exception, SystemExit) as error:
        # A script that parses its options when it is imported exits with argparse's code, without a message.
        problem = error
    raise FieldError(
        key, f"importing {module} raised {type(problem).__name__}: {problem}. Received: {path}"
    ) from problem
