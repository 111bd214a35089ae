"""`breakpoint()` on a worker that has no input for a debugger: says how one gets it."""

from __future__ import annotations

import sys
from typing import Any, NoReturn

from tfdist.errors import UsageError


def refuse(*_: Any, **__: Any) -> NoReturn:
    """Python calls it for `breakpoint()`, by the variable PYTHONBREAKPOINT, which the launcher sets.

    Raises:
        UsageError: Always.
    """
    caller = sys._getframe(1)
    raise UsageError(
        f"breakpoint() in {caller.f_code.co_filename}, line {caller.f_lineno}: of several workers none has the "
        "terminal. Expected --debug-worker I, which gives it to worker I, while the others pass by. Start it again "
        "with --debug-worker 0, or one worker with --nproc 1."
    )
