"""The board as it is served: addresses, tokens, headers, bounds of time."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.board.made_runs import CREATED, make_run
from tests.unit.board.served import Board, served
from tfdist.board import board_server
from tfdist.board.board_folder import BoardFolder, key_of
from tfdist.board.request_guard import HEADERS, Guard

pytest.importorskip("uvicorn", reason='needs the extra: pip install -e ".[board]"')
pytest.importorskip("starlette", reason='needs the extra: pip install -e ".[board]"')


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("runs")
    for name in ("a", "b"):
        make_run(made / name)
    return made


@pytest.fixture(scope="module")
def board(folder: Path) -> Iterator[Board]:
    with served(folder) as made:
        yield made


def test_the_page_comes_with_a_cookie_that_opens_the_rest(board: Board) -> None:
    page, body = board.call(f"/?token={board.token}")
    assert page.status == 200 and b"<title>tfdist board</title>" in body
    cookie = page.headers["Set-Cookie"]
    assert {"HttpOnly", "Path=/", "SameSite=strict"} <= set(cookie.split("; ")) and "Domain" not in cookie
    pair = cookie.partition(";")[0]
    for path in ("/", "/board.css", "/board.js", "/views.js", "/charts.js", "/dom.js", "/icon.svg", "/api/runs"):
        assert board.call(path, Cookie=pair)[0].status == 200
        assert board.call(path)[0].status == 403
        assert board.call(path, Cookie=f"{pair}x")[0].status == 403


@pytest.mark.parametrize("path", ["/", "/board.js", "/api/runs", "/api/run", "/nothing", "/api/log?worker=x"])
def test_every_answer_tells_the_browser_what_to_leave_alone(path: str, board: Board) -> None:
    for asked in (path, f"{path}{'&' if '?' in path else '?'}token={board.token}"):
        answer, _ = board.call(asked)
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
        assert "Access-Control-Allow-Origin" not in answer.headers and "Server" not in answer.headers


def test_others_names_methods_and_pages(board: Board) -> None:
    assert board.call(f"/?token={board.token}", Host="evil.example")[0].status == 400
    answer, _ = board.call(f"/api/runs?token={board.token}", "POST")
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")
    answer, body = board.call(f"/api/runs?token={board.token}", "HEAD")
    assert (answer.status, body) == (200, b"")
    for path in ("/../../etc/passwd", "/%2e%2e/setup.cfg", "/static/x", "//etc/passwd", "/page/index.html"):
        assert board.call(f"{path}?token={board.token}")[0].status == 404


def test_runs_are_asked_for(board: Board, folder: Path) -> None:
    key, other = key_of(folder / "a"), key_of(folder / "b")
    status, listed = board.ask("/api/runs")
    assert status == 200 and {run["key"] for run in listed["runs"]} == {key, other}
    assert board.ask(f"/api/run?run={key}")[1]["name"] == "a"
    assert board.ask(f"/api/log?run={key}&worker=1&attempt=0")[1]["lines"] == ["hello of worker 1"]
    assert board.ask(f"/api/compare?run={key}&run={other}")[0] == 200


@pytest.mark.parametrize(
    ("path", "status", "why"),
    [
        ("/api/run", 404, "It is not there"),
        ("/api/run?run=../a", 404, "It is not there"),
        ("/api/log?run=KEY&worker=7", 404, "It is not there"),
        ("/api/log?run=KEY&worker=../1", 400, "Expected a number for worker"),
        ("/api/runs?first=-1", 400, "Expected a number for first"),
        ("/api/runs?first=9999999999", 400, "Expected a number for first"),
        ("/api/compare?run=KEY", 400, "Expected 2 to 8 runs to compare. Received: 1."),
    ],
)
def test_what_there_is_not_is_said(path: str, status: int, why: str, board: Board, folder: Path) -> None:
    answer = board.ask(path.replace("KEY", key_of(folder / "a")))
    assert answer[0] == status and why in answer[1]["error"]


def test_a_run_that_comes_and_goes_is_seen(board: Board, folder: Path) -> None:
    late = make_run(folder / "late", CREATED + 100)
    assert board.ask("/api/runs")[1]["runs"][0]["cells"][0] == "late"
    late.path.rename(folder.parent / "gone")
    assert len(board.ask("/api/runs")[1]["runs"]) == 2
    assert board.ask(f"/api/run?run={key_of(late.path)}")[0] == 404


def test_long_heads_and_callers_that_say_nothing_hold_up_nobody(board: Board) -> None:
    idle = [socket.create_connection(("127.0.0.1", board.port), 10) for _ in range(20)]
    begun = time.monotonic()
    with contextlib.suppress(ConnectionError):  # hung up on before it has said all
        assert board.call("/", Cookie="x" * 1_000_000)[0].status == 400
    assert board.ask("/api/runs")[0] == 200
    assert time.monotonic() - begun < 10
    for connection in idle:
        connection.close()


def test_a_call_that_takes_too_long_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board_server, "CALL_SECONDS", 0.3)
    listener = board_server._listening("127.0.0.1", 0)
    server, thread = board_server._started(BoardFolder(tmp_path), Guard("127.0.0.1", 1), listener)
    try:
        with socket.create_connection(listener.getsockname(), 30) as caller:
            caller.sendall(b"GET / HTTP/1.1\r\nHost: local")
            with contextlib.suppress(ConnectionError):
                assert caller.recv(1) == b""
    finally:
        server.should_exit = server.force_exit = True
        thread.join(30)
        listener.close()
