"""Finds the store of a URL. That of s3:// is reached without TensorFlow, which all others load."""

from __future__ import annotations

import importlib

from tfdist.errors import UsageError
from tfdist.storage.object_path import ObjectPath
from tfdist.storage.object_store import ObjectStore
from tfdist.storage.s3_requests import of_this_process
from tfdist.storage.s3_store import S3Store
from tfdist.url_schemes import fault_of, is_bucket


def store_of(url: str) -> ObjectStore:
    """The store of a URL.

    Raises:
        UsageError: Nothing here reaches such URLs.
    """
    fault = fault_of(url)
    if fault is not None:
        raise UsageError(fault)
    if is_bucket(url):
        return S3Store(of_this_process())
    store: ObjectStore = importlib.import_module("tfdist.runtime.tensorflow_store").TensorFlowStore()
    return store


def path_of(url: str) -> ObjectPath:
    """A URL as a path.

    Raises:
        UsageError: Nothing here reaches such URLs.
    """
    return ObjectPath(store_of(url), url)
