"""The store of s3:// URLs."""

from __future__ import annotations

import contextlib
import errno
import io
import re
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, BinaryIO, cast

from tfdist.storage.object_store import MOST_OBJECT_BYTES, MOST_WHOLE_BYTES, Content, ObjectStatus
from tfdist.storage.s3_requests import S3Requests

MOST_NAME_BYTES = 1024
"""Of one name in S3."""

MOST_TOKEN_LETTERS = 8192
"""Of what asks for the next page."""

_LONG_LIST, _LEAST_NAMES = 1000, 5
"""A list of so many pages has at least so many names in a page; S3 has up to a thousand."""

_FEWER = "Name a folder with fewer objects below it"


@dataclass
class ListingBounds:
    """The limits of one list: what it may take, less what it has taken.

    Attributes:
        pages: The most pages, each of a thousand names in S3.
        letters: The most letters of all names together.
        seconds: The longest time.
        clock: Gives the time, in seconds.
    """

    pages: int = 10_000
    letters: int = 256 << 20
    seconds: float = 600.0
    clock: Callable[[], float] = time.monotonic
    _begun: float = field(init=False)
    _read: int = field(init=False, default=0)
    _names: int = field(init=False, default=0)
    _tokens: set[str] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        self._begun = self.clock()

    def fault(self, names: list[str], token: object) -> str | None:
        """Returns what is wrong with the next page, in words; None for nothing.

        Args:
            names: The names in it.
            token: By which the store is asked for the page after it; None for the last page.
        """
        self._read += 1
        self._names += len(names)
        self.pages -= 1
        self.letters -= sum(map(len, names))
        if any(len(name.encode(errors="replace")) > MOST_NAME_BYTES for name in names):
            return f"It has a name of more than {MOST_NAME_BYTES:,} bytes"
        if self.letters < 0:
            return f"Its names take too much memory. {_FEWER}"
        return None if token is None else self._fault_of_more(token)

    def _fault_of_more(self, token: object) -> str | None:
        if not isinstance(token, str) or not 0 < len(token) <= MOST_TOKEN_LETTERS or token in self._tokens:
            return "It would have no end"
        if self._read >= _LONG_LIST and self._names < _LEAST_NAMES * self._read:
            return f"It would have no end: {self._read:,} pages have {self._names:,} names"
        self._tokens.add(token)
        if self.pages <= 0:
            return f"It has more pages than are read. {_FEWER}"
        if self.clock() - self._begun > self.seconds:
            return f"It has not ended after {self.seconds:g} s. {_FEWER}"
        return None


BLOCK_BYTES = 2 << 20
"""Bytes of an object that are asked for at a time."""

PART_BYTES = 8 << 20
"""Larger objects are sent in parts of so many bytes, and appear with the last."""

_MOST_PARTS = 10_000
_PARALLEL_PARTS = 4
_MOST_REMOVED = 1000
_MAGIC = re.compile(r"[*?[]")


class S3Store:
    """The store of s3:// URLs; see `ObjectStore`.

    Args:
        requests: Makes its requests.
        listing_bounds: Gives the bounds of one list.
    """

    def __init__(self, requests: S3Requests, listing_bounds: Callable[[], ListingBounds] = ListingBounds) -> None:
        self._requests = requests
        self._listing_bounds = listing_bounds

    def status(self, url: str) -> ObjectStatus:
        """The status of an object."""
        found, _ = self._head(url)
        return found

    def open(self, url: str) -> BinaryIO:
        """Opens an object for reading. If it is replaced meanwhile, reading on is an error."""
        status, tag = self._head(url)
        reader = _Reader(self._requests, url, status.size, tag)
        return cast(BinaryIO, io.BufferedReader(reader, BLOCK_BYTES))

    def write(self, url: str, content: Content, *, only_new: bool = False) -> None:
        """Writes an object.

        Args:
            url: Its URL.
            content: Its content.
            only_new: Whether the store is asked to refuse where there is one, by `FileExistsError`; see
                `conditional_create` for what that is worth.
        """
        bucket, key = address_of(url)
        condition = {"IfNoneMatch": "*"} if only_new else {}
        if len(content) <= 2 * PART_BYTES:
            self._requests.call(url, "put_object", Bucket=bucket, Key=key, Body=bytes(content), **condition)
        else:
            self._write_parts(url, content, condition)

    def children(self, url: str) -> list[str]:
        """The names of what lies directly below a URL, folders among them."""
        _, prefix = address_of(url)
        prefix = f"{prefix}/" if prefix else ""
        pages = self._pages(url, prefix, delimiter="/")
        listed = [name for keys, folders in pages for name in (*keys, *folders)]
        below = [name for name in listed if name.startswith(prefix) and name != prefix]
        found = [name[len(prefix) :].rstrip("/") for name in below]
        if not found:
            raise FileNotFoundError(errno.ENOENT, "there is nothing below it", url)
        return sorted(set(found))

    def matching(self, pattern: str) -> list[str]:
        """The URLs of objects that match a pattern."""
        bucket, key = address_of(pattern)
        magic = _MAGIC.search(key)
        prefix = key if magic is None else key[: magic.start()]
        wanted = re.compile(_regex_of(key))
        return [f"s3://{bucket}/{name}" for name in sorted(self._names(pattern, prefix)) if wanted.fullmatch(name)]

    def make_folder(self, url: str) -> None:
        """Does nothing: there are no folders."""

    def remove(self, url: str) -> None:
        """Removes an object; one that is not there is none the store complains of."""
        bucket, key = address_of(url)
        self._requests.call(url, "delete_object", Bucket=bucket, Key=key)

    def remove_below(self, url: str) -> None:
        """Removes all objects below a URL."""
        bucket, prefix = address_of(url)
        names = [name for name in self._names(url, f"{prefix}/") if name.startswith(f"{prefix}/")]
        for begin in range(0, len(names), _MOST_REMOVED):
            batch = {"Objects": [{"Key": name} for name in names[begin : begin + _MOST_REMOVED]], "Quiet": True}
            answer = self._requests.call(url, "delete_objects", Bucket=bucket, Delete=batch)
            for error in answer.get("Errors", ())[:1]:
                raise OSError(errno.EACCES, f"{error.get('Key')} stays: {error.get('Code')}", url)
        # SeaweedFS has folders, which it would list without anything in them; others know no such objects.
        for folder in _folders_of(names, f"{prefix}/"):
            self._requests.call(url, "delete_object", Bucket=bucket, Key=folder)

    def _head(self, url: str) -> tuple[ObjectStatus, str]:
        bucket, key = address_of(url)
        found = self._requests.call(url, "head_object", Bucket=bucket, Key=key)
        try:
            modified = int(found["LastModified"].timestamp()) * 1_000_000_000
            size = int(found["ContentLength"])
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise _no_answer_of_s3(url) from error
        if not 0 <= size <= MOST_OBJECT_BYTES:
            raise OSError(errno.EIO, f"it is damaged: the store says that it has {size:,} bytes", url)
        return ObjectStatus(size, modified), str(found.get("ETag", ""))

    def _names(self, url: str, prefix: str) -> list[str]:
        return [name for names, _ in self._pages(url, prefix) for name in names]

    def _pages(self, url: str, prefix: str, delimiter: str = "") -> Iterator[tuple[list[str], list[str]]]:
        """The names of objects, and those of folders, page by page."""
        bucket, _ = address_of(url)
        more: dict[str, str] = {"Delimiter": delimiter} if delimiter else {}
        bounds = self._listing_bounds()
        while True:
            page = self._requests.call(url, "list_objects_v2", Bucket=bucket, Prefix=prefix, **more)
            keys, folders = _values(url, page, "Contents", "Key"), _values(url, page, "CommonPrefixes", "Prefix")
            token = page.get("NextContinuationToken", "") if page.get("IsTruncated") else None
            fault = bounds.fault([*keys, *folders], token)
            if fault is not None:
                raise OSError(errno.EREMOTEIO, f"the list of what is there cannot be read. {fault}", url)
            yield keys, folders
            if token is None:
                return
            more["ContinuationToken"] = token

    def _write_parts(self, url: str, content: Content, condition: dict[str, str]) -> None:
        bucket, key = address_of(url)
        place = {"Bucket": bucket, "Key": key}
        upload = self._requests.call(url, "create_multipart_upload", **place)["UploadId"]
        size = max(PART_BYTES, -(-len(content) // _MOST_PARTS))

        def send(number: int) -> dict[str, Any]:
            part = bytes(content[(number - 1) * size : number * size])
            sent = self._requests.call(url, "upload_part", **place, UploadId=upload, PartNumber=number, Body=part)
            return {"PartNumber": number, "ETag": sent["ETag"]}

        try:
            with ThreadPoolExecutor(_PARALLEL_PARTS) as pool:
                futures = [pool.submit(send, number) for number in range(1, -(-len(content) // size) + 1)]
                try:
                    parts = [future.result() for future in futures]
                finally:
                    pool.shutdown(wait=False, cancel_futures=True)
            done = {"Parts": parts}
            self._requests.call(
                url, "complete_multipart_upload", **place, UploadId=upload, MultipartUpload=done, **condition
            )
        except BaseException:
            with contextlib.suppress(OSError):  # its parts are no object, and a rule of the bucket's removes them
                self._requests.call(url, "abort_multipart_upload", **place, UploadId=upload)
            raise


class _Reader(io.RawIOBase):
    """An object, read by ranges."""

    def __init__(self, requests: S3Requests, url: str, size: int, tag: str) -> None:
        super().__init__()
        self._requests, self._url, self._size = requests, url, size
        self._condition = {"IfMatch": tag} if tag else {}
        self._place = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        self._place = max(base + offset, 0)
        return self._place

    def tell(self) -> int:
        return self._place

    def readall(self) -> bytes:
        if self._size - self._place > MOST_WHOLE_BYTES:
            said = f"its {self._size:,} bytes are too many to be read as a whole. Expected at most {MOST_WHOLE_BYTES:,}"
            raise OSError(errno.EFBIG, said, self._url)
        blocks = []
        while block := self.read(BLOCK_BYTES):  # else by 8 KiB, a request each
            blocks.append(block)
        return b"".join(blocks)

    def readinto(self, buffer: Any) -> int:
        end = min(self._place + len(buffer), self._size)
        if self._place >= end:
            return 0
        bucket, key = address_of(self._url)
        span = f"bytes={self._place}-{end - 1}"
        try:
            size = end - self._place
            block = self._requests.content(self._url, size, Bucket=bucket, Key=key, Range=span, **self._condition)
        except FileExistsError:
            raise OSError(errno.ESTALE, "it was replaced while it was read", self._url) from None
        if len(block) != end - self._place:
            raise OSError(errno.EIO, f"the store sent {len(block)} bytes for {span}", self._url)
        buffer[: len(block)] = block
        self._place = end
        return len(block)


def address_of(url: str) -> tuple[str, str]:
    """The bucket and the key of an s3:// URL.

    Raises:
        OSError: It names no bucket.
    """
    bucket, _, key = url.partition("://")[2].partition("/")
    if not bucket:
        raise OSError(errno.EINVAL, "the URL names no bucket. Expected s3://BUCKET/NAME", url)
    return bucket, key.rstrip("/")


def _values(url: str, page: dict[str, Any], name: str, key: str) -> list[str]:
    """The names in a page of a list."""
    try:
        found = [entry[key] for entry in page.get(name) or ()]
    except (KeyError, TypeError) as error:
        raise _no_answer_of_s3(url) from error
    if not all(isinstance(value, str) for value in found):
        raise _no_answer_of_s3(url)
    return found


def _no_answer_of_s3(url: str) -> OSError:
    return OSError(errno.EREMOTEIO, "the answer is none of S3. Check AWS_ENDPOINT_URL", url)


def _folders_of(names: Sequence[str], prefix: str) -> list[str]:
    """The folders that objects lie in, from `prefix` on, which ends in a slash; inner ones first."""
    found = {name[: end + 1] for name in names for end in range(len(prefix) - 1, len(name)) if name[end] == "/"}
    return sorted({prefix, *found}, key=len, reverse=True)


def _regex_of(pattern: str) -> str:
    """The regular expression of a pattern; `**/` matches any folders, also none."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[[^]]*\])", pattern)
    meant = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(
        meant.get(part) or (_class_of(part) if part[:1] == "[" and len(part) > 1 else re.escape(part)) for part in parts
    )


def _class_of(part: str) -> str:
    """`[a-z]` or `[!a-z]`, as a regular expression."""
    inside = part[1:-1].replace("\\", "\\\\")
    return f"[^{inside[1:]}]" if inside[:1] == "!" else f"[{inside.replace('^', chr(92) + '^')}]"
