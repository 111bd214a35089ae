"""Runs the command line as a user does: a process of its own, bounded, with everything it started ended."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_PUBLIC = "warning: this machine has a public address"


@contextlib.contextmanager
def begun(*arguments: object, environ: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """`tfdist ARGUMENTS` as it runs; it is ended at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tfdist", *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, **(environ or {})},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def tfdist(
    *arguments: object, timeout: float = 60, cwd: Path = ROOT, environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """`tfdist ARGUMENTS`, with its output as text; raises `subprocess.TimeoutExpired` after `timeout` seconds.

    What it says of this machine's addresses is left out.
    """
    command = [sys.executable, "-m", "tfdist", *map(str, arguments)]
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env={**os.environ, **(environ or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=timeout)
    except BaseException:
        # Workers have process groups of their own; they end when their launcher is gone.
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    err = "".join(line for line in err.splitlines(keepends=True) if not line.startswith(_PUBLIC))
    return subprocess.CompletedProcess(command, process.returncode, out, err)
