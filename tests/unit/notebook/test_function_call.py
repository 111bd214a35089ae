"""Function calls: by value and back, with the text of cells; what cannot be pickled is named."""

from __future__ import annotations

import inspect
import linecache
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from tfdist.errors import RunDirError, UsageError, WorkerFailedError
from tfdist.notebook.call_folder import CallFolder, call_folder
from tfdist.notebook.function_call import FunctionCall, read_result, write_result

CELL = "/tmp/ipykernel_1/2.py"
TEXT = "def add(number):\n    return number + offset\n"


def typed(**variables: Any) -> Any:
    """The function of a cell, whose globals are `variables`."""
    variables["__name__"] = "__main__"
    exec(compile(TEXT, CELL, "exec"), variables)
    return variables["add"]


def test_a_function_of_a_cell_is_called_with_its_globals_and_has_its_text(tmp_path: Path) -> None:
    linecache.cache[CELL] = (len(TEXT), None, TEXT.splitlines(keepends=True), CELL)
    try:
        FunctionCall(typed(offset=40), (2,)).write(CallFolder(tmp_path))
        del linecache.cache[CELL]
        call = FunctionCall.read(CallFolder(tmp_path))
        assert call.function(*call.args) == 42
        assert inspect.getsource(call.function) == TEXT
    finally:
        linecache.cache.pop(CELL, None)


@pytest.mark.parametrize(
    ("offset", "args", "named"),
    [(threading.Lock(), (1,), "offset cannot be pickled"), (1, (2, threading.Lock()), "argument 1 cannot be pickled")],
)
def test_what_cannot_be_pickled_is_named(tmp_path: Path, offset: Any, args: tuple[Any, ...], named: str) -> None:
    with pytest.raises(UsageError) as error:
        FunctionCall(typed(offset=offset), args).write(CallFolder(tmp_path))
    assert named in str(error.value)
    assert "a _thread.lock. Make it inside of the function." in str(error.value)


def test_a_result_comes_back(tmp_path: Path) -> None:
    with pytest.raises(WorkerFailedError, match=r"sys.exit\(0\) or os._exit\(0\), before it returned"):
        read_result(CallFolder(tmp_path))
    write_result(CallFolder(tmp_path), {"loss": [0.5]})
    assert read_result(CallFolder(tmp_path)) == {"loss": [0.5]}


def test_a_result_that_cannot_be_pickled_says_so_once_the_job_is_done(tmp_path: Path) -> None:
    write_result(CallFolder(tmp_path), threading.Lock())
    with pytest.raises(UsageError) as error:
        read_result(CallFolder(tmp_path))
    assert "The job has ended without a failure" in str(error.value)
    assert "lock (TypeError: cannot pickle '_thread.lock' object)" in str(error.value)


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunDirError, match="Expected a folder for temporary files with room .* Set TMPDIR"):
        FunctionCall(typed(offset=1), ("a" * 10_000_000,)).write(FullFolder(tmp_path))


class FullFolder(CallFolder):
    """Whose disk is full."""

    @property
    def call(self) -> Path:
        return Path("/dev/full")


def test_nobody_else_enters_the_folder_and_it_is_gone_afterwards() -> None:
    with call_folder() as folder:
        assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
        folder.call.write_bytes(b"")
    assert not folder.path.exists()
