from __future__ import annotations

import importlib

import pytest
import tensorflow as tf

from tfdist.errors import UnsupportedError
from tfdist.training.run_script import keep_eager


@pytest.mark.parametrize("name", ["disable_eager_execution", "disable_v2_behavior"])
def test_a_script_of_several_workers_cannot_leave_eager_execution(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    original = getattr(tf.compat.v1, name)
    for module in map(importlib.import_module, ("tensorflow._api.v2.compat.v1", "tensorflow.compat.v1")):
        for switch in ("disable_eager_execution", "disable_v2_behavior"):
            monkeypatch.setattr(module, switch, getattr(module, switch))  # put back at the end
    keep_eager(1)
    assert getattr(tf.compat.v1, name) is original
    keep_eager(2)
    with pytest.raises(UnsupportedError, match=rf"tf.compat.v1.{name}\(\), and this run has several workers"):
        getattr(tf.compat.v1, name)()
    assert tf.executing_eagerly()
