"""The addresses of the board, by Starlette; what they answer is decided elsewhere."""

from __future__ import annotations

import importlib.resources
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tfdist.board.board_folder import BoardFolder, UnknownRunError, key_of
from tfdist.board.list_answers import MOST_COMPARED, compare_answer, list_answer
from tfdist.board.request_guard import HEADERS, Guard
from tfdist.board.run_answers import bounded_text, log_answer, run_answer
from tfdist.errors import RunDirError

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

_PAGE = {
    "/": ("index.html", "text/html"),
    "/board.css": ("board.css", "text/css"),
    "/board.js": ("board.js", "text/javascript"),
    "/views.js": ("views.js", "text/javascript"),
    "/charts.js": ("charts.js", "text/javascript"),
    "/dom.js": ("dom.js", "text/javascript"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
_MOST_FIND = 100
_MOST_ERROR = 1000
_GZIP_BYTES = 2000

Answer = Callable[["Request"], Mapping[str, Any]]


class _BadRequestError(Exception):
    """The address asks for something that there cannot be."""


def web_app(folder: BoardFolder, guard: Guard) -> Starlette:
    """The application."""
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.middleware.base import BaseHTTPMiddleware
    from starlette.middleware.gzip import GZipMiddleware
    from starlette.responses import PlainTextResponse, Response
    from starlette.routing import Route

    async def guarded(request: Request, answer: Any) -> Response:
        given, cookie = request.query_params.get("token"), request.cookies.get(guard.cookie)
        refusal = guard.refusal(request.method, request.headers.get("host", ""), given, cookie)
        if refusal is not None:
            response: Response = PlainTextResponse(f"{refusal.why}\n", refusal.status, dict(refusal.headers))
        else:
            response = await answer(request)
            if given is not None:
                response.set_cookie(guard.cookie, guard.token, httponly=True, samesite="strict")
        response.headers.update(HEADERS)
        return response

    def file(name: str, kind: str) -> Callable[[Request], Response]:
        content = (importlib.resources.files("tfdist.board") / "page" / name).read_bytes()
        return lambda request: Response(content, media_type=kind)

    async def no_page(request: Request, error: Exception) -> Response:
        return PlainTextResponse("There is no such page. The board is at /.\n", 404)

    answers = _answers(folder)
    return Starlette(
        routes=[
            *(Route(path, file(*page)) for path, page in _PAGE.items()),
            *(Route(path, _json(answer)) for path, answer in answers.items()),
        ],
        # The guard is the outermost.
        middleware=[
            Middleware(BaseHTTPMiddleware, dispatch=guarded),
            Middleware(GZipMiddleware, minimum_size=_GZIP_BYTES),
        ],
        exception_handlers={404: no_page},
    )


def _answers(folder: BoardFolder) -> dict[str, Answer]:
    def runs(request: Request) -> Mapping[str, Any]:
        first, find = _number(request, "first"), request.query_params.get("find", "")[:_MOST_FIND]
        return folder.reading("", lambda: list_answer(folder, first, find))

    def run(request: Request) -> Mapping[str, Any]:
        path = _found(folder, request.query_params.get("run", ""))
        return folder.reading(key_of(path), lambda: run_answer(path))

    def log(request: Request) -> Mapping[str, Any]:
        path = _found(folder, request.query_params.get("run", ""))
        worker, attempt = _number(request, "worker"), _number(request, "attempt")
        with_tf = request.query_params.get("tf") == "1"
        return folder.reading(f"{key_of(path)} log", lambda: log_answer(path, worker, attempt, with_tf=with_tf))

    def compare(request: Request) -> Mapping[str, Any]:
        keys = list(dict.fromkeys(request.query_params.getlist("run")))
        if not 2 <= len(keys) <= MOST_COMPARED:
            raise _BadRequestError(f"Expected 2 to {MOST_COMPARED} runs to compare. Received: {len(keys)}.")
        paths = [_found(folder, key) for key in keys]
        return folder.reading("compare", lambda: compare_answer(paths))

    return {"/api/runs": runs, "/api/run": run, "/api/log": log, "/api/compare": compare}


def _found(folder: BoardFolder, key: str) -> Any:
    return folder.reading("", lambda: folder.find(key))


def _number(request: Request, name: str) -> int:
    given = request.query_params.get(name, "0")
    if not (given.isascii() and given.isdigit() and len(given) < 10):
        raise _BadRequestError(f"Expected a number for {name}. Received: {given!r:.40}.")
    return int(given)


def _json(answer: Answer) -> Callable[[Request], Response]:
    """An endpoint that says in words why there is no answer."""
    from starlette.responses import Response

    def endpoint(request: Request) -> Response:
        status = 200
        try:
            content = answer(request)
        except _BadRequestError as error:
            status, content = 400, {"error": str(error)}
        except UnknownRunError:
            status, content = 404, {"error": "It is not there, or no longer: it may have been removed or renamed."}
        except RunDirError as error:
            status, content = 503, {"error": bounded_text(str(error), _MOST_ERROR)}
        return Response(json.dumps(content, allow_nan=False), status, media_type="application/json")

    return endpoint
