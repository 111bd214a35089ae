"""Scripts that cannot resume as they were are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import pytest
import tensorflow as tf

from tests.devices.killed_script import (
    BATCH,
    STEPS,
    Script,
    compiled,
    one_fit,
    samples,
)
from tfdist.checkpoint.checkpoint_files import stored
from tfdist.errors import RunDirError, UsageError
from tfdist.rundir import RunDir
from tfdist.training.checkpoints.checkpoint_options import CheckpointOptions, CheckpointRequest


def test_data_that_became_unknown_does_not_go_on_within_an_epoch(tmp_path: Path) -> None:
    def body(own: Callable[[Any], Any]) -> Callable[[Script], None]:
        def one(script: Script) -> None:
            data = tf.data.Dataset.from_tensor_slices(samples()).batch(BATCH).map(lambda x, y: (own(x), y))
            script.fit(compiled(keras.Sequential([keras.Input((5,)), keras.layers.Dense(3)]), "sgd"), data, epochs=2)

        return one

    def python(x: Any) -> Any:
        return tf.ensure_shape(tf.numpy_function(lambda values: values, [x], tf.float32), [None, 5])

    script = Script(tmp_path, body(lambda x: x))
    assert not script.run("on_train_batch_begin", STEPS + 4)
    script.body = body(python)
    with pytest.raises(RunDirError, match="after 3 steps of an epoch.*it calls Python code"):
        script.run()
    script.body = body(lambda x: x)
    assert script.run()


def test_what_cannot_be_made_right_is_refused(tmp_path: Path) -> None:
    script = Script(tmp_path, one_fit())
    with pytest.raises(RunDirError, match="There is nothing to resume"):
        script.run(resume="must")
    assert script.run(resume="must" if stored(tmp_path / "checkpoints") else "auto")
    with pytest.raises(RunDirError, match="has checkpoints of an earlier training"):
        script.run(resume="never")
    script.body = one_fit(batch_size=BATCH + 1)
    with pytest.raises(RunDirError, match=f"another batch_size: {BATCH}"):
        script.run()
    script.body = one_fit(units=4)
    with pytest.raises(RunDirError, match="another model or optimizer"):
        script.run()
    wish = CheckpointRequest(CheckpointOptions(RunDir(tmp_path), resume="auto", is_asked_for=True), None)
    script.body = one_fit(callbacks=[wish, keras.callbacks.BackupAndRestore(tmp_path / "backup")])
    with pytest.raises(UsageError, match="tfdist.callbacks.* and BackupAndRestore"):
        script.run()
