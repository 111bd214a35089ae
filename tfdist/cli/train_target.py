"""Target of `tfdist train`: a config, a script or a module, and which arguments are its own."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tfdist.errors import UsageError

DEFAULT_CONFIG = "tfdist.yaml"

_EXPECTED = "a config (CONFIG.yaml), a script (SCRIPT.py) or -m MODULE"
_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


@dataclass(frozen=True)
class Target:
    """The target that every worker runs.

    Attributes:
        kind: How it is run.
        target: A path as it was given, or a module's dotted name.
        args: The script's or module's own arguments; empty for a config.
    """

    kind: Literal["config", "script", "module"]
    target: str
    args: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the run when no config gives one."""
        return self.target.rpartition(".")[2] if self.kind == "module" else Path(self.target).stem

    @property
    def arguments(self) -> tuple[str, ...]:
        """The target as it stands on the command line, behind all options."""
        return (*(("-m",) if self.kind == "module" else ()), self.target, *self.args)


def separate(arguments: Sequence[str], valued_options: Collection[str]) -> list[str]:
    """Puts `--` before a script, or after `-m MODULE`, so that all further arguments are its own.

    Arguments after a config are returned as they are.

    Args:
        arguments: Of `tfdist train`.
        valued_options: The options that take a value, which may stand in the next argument.
    """
    position = 0
    while position < len(arguments):
        argument = arguments[position]
        if argument == "--":
            break
        if argument.startswith("-m"):
            return _with_dashes(arguments, position + (2 if argument == "-m" else 1))
        if not argument.startswith("-"):
            return list(arguments) if _is_config(argument) else _with_dashes(arguments, position)
        position += 2 if argument in valued_options else 1
    return list(arguments)


def choose_target(module: str | None, arguments: Sequence[str]) -> Target:
    """Chooses the target, and checks that it exists.

    Args:
        module: The value of `-m`.
        arguments: The positional arguments: `TARGET ARGS...`, or the module's own.

    Raises:
        UsageError: There is no such config, script or module name, or a config is followed by arguments.
    """
    target = name_target(module, arguments)
    if target.kind == "script":
        _check_script(target.target)
    if not arguments and target.kind == "config" and not os.path.exists(DEFAULT_CONFIG):
        raise UsageError(
            f"There is nothing to train: no target was given, and the default ./{DEFAULT_CONFIG} does not exist. "
            f"Expected {_EXPECTED}. Received: no target, in the directory {os.getcwd()}"
        )
    return target


def check_target(target: Target) -> None:
    """Raises `UsageError` where a script or a config does not exist here."""
    if target.kind == "script":
        _check_script(target.target)
    elif target.kind == "config" and not os.path.isfile(target.target):
        raise UsageError(
            f"There is no config {target.target}. Expected {_EXPECTED}. Received: {target.target}, in the directory "
            f"{os.getcwd()}"
        )


def name_target(module: str | None, arguments: Sequence[str]) -> Target:
    """The target that the arguments name, whether it exists or not: it may be another host's.

    Args:
        module: The value of `-m`.
        arguments: The positional arguments: `TARGET ARGS...`, or the module's own.

    Raises:
        UsageError: It is no module's name, or a config is followed by arguments.
    """
    if module is not None:
        if not _MODULE.fullmatch(module):
            raise UsageError(f"-m expected the dotted name of a module, such as package.module. Received: {module!r}")
        return Target("module", module, tuple(arguments))
    if not arguments:
        return Target("config", DEFAULT_CONFIG)
    path, *rest = arguments
    _check_local(path)
    if path.lower().endswith(".ipynb"):
        raise UsageError(
            f"{path} is a notebook. Expected {_EXPECTED}. In the notebook, tfdist.notebook_launcher(train, nproc=2) "
            f"runs a function of it; or make a script of it: jupyter nbconvert --to script {path}"
        )
    if not _is_config(path):
        return Target("script", path, tuple(rest))
    if rest:
        raise UsageError(
            f"A config takes no arguments. Expected options only after {path}, such as --set fit.epochs=3. "
            f"Received: {' '.join(rest)}"
        )
    return Target("config", path)


def check_overrides(target: Target, overrides: Sequence[str]) -> None:
    """Raises `UsageError` when `--set` is given without a config."""
    if overrides and target.kind != "config":
        raise UsageError(
            f"--set overrides an entry of a config, and {target.target} is none. Expected a CONFIG.yaml. "
            f"Received: --set {overrides[0]}"
        )


def _with_dashes(arguments: Sequence[str], position: int) -> list[str]:
    rest = arguments[position:]
    return [*arguments[:position], "--", *rest] if rest else list(arguments)


def _is_config(path: str) -> bool:
    return path.lower().endswith((".yaml", ".yml"))


def _check_local(path: str) -> None:
    # Imported here: `--help` does not need it.
    from tfdist.url_schemes import fault_as_local

    fault = fault_as_local(path, "TARGET", f"Copy it to this machine. Expected {_EXPECTED}")
    if fault is not None:
        raise UsageError(fault)


def _check_script(path: str) -> None:
    try:
        with open(path, "rb"):
            return
    except OSError as error:
        raise UsageError(
            f"The script {path} cannot be read: {error.strerror}. Expected {_EXPECTED}. Received: {path}, "
            f"in the directory {os.getcwd()}"
        ) from error
