"""Workers that share memory, on hosts that refuse it, without room in /dev/shm, and behind a network that is cut."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest

from tests.helpers.cli_process import begun
from tests.helpers.processes import processes_with
from tests.helpers.waiting import PATIENCE, until
from tfdist.verify.hosts.namespace_hosts import NamespaceHost

STEPS = """
    import sys
    from pathlib import Path

    import keras
    import numpy as np
    import tensorflow as tf
    import tfdist

    class Mark(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 3:
                Path(f"{sys.argv[1]}.{tfdist.worker_index()}").touch()

    model = keras.Sequential([keras.Input([8]), keras.layers.Dense(2)])
    model.compile("sgd", "mse", metrics=["mae"])
    rows = tf.data.Dataset.from_tensor_slices((np.ones([64, 8], "float32"), np.ones([64, 2], "float32")))
    model.fit(rows.repeat().batch(12), steps_per_epoch=int(sys.argv[2]), verbose=0, callbacks=[Mark()])
"""


def written(folder: Path) -> Path:
    script = folder / "steps.py"
    script.write_text(textwrap.dedent(STEPS))
    return script


def train(folder: Path, prefix: str, *options: object) -> tuple[int, str]:
    """A few steps by a launcher below a line of shell; its exit code and what it says."""
    command = ["train", *options, "--run-dir", folder / "run", written(folder), folder / "mark", 5]
    with begun(*command, prefix=["sh", "-c", prefix, "sh"], output=subprocess.PIPE) as launcher:
        _, said = launcher.communicate(timeout=100)
    return launcher.returncode, said


def test_without_descriptors_for_links_workers_start_and_sum_over_the_network(tmp_path: Path) -> None:
    """So few that links, or workers, can be had, and not both: seen from 33 to 51."""
    code, said = train(tmp_path, 'ulimit -n 40 && exec "$@"', "--nproc", 3)
    assert code == 0, said
    assert "sum over the network instead of in shared memory" in said
    assert "Too many open files. A higher limit of open files (ulimit -n)" in said
    assert "(MultiWorkerMirroredStrategy, ring" in said


def test_memory_that_is_asked_for_and_refused(tmp_path: Path) -> None:
    """A limit on the size of files holds for memory without a name, too."""
    code, said = train(tmp_path, 'ulimit -f 2048 && exec "$@"', "--nproc", 2, "--communication", "shm")
    assert code == 2, said
    assert "the system gives no memory or no descriptors: [Errno 27] File too large" in said
    assert "Received: workers that share no memory" in said
    assert "Use --communication auto." in said


def test_nothing_needs_room_in_dev_shm(tmp_path: Path) -> None:
    """Of a container, in which it may be small, or not writable at all."""
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("a /dev/shm of one's own needs unshare (util-linux), and root")
    mounted = 'mount -t tmpfs -o ro,size=4k tmpfs /dev/shm && exec "$@"'
    code, said = train(tmp_path, f"exec unshare -m sh -c '{mounted}' sh \"$@\"", "--nproc", 2)
    assert code == 0, said
    assert "(MultiWorkerMirroredStrategy, shm" in said


@pytest.mark.slow
@pytest.mark.bound(200)
def test_a_network_that_is_cut_ends_the_workers_of_both_hosts(
    hosts: tuple[NamespaceHost, NamespaceHost], tmp_path: Path
) -> None:
    """Two workers on one host, which wait for each other in memory while one of them waits for the other host."""
    first, second = hosts
    workers = f"{first.ipv4}:20000,{first.ipv4}:20001,{second.ipv4}:20000"
    mark = f"{os.getpid()}-{tmp_path}"
    with contextlib.ExitStack() as stack:
        launchers = []
        for host in hosts:
            folder = tmp_path / host.name
            folder.mkdir()
            options = ["--workers", workers, "--step-timeout", 10, "--run-dir", folder / "run"]
            command = ["train", *options, written(folder), tmp_path / "mark", 1_000_000]
            launchers.append(
                stack.enter_context(
                    begun(*command, prefix=host.prefix, output=subprocess.PIPE, environ={"TFDIST_TEST_MARK": mark})
                )
            )
        until(lambda: all(Path(f"{tmp_path / 'mark'}.{index}").exists() for index in range(3)), 100)
        second.set_link("down")
        said = [launcher.communicate(timeout=90 * PATIENCE)[1] for launcher in launchers]
    assert "(MultiWorkerMirroredStrategy, shm+ring" in said[0]
    assert [launcher.returncode for launcher in launchers] == [4, 4], said
    for words, here, there in zip(said, hosts, reversed(hosts), strict=True):
        assert f"or its machine or the network between {here.name} and {there.name} failed" in words
    until(lambda: not processes_with(f"TFDIST_TEST_MARK={mark}"), 20, "processes are left")
