from __future__ import annotations

import threading

import pytest

from tests.helpers.waiting import until
from tfdist.errors import RunDirError
from tfdist.rundir.bounded_disk import BoundedDisk


def test_a_call_returns_and_raises_as_without() -> None:
    disk = BoundedDisk("/run")
    assert disk.call(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        disk.call(lambda: 1 // 0)
    assert disk.call(threading.get_ident) != threading.get_ident()


def test_a_disk_that_does_not_answer_holds_nobody_up_and_may_answer_again() -> None:
    disk = BoundedDisk("/mnt/run", seconds=0.01)
    answers, asked = threading.Event(), []

    def touch() -> None:
        asked.append(True)
        assert answers.wait(60)

    with pytest.raises(RunDirError, match=r"The disk of /mnt/run does not answer: nothing came back in 0\.01 s"):
        disk.call(touch)
    with pytest.raises(RunDirError, match="does not answer"):
        disk.call(touch)
    assert asked == [True]  # the second did not wait behind the first
    answers.set()

    def answered() -> bool:
        try:
            return disk.call(lambda: True)
        except RunDirError:
            return False

    until(answered)
