"""Standard streams: closed ones, as cron and some supervisors leave them, and TensorFlow's lines on stderr."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, sys
from tfdist.cli.standard_streams import open_closed_streams
open_closed_streams()
with open("opened", "w") as file:
    assert file.fileno() > 2
    print("printed", flush=True)
    print("complained", file=sys.stderr)
    os.system("echo echoed; echo grumbled >&2")
    assert sys.stdin.read() == ""
"""


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-", "<&-"])
def test_nothing_that_is_printed_lands_in_a_file(closed: str, tmp_path: Path) -> None:
    program = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert program.returncode == 0, program.stderr
    assert (tmp_path / "opened").read_text() == ""
    assert program.stdout == ("" if " >&-" in f" {closed}" else "printed\nechoed\n")
    assert program.stderr == ("" if "2>&-" in closed else "complained\ngrumbled\n")


def test_errors_have_their_exit_code(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tfdist", "status", str(tmp_path / "nothing")]
    closed = ["sh", "-c", 'exec "$@" >&- 2>&- <&-', "sh", *command]
    assert subprocess.run(closed, timeout=150).returncode == 2


HIDING = """
import os, sys
from tfdist.cli.standard_streams import tf_lines_hidden
tensorflow = b"I0000 00:00:1795423535.828425    5902 port.cc:153] oneDNN custom operations are on.\\n"
os.write(2, b"before\\n" + tensorflow)
try:
    with tf_lines_hidden():
        os.write(2, tensorflow + b"of a library\\n")
        print("of Python", file=sys.stderr)
        os.write(2, tensorflow + b"without an end")
        raise KeyError
except KeyError:
    os.write(2, b" and after\\n" + tensorflow)
"""


def test_tensorflows_lines_are_hidden_while_a_block_runs() -> None:
    command = [sys.executable, "-c", HIDING]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=150)
    line = "I0000 00:00:1795423535.828425    5902 port.cc:153] oneDNN custom operations are on.\n"
    assert ended.stderr == f"before\n{line}of a library\nof Python\nwithout an end and after\n{line}"
    assert ended.returncode == 0


MASKED = """
import os, sys
from tfdist.cli.standard_streams import for_drawing, mask_text
mask_text()
print("a\\x1b]0;title\\x07b\\tc\\r\\x9bd")
drawn = for_drawing(sys.stdout)
drawn.write("\\x1b[2K")
drawn.flush()
print("\\udc80 last", file=sys.stderr)
"""


def test_nothing_that_a_terminal_obeys_is_printed() -> None:
    environ = {**os.environ, "PYTHONIOENCODING": "utf-8:replace"}
    done = subprocess.run([sys.executable, "-c", MASKED], capture_output=True, timeout=150, env=environ)
    assert done.stdout.replace(b"\x1b[2K", b"") == b"a?]0;title?b\tc??d\n" and b"\x1b[2K" in done.stdout
    assert done.stderr == b"? last\n"


TITLE = "\x1b]0;title\x07"
"""What click itself does not take away."""


@pytest.mark.parametrize("words", [["stop", f"{TITLE}run"], [f"{TITLE}train"], ["train", f"{TITLE}.py"]])
def test_errors_are_masked(words: list[str]) -> None:
    done = subprocess.run([sys.executable, "-m", "tfdist", *words], capture_output=True, timeout=150)
    assert done.returncode == 2 and b"0;title" in done.stderr
    assert not {b"\x1b", b"\x07"} & {bytes([byte]) for byte in done.stderr}
