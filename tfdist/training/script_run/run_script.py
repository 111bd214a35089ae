"""A run of the user's own script or module, which may know nothing of tfdist."""

from __future__ import annotations

import builtins
import importlib.machinery
import os
import runpy
import sys
import traceback
import types

from tfdist.launch.environment import Assignment
from tfdist.training.provenance import write_script
from tfdist.training.script_run.device_settings import adopt_settings
from tfdist.training.script_run.strategy_adoption import adopt_strategies
from tfdist.training.session import current_session as sessions


def run_script(assignment: Assignment) -> int:
    """Runs the script under the session's strategy, with argv, `__main__`, `sys.path[0]` as python gives them.

    Returns:
        The exit code that python would end with; what the script raises is raised.
    """
    session = sessions.start(assignment, sessions.requested_devices(assignment))
    if session.is_chief:
        write_script(session, assignment)
    adopt_strategies(session)
    if session.choice.kind != "one":
        adopt_settings()
    code = _execute(assignment)
    session.fit_registry.warn_if_nothing_was_saved()
    return code


def _execute(assignment: Assignment) -> int:
    sys.argv = [assignment.target, *assignment.args]
    worker = os.getpid()
    try:
        code = _play(assignment)
    except BaseException:
        if os.getpid() == worker:
            raise
        traceback.print_exc()
        code = 1
    if os.getpid() != worker:
        # The script has forked this process, and let it come to the script's end: it must not speak for the worker.
        sys.stdout.flush()
        os._exit(code)
    return code


def _play(assignment: Assignment) -> int:
    try:
        if assignment.target_kind == "module":
            # Started with -m itself, this process already has the working directory first on its path.
            runpy.run_module(assignment.target, run_name="__main__", alter_sys=True)
        else:
            _run_file(os.path.abspath(assignment.target))
    except SystemExit as end:
        return _exit_code(end)
    return 0


def _run_file(path: str) -> None:
    """Runs a script as python does. (`runpy` would put another `sys.argv[0]`, and take `__main__` away at the end.)"""
    sys.path[0] = os.path.dirname(os.path.realpath(path))
    main = types.ModuleType("__main__")
    loader = importlib.machinery.SourceFileLoader("__main__", path)
    main.__dict__.update(__file__=path, __loader__=loader, __builtins__=builtins)
    sys.modules["__main__"] = main
    exec(loader.source_to_code(loader.get_data(path), path), main.__dict__)


def _exit_code(end: SystemExit) -> int:
    """What python exits with: text goes to stderr and counts as 1."""
    if end.code is None:
        return 0
    if isinstance(end.code, int):
        return end.code & 0xFF
    print(end.code, file=sys.stderr, flush=True)
    return 1
