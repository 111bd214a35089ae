"""The Python files that TensorFlow generates from functions go with their job, however it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.cli_process import tfdist
from tests.helpers.marks import slow
from tfdist.launch.worker.config_handover import generated_code_dir

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


@pytest.mark.slow
@pytest.mark.parametrize("number", [None, signal.SIGKILL])
def test_a_script_of_its_own_leaves_none_behind_or_the_next_start_removes_them(
    tmp_path: Path, number: int | None
) -> None:
    place = tmp_path / "tmp"
    place.mkdir()
    script = tmp_path / "script.py"
    script.write_text("import tfdist\ntfdist.strategy()\n" + textwrap.dedent(_SCRIPT))
    environ = {**os.environ, "TMPDIR": str(place)}
    done = subprocess.run(
        [sys.executable, script, *([] if number is None else [str(int(number))])],
        env=environ,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == -(number or 0), done.stderr
    left = [entry for entry in place.iterdir() if "autograph" in entry.name]
    assert len(left) == bool(number)
    with pytest.MonkeyPatch.context() as patch, generated_code_dir_in(place, patch) as made:
        assert [entry for entry in place.iterdir() if "autograph" in entry.name] == [made]


@contextlib.contextmanager
def generated_code_dir_in(place: Path, patch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder that the next start makes."""
    patch.setattr("tempfile.tempdir", str(place))
    with generated_code_dir() as folder:
        assert folder is not None
        yield Path(folder)
