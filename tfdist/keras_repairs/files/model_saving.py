"""Repairs of saving: the chief alone writes models and weights, beside their place, and renames them when complete.

Every worker holds the same values of the variables that Keras saves, so the chief needs nobody to write them; where
workers have shards of the model or of an optimizer's state, they put together for the chief what it comes to write, one
variable at a time. Another worker that loads next waits there for the chief.

Models and weights under s3:// URLs, which Keras reads and writes as files of this machine.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import tensorflow as tf
from keras.src import backend
from keras.src.backend.common import global_state
from keras.src.saving import saving_lib
from keras.src.utils import io_utils
from numpy.typing import NDArray

from tfdist.errors import UnsupportedError, UsageError
from tfdist.keras_repairs.base.diverted_files import diverted_files
from tfdist.keras_repairs.base.stored_values import late_values
from tfdist.keras_repairs.files.hdf5_files import errors_at_the_end
from tfdist.keras_repairs.loop.fit_listeners import FitListener
from tfdist.keras_repairs.sharded_parameters.cut_variable import is_cut_variable
from tfdist.keras_repairs.sharding_policies.full_state import full_on_demand, full_state, take_part
from tfdist.keras_repairs.sharding_policies.optimizer_policy import shards_of
from tfdist.keras_repairs.sharding_policies.shards import shard_of, stored_shards
from tfdist.rundir.directory_exchange import replace_directory
from tfdist.rundir.temp_names import remove_abandoned, temp_path, temporary_folder
from tfdist.runtime import random_state
from tfdist.runtime.collectives.array_all_gather import as_array
from tfdist.runtime.collectives.decisions import barrier
from tfdist.runtime.object_stores import store_of
from tfdist.runtime.workers import local_variables, worker_count, worker_rank
from tfdist.storage.object_store import download, upload
from tfdist.url_schemes import OF_TENSORFLOW, fault_of, is_bucket, is_url, scheme_of

Naming = Callable[[str, Path], contextlib.AbstractContextManager[None]]


def is_in_bucket(filepath: Any) -> bool:
    """Returns whether Keras is to read or write a file that it cannot reach, and tfdist can.

    Raises:
        UsageError: Neither of them can.
    """
    if not isinstance(filepath, str) or scheme_of(filepath) in (None, *OF_TENSORFLOW, "hf"):
        return False
    fault = fault_of(filepath)
    if fault is not None:
        raise UsageError(fault)
    return is_bucket(filepath)


def write_through(write: Callable[..., Any], naming: Naming, url: str, *args: Any, **kwargs: Any) -> Any:
    """Lets Keras write into a temporary folder, and takes what it wrote to the bucket.

    Args:
        write: What writes, as Keras has it.
        naming: A context in which Keras prints the first path where it would print the second.
        url: Where the model goes.
        *args: What else `write` takes.
        **kwargs: The same.

    Raises:
        UsageError: The store refuses or does not answer.
    """
    parent, _, name = url.rstrip("/").rpartition("/")
    with temporary_folder("model") as folder:
        target = folder / name
        with naming(url, target):
            result = write(str(target), *args, **kwargs)
        try:
            upload(folder, store_of(url), parent, last=lambda path: path.suffix == ".json")
        except OSError as error:
            raise UsageError(f"{url} could not be saved: {error.strerror or error}.") from error
    return result


@contextlib.contextmanager
def copied_here(args: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """The arguments of a function of Keras's that loads, with a copy in place of the URL of a file.

    Raises:
        UsageError: The store refuses, does not answer or has no such file, or it is one of several.
    """
    urls = [value for value in args if is_in_bucket(value)]
    if not urls:
        yield args
        return
    (url,) = urls
    if url.endswith(".json"):
        raise UsageError(
            f"{url} names the files of weights that were saved in several. Expected one file, .keras or .weights.h5. "
            "Copy all of them here, and load those."
        )
    with temporary_folder("model") as folder:
        try:
            (copy,) = download(store_of(url), [url], folder)
        except OSError as error:
            raise UsageError(f"{url} cannot be loaded: {error.strerror or error}.") from error
        yield tuple(str(copy) if value is url else value for value in args)


Function = Callable[..., Any]


def writer(original: Function, listener: FitListener) -> Function:
    """Repairs a function `(model, filepath, ...)` that writes one file, several files, a directory or `io.BytesIO`."""

    def repaired(model: Any, filepath: Any, *args: Any, **kwargs: Any) -> Any:
        strategy = tf.distribute.get_strategy()
        filepath = diverted_files.place(filepath)
        if original.__name__ == "export":
            _check_export(model)
        # What is in memory, as when a model is pickled, each worker has for itself.
        is_in_memory = isinstance(filepath, io.BytesIO)
        if worker_count(strategy) > 1 and worker_rank(strategy) != 0 and not is_in_memory:
            with listener.saving():
                take_part(model)
            return None
        # While it saves, Keras makes objects to compare with, which have variables; the other workers do not save.
        full = full_state(model) if is_in_memory else _read_one_by_one(model)
        with listener.saving(), full, local_variables(), _unchanged_compile_config(model), errors_at_the_end():
            return _write_whole(functools.partial(original, model), filepath, *args, **kwargs)

    return repaired


@contextlib.contextmanager
def unnoticed() -> Iterator[None]:
    """Around a save that the script does not ask for: what Keras makes for it takes no names and no random numbers."""
    names = global_state.get_global_attribute("object_name_uids")
    before = dict(names or {})
    try:
        with random_state.kept():
            yield
    finally:
        if names is not None:
            names.clear()
            names.update(before)


@contextlib.contextmanager
def _read_one_by_one(model: Any) -> Iterator[None]:
    """Inside, the chief reads of what workers have shards of one variable after another, and writes it to the disk."""
    if not shards_of(model):
        yield
        return
    with (
        full_on_demand(model),
        mock.patch.object(saving_lib, "is_memory_sufficient", _is_not),
        mock.patch.object(saving_lib, "backend", _WritingBackend()),
    ):
        yield


def _is_not(model: Any) -> bool:
    """Lets Keras put the file of weights together on the disk, and not in memory, before it goes into a `.keras`."""
    return False


class _WritingBackend:
    """Stands for Keras's backend where it writes files: values are not copied once more before they are written."""

    def __getattr__(self, name: str) -> Any:
        return getattr(backend, name)

    def convert_to_numpy(self, value: Any) -> NDArray:
        """The numbers of a value, not to be changed."""
        if is_cut_variable(value):
            return as_array(value.value)
        if isinstance(value, np.ndarray) or shard_of(value) is not None:
            return np.asarray(value)
        return np.asarray(backend.convert_to_numpy(value))


def _check_export(model: Any) -> None:
    for shard in stored_shards(model):
        raise UnsupportedError(
            "An export needs all weights as variables of one process, and "
            f"{shard.description} between workers. Save the model (model.save), and export it where it is whole: "
            "tfdist export, or a script that loads and exports it on one worker."
        )


def reader(original: Function) -> Function:
    """Repairs a function that loads: the chief may still be writing what is to be loaded.

    All workers load together, as they make the variables of a model together, so they can first wait for one another.
    """

    def repaired(*args: Any, **kwargs: Any) -> Any:
        barrier()
        given = inspect.signature(original).bind(*args, **kwargs)
        with copied_here(tuple(map(diverted_files.found, given.args))) as positional, late_values():
            return original(*positional, **given.kwargs)

    return repaired


@contextlib.contextmanager
def _unchanged_compile_config(model: Any) -> Iterator[None]:
    """Keras takes the optimizer out of a model's compile config where it writes HDF5.

    A later copy of the model (`pickle`, `clone_model`) would be compiled without it on the chief, with it elsewhere.
    """
    config = getattr(model, "_compile_config", None)
    given = None if config is None else dict(config.config)
    try:
        yield
    finally:
        if config is not None:
            config.config = given


def _write_whole(write: Function, filepath: Any, *args: Any, **kwargs: Any) -> Any:
    """Writes into a directory beside `filepath`, under the same name, by which Keras chooses the format."""
    if is_in_bucket(filepath):
        return write_through(write, _naming, filepath, *args, **kwargs)
    if not isinstance(filepath, str | os.PathLike) or is_url(filepath):
        return write(filepath, *args, **kwargs)
    target = Path(filepath)
    if not target.parent.is_dir():
        return write(filepath, *args, **kwargs)
    remove_abandoned(target)
    folder = temp_path(target)
    folder.mkdir(mode=0o700)
    try:
        with _naming(target, instead_of=folder / target.name):
            result = write(str(folder / target.name), *args, **kwargs)
        _move_into_place(list(folder.iterdir()), target.parent)
    except Exception as error:
        error.add_note(f"{target} could not be saved; what was there before is as it was.")
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return result


@contextlib.contextmanager
def _naming(target: str | Path, instead_of: Path) -> Iterator[None]:
    """Makes Keras print the path of `target` where it prints the temporary one."""
    original = io_utils.print_msg

    def print_msg(message: str, *args: Any, **kwargs: Any) -> None:
        original(message.replace(str(instead_of), str(target)), *args, **kwargs)

    with mock.patch.object(io_utils, "print_msg", print_msg):
        yield


def _move_into_place(written: list[Path], folder: Path) -> None:
    """The index of weights in several files names the others: it is there only while all of them are of one model."""
    indices = [path for path in written if path.suffix == ".json"]
    if len(written) > 1:
        for index in indices:
            (folder / index.name).unlink(missing_ok=True)
    for path in [*(path for path in written if path not in indices), *indices]:
        target = folder / path.name
        if target.is_dir() and not target.is_symlink():
            replace_directory(path, target)
        else:
            os.replace(path, target)
