"""Calls in a function's source that draw random numbers; the function is neither imported nor called."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

_RANDOM = (
    "tensorflow.random.",
    "tensorflow.image.random_",
    "tensorflow.image.sample_distorted",
    "tensorflow.keras.random.",
    "tensorflow.keras.layers.Random",
    "keras.random.",
    "keras.layers.Random",
    "numpy.random.",
    "random.",
    "secrets.",
)
_SEEDED = ("stateless", "index_shuffle", "fold_in", "SeedGenerator", "PRNGKey")
"""Words in names of functions that take their seed with each call, and so draw the same numbers for the same sample."""

_GENERATORS = ("numpy.random.default_rng", "numpy.random.RandomState", "random.Random")
"""Generators that draw the same numbers each time when they are made with a seed."""


def random_calls(source: str, function: str) -> list[tuple[str, int]]:
    """Returns the calls that draw random numbers in a function, and in those of the same file that it names.

    Args:
        source: The text of the Python file.
        function: Its name in the file; of a method, `Class.method`.

    Returns:
        Dotted name and line of each, in the order of the lines. A file that does not parse has none: importing it will
        say what is wrong.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return []
    names = _imported(tree)
    functions = dict(_functions(tree))
    found: set[tuple[int, str]] = set()
    waiting, seen = [function], set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen or name not in functions:
            continue
        seen.add(name)
        seeded = _seeded(functions[name], names)
        for node in ast.walk(functions[name]):
            if isinstance(node, ast.Attribute | ast.Name) and node not in seeded:
                dotted = _dotted(node, names)
                waiting.append(dotted)
                if dotted.startswith(_RANDOM) and not any(word in dotted for word in _SEEDED):
                    found.add((node.lineno, dotted))
    lines = sorted(found)
    # `np.random.default_rng` contains `np.random`, which is no other call.
    return [(name, line) for line, name in lines if not any(o != name and o.startswith(f"{name}.") for _, o in lines)]


def _seeded(function: ast.AST, names: dict[str, str]) -> set[ast.AST]:
    """The names of generators that are called with a seed, and so give the same numbers each time."""
    return {
        part
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and (node.args or node.keywords) and _dotted(node.func, names) in _GENERATORS
        for part in ast.walk(node.func)
    }


def _functions(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node
        if isinstance(node, ast.ClassDef):
            for member in node.body:
                if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield f"{node.name}.{member.name}", member


def _imported(tree: ast.Module) -> dict[str, str]:
    """Name in the file -> the full name that was imported."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def _dotted(node: ast.expr, names: Mapping[str, str]) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([names.get(node.id, node.id), *reversed(parts)])
