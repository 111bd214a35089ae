from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.unit.board.made_runs import make_run
from tests.unit.board.served import served
from tfdist.board import board_server
from tfdist.cli.main import main

needs_extra = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("starlette", "uvicorn"))),
    reason='needs the extra: pip install -e ".[board]"',
)


@needs_extra
def test_ctrl_c_ends_it_also_while_somebody_waits(tmp_path: Path) -> None:
    make_run(tmp_path / "a")
    with served(tmp_path) as board:
        assert board.call(f"/?token={board.token}")[0].status == 200
        with socket.create_connection(("127.0.0.1", board.port), 10):
            begun = time.monotonic()
            board.process.send_signal(signal.SIGINT)
            assert board.process.wait(30) == 130
            assert time.monotonic() - begun < 15
        assert board.process.stdout is not None
        said = board.process.stdout.read()
        assert f"ssh -N -L {board.port}:127.0.0.1:{board.port} " in said and "Traceback" not in said


@needs_extra
def test_it_listens_on_loopback_alone_unless_told_otherwise(tmp_path: Path) -> None:
    with served(tmp_path) as board:
        with socket.socket() as other, pytest.raises(OSError):
            other.settimeout(5)
            other.connect(("127.0.0.2", board.port))
        taken = CliRunner().invoke(main, ["board", str(tmp_path), "--port", str(board.port)])
        assert taken.exit_code == 2
        assert f"Port {board.port} of --port is taken by pid {board.process.pid} " in taken.stderr
    command = [sys.executable, "-m", "tfdist", "board", str(tmp_path), "--host", "0.0.0.0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("warning: --host 0.0.0.0 lets other machines in")
        process.terminate()
        assert process.wait(30) == 143


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["FOLDER/absent"], "is no folder. Expected one in which runs are"),
        (["s3://bucket/runs"], "s3://bucket/runs"),
        (["FOLDER", "--host", "gpu1"], "--host must be an IP address of this machine"),
        (["FOLDER", "--host", "192.0.2.1"], "--host 192.0.2.1 cannot be listened on"),
        (["FOLDER", "--port", "70000"], "70000"),
    ],
)
def test_what_cannot_be_shown_is_said(arguments: list[str], why: str, tmp_path: Path, extra: None) -> None:
    result = CliRunner().invoke(main, ["board", *(word.replace("FOLDER", str(tmp_path)) for word in arguments)])
    assert result.exit_code == 2 and why in result.stderr


@pytest.fixture
def extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board_server, "check_extra", lambda: None)


def test_without_the_extra_it_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    result = CliRunner().invoke(main, ["board", os.fspath(tmp_path)])
    assert result.exit_code == 2
    assert "`tfdist board` needs starlette and uvicorn: not installed here." in result.stderr
    assert "pip install 'tfdist[board]'" in result.stderr
