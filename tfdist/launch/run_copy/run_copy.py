"""Run copy: the chief's launcher copies the run directory into a bucket, while the job runs and when it has ended."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tfdist.errors import RunDirError, UsageError
from tfdist.launch.job_spec import JobSpec
from tfdist.launch.run_copy.copy_store import (
    RUN_FILE,
    Copied,
    CopyStore,
    LocalFile,
    dropped_names,
    due_files,
    job_of,
    local_files,
    marks_any_of,
)
from tfdist.rundir.layout import RunDir
from tfdist.storage.object_store import LocalFileError
from tfdist.text import format_count, print_line
from tfdist.url_schemes import fault_of, is_bucket

FIRST_SECONDS = 5.0
EVERY_SECONDS = 30.0
"""Seconds that the copy may be behind, besides the time that copying takes."""
END_SECONDS = 600.0
"""Seconds that copying may take when the job has ended."""
STOPPED_SECONDS = 45.0
"""The same after a signal, as whoever sent it may kill what does not end."""
_STOPPED = frozenset({130, 143})
_MAGIC = frozenset("*?[]")


def run_with_copy(job: JobSpec, url: str, run: Callable[[JobSpec], int]) -> int:
    """Runs a job, and keeps a copy of its run directory if this is the chief's launcher; returns the exit code.

    Raises:
        UsageError: There can be no copy there.
        TfdistError: As `run` does, and what is wrong with an earlier copy.
    """
    directory = _checked(job, url)
    if not job.membership.has_chief:
        return run(job)
    # Imported here: it loads what S3 needs.
    from tfdist.storage.s3_requests import of_this_process
    from tfdist.storage.s3_store import S3Store

    copy = RunCopy(job, RunDir(Path(directory)), CopyStore(S3Store(of_this_process()), url))
    code: int | None = None
    try:
        code = run(replace(job, preflight=copy.check))
    finally:
        copy.close(code)
    return code


def _checked(job: JobSpec, url: str) -> str:
    fault = fault_of(url)
    if fault is None and (not is_bucket(url) or _MAGIC & set(url) or not url.partition("://")[2].strip("/").count("/")):
        fault = f"Expected s3://BUCKET/RUN, of this run alone. Received: {url!r}"
    if fault is not None:
        raise UsageError(f"--copy-to keeps a copy of the run directory in a bucket. {fault}")
    if job.run_dir is None:
        raise UsageError(
            "--copy-to keeps a copy of the run directory, by which another host can go on. Expected --run-dir DIR "
            "beside it, the same in every start. Received: --copy-to alone."
        )
    return job.run_dir


class RunCopy:
    """Keeps a copy of a run directory. Its thread alone writes it, from when the launchers have met."""

    def __init__(self, job: JobSpec, run: RunDir, store: CopyStore) -> None:
        self._job = job
        self._run = run
        self._store = store
        self._before: str | None = None
        self._written: str | None = None
        self._copied: dict[str, Copied] = {}
        self._there: set[str] | None = None
        self._ends = threading.Event()
        self._is_done = False
        self._deadline = float("inf")
        self._thread: threading.Thread | None = None
        self._problem = ""
        self._has_told = False

    def check(self) -> None:
        """Checks what the job's own check does, and that the copy is this run's; reads it where it is all there is.

        An elastic job asks again with each start of its workers.

        Raises:
            TfdistError: Something is in the way.
        """
        self._job.preflight()
        if self._thread is not None:
            return
        count = self._store.begin(self._run, self._job.resume, overwrite=self._job.overwrite)
        if count and not self._job.quiet:
            _say(f"read the run from its copy in {self._store.url}: {format_count(count, 'file')}")
        self._before = job_of(self._run.run_file)
        self._thread = threading.Thread(target=self._keep, name="tfdist run copy", daemon=True)
        self._thread.start()

    def close(self, code: int | None) -> None:
        """Copies what has changed, and says so where that cannot be done in time.

        Args:
            code: The exit code of the job; None where it could not start.
        """
        if self._thread is None:
            return
        seconds = STOPPED_SECONDS if code in _STOPPED else END_SECONDS
        self._is_done, self._deadline = code == 0, time.monotonic() + seconds
        self._ends.set()
        why = f"it takes longer than {seconds:g} s"
        try:
            self._thread.join(seconds)
        except KeyboardInterrupt:
            why = "somebody has ended it"
        if self._thread.is_alive():
            self._problem = why
        if self._problem:
            _say(
                f"warning: the copy of the run in {self._store.url} is not complete: {self._problem}. All of it is in "
                f"{self._run}; the same command with --resume auto completes the copy."
            )

    def _keep(self) -> None:
        while not self._ends.wait(FIRST_SECONDS if self._there is None else EVERY_SECONDS):
            self._pass()
        self._pass(is_last=True)

    def _pass(self, *, is_last: bool = False) -> None:
        """Copies what is due. What fails is tried again in the next pass."""
        try:
            if self._is_own():
                self._copy(is_last=is_last)
            self._problem = ""
        except Exception as error:  # of any kind: the training goes on, and one report says it
            self._problem = (str(getattr(error, "strerror", None) or error) or type(error).__name__).rstrip(".")
            if not self._has_told and not is_last:
                self._has_told = True
                _say(
                    f"warning: the copy of the run in {self._store.url} is behind: {self._problem}. It is tried again "
                    f"every {EVERY_SECONDS:g} s."
                )

    def _is_own(self) -> bool:
        """Whether the directory has this job's mark, which a job leaves that did not find all of its run done."""
        job = job_of(self._run.run_file)
        return job is not None and (job != self._before or self._is_done)

    def _copy(self, *, is_last: bool) -> None:
        if self._there is None:
            self._there = self._store.names()
        if self._written is not None and self._store.job() not in (self._written, job_of(self._run.run_file)):
            raise RunDirError("another start of this run writes it. Expected one at a time")
        files = local_files(self._run.path)
        if all(file.name != RUN_FILE for file in files):
            return  # somebody has just removed it
        faults: dict[str, LocalFileError] = {}
        for file in due_files(files, self._copied, time.monotonic(), is_last=is_last):
            if time.monotonic() > self._deadline:
                raise TimeoutError("there was too little time")
            if marks_any_of(file.name, faults):
                continue
            try:
                # A checkpoint may be removed meanwhile: then it has no mark in the copy either.
                with contextlib.suppress(FileNotFoundError):
                    self._write(file, self._there)
            except LocalFileError as error:
                faults[file.name] = error
        for name in dropped_names(files, self._there):
            self._store.remove(name)
            self._there.discard(name)
            self._copied.pop(name, None)
        for name, fault in faults.items():
            raise LocalFileError(fault.errno, f"{name} is not in it: {fault.strerror}")

    def _write(self, file: LocalFile, there: set[str]) -> None:
        job = job_of(self._run.run_file)
        self._store.write(self._run.path, file.name)
        self._copied[file.name] = Copied(file, time.monotonic())
        there.add(file.name)
        if file.name == RUN_FILE:
            self._written = job
            self._store.note_job(self._run)


def _say(text: str) -> None:
    with contextlib.suppress(ValueError):
        print_line(text, sys.stderr)
