"""The kernels of this process, beside what a launcher foretells of them without TensorFlow."""

from __future__ import annotations

import os

from tfdist.launch.worker.kernel_choice import VARIABLE, choose_kernels
from tfdist.launch.worker.processor import this_processor
from tfdist.runtime.cpu_kernels import replica_kernels, uses_onednn


def test_they_are_as_foretold() -> None:
    # An empty variable decides nothing, as none.
    environ = {VARIABLE: os.environ.get(VARIABLE, "")}
    expected = choose_kernels("auto", environ, this_processor(), has_gpu=False).kernels
    assert uses_onednn() == (expected == "onednn")
    assert replica_kernels() in (expected, "")
