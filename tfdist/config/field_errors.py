"""The error for one key of a config, or for several, and how it shows keys and values."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tfdist.errors import ConfigError
from tfdist.text import safe_str


class FieldError(ConfigError):
    """A key has an unknown name, a wrong type or an impossible value, or is missing.

    Attributes:
        key: The dotted key, from the section that was checked: `batch_size`, or `data.batch_size`.
        problem: What is wrong with it, what was expected and what was received.
    """

    def __init__(self, key: str, problem: str):
        super().__init__(f"{key}: {problem}" if key else problem)
        self.key = key
        self.problem = problem

    def within(self, section: str) -> FieldError:
        """The same problem, with the key as seen from the section that contains this one."""
        return FieldError(dotted(section, self.key), self.problem)


class FieldErrors(ConfigError):
    """Several keys are wrong.

    Attributes:
        problems: One error for each, at least two.
    """

    def __init__(self, problems: Sequence[FieldError]):
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)


def errors_of(error: FieldError | FieldErrors) -> tuple[FieldError, ...]:
    """The errors that one exception stands for."""
    return error.problems if isinstance(error, FieldErrors) else (error,)


def one_error(problems: Sequence[FieldError]) -> FieldError | FieldErrors:
    """One exception that stands for all of `problems`, at least one."""
    return problems[0] if len(problems) == 1 else FieldErrors(problems)


def dotted(section: str, key: str) -> str:
    """The dotted key of an entry of a section; the whole config is the section ''."""
    return f"{section}.{key}" if section and key else section or key


def shown(value: Any) -> str:
    """A value as an error shows it: on one line, quoted as in YAML, cut when long."""
    text = _in_yaml(value)
    return text if len(text) <= 200 else text[:200] + "..."


def _in_yaml(value: Any) -> str:
    """The value as JSON, which is YAML too; dates, and keys that are numbers, as YAML writes them."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_in_yaml(key)}: {_in_yaml(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_in_yaml, value)) + "]"
    return json.dumps(value) if value is None or isinstance(value, str | int | float) else safe_str(value)


def nearest(name: str, valid: Iterable[str]) -> str | None:
    """The valid name that `name` was most likely meant to be; None when nothing is near."""
    matches = difflib.get_close_matches(name.lower(), list(valid), n=1)
    return matches[0] if matches else None
