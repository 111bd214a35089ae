"""Runs pytest again and again, each time in a fork of a process that has imported what takes long.

Reads a line of JSON for each run, with the arguments of `run` by name, and answers with what it returns. Nothing of the
project is imported before the fork, so each run sees its modules as they are then.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import resource
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
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    with contextlib.suppress(KeyboardInterrupt):
        for line in sys.stdin:
            print(json.dumps(run(**json.loads(line))), flush=True)


def run(
    tests: Sequence[str], seconds: float, processor_seconds: float, compiles: bool = False
) -> tuple[int | None, float]:
    """Runs tests in a process group of their own, of which nothing is left.

    Args:
        tests: Pytest's arguments.
        seconds: How long they may take.
        processor_seconds: How long they may compute: what loops without end is noticed on a busy machine as on another.
        compiles: Whether compiled modules are left to the next run. Of a module that changes twice a second Python
            would take the wrong one.

    Returns:
        Pytest's exit code, None where the run took too long; and how long it computed.
    """
    child = os.fork()
    if not child:
        _run_here(tests, math.ceil(processor_seconds), compiles)
    ended = os.pidfd_open(child)
    try:
        in_time = bool(select.select([ended], [], [], seconds)[0])
    finally:
        os.close(ended)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
            os.killpg(child, signal.SIGKILL)
    _, status, usage = os.wait4(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if in_time and code != -signal.SIGXCPU else None, usage.ru_utime + usage.ru_stime


def _run_here(tests: Sequence[str], processor_seconds: int, compiles: bool) -> None:
    code: int = pytest.ExitCode.INTERNAL_ERROR
    try:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CPU, (processor_seconds, processor_seconds + 1))
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
