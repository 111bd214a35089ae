"""Collects what is wrong with the objects of a config: a check shows all of it, a run raises it as one error."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from tfdist.config.field_errors import FieldError, FieldErrors, errors_of
from tfdist.config.load import listed
from tfdist.config.yaml_document import Document
from tfdist.errors import ConfigError, DataError


class UserCodeError(FieldError):
    """Code of the user's own, which the config names, raised the error that is this one's cause."""


@dataclass(frozen=True)
class Problem:
    """One mistake.

    Attributes:
        key: The dotted key in the config.
        text: What is wrong with it, what was expected and what was received.
        exit_code: What a run that has this mistake alone exits with.
        cause: What code of the user's own raised; None where it did not come so far.
    """

    key: str
    text: str
    exit_code: int = ConfigError.exit_code
    cause: BaseException | None = None

    def __str__(self) -> str:
        return f"{self.key}: {self.text}"


class Problems:
    """The mistakes that were found so far."""

    def __init__(self) -> None:
        self.found: list[Problem] = []

    @contextlib.contextmanager
    def collecting(self) -> Iterator[None]:
        """While entered, an error of a key ends the block and is kept."""
        try:
            yield
        except (FieldError, FieldErrors) as error:
            for one in errors_of(error):
                cause = one.__cause__ if isinstance(one, UserCodeError) else None
                self.found.append(Problem(one.key, one.problem, cause=cause))

    def add(self, key: str, text: str, exit_code: int) -> None:
        """Keeps a mistake of the data, or of data that does not fit the model."""
        self.found.append(Problem(key, text, exit_code))

    def raise_any(self, document: Document | None = None) -> None:
        """Raises what was found, as one error.

        Args:
            document: The config's file, for the lines of the mistakes; None where it has none.

        Raises:
            ConfigError: Something in the config is wrong.
            DataError: The data alone is.
            BaseException: Code of the user's own raised it: it is the user's to see where.
        """
        if not self.found:
            return
        causes = [problem.cause for problem in self.found if problem.cause is not None]
        if causes:
            raise causes[0]
        kind = DataError if all(problem.exit_code == DataError.exit_code for problem in self.found) else ConfigError
        if document is not None:
            raise kind(listed(document, [(problem.key, str(problem)) for problem in self.found]))
        lines = [str(problem) for problem in self.found]
        raise kind(lines[0] if len(lines) == 1 else "\n  ".join([f"the config has {len(lines)} mistakes:", *lines]))
