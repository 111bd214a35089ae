"""Requests to an S3 store by fsspec's s3fs: each with a bound in time, made again where that may help.

Where and with which credentials is boto's to find: AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID and their kin, profiles, roles.
"""

from __future__ import annotations

import errno
import functools
import logging
import os
import random
import time
import urllib.parse
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from tfdist.errors import UsageError
from tfdist.storage.object_store import NoAnswerError
from tfdist.storage.s3_errors import S3Fault, fault_of
from tfdist.url_schemes import missing_package


@dataclass(frozen=True)
class RetryPolicy:
    """Bounds of what one request may take, with all its attempts.

    Attributes:
        seconds: In all.
        attempts: The most attempts.
        first_attempts: The most attempts while no request has been answered, when a wrong address is likelier than a
            store that is out of order for a while.
        attempt_seconds: For one attempt.
        first_wait: Seconds between the first two attempts; each later wait is twice as long.
        longest_wait: The most seconds between two.
    """

    seconds: float = 120.0
    attempts: int = 20
    first_attempts: int = 5
    attempt_seconds: float = 60.0
    first_wait: float = 0.2
    longest_wait: float = 15.0

    def bound(self, elapsed: float) -> float:
        """Returns how many seconds an attempt may take that begins after so many."""
        return max(min(self.attempt_seconds, self.seconds - elapsed), 0.01)

    def wait(self, failed: int, elapsed: float, share: float, *, is_known: bool = True) -> float | None:
        """Returns how long to wait for the next attempt; None to give up.

        Args:
            failed: Attempts that failed, at least 1.
            elapsed: Seconds since the first began.
            share: A random number from 0 to 1, so that those that failed together do not come back together.
            is_known: Whether the store has answered before.
        """
        wait = min(self.longest_wait, self.first_wait * 2 ** (failed - 1)) * (0.5 + share / 2)
        most = self.attempts if is_known else self.first_attempts
        return None if failed >= most or elapsed + wait >= self.seconds else wait


T = TypeVar("T")

CONNECT_SECONDS = 10
READ_SECONDS = 30
"""Seconds that a connection may take, and seconds for which nothing may come over it."""

_BLOCK_BYTES = 1 << 20
_TOLD_SECONDS = 10.0
"""From when on a request that is made again is told of."""

_log = logging.getLogger("tfdist")
_chance = random.SystemRandom()  # the script's own random numbers stay as they are


class S3Requests:
    """The requests of one process.

    Args:
        policy: The bounds of each.
    """

    def __init__(self, policy: RetryPolicy | None = None) -> None:
        self._policy = policy or RetryPolicy()
        self._has_answered = False

    @functools.cached_property
    def _system(self) -> Any:
        return _file_system()  # with the first request: most workers make none

    def call(self, url: str, method: str, **arguments: Any) -> dict[str, Any]:
        """Makes a request, such as `put_object`, of botocore's S3 client.

        Raises:
            OSError: It failed; the text says why, after how many attempts, and what to do.
        """
        return self._repeated(url, lambda: self._system._call_s3(method, **arguments))

    def content(self, url: str, size: int, **arguments: Any) -> bytes:
        """The content of an object, or of the `Range` of it, of `size` bytes; a longer one ends a little beyond."""

        async def read() -> bytes:
            answer = await self._system._call_s3("get_object", **arguments)
            blocks, left = [], size
            async with answer["Body"] as body:
                while left >= 0 and (block := await body.read(_BLOCK_BYTES)):
                    blocks.append(block)
                    left -= len(block)
            return b"".join(blocks)

        return self._repeated(url, read)

    def endpoint(self) -> str:
        """Returns where the requests go, without what may be secret."""
        client = getattr(self._system, "_s3", None)
        found = urllib.parse.urlsplit(str(getattr(getattr(client, "meta", None), "endpoint_url", "") or "the store"))
        return found.path if not found.netloc else f"{found.scheme}://{found.netloc.rpartition('@')[2]}"

    def _repeated(self, url: str, request: Callable[[], Awaitable[T]]) -> T:
        system = self._system  # which says what to install where that is missing
        from fsspec.asyn import sync

        begun, failed, said = time.monotonic(), 0, False
        while True:
            try:
                bound = self._policy.bound(time.monotonic() - begun)
                result: T = sync(system.loop, request, timeout=bound)
                self._has_answered = True
                return result
            except Exception as error:
                failed += 1
                elapsed = time.monotonic() - begun
                fault = fault_of(error, self.endpoint())
                self._has_answered |= fault.is_answer
                share, known = _chance.random(), self._has_answered
                wait = self._policy.wait(failed, elapsed, share, is_known=known) if fault.again else None
                if wait is None:
                    raise _os_error(url, fault, failed, elapsed) from error
                if elapsed >= _TOLD_SECONDS and not said:
                    said = True
                    _log.warning("%s: %s. It is tried for up to %.0f s.", url, fault.text, self._policy.seconds)
            time.sleep(wait)


def _os_error(url: str, fault: S3Fault, attempts: int, seconds: float) -> OSError:
    tried = f" (gave up after {attempts} attempts in {seconds:.1f} s)" if attempts > 1 or fault.again else ""
    # A conflict of two writers may be tried again, too, but is an answer.
    kind = NoAnswerError if fault.again and fault.number != errno.EEXIST else OSError
    return kind(fault.number, f"{fault.text}{tried}", url)


def of_this_process() -> S3Requests:
    """The requests of this process; a fork gets its own, as threads and connections stay behind."""
    return _of_process(os.getpid())


@functools.lru_cache(maxsize=1)
def _of_process(pid: int) -> S3Requests:
    return S3Requests()


def _file_system() -> Any:
    try:
        import s3fs

        from tfdist.storage.bounded_session import BoundedSession
    except ImportError as error:
        raise UsageError(missing_package("s3://", error.name or "s3fs")) from error
    system = s3fs.S3FileSystem(
        skip_instance_cache=True,
        use_listings_cache=False,
        config_kwargs={
            "connect_timeout": CONNECT_SECONDS,
            "read_timeout": READ_SECONDS,
            "retries": {"total_max_attempts": 1},  # attempts are counted here alone
            "http_session_cls": BoundedSession,
        },
    )
    system.retries = 1
    return system
