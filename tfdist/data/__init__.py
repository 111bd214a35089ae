"""Data for Keras `fit`: the same global batches for any number of workers and replicas.

`datasets` has the public functions, one a format, whose `argument_checks` come first, and opens what a config
describes, by the `format_registry`, which also plans it. Samples pass through the rooms in this order: `files` finds
the files, `random_access` and `sequential` read their records, `formats` makes samples of them (a `sample_source`),
`ops` batches, augments and checks them in tf.data. Once the workers agree on a source (`worker_consistency`, by
`fingerprints`), `sample_feed` deals its samples to the replicas and `pipeline` makes what `fit` takes. Data errors are
found again in what TensorFlow raises. `tools` is `tfdist data`.

The names load with their first use: modules that only read files work without TensorFlow.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfdist.data.datasets import (
        arrays,
        csv,
        from_config,
        generator,
        images,
        npz,
        parquet,
        text,
        tfrecords,
        webdataset,
    )
    from tfdist.data.formats.image_samples import ImageFeature
    from tfdist.data.ops.record_parser import data_error_in

__all__ = [
    "ImageFeature",
    "arrays",
    "csv",
    "data_error_in",
    "from_config",
    "generator",
    "images",
    "npz",
    "parquet",
    "text",
    "tfrecords",
    "webdataset",
]

_MODULES = {
    "from_config": "datasets",
    "data_error_in": "ops.record_parser",
    "ImageFeature": "formats.image_samples",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_MODULES.get(name, 'datasets')}")
    return getattr(module, name)


def __dir__() -> list[str]:
    return __all__
