"""Base class of records: frozen dataclasses that are written to JSON files and read from them."""

from __future__ import annotations

import dataclasses
import functools
import os
from typing import Any, Self, TypeGuard

from tfdist.errors import RunDirError
from tfdist.rundir.atomic_files import write_json
from tfdist.rundir.regular_files import read_json

_BEYOND = 1e300


def is_finite(value: Any) -> TypeGuard[int | float]:
    """Returns whether a value of a JSON file is a finite number, and not an integer beyond every float."""
    return isinstance(value, int | float) and -_BEYOND < value < _BEYOND


@functools.cache
def _field_names(cls: type[JsonRecord]) -> tuple[list[str], list[str]]:
    """The fields that a record must have, and the others; looked up once, as a launcher reads hundreds a second."""
    fields = dataclasses.fields(cls)
    none = dataclasses.MISSING
    names = [field.name for field in fields if field.default is none and field.default_factory is none]
    return names, [field.name for field in fields if field.name not in names]


@dataclasses.dataclass(frozen=True)
class JsonRecord:
    """Base of the records in a run directory."""

    def to_dict(self) -> dict[str, Any]:
        """The fields, in JSON's types."""
        return dataclasses.asdict(self)

    def check(self) -> None:
        """Checks the types that a file or a message may have otherwise. Raises `ValueError` for another one."""

    @classmethod
    def from_dict(cls, content: Any) -> Self:
        """The record with the fields of `content`; fields that a later version added are ignored.

        Fields with a default may be absent.

        Raises:
            RunDirError: A field is missing or has an impossible value.
        """
        record_class: Any = cls
        names, optional = _field_names(record_class)
        try:
            given = {name: content[name] for name in names}
            record = cls(**given, **{name: content[name] for name in optional if name in content})
            record.check()
            return record
        except ValueError as error:
            raise RunDirError(f"Not a {cls.__name__}: {error}. Received: {content!r:.200}") from error
        except (KeyError, TypeError) as error:
            raise RunDirError(
                f"Not a {cls.__name__}: expected an object with the keys {', '.join(names)}. Received: {content!r:.200}"
            ) from error

    def write(self, path: str | os.PathLike[str], *, durable: bool = True) -> None:
        """Makes or replaces the file, atomically. Raises `RunDirError` when it cannot be written."""
        write_json(path, self.to_dict(), durable=durable)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self | None:
        """The record in a file, or None when there is no such file.

        Raises:
            RunDirError: The file cannot be read or holds something else.
        """
        try:
            return cls.from_dict(read_json(path))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RunDirError) as error:
            raise RunDirError(f"{os.fspath(path)} cannot be read as a {cls.__name__}: {error}") from error
