"""The control of a remote end."""

from __future__ import annotations

import os
import time

from tfdist.multihost.remote.remote_end import ControlInput


def test_control_is_read_line_by_line() -> None:
    reading, writing = os.pipe()
    control = ControlInput(reading)
    assert control.next_line() is None and control.end is None
    os.write(writing, b'{"a": 1}\n\n{"b"')
    assert control.next_line() == b'{"a": 1}'
    os.write(writing, b": 2}\n[]\n")
    assert control.messages() == [{"b": 2}]
    assert control.end is not None and "something else than a message" in control.end
    assert control.fileno() == -1
    os.close(writing)
    os.close(reading)


def test_control_ends_with_its_pipe_and_with_silence() -> None:
    reading, writing = os.pipe()
    silent = ControlInput(reading, silence=0.05)
    time.sleep(0.1)
    assert silent.next_line() is None and silent.end == "nothing has come from it for 0.05 s"
    control = ControlInput(reading)
    os.close(writing)
    assert control.messages() == [] and control.end == "its connection has ended"
    os.close(reading)
