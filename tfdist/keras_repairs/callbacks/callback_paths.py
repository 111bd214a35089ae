"""Paths of Keras's own callbacks: they write by TensorFlow's file systems, which know no s3:// and no hdfs://.

Without the check a training would end at its first epoch, or, worse, `listdir` would take a bucket for an empty folder.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import keras

from tfdist.errors import UsageError
from tfdist.url_schemes import OF_TENSORFLOW, scheme_of

_ATTRIBUTES = {
    keras.callbacks.ModelCheckpoint: "filepath",
    keras.callbacks.BackupAndRestore: "backup_dir",
    keras.callbacks.CSVLogger: "filename",
    keras.callbacks.TensorBoard: "log_dir",
}
_INSTEAD = {
    keras.callbacks.ModelCheckpoint: "tfdist keeps the best checkpoint in a bucket: checkpoint.best and "
    "checkpoint.directory in a config; or save the model there after fit: model.save('s3://BUCKET/model.keras')",
    keras.callbacks.BackupAndRestore: "tfdist's own checkpoints go there: checkpoint.directory in a config",
}


def check_paths(callbacks: Iterable[Any]) -> None:
    """Refuses callbacks that write where TensorFlow cannot.

    Raises:
        UsageError: One does; the text names it and what to do instead.
    """
    for callback in callbacks:
        for kind, attribute in _ATTRIBUTES.items():
            path = str(getattr(callback, attribute, "")) if isinstance(callback, kind) else ""
            scheme = scheme_of(path)
            if scheme is None or scheme in OF_TENSORFLOW:
                continue
            instead = _INSTEAD.get(kind, "Write it here, and copy it there when the run has ended")
            raise UsageError(
                f"keras.callbacks.{kind.__name__} writes by TensorFlow's file systems, which do not know {scheme}://. "
                f"Expected a path of this machine, or gs://. Received: {path}. {instead}."
            )
