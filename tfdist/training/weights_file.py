"""Files of weights: read by the chief alone, and loaded into the model of every worker."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import keras
import tensorflow as tf

from tfdist.checkpoint.checkpoint_files import WEIGHTS
from tfdist.checkpoint.shards.joined_file import has_sharded_weights, opened_weights
from tfdist.data.pipeline import Batches
from tfdist.errors import DataError, RunDirError
from tfdist.keras_repairs.files.training_state import build
from tfdist.rundir.regular_files import open_regular
from tfdist.rundir.temp_names import temporary_folder
from tfdist.runtime.collectives.chief_broadcast import opened_file_from_chief
from tfdist.runtime.object_stores import path_of
from tfdist.runtime.workers import worker_count, worker_rank
from tfdist.text import safe_str
from tfdist.url_schemes import is_url

_BLOCK_BYTES = 1 << 20


def load_initial_weights(
    model: keras.Model, source: str, batches: Batches, strategy: tf.distribute.Strategy
) -> None:
    """Gives a model that is to be trained the weights of a file; all workers call it together.

    The optimizer stays as it is: it begins anew.

    Args:
        model: Compiled.
        source: A `.keras` or a `.weights.h5` file on the chief's machine, or a URL.
        batches: What the model is to take, for one that is built by its first batch.
        strategy: The strategy in force.

    Raises:
        DataError: The file is not there, or damaged.
        RunDirError: The weights are of another model.
    """
    if not model.built:
        build(model, batches)
    optimizer = model.optimizer
    before = [variable.numpy() for variable in optimizer.variables]
    with copy_of_chiefs(source, strategy) as file:
        load_weights(model, file, source, batches, advice="Name another file in model.weights.")
    # Keras loads the state of an optimizer that is built, and the learning rate of one that has no more.
    for variable, value in zip(optimizer.variables, before, strict=True):
        variable.assign(value)


def load_weights(
    model: keras.Model, file: Path | BinaryIO, shown: str, batches: Batches | None, *, advice: str
) -> None:
    """Loads a file of this machine, without the state of the optimizer.

    Args:
        model: Under whose strategy it is loaded.
        file: A `.keras` or a `.weights.h5` file; an open one where it lies in parts.
        shown: It in words, for errors.
        batches: What the model is to take, for one that is built by its first batch; None for one that is built.
        advice: What to do where it cannot be loaded, in a sentence.

    Raises:
        DataError: The file is damaged.
        RunDirError: The weights are of another model.
    """
    if not model.built:
        build(model, batches)
    try:
        with warnings.catch_warnings():
            # The state of the optimizer would take twice the memory of the weights.
            warnings.filterwarnings("ignore", message="Skipping variable loading for optimizer")
            model.load_weights(file)
    except (ValueError, KeyError) as error:
        raise RunDirError(
            f"The weights of {shown} are of another model than the config builds: {one_line(error)} Expected the same "
            f"layers with the same sizes. {advice}"
        ) from error
    except OSError as error:
        raise DataError(
            f"The weights of {shown} cannot be read: {one_line(error)} Expected a whole file. {advice}"
        ) from error


@contextlib.contextmanager
def copy_of_chiefs(source: str, strategy: tf.distribute.Strategy) -> Iterator[Path | BinaryIO]:
    """A file of the chief's machine, or a URL, on this machine for as long as the block runs.

    Yields:
        Its path here; of a checkpoint's weights that lie in parts, on one worker, the open file.

    Raises:
        DataError: There is no such file.
    """
    is_alone = worker_count(strategy) == 1 and not is_url(source)
    if is_alone and Path(source).is_file():
        yield Path(source)
        return
    with contextlib.ExitStack() as opened:
        file = opened.enter_context(_open(source)) if worker_rank(strategy) == 0 else None
        if is_alone and file is not None:
            yield file
            return
        with temporary_folder("weights") as folder:
            # Keras chooses the format by the ending.
            copy = folder / os.path.basename(source)
            if not opened_file_from_chief(file, copy, strategy):
                raise DataError(
                    f"There is no file {source} on the chief's machine. Expected that it stays there until all have "
                    "read it."
                )
            yield copy


def digest_of(file: str) -> str:
    """The SHA-256 of a file or a URL, in a few letters: other weights have another one."""
    digest = hashlib.sha256()
    with _open(file) as opened:
        if opened is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), file)
        while block := opened.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()[:16]


def _open(source: str) -> contextlib.AbstractContextManager[BinaryIO | None]:
    """Opens a file of this machine, or a URL; that of a checkpoint's weights may lie in parts. None without one."""
    place = path_of(source) if is_url(source) else Path(source)
    if place.exists():
        return open_regular(place, follows_link=True) if isinstance(place, Path) else place.open("rb")
    is_here = place.name == WEIGHTS and has_sharded_weights(place.parent)
    return opened_weights(place.parent) if is_here else contextlib.nullcontext()


def one_line(error: BaseException) -> str:
    """The text of an error as a sentence in one line."""
    text = " ".join(safe_str(error).split())
    return text if text.endswith(".") else f"{text}."
