"""Cell pickler: cloudpickle that keeps in which cell a function was typed.

From 3.1.3 on cloudpickle calls the file of all code that it writes by value `<dynamic-code>`. Then AutoGraph does not
find the text of a function, and tracebacks name no cell. It needs cloudpickle: import it only where that is used.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any

import cloudpickle


class CellPickler(cloudpickle.Pickler):
    """Writes what a notebook has defined by value, and its code with the names of the cells."""

    def reducer_override(self, obj: Any) -> Any:
        """Says how an object is written; see `pickle.Pickler.reducer_override`."""
        if isinstance(obj, CodeType):
            make, arguments = self.dispatch_table[CodeType](obj)
            return _code_of_file, (obj.co_filename, make, arguments)
        return super().reducer_override(obj)


def _code_of_file(name: str, make: Callable[..., CodeType], arguments: tuple[Any, ...]) -> CodeType:
    return make(*arguments).replace(co_filename=name)
