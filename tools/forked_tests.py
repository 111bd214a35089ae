"""Runs pytest again and again, each time in a fork of a process that has imported what takes long.

Reads a line of JSON for each run, `{"tests": [...], "seconds": 30.0, "compiles": false}`, and answers with
`{"code": 0}`: pytest's exit code, or null where the run took longer and was ended. Nothing of the project is imported
before the fork, so each run sees its modules as they are then. Only a run that `compiles` leaves compiled modules to
the next: of a module that changes twice a second Python would take the wrong one.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
from collections.abc import Sequence

import hypothesis
import numpy  # noqa: F401 - imported by nearly every test
import pytest

OPTIONS = ("-x", "-q", "--no-header", "--no-summary", "-p", "no:cacheprovider")


class WithoutShrinking:
    """One example that fails is enough: Hypothesis need not look for a smaller one."""

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
        hypothesis.settings.register_profile("unshrunk", parent=hypothesis.settings.default, phases=phases)
        hypothesis.settings.load_profile("unshrunk")


def main() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps({"code": run(asked["tests"], asked["seconds"], asked["compiles"])}), flush=True)


def run(tests: Sequence[str], seconds: float, compiles: bool) -> int | None:
    """Runs tests in a process group of their own, of which nothing is left; returns the exit code."""
    child = os.fork()
    if not child:
        _run_here(tests, compiles)
    ended = os.pidfd_open(child)
    try:
        in_time = bool(select.select([ended], [], [], seconds)[0])
    finally:
        os.close(ended)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
            os.killpg(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) if in_time else None


def _run_here(tests: Sequence[str], compiles: bool) -> None:
    code: int = pytest.ExitCode.INTERNAL_ERROR
    try:
        os.setsid()
        if not compiles:
            sys.dont_write_bytecode = True
            os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        with open(os.devnull, "r+b") as nothing:
            for descriptor in (0, 1, 2):
                os.dup2(nothing.fileno(), descriptor)
        code = int(pytest.main([*OPTIONS, *tests], plugins=[WithoutShrinking()]))
    finally:
        os._exit(code)


if __name__ == "__main__":
    main()
