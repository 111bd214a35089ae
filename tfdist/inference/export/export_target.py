"""The file or folder that an export makes, and whether it may."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tfdist.errors import UsageError
from tfdist.rundir.atomic_files import check_folder
from tfdist.rundir.temp_names import temp_path
from tfdist.training.artifacts.artifact_formats import ArtifactFormat

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
