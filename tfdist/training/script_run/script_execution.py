"""Execution of a user's script or module in this process, as python would execute it."""

from __future__ import annotations

import builtins
import importlib.machinery
import os
import runpy
import sys
import traceback
import types
from collections.abc import Sequence

from tfdist.text import safe_str


def execute_script(target: str, args: Sequence[str], *, is_module: bool) -> int:
    """Executes a script or module with argv, `__main__` and `sys.path[0]` as python sets them.

    Args:
        target: The script's path, or the module's dotted name.
        args: Its arguments.
        is_module: Whether `target` is a module.

    Returns:
        The exit code that python would end with; what the script raises is raised.
    """
    sys.argv = [target, *args]
    worker = os.getpid()
    try:
        code = _execute(target, is_module)
    except BaseException:
        if os.getpid() == worker:
            raise
        traceback.print_exc()
        code = 1
    if os.getpid() != worker:
        # A process that the script forked came to the script's end: it must not continue as the worker.
        sys.stdout.flush()
        os._exit(code)
    return code


def _execute(target: str, is_module: bool) -> int:
    try:
        if is_module:
            # Started with -m itself, this process already has the working directory first on its path.
            runpy.run_module(target, run_name="__main__", alter_sys=True)
        else:
            _execute_file(os.path.abspath(target))
    except SystemExit as end:
        return _exit_code(end)
    return 0


def _execute_file(path: str) -> None:
    """Executes a file. (`runpy` would set another `sys.argv[0]`, and remove `__main__` at the end.)"""
    sys.path[0] = os.path.dirname(os.path.realpath(path))
    main = types.ModuleType("__main__")
    loader = importlib.machinery.SourceFileLoader("__main__", path)
    main.__dict__.update(__file__=path, __loader__=loader, __builtins__=builtins)
    sys.modules["__main__"] = main
    exec(loader.source_to_code(loader.get_data(path), path), main.__dict__)


def _exit_code(end: SystemExit) -> int:
    """Returns what python exits with: text goes to stderr and counts as 1."""
    if end.code is None:
        return 0
    if isinstance(end.code, int):
        return end.code & 0xFF
    print(safe_str(end.code), file=sys.stderr, flush=True)
    return 1
