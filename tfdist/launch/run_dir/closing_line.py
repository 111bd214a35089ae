"""The closing line of a script: how long it ran, how far it came, and where its logs are."""

from __future__ import annotations

from tfdist.launch.run_result import RunResult
from tfdist.rundir.layout import RunDir
from tfdist.text import format_count, format_duration


def closing_line(result: RunResult, seconds: float, run: RunDir) -> str:
    """The line, without a newline; empty for a job that failed or was stopped, of which the failure report tells.

    Args:
        result: How the job ended.
        seconds: How long it took, from the start of its workers on.
        run: Its run directory.
    """
    if result.failures or result.stop is not None:
        return ""
    how = "done in" if result.code == 0 else f"the script ended with exit code {result.code} after"
    steps = f", {format_count(result.step, 'step')}" if result.step else ""
    return f"tfdist: {how} {format_duration(seconds)}{steps}; logs in {run.logs_dir}"
