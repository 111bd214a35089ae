"""Models and weights under s3:// URLs, which Keras reads and writes as files of this machine."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tfdist.errors import UsageError
from tfdist.rundir.temp_names import temporary_folder
from tfdist.runtime.stores.object_stores import store_of
from tfdist.storage.transfers import download, upload
from tfdist.url_schemes import OF_TENSORFLOW, fault_of, is_bucket, scheme_of

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
