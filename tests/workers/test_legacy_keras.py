"""A script that chooses Keras 2 by itself, which no check before its start can see, ends before its first step."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.cli_process import tfdist
from tests.helpers.legacy_package import write_legacy_keras
from tests.helpers.marks import slow
from tests.workers.worker_scripts import BOUND

CHOICE = 'os.environ["TF_USE_LEGACY_KERAS"] = "1"\n'
SCRIPTS = {
    "before TensorFlow": f"import os\n{CHOICE}import tensorflow as tf\ntf.keras.Model().fit([1.0])\n",
    "after TensorFlow": f"import os\nimport tensorflow as tf\n{CHOICE}tf.keras.Model().fit([1.0])\n",
}


@pytest.mark.parametrize("when", [slow("before TensorFlow"), "after TensorFlow"])
def test_a_script_that_chooses_keras_2(when: str, tmp_path: Path) -> None:
    write_legacy_keras(tmp_path)
    script = tmp_path / "script.py"
    script.write_text(SCRIPTS[when])
    done = tfdist("train", "--logical-devices", 2, "--run-dir", tmp_path / "run", script, timeout=BOUND,
                  are_warm=False)  # fmt: skip
    assert done.returncode == 2, done.stdout + done.stderr
    assert "trains with Keras 2: it calls tf_keras.Model.fit" in done.stderr
    assert "without TF_USE_LEGACY_KERAS" in done.stderr
    assert "has trained" not in done.stdout
