"""Summary that a run of a script prints when it starts."""

from __future__ import annotations

from tfdist.training.session.session import LaunchedSession
from tfdist.training.session.session_description import describe


def start_line(session: LaunchedSession) -> str:
    """On what the script runs, by which strategy, collectives and kernels, and where it writes."""
    return f"tfdist: {describe(session)}; run directory {session.run}"
