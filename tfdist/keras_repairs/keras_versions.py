"""Checks that Keras and TensorFlow are those that the repairs were written for: what they replace and rely on.

A function is known by what it does. Its fingerprint is that of its source without comments and docstrings, and
`fingerprints` lists those that repairs were tested with: one a function, or several where versions differ.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import inspect
import linecache
import logging
import re
import textwrap
from collections.abc import Collection, Iterator, Mapping
from types import CodeType
from typing import Any

import keras
import tensorflow as tf

from tfdist.errors import UnsupportedError
from tfdist.runtime import tested_versions

MISSING = "missing"
"""Stands for the fingerprint of a function that is not there."""

_STRING_OR_COMMENT = re.compile(
    r"""
    \"{3}(?:\\.|[^\\])*?\"{3} | '{3}(?:\\.|[^\\])*?'{3} | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' | \#[^\n]*
    """,
    re.VERBOSE | re.DOTALL,
)
"""Ten times as fast as the tokenizer, which every start of a worker would wait for."""


def fingerprint(function: Any) -> str:
    """A short digest of what a function does, the same for any comments and docstrings; `MISSING` of None."""
    if function is None:
        return MISSING
    return hashlib.sha256(code_of_function(function).encode()).hexdigest()[:16]


def code_of_function(function: Any) -> str:
    """Returns what `code_of` makes of the source of a function."""
    try:
        return code_of(_source_by_indentation(function))
    except SyntaxError:
        return code_of(inspect.getsource(function))


def _source_by_indentation(function: Any) -> str:
    """The source of a function, which ends behind its code where the indentation does.

    `inspect.getsource` runs Python's tokenizer to find the end, which takes longer than all else here. Lines
    of a string or in brackets may be indented by less: what lacks those is no Python, which shows.
    """
    code = getattr(inspect.unwrap(function), "__code__", None)
    lines = [] if code is None else linecache.getlines(code.co_filename)
    if code is None or not lines:
        return inspect.getsource(function)
    first, end = code.co_firstlineno - 1, _last_line(code)
    while end < len(lines) and (not lines[end].strip() or _indentation(lines[end]) > _indentation(lines[first])):
        end += 1
    return "".join(lines[first:end])


def _last_line(code: CodeType) -> int:
    inner = (_last_line(part) for part in code.co_consts if isinstance(part, CodeType))
    return max([*(line for _, _, line in code.co_lines() if line is not None), *inner])


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


def code_of(source: str) -> str:
    """The source of a function without comments, docstrings, empty lines and the indentation of its first line."""
    if source[:1].isspace():
        # A method; its docstring may have lines that are not indented, so that it cannot be dedented yet.
        source = f"if True:\n{source}"
    lines = _STRING_OR_COMMENT.sub(_without_comment, source).splitlines()
    for first, last in _docstrings(ast.parse(source)):
        lines[first - 1 : last] = [""] * (last - first + 1)
    code = lines[1:] if lines[0] == "if True:" else lines
    return textwrap.dedent("\n".join(line.rstrip() for line in code if line.strip()))


def _without_comment(found: re.Match[str]) -> str:
    return "" if found[0].startswith("#") else found[0]


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, int]]:
    """The first and last lines of the docstrings of every function and class in a tree."""
    todo: list[Any] = list(tree.body)
    while todo:
        statement = todo.pop()
        # Functions and classes stand among statements, so expressions need no look.
        for name in ("body", "orelse", "handlers", "finalbody", "cases"):
            todo.extend(getattr(statement, name, ()))
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        first = statement.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            yield first.lineno, first.end_lineno or first.lineno


def check(versions: Mapping[str, str], functions: Mapping[str, Any], known: Mapping[str, Collection[str]]) -> None:
    """Refuses functions that no repair was written for, and warns, in one line, of versions that were not tested.

    Args:
        versions: Those of `tensorflow` and `keras`.
        functions: The functions about to be replaced, and those that repairs rely on, by their paths.
        known: The fingerprints that each may have, by its path.

    Raises:
        UnsupportedError: A function does something else than in every version that tfdist was tested with.
    """
    installed = " and ".join(f"{package} {version}" for package, version in versions.items())
    changed = [path for path, function in functions.items() if fingerprint(function) not in known.get(path, ())]
    if changed:
        raise UnsupportedError(
            f"In {installed} these functions, which tfdist repairs or relies on, are not what they were in any version "
            f"that it was tested with: {', '.join(map(_placed, changed, map(functions.get, changed)))}. Results on "
            f"several replicas could differ from those of one. {tested_versions.remedy()}"
        )
    if untested := tested_versions.untested(versions):
        logging.getLogger("tfdist").warning(
            "%s. The functions that tfdist repairs or relies on are the same. %s",
            "; ".join(untested),
            tested_versions.remedy(),
        )


def installed() -> dict[str, str]:
    """The versions of TensorFlow and Keras in this process."""
    return {"tensorflow": tf.__version__, "keras": keras.__version__}


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Around the imports of the repairs: what they need and an untested version does not have is told as such.

    Raises:
        UnsupportedError: A version is untested, and lacks a module or a function that is repaired or relied on.
    """
    try:
        yield
    except (ImportError, AttributeError) as error:
        untested = tested_versions.untested(installed())
        if not untested:
            raise
        raise UnsupportedError(
            f"{'; '.join(untested)}, and there is not everything in it that tfdist repairs or relies on: {error}. "
            f"{tested_versions.remedy()}"
        ) from error


def _placed(path: str, function: Any) -> str:
    """A function's path, and where it is defined if that is neither in Keras nor in TensorFlow."""
    if function is None:
        return f"{path} (not there)"
    module = inspect.unwrap(function).__module__
    return path if module.partition(".")[0] in ("keras", "tensorflow") else f"{path} (replaced by {module})"
