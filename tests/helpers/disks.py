"""Disks that take no more."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.waiting import until


@contextlib.contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """The system refuses every byte beyond the first `size` of a file, whoever writes it in this process."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A file system of `size` (such as "64k") at `folder`, which it makes; skips the test where none can be mounted."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    if done.returncode != 0:
        pytest.skip(f"no small file system can be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], timeout=150, check=True)


@contextlib.contextmanager
def silent_disk(behind: Path, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A file system at `folder` that a process serves from `behind`, both of which it makes; SIGSTOP silences it.

    As a network file system whose server is gone, it lets everybody wait who touches it. Skips the test where none can
    be mounted.
    """
    if shutil.which("bindfs") is None or not os.access("/dev/fuse", os.W_OK):
        pytest.skip("only bindfs and /dev/fuse can make a file system that does not answer")
    behind.mkdir()
    folder.mkdir()
    server = subprocess.Popen(["bindfs", "-f", str(behind), str(folder)])
    try:
        until(lambda: os.path.ismount(folder) or server.poll() is not None)
        if server.poll() is not None:
            pytest.skip("no file system can be mounted here by bindfs")
        yield server
    finally:
        server.send_signal(signal.SIGCONT)
        subprocess.run(["umount", "--lazy", str(folder)], timeout=150, check=False)
        server.kill()
        server.wait()
