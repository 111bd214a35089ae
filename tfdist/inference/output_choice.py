"""The file that predictions or a quantized model become: its format, and whether it may be made."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from tfdist.errors import UsageError
from tfdist.rundir.atomic_files import check_folder
from tfdist.training.inference.outputs.kept_outputs import MANIFEST_FILE

FORMATS: Mapping[str, str] = MappingProxyType(
    {".npz": "npz", ".tfrecord": "tfrecord", ".tfrecords": "tfrecord", ".csv": "csv", ".parquet": "parquet"}
)
"""The end of a file's name -> its format."""


def choose_output(output: str, form: str | None, *, overwrite: bool) -> tuple[Path, str]:
    """The file to make, absolute, and its format.

    Args:
        output: As the user names it.
        form: The format; None for that of the file's name.
        overwrite: Whether it may be replaced.

    Raises:
        UsageError: It exists, cannot be written, or has no format.
    """
    path = Path(os.path.abspath(output))
    chosen = form or FORMATS.get(path.suffix.lower())
    if chosen is None:
        raise UsageError(
            f"The name of {output} does not say its format. Expected one of {', '.join(FORMATS)}, or --format. "
            f"Received: --output {output}"
        )
    check_new_file(path, output, "predictions", overwrite=overwrite)
    if chosen == "parquet" and importlib.util.find_spec("pyarrow") is None:
        raise UsageError(
            "Parquet files are written by the package pyarrow, which is not installed. Expected it on the chief's "
            "host. Install it: pip install 'tfdist[parquet]', or choose another --format."
        )
    return path, chosen


def choose_output_folder(output: str, *, overwrite: bool) -> Path:
    """The folder of TFRecord files to make, absolute.

    Args:
        output: As the user names it.
        overwrite: Whether a folder of such files may be replaced.

    Raises:
        UsageError: It exists, and is another folder or must not be replaced; or it cannot be written.
    """
    path = Path(os.path.abspath(output))
    if os.path.lexists(path) and not (path.is_dir() and not any(path.iterdir())):
        if not (path / MANIFEST_FILE).is_file():
            raise UsageError(
                f"{output} exists already, and has something else than kept outputs. Expected a new folder. Choose "
                f"another. Received: --output {output}"
            )
        if not overwrite:
            raise UsageError(
                f"{output} exists already. Expected a new folder. Choose another --output, or replace it with "
                "--overwrite: it stays as it is until the new one is whole."
            )
    check_folder(path, named_by="--output")
    _check_writable(path)
    return path


def choose_quantized_output(output: str | None, model: str, mode: str, *, overwrite: bool) -> Path:
    """The file that a quantized model becomes, absolute.

    Args:
        output: As the user names it; None for one in the run directory, or beside the model's file.
        model: The run directory or the `.keras` file.
        mode: The mode, which the default name has.
        overwrite: Whether it may be replaced.

    Raises:
        UsageError: It exists, cannot be written, or has another ending than the format.
    """
    path, shown = _keras_file(output, model, mode, f"--mode {mode} makes a model for Keras.")
    check_new_file(path, shown, "quantized model", overwrite=overwrite)
    return path


def choose_pruned_output(output: str | None, model: str, *, overwrite: bool) -> Path:
    """The file that a pruned model becomes, absolute; arguments and errors as of `choose_quantized_output`."""
    path, shown = _keras_file(output, model, "pruned", "A pruned model is one for Keras.")
    check_new_file(path, shown, "pruned model", overwrite=overwrite)
    return path


def _keras_file(output: str | None, model: str, name: str, what: str) -> tuple[Path, str]:
    """The `.keras` file that a user names, or the one of a name with the model: absolute, and as it is shown."""
    if output is None:
        source = Path(model)
        output = str(source.with_suffix(f".{name}.keras") if model.endswith(".keras") else source / f"{name}.keras")
    path = Path(os.path.abspath(output))
    if path.suffix != ".keras":
        raise UsageError(f"{what} Expected a name that ends in .keras. Received: --output {output}")
    return path, output


def check_new_file(path: Path, output: str, what: str, *, overwrite: bool) -> None:
    """Checks that a file may be made.

    Args:
        path: The file, absolute.
        output: As the user names it.
        what: What it becomes, in words.
        overwrite: Whether it may be replaced.

    Raises:
        UsageError: It exists, or cannot be written.
    """
    if path.is_dir():
        raise UsageError(
            f"{output} is a directory. Expected a file for the {what}. Received: --output {output}"
        )
    if os.path.lexists(path) and not overwrite:
        raise UsageError(
            f"{output} exists already. Expected a new file. Choose another --output, or replace it with --overwrite: "
            f"it stays as it is until the new file is whole."
        )
    check_folder(path, named_by="--output")
    _check_writable(path)


def _check_writable(path: Path) -> None:
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise UsageError(
            f"{path.parent} cannot be written. Expected a directory that this user can write to. Choose another "
            "--output, or change the permissions."
        )
