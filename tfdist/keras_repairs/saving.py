"""Saved models and weights: written by the chief alone, beside their place, and renamed when they are whole.

What Keras saves are variables of which every worker holds the same values, so the chief needs nobody to write them.
Another worker that goes on to load what was just saved waits for the chief there.
"""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.python.ops.resource_variable_ops import default_variable_creator_v2

from tfdist.runtime.collectives import barrier, worker_count, worker_rank

Function = Callable[..., Any]


class Saved:
    """The paths that this process has saved to, or would have, were it the chief."""

    def __init__(self) -> None:
        self._paths: set[str] = set()

    def writer(self, original: Function) -> Function:
        """Repairs a function `(model, filepath, ...)` that writes one file or one directory."""

        def repaired(model: Any, filepath: Any, *args: Any, **kwargs: Any) -> Any:
            if self._leave_to_chief(filepath):
                return None
            with _alone():
                return _write_whole(functools.partial(original, model), filepath, *args, **kwargs)

        return repaired

    def weights_writer(self, original: Function) -> Function:
        """Repairs `save_weights_only(model, filepath, max_shard_size, ...)`, which may write several files."""

        def repaired(model: Any, filepath: Any, max_shard_size: Any = None, **kwargs: Any) -> Any:
            if self._leave_to_chief(filepath):
                return None
            with _alone():
                if max_shard_size is not None:
                    return original(model, filepath, max_shard_size, **kwargs)
                return _write_whole(functools.partial(original, model), filepath, **kwargs)

        return repaired

    def _leave_to_chief(self, filepath: Any) -> bool:
        strategy = tf.distribute.get_strategy()
        self._paths.add(_key(filepath))
        return worker_count(strategy) > 1 and worker_rank(strategy) != 0

    def reader(self, original: Function) -> Function:
        """Repairs a function that loads: what this process saved may still be on its way to the chief's disk."""

        def repaired(*args: Any, **kwargs: Any) -> Any:
            paths = [value for value in (*args, *kwargs.values()) if isinstance(value, str | os.PathLike)]
            if any(_key(path) in self._paths for path in paths):
                barrier()
            return original(*args, **kwargs)

        return repaired


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Variables made inside belong to this worker alone.

    Keras makes objects of reference while it saves, and under a strategy of several workers every new variable asks
    the others for its value: the chief would wait for workers that do not save.
    """

    def creator(next_creator: Function, **kwargs: Any) -> tf.Variable:
        return default_variable_creator_v2(None, **kwargs)

    with tf.variable_creator_scope(creator):
        yield


def _write_whole(write: Function, filepath: Any, *args: Any, **kwargs: Any) -> Any:
    if not isinstance(filepath, str | os.PathLike) or "://" in str(filepath):
        return write(filepath, *args, **kwargs)
    target = Path(filepath)
    if not target.parent.is_dir():
        return write(filepath, *args, **kwargs)
    # Keras chooses its format by the whole ending, such as `.weights.h5`.
    beside = target.with_name(f".{secrets.token_hex(4)}.{target.name}")
    try:
        result = write(str(beside), *args, **kwargs)
        _replace(beside, target)
    finally:
        _remove(beside)
    return result


def _replace(beside: Path, target: Path) -> None:
    if target.is_dir() and not target.is_symlink():
        old = target.with_name(f".{secrets.token_hex(4)}.{target.name}.old")
        os.rename(target, old)
        os.rename(beside, target)
        _remove(old)
    else:
        os.replace(beside, target)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _key(path: Any) -> str:
    return os.path.abspath(os.fspath(path)) if isinstance(path, str | os.PathLike) else ""
