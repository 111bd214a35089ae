"""The context variables of a package, and who sets and reads them, as its sources show it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_SETTERS = {"setting", "changing"}
"""Functions that set the variable that is their first argument, for the code of a `with` block."""


@dataclass(frozen=True)
class ContextVariable:
    """A `contextvars.ContextVar` of a module.

    Attributes:
        name: As it is called in the module.
        module: Which makes it.
        set_by: The modules that set it, or fields of the record in it.
        read_by: The modules that read it.
    """

    name: str
    module: str
    set_by: tuple[str, ...]
    read_by: tuple[str, ...]


def context_variables(trees: Mapping[str, ast.Module]) -> list[ContextVariable]:
    """The context variables of some modules, by the modules' names.

    Args:
        trees: Module -> its parsed source.
    """
    made = [(module, name) for module, tree in trees.items() for name in _made(tree)]
    known = {module: _known(module, tree, set(made)) for module, tree in trees.items()}
    set_by: dict[tuple[str, str], set[str]] = {variable: set() for variable in made}
    read_by: dict[tuple[str, str], set[str]] = {variable: set() for variable in made}
    for module, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                for name, users in ((_set(node), set_by), (_read(node), read_by)):
                    if name in known[module]:
                        users[known[module][name]].add(module)
    return [
        ContextVariable(name, module, tuple(sorted(set_by[module, name])), tuple(sorted(read_by[module, name])))
        for module, name in made
    ]


def attached_names(trees: Mapping[str, ast.Module]) -> list[tuple[str, str]]:
    """The names under which a package attaches values to objects of Keras and TensorFlow, with the modules."""
    return sorted(
        (str(node.args[0].value), module)
        for module, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and _called(node) == "AttachedValue" and isinstance(node.args[0], ast.Constant)
    )


def _made(tree: ast.Module) -> Iterator[str]:
    """The names of the variables that a module makes; of one that is assigned to no name an empty one."""
    named = {
        id(node.value): target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _called(node) == "ContextVar":
            yield named.get(id(node), "")


def _known(module: str, tree: ast.Module, made: set[tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Which variable each name of a module is: its own and those that it imports."""
    known = {name: (owner, name) for owner, name in made if owner == module}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            pairs = [(alias.asname or alias.name, (node.module, alias.name)) for alias in node.names]
            known.update({name: variable for name, variable in pairs if variable in made})
    return known


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _set(node: ast.Call) -> str:
    """The name of the variable that a call sets, else an empty one."""
    if _called(node) in _SETTERS and node.args:
        return getattr(node.args[0], "id", "")
    return _owner(node) if _called(node) == "set" else ""


def _read(node: ast.Call) -> str:
    return _owner(node) if _called(node) == "get" else ""


def _owner(node: ast.Call) -> str:
    return getattr(node.func.value, "id", "") if isinstance(node.func, ast.Attribute) else ""
