"""A run of the user's own script or module, which may know nothing of tfdist.

Summary that a run of a script prints when it starts.

Refuses, of several workers, that a script switches eager execution off, as sessions of TensorFlow 1 then do.

What all workers agree on, and what they wait for, is computed eagerly. A graph of TensorFlow 1 that a script makes with
`tf.Graph()` and runs in a session is left alone: it is of one worker.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any, NoReturn

from tfdist.errors import UnsupportedError
from tfdist.launch.environment import Assignment
from tfdist.training.announcements import announcer
from tfdist.training.provenance import write_script
from tfdist.training.script_run.device_settings import adopt_settings
from tfdist.training.script_run.script_execution import execute_script
from tfdist.training.script_run.strategy_adoption import adopt_strategies
from tfdist.training.session import current_session as sessions
from tfdist.training.session.session import LaunchedSession
from tfdist.training.session.session_description import describe

_SWITCHES = ("disable_eager_execution", "disable_v2_behavior")


def run_script(assignment: Assignment) -> int:
    """Runs the script under the session's strategy.

    Returns:
        The exit code that python would end with; what the script raises is raised.
    """
    session = sessions.start(assignment, sessions.requested_devices(assignment))
    if session.is_chief:
        write_script(session, assignment)
        announcer(quiet=assignment.quiet, stream=sys.stderr)(start_line(session))
    adopt_strategies(session)
    keep_eager(session.num_workers)
    if session.choice.kind != "one":
        adopt_settings()
    try:
        code = execute_script(assignment.target, assignment.args, is_module=assignment.target_kind == "module")
    except BaseException:
        _finish(session, together=False)
        raise
    _finish(session, together=True)
    session.fit_registry.warn_if_nothing_was_saved()
    return code


def _finish(session: LaunchedSession, *, together: bool) -> None:
    if session.results is not None:
        session.results.finish(together=together)


def start_line(session: LaunchedSession) -> str:
    """On what the script runs, by which strategy, collectives and kernels, and where it writes."""
    return f"tfdist: {describe(session)}; run directory {session.run}"


def keep_eager(workers: int) -> None:
    """Makes the switches of TensorFlow 1 raise `UnsupportedError` on several workers."""
    if workers == 1:
        return
    for module in ("tensorflow._api.v2.compat.v1", "tensorflow.compat.v1"):
        for name in _SWITCHES:
            setattr(importlib.import_module(module), name, _refusing(name))


def _refusing(name: str) -> Any:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise UnsupportedError(
            f"The script calls tf.compat.v1.{name}(), and this run has several workers, which exchange eagerly. "
            "Expected TensorFlow 2, or a graph of its own: with tf.Graph().as_default(), which each worker runs for "
            "itself. Received: a switch for the whole process. Leave it out, or start one worker (--nproc 1)."
        )

    return refuse
