"""The process of an export, and what becomes of what it has written."""

from __future__ import annotations

import contextlib
import json
import math
import os
import pickle
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, Any

from tfdist.bounded_process import how_ended, started
from tfdist.checkpoint.inspection.model_choice import ModelChoice
from tfdist.config.load import source_to_dict
from tfdist.errors import TfdistError, UsageError, WorkerFailedError
from tfdist.inference.data_choice import DataChoice
from tfdist.inference.export_table import is_beyond
from tfdist.rundir import atomic_files
from tfdist.rundir.atomic_files import check_folder
from tfdist.rundir.temp_names import remove_abandoned, temp_path
from tfdist.tf_log_filter import last_words
from tfdist.training.artifacts.artifact_formats import ArtifactFormat
from tfdist.training.export.export_request import ExportRequest

_OPTION = "--output"
_FIRST = 1


@dataclass(frozen=True)
class ExportTarget:
    """The target of an export: what is made.

    Attributes:
        path: The file, or the folder: absolute.
        temporary: What it is called while it is written.
        version: The folder within `path` that has the model; empty where it lies in `path` itself.
        shown: `path` as the user names it.
        name: Of the model, for its server.
    """

    path: Path
    temporary: Path
    version: str
    shown: str
    name: str


def choose_target(output: str | None, model: str, form: ArtifactFormat, version: int | None) -> ExportTarget:
    """The file or folder to make.

    Args:
        output: As the user names it; None for the model's name with the format's ending, in the working directory.
        model: The run directory, or the `.keras` file.
        form: The format.
        version: Of the model, for formats that have a folder for each; None for the first.

    Raises:
        UsageError: It exists, has another ending, or cannot be written.
    """
    if version is not None and not form.has_versions:
        raise UsageError(
            f"--model-version numbers the folders of a server's model, and {form.name} has none. Expected it with "
            f"savedmodel or openvino. Received: --format {form.name} --model-version {version}"
        )
    stem = Path(model).absolute().name.removesuffix(".keras")
    shown = output if output is not None else f"{stem}{form.suffix}{form.ending or f'-{form.name}'}"
    path = Path(os.path.abspath(shown))
    if form.ending and path.suffix != form.ending:
        raise UsageError(
            f"A file of {form.title} ends in {form.ending}. Expected that of {_OPTION}. Received: {_OPTION} {shown}"
        )
    name = path.name.removesuffix(form.ending) if form.ending else path.name
    if os.path.lexists(path):
        _check_new_version(path, form, version, shown)
        inner = path / str(version)
        return ExportTarget(inner, temp_path(inner), "", f"{shown}/{version}", name)
    check_folder(path, named_by=_OPTION)
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise UsageError(
            f"{path.parent} cannot be written. Expected a directory that this user can write to. Choose another "
            f"{_OPTION}, or change the permissions."
        )
    return ExportTarget(path, temp_path(path), str(version or _FIRST) if form.has_versions else "", shown, name)


def _check_new_version(path: Path, form: ArtifactFormat, version: int | None, shown: str) -> None:
    """Checks that a folder which exists has versions alone, and not this one."""
    versions = _versions(path) if form.has_versions else None
    if versions is None:
        raise UsageError(
            f"{shown} exists already. Expected a new name: what is there is never replaced. Choose another {_OPTION}, "
            "or remove it first."
        )
    if version is None or version in versions:
        raise UsageError(
            f"{shown} exists already, with the {'versions' if len(versions) > 1 else 'version'} "
            f"{', '.join(map(str, sorted(versions)))}. Expected a new name, or a new version beside "
            f"{'them' if len(versions) > 1 else 'it'}. Give --model-version {max(versions) + 1}, or choose another "
            f"{_OPTION}."
        )


def _versions(path: Path) -> set[int] | None:
    """The versions of a model in a folder; None where it is something else."""
    if not path.is_dir():
        return None
    names = [entry.name for entry in path.iterdir() if not entry.name.startswith(".")]
    return {int(name) for name in names} if names and all(name.isdecimal() for name in names) else None


PROCESS_MODULE = "tfdist.training.export.export_process"

_BLOCK_BYTES = 1 << 16

Say = Callable[[str], None]


class ExportStopped(TfdistError):
    """A signal ended the export."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}; nothing was left behind")
        self.exit_code = 128 + number


def request_of(
    form: str, model: ModelChoice, data: DataChoice | None, target: ExportTarget, **options: Any
) -> ExportRequest:
    """Returns what the process of an export is asked.

    Args:
        form: A name of `FORMATS`.
        model: What is exported.
        data: What it is tried with; None for samples that are made.
        target: What is made.
        **options: Other fields of `ExportRequest`.
    """
    return ExportRequest(
        format=form,
        target=str(target.temporary),
        version=target.version,
        name=target.name,
        model=model.file,
        is_whole_model=model.is_whole,
        shown_model=model.shown,
        config=model.config,
        section=None if data is None else source_to_dict(data.section),
        key="" if data is None else data.key,
        **options,
    )


def run_export(
    request: ExportRequest, target: ExportTarget, say: Say = lambda text: None, *, verbose: bool = False
) -> Mapping[str, Any]:
    """Writes an artefact, and gives it its name if its outputs are Keras's, up to the tolerance.

    Args:
        request: What is asked.
        target: What is made.
        say: Says how far it is.
        verbose: Whether the errors of code that is not tfdist's show their tracebacks.

    Returns:
        What came of it, as `described` in `artifact_judgement`, with `differs`: whether it is beyond the tolerance, or
        whatever was written would be within it, and nothing was kept.

    Raises:
        TfdistError: It cannot be exported; nothing is left behind.
    """
    remove_abandoned(target.path)
    try:
        with _ended_by_signals():
            result = _result_of_process(request, say, verbose)
            is_bounded = request.calibration is not None or math.isfinite(result["tolerance"])
            differs = is_beyond(result) or (is_bounded and bool(result["shows_nothing"]))
            if not differs:
                _keep(target)
        return {**result, "differs": differs}
    finally:
        _remove(target.temporary)


def _keep(target: ExportTarget) -> None:
    """Waits until the disk has what was written, and gives it its name."""
    temporary = target.temporary
    try:
        for path in [*temporary.rglob("*"), temporary]:
            atomic_files.sync(path)
        if os.path.lexists(target.path):
            raise UsageError(
                f"{target.shown} has come into being meanwhile, and is never replaced. Expected that nobody makes it. "
                "Run the command again with another --output."
            )
        os.rename(temporary, target.path)
        atomic_files.sync(target.path.parent)
    except OSError as error:
        raise atomic_files.write_error(target.path, error, "--output", temporary) from error


def _remove(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end the block as Ctrl-C does, so that nothing is left behind."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise ExportStopped(number)

    numbers = (signal.SIGTERM, signal.SIGHUP)
    try:
        before = {number: signal.signal(number, stop) for number in numbers}
    except ValueError:  # not in the main thread, where Python allows no handlers
        yield
        return
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _result_of_process(request: ExportRequest, say: Say, verbose: bool) -> dict[str, Any]:
    with (
        tempfile.TemporaryFile(prefix="tfdist-export-") as log,
        started([sys.executable, "-m", PROCESS_MODULE], question=pickle.dumps(request), stderr=log) as process,
    ):
        last = _last_message(process, time.monotonic() + request.seconds, say)
        if last is None:
            raise WorkerFailedError(
                f"The export took longer than {request.seconds:g} s. Expected that it ends. Give it longer with "
                f"--timeout.{_last_words(log)}"
            )
        if "error" in last:
            raise _error(last, verbose)
        if "result" not in last:
            raise WorkerFailedError(
                f"The process that exports the model died ({how_ended(process.wait(5))}). Expected that it ends by "
                f"itself.{_last_words(log)}"
            )
        return last["result"]


def _last_message(process: subprocess.Popen[bytes], end: float, say: Say) -> dict[str, Any] | None:
    """The result or the error of the process; empty where it died without one, None where it took too long."""
    assert process.stdout is not None, "it is a pipe"
    number, held = process.stdout.fileno(), b""
    while (left := end - time.monotonic()) > 0:
        if not select.select([number], [], [], left)[0]:
            continue
        part = os.read(number, _BLOCK_BYTES)
        if not part:
            return {}
        *lines, held = (held + part).split(b"\n")
        for line in lines:
            message: dict[str, Any] = json.loads(line)
            if "say" not in message:
                return message
            say(message["say"])
    return None


def _error(message: Mapping[str, Any], verbose: bool) -> TfdistError:
    code = message["code"]
    said = message["error"]
    if code is None:
        said = f"The export failed in code that is not tfdist's: {said}"
        said += f"\n{message['traceback']}" if verbose else " --verbose shows where."
    error = WorkerFailedError(said)
    error.exit_code = WorkerFailedError.exit_code if code is None else code
    return error


def _last_words(log: IO[bytes]) -> str:
    log.seek(0)
    return last_words(log.read())
