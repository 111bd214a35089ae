from __future__ import annotations

import threading

import pytest

from tfdist.selftest.row_jobs import RowWatch


def test_rows_are_told_while_the_job_goes_on_and_each_once() -> None:
    done: list[str] = []
    told: list[str] = []
    heard = threading.Event()

    def tell(name: str) -> None:
        told.append(name)
        heard.set()

    with RowWatch(lambda: list(done), tell, tick=0.01):
        done.append("a")
        assert heard.wait(10)
        assert told == ["a"]
    assert told == ["a"]


def test_what_came_last_is_told_at_the_end_and_also_when_the_job_raises() -> None:
    told: list[str] = []
    with pytest.raises(KeyError), RowWatch(lambda: ["a"], told.append, tick=100.0):
        raise KeyError
    assert told == ["a"]


def test_an_error_in_the_thread_is_raised_at_the_end() -> None:
    looked = threading.Event()

    def look() -> list[str]:
        looked.set()
        raise ValueError("unreadable")

    with pytest.raises(ValueError, match="unreadable"), RowWatch(look, lambda name: None, tick=0.01):
        assert looked.wait(10)
