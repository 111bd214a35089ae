"""A run of the user's own script or module, which may know nothing of tfdist."""

from __future__ import annotations

import sys

from tfdist.launch.environment import Assignment
from tfdist.training.announcements import announcer
from tfdist.training.provenance import write_script
from tfdist.training.script_run.device_settings import adopt_settings
from tfdist.training.script_run.eager_execution import keep_eager
from tfdist.training.script_run.script_execution import execute_script
from tfdist.training.script_run.script_summary import start_line
from tfdist.training.script_run.strategy_adoption import adopt_strategies
from tfdist.training.session import current_session as sessions
from tfdist.training.session.session import LaunchedSession


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
