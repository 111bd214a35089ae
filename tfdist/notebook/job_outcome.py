"""Job outcome: how the job of a notebook ended, from its launcher to the kernel."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any, Self

import tfdist.errors
from tfdist.errors import DataError, TfdistError, UsageError, WorkerFailedError
from tfdist.launch.run_dir.closing_report import render_report
from tfdist.launch.run_result import RunResult
from tfdist.notebook.call_folder import CallFolder
from tfdist.notebook.function_call import ended_by
from tfdist.rundir.atomic_files import write_json

_ERRORS = "tfdist.errors."

_ERROR_CLASSES = {
    name: kind
    for name, kind in vars(tfdist.errors).items()
    if isinstance(kind, type) and issubclass(kind, TfdistError)
}

_BY_KIND = {"usage": UsageError, "data": DataError}
"""For errors of tfdist's that have no public class of their own."""


@dataclass(frozen=True)
class JobOutcome:
    """The outcome of a job: how it ended.

    Attributes:
        code: What its launcher would exit with in a terminal.
        error: The class in `tfdist.errors` of what is raised in the notebook; empty for a job without a failure.
        text: What that says.
    """

    code: int
    error: str = ""
    text: str = ""

    @classmethod
    def of_result(cls, result: RunResult, *, verbose: bool = False) -> Self:
        """The outcome of a job that was formed."""
        if result.stop is not None:
            return cls(result.code, TfdistError.__name__, render_report(result, verbose=verbose))
        if not result.failures:
            # With 0 it may have returned, which the result tells.
            text = ended_by(f"sys.exit({result.code})")
            return cls(result.code, *((WorkerFailedError.__name__, text) if result.code else ()))
        first = result.failures[0]
        by_kind = _BY_KIND.get(first.kind, WorkerFailedError).__name__
        error = first.type.removeprefix(_ERRORS) if first.type.startswith(_ERRORS) else by_kind
        return cls(result.code, error, render_report(result, verbose=verbose).removeprefix("error: "))

    @classmethod
    def of_error(cls, error: TfdistError) -> Self:
        """The outcome of a job that was refused before there were workers."""
        return cls(error.exit_code, type(error).__name__, str(error))

    @classmethod
    def read(cls, folder: CallFolder, exit_code: int) -> Self:
        """The outcome in a folder; of a launcher that has written none, that it is gone.

        Args:
            exit_code: Of the launcher's process, negative for a signal.
        """
        try:
            return cls._of(json.loads(folder.outcome.read_text()))
        except (OSError, ValueError, RecursionError):
            how = f"signal {-exit_code} ended it" if exit_code < 0 else f"it exited with {exit_code}"
            text = (
                f"The launcher of the job is gone: {how}, without a word of how the job ended. Expected it to live as "
                "long as the job. Its last words, and those of the workers, are above; the logs are in the run "
                "directory."
            )
            return cls(WorkerFailedError.exit_code, WorkerFailedError.__name__, text)

    @classmethod
    def _of(cls, content: Any) -> Self:
        match content:
            case {"code": int(code), "error": str(error), "text": str(text)} if error in ("", *_ERROR_CLASSES):
                return cls(code, error, text)
        raise ValueError(f"expected an outcome. Received: {content!r:.200}")

    def write(self, folder: CallFolder) -> None:
        """Writes the outcome into the folder."""
        write_json(folder.outcome, dataclasses.asdict(self), durable=False)

    def raise_if_failed(self) -> None:
        """Raises the error of a job that failed."""
        if self.error:
            raise _ERROR_CLASSES[self.error](self.text)
