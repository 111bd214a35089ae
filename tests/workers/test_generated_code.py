"""The Python files that TensorFlow generates from functions go with their job, however it ends."""

from __future__ import annotations

import os
import signal
import textwrap
from pathlib import Path

import pytest

from tests.marks import slow
from tests.workers.cli_process import tfdist

_SCRIPT = """
    import os, signal, sys, tempfile
    from pathlib import Path
    import tensorflow as tf

    @tf.function
    def doubled(x):
        if tf.reduce_sum(x) > 0:
            x = 2 * x
        return x

    assert float(doubled(tf.constant(3.0))) == 6.0
    generated = [module for name, module in sys.modules.items() if name.startswith("__autograph_generated_file")]
    (made,) = {Path(module.__file__) for module in generated}
    assert made.exists() and made.parent.parent == Path(tempfile.gettempdir()), made
    with tempfile.NamedTemporaryFile(delete=False) as own:
        print("own", own.name, flush=True)
    if sys.argv[1:]:
        os.kill(os.getpid(), int(sys.argv[1]))
"""


@pytest.mark.parametrize("number", [None, slow(signal.SIGKILL)])
def test_a_job_leaves_none_behind_and_keeps_what_a_script_makes(tmp_path: Path, number: int | None) -> None:
    place = tmp_path / "tmp"
    place.mkdir()
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(_SCRIPT))
    arguments = [] if number is None else [int(number)]
    environ = {**os.environ, "TMPDIR": str(place)}
    done = tfdist("train", "--run-dir", tmp_path / "run", script, *arguments, environ=environ)
    assert done.returncode == (4 if number else 0), done.stderr
    (own,) = (Path(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("own "))
    assert own.parent == place and own.exists()
    assert [entry for entry in place.iterdir() if "autograph" in entry.name] == []
