"""The connections of botocore's client, with a bound on what an answer takes of memory, and without redirects.

aiohttp would follow a redirect to any address, also one that only this machine reaches. botocore reads an answer as a
whole before it looks at it, and takes one that is no XML for a failure that passes.
"""

from __future__ import annotations

from typing import Any
from xml.parsers import expat

from aiobotocore.httpsession import AIOHTTPSession

from tfdist.storage.s3_errors import UnsoundAnswerError

MOST_ANSWER_BYTES = 8 << 20
"""Of an answer that is no object's content. A page of a list has a thousand names of at most 1024 bytes."""

MOST_ELEMENTS = 200_000
"""In the XML of an answer; a page of a list has ten for each name."""

_BLOCK_BYTES = 1 << 18


class BoundedSession(AIOHTTPSession):
    """Sends requests for botocore; it has this class by `http_session_cls` of its config."""

    async def send(self, request: Any) -> Any:
        """Sends a request, and reads the answer unless it is the content of an object.

        Raises:
            UnsoundAnswerError: The answer is longer than any of S3, or no XML where it is to be.
        """
        streams, request.stream_output = request.stream_output, True
        try:
            response = await super().send(request)
        finally:
            request.stream_output = streams
        if not streams or response.status_code >= 300:
            response._content = await _whole(response.raw)
            if response._content and response.status_code < 300:
                check_xml(response._content)
        return response

    async def _get_session(self, proxy_url: str | None) -> _WithoutRedirects:
        return _WithoutRedirects(await super()._get_session(proxy_url))


class _WithoutRedirects:
    """aiohttp's session, which follows redirects unless each request says otherwise."""

    def __init__(self, session: Any) -> None:
        self._session = session

    async def request(self, method: str, **arguments: Any) -> Any:
        return await self._session.request(method, **arguments, allow_redirects=False)


async def _whole(answer: Any) -> bytes:
    """The body of aiohttp's answer."""
    blocks, left = [], MOST_ANSWER_BYTES
    while block := await answer.content.read(_BLOCK_BYTES):
        blocks.append(block)
        left -= len(block)
        if left < 0:
            answer.close()
            raise UnsoundAnswerError(f"it has more than {MOST_ANSWER_BYTES:,} bytes")
    answer.release()
    return b"".join(blocks)


def check_xml(content: bytes) -> None:
    """Checks that the content of an answer is XML, of no more elements than an answer has, and without a DTD.

    Raises:
        UnsoundAnswerError: It is not.
    """
    parser, count = expat.ParserCreate(), 0

    def begin(name: str, attributes: Any) -> None:
        nonlocal count
        count += 1
        if count > MOST_ELEMENTS:
            raise UnsoundAnswerError(f"it has more than {MOST_ELEMENTS:,} elements")

    def refuse(*_: Any) -> None:
        raise UnsoundAnswerError("it declares a type of document of its own")

    parser.StartElementHandler, parser.StartDoctypeDeclHandler = begin, refuse
    try:
        # A store that takes long to answer may send spaces first.
        parser.Parse(content.strip(), True)
    except (expat.ExpatError, ValueError) as error:
        raise UnsoundAnswerError(f"it is no XML: {error}") from None
