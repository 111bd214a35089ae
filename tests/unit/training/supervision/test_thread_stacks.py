from __future__ import annotations

import gc
import json
import os
import runpy
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import tfdist
from tests.unit.runtime.batches.host_feed.channels import DTYPES, batch, socket_pair
from tests.unit.runtime.transport.shared_memory.linked_threads import meshes
from tfdist.errors import WorkerFailedError
from tfdist.runtime.batches import host_feed
from tfdist.runtime.batches.host_feed.batch_slicer import BatchSlicer
from tfdist.runtime.batches.host_feed.drawing import BatchSender
from tfdist.runtime.batches.host_feed.host_feed import BatchReceiver, FeedChannel
from tfdist.runtime.transport.shared_memory.array_exchange import reduce_arrays
from tfdist.runtime.transport.shared_memory.output_buffers import OutputBuffers
from tfdist.training.supervision.thread_stacks import (
    called_places,
    format_stacks,
    is_raised_by_user,
    main_place,
    script_traceback,
    stack_of,
)
from tfdist.training.supervision.watchdog import Watchdog


def test_whose_code_raised(tmp_path: Path) -> None:
    script = tmp_path / "users.py"
    script.write_text("def f(text):\n    raise ValueError(text)")
    for function, users in ((runpy.run_path(str(script))["f"], True), (json.loads, False)):
        with pytest.raises(ValueError) as raised:
            function("{")
        assert is_raised_by_user(_without_the_test(raised.value)) == users


@pytest.mark.parametrize(
    ("code", "frames"),
    [("def fails():\n    raise KeyError('x')\n\nfails()", 2), ("compile('1 +', 'typed.py', 'exec')", 1)],
)
def test_a_traceback_begins_in_the_script(tmp_path: Path, code: str, frames: int) -> None:
    script = tmp_path / "raises.py"
    script.write_text(code)
    with pytest.raises((KeyError, SyntaxError)) as raised:
        runpy.run_path(str(script))
    said = script_traceback(_without_the_test(raised.value))
    assert said.count("Traceback (most recent call last)") == 1
    assert said.count(f'File "{script}", line') == frames
    assert "runpy" not in said


@pytest.mark.parametrize(("code", "shown"), [("fails()", False), ("raise ValueError('its own')", True)])
def test_repairs_are_shown_where_they_are_the_cause(tmp_path: Path, code: str, shown: bool) -> None:
    repair = str(Path(tfdist.__file__).parent / "keras_repairs" / "forward" / "losses.py")
    script = tmp_path / "raises.py"
    script.write_text(
        "def fails():\n    raise ValueError('x')\n\n"
        f"exec(compile({f'def repaired(): {code}'!r}, {repair!r}, 'exec'))\n"
        "try:\n    repaired()\nexcept ValueError as cause:\n    raise OSError from cause"
    )
    with pytest.raises(OSError) as raised:
        runpy.run_path(str(script))
    said = script_traceback(_without_the_test(raised.value))
    assert (f'File "{repair}"' in said) == shown
    assert said.count(f'File "{script}", line') == (2 if shown else 3)


def _without_the_test(error: BaseException) -> BaseException:
    """The error as a worker sees it: the test's own frame is no part of that."""
    assert error.__traceback__ is not None
    return error.with_traceback(error.__traceback__.tb_next)


SCRIPT = """
import json, sys

def default(value):
    frames.append(sys._getframe())
    return 1

def work():
    json.dumps(object(), default=default)

frames = []
"""


@pytest.fixture
def frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FrameType:
    """One of the standard library's, called by a script's line 9, and below it the frame of a test."""
    script = tmp_path / "deep" / "train.py"
    script.parent.mkdir()
    script.write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    names = runpy.run_path(str(script))
    names["work"]()
    return names["frames"][0]


def of_main(frame: FrameType) -> dict[int, FrameType]:
    return {threading.main_thread().ident or 0: frame}


def test_names_the_innermost_line_of_the_user(frame: FrameType) -> None:
    assert main_place(of_main(frame)) == f"{os.path.join('deep', 'train.py')} line 6 in default"
    library = frame.f_back
    assert library is not None and library.f_code.co_filename == json.encoder.__file__
    assert main_place(of_main(library)) == f"{os.path.join('deep', 'train.py')} line 9 in work"


def test_a_generator_that_was_left_is_looked_for_no_longer() -> None:
    """Its frame leads nowhere, and a stack that begins with it would say nothing of where the thread is."""

    def numbers() -> Iterator[int]:
        yield 1

    left, begun, leave = numbers(), threading.Event(), threading.Event()
    next(left)

    def wait_here() -> None:
        begun.set()
        leave.wait(20)

    thread = threading.Thread(target=wait_here)
    thread.start()
    try:
        assert begun.wait(20)
        stack = stack_of(thread.ident or 0, left.gi_frame)
    finally:
        leave.set()
        thread.join(20)
    assert "wait_here" in [summary.name for summary in stack]
    assert [summary.name for summary in stack_of(-1, left.gi_frame)] == ["numbers"]  # of a thread that has ended


def test_a_path_elsewhere_is_whole(frame: FrameType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert main_place(of_main(frame)).startswith(str(tmp_path / "deep" / "train.py"))


def test_every_thread_has_its_stack_and_the_main_thread_is_first() -> None:
    came, leave = threading.Event(), threading.Event()

    def wait_here() -> None:
        came.set()
        leave.wait(20)

    thread = threading.Thread(target=wait_here, name="the-waiting-one")
    thread.start()
    try:
        assert came.wait(20)
        text = format_stacks()
    finally:
        leave.set()
        thread.join()
    assert text.startswith("Thread MainThread:")
    assert "in test_every_thread_has_its_stack" in text.partition("Thread the-waiting-one:")[0]
    assert "in wait_here" in text.partition("Thread the-waiting-one:")[2]


CALLER = """
def call(function):
    return function()
"""


@pytest.fixture
def called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, frame: FrameType) -> FrameType:
    """A frame of a script's line 3, which runs below the code of TensorFlow's that calls users' functions."""
    caller = tmp_path / "tensorflow" / "python" / "ops" / "script_ops.py"
    caller.parent.mkdir(parents=True)
    caller.write_text(CALLER)
    script = tmp_path / "data.py"
    script.write_text("import sys\ndef load():\n    return sys._getframe()\n")
    return runpy.run_path(str(caller))["call"](runpy.run_path(str(script))["load"])


def test_functions_that_run_for_the_main_thread_are_named(frame: FrameType, called: FrameType) -> None:
    threads = {**of_main(frame), 1: called, 2: called}
    assert called_places(threads) == "data.py line 3 in load"
    assert main_place(threads).endswith("line 6 in default")


def test_who_waits_for_other_workers_in_shared_memory_runs_no_function_of_the_users(
    frame: FrameType, tmp_path: Path, called: FrameType
) -> None:
    """TensorFlow calls it like a user's function; a worker in it only waits, and is not to blame for a hang."""
    near, far = meshes(2)
    caught: list[FrameType] = []
    original = near.tell

    def tell() -> None:
        caught.append(sys._getframe(1))
        original()

    call = runpy.run_path(str(tmp_path / "tensorflow" / "python" / "ops" / "script_ops.py"))["call"]
    near.tell = tell  # type: ignore[method-assign]
    far.close()
    with pytest.raises(WorkerFailedError):
        call(lambda: reduce_arrays(near, [np.ones(3)], [np.ones(3)]))
    assert called_places({**of_main(frame), 1: caught[0]}) == ""
    assert called_places({**of_main(frame), 1: caught[0], 2: called}) == "data.py line 3 in load"
    near.close()


def test_who_waits_for_batches_of_another_worker_runs_no_function_of_the_users(
    frame: FrameType, tmp_path: Path, called: FrameType
) -> None:
    caught: list[FrameType] = []

    class Watched(BatchSlicer):
        def slices(self, *_: object) -> list[list[np.ndarray]]:
            caught.append(sys._getframe(1))
            return [[]]

    call = runpy.run_path(str(tmp_path / "tensorflow" / "python" / "ops" / "script_ops.py"))["call"]
    near, far = socket_pair()
    sender, receiver = BatchSender([near]), BatchReceiver(far, DTYPES, 0)
    slicer = Watched(1, [0], (True, True), False)
    channel = FeedChannel(1, receiver, slicer, None, lambda failure: ValueError(), OutputBuffers())
    sender.send(batch(0, 2), 2)
    call(channel.next_slice)
    channel.close()
    sender.close()
    assert called_places({**of_main(frame), 1: caught[0]}) == ""
    assert called_places({**of_main(frame), 1: caught[0], 2: called}) == "data.py line 3 in load"


def test_a_worker_whose_pipeline_makes_a_batch_for_others_is_busy_with_it(frame: FrameType, called: FrameType) -> None:
    """The workers that wait for it are not. Where it runs Python code, that says more."""
    file = Path(host_feed.__file__).parent / "fed_batches.py"
    code: dict[str, Any] = {}
    exec(compile("import sys\ndef _arrays_of():\n    return sys._getframe()\n", str(file), "exec"), code)
    threads = {**of_main(frame), 1: code["_arrays_of"]()}
    assert called_places(threads).endswith("host_feed/fed_batches.py line 3 in _arrays_of")
    assert called_places({**threads, 2: called}) == "data.py line 3 in load"


def test_other_threads_are_nobodys_matter(frame: FrameType) -> None:
    assert called_places({**of_main(frame), 1: frame}) == ""


def test_this_process_is_somewhere() -> None:
    assert __file__.rpartition(os.sep)[2] in main_place(sys._current_frames())


LOOKS = """
import gc, threading
from tfdist.runtime.thread_frames import frames_of_other_threads

class Cycle:
    def __init__(self):
        self.me, self.local = self, threading.local()
        self.local.value = 1

for look in range(400):
    gc.set_threshold(1 + look % 13)
    ended = threading.Event()
    threads = [threading.Thread(target=ended.wait) for _ in range(3)]
    for thread in threads:
        thread.start()
    garbage = [Cycle() for _ in range(20)]
    del garbage
    assert {thread.ident for thread in threads} <= frames_of_other_threads().keys()
    ended.set()
    for thread in threads:
        thread.join()
print("collects", gc.isenabled())
gc.disable()
frames_of_other_threads()
print("collects", gc.isenabled())
"""


def test_looking_at_threads_collects_no_garbage() -> None:
    """CPython 3.11 before 3.11.9 would wait for ever, with the interpreter's lock."""
    done = subprocess.run([sys.executable, "-c", LOOKS], capture_output=True, text=True, timeout=150)
    assert (done.returncode, done.stdout) == (0, "collects True\ncollects False\n"), done.stderr


def test_who_looks_at_threads_keeps_nothing_of_theirs() -> None:
    """A cycle of frames would keep what all threads have in variables until garbage is collected, such as weights."""

    class Weight:
        pass

    begun, ended, kept = threading.Event(), threading.Event(), []

    def compute() -> None:
        weight = Weight()
        kept.append(weakref.ref(weight))
        begun.set()
        ended.wait(20)

    thread = threading.Thread(target=compute)
    collects = gc.isenabled()
    gc.disable()
    try:
        thread.start()
        assert begun.wait(20)
        assert Watchdog(lambda: 1.0, lambda error: None, library=Path("library"))._look(0.0) == {}
        assert main_place() and called_places() == "" and "compute" in format_stacks()
        ended.set()
        thread.join(20)
        assert kept[0]() is None
    finally:
        ended.set()
        if collects:
            gc.enable()
