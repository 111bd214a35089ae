"""The meaning of an S3 store's errors: which are worth another attempt, and what a user has to do about the others."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_CREDENTIALS = (
    "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, on every host, or give the machine a role"
)
_ANSWERS = {
    "NoSuchBucket": (errno.EREMOTEIO, "there is no such bucket. Make it, or correct the URL or AWS_ENDPOINT_URL"),
    "AccessDenied": (errno.EACCES, "forbidden. Let these credentials list, read, write and delete there"),
    "403": (errno.EACCES, "forbidden. Let these credentials list, read, write and delete there"),
    "InvalidAccessKeyId": (errno.EACCES, f"the store does not know this access key. {_CREDENTIALS}"),
    "SignatureDoesNotMatch": (errno.EACCES, f"the secret key is not that of this access key. {_CREDENTIALS}"),
    "ExpiredToken": (errno.EACCES, "the credentials have expired. Get new ones"),
    "ExpiredTokenException": (errno.EACCES, "the credentials have expired. Get new ones"),
    "InvalidToken": (errno.EACCES, f"AWS_SESSION_TOKEN is not valid. {_CREDENTIALS}"),
    "RequestTimeTooSkewed": (errno.EACCES, "this machine's clock is not the store's. Set it, as NTP does"),
    "PermanentRedirect": (errno.EREMOTEIO, "the bucket is in another region. Set AWS_DEFAULT_REGION"),
    "301": (errno.EREMOTEIO, "the bucket is in another region. Set AWS_DEFAULT_REGION"),
    "AuthorizationHeaderMalformed": (errno.EREMOTEIO, "the bucket is in another region. Set AWS_DEFAULT_REGION"),
    "NoSuchUpload": (errno.EREMOTEIO, "the parts of it are gone, as after an answer that was lost"),
    "QuotaExceeded": (errno.ENOSPC, "the quota of the bucket is used up"),
    "XMinioStorageFull": (errno.ENOSPC, "the store is full"),
}
_ABSENT = frozenset({"NoSuchKey", "404"})
_EXISTS = frozenset({"PreconditionFailed", "ConditionalRequestConflict", "412"})
_AGAIN = frozenset(
    {
        *("SlowDown", "RequestTimeout", "InternalError", "ServiceUnavailable", "RequestLimitExceeded"),
        *("Throttling", "ThrottlingException", "TooManyRequests", "XAmzContentSHA256Mismatch", "IncompleteBody"),
    }
)
_MOST_CAUSES = 10
_MOST_LETTERS = 200
_USER = re.compile(r"//[^/\s]*@")
_AGAIN_STATUS = frozenset({408, 429, 500, 502, 503, 504})
_WITHOUT_CREDENTIALS = ("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "ProfileNotFound")


class UnsoundAnswerError(Exception):
    """An answer that no store gives: another would be no better."""


@dataclass(frozen=True)
class S3Fault:
    """The meaning of an error of one request.

    Attributes:
        number: The system's number of such an error.
        text: What happened, in a few words.
        again: Whether another attempt may succeed.
        is_answer: Whether the store said so, and not the network or this machine.
    """

    number: int
    text: str
    again: bool = False
    is_answer: bool = False


def fault_of(error: BaseException, endpoint: str) -> S3Fault:
    """Returns what an error means.

    Args:
        error: What s3fs, botocore or aiohttp raised.
        endpoint: Where the request went, for the text.
    """
    chain = list(_chain(error))
    unsound = next(filter(_is_unsound, chain), None)
    if unsound is not None:
        text = f"{endpoint} gave an answer that is none of S3: {_shown(unsound)}. Check AWS_ENDPOINT_URL"
        return S3Fault(errno.EREMOTEIO, text, is_answer=True)
    for each in chain:
        response = getattr(each, "response", None)
        if isinstance(response, dict):
            return _answered(response, endpoint)
    kinds = [type(each).__name__ for each in chain]
    for kind in kinds:
        if kind in _WITHOUT_CREDENTIALS:
            return S3Fault(errno.EACCES, f"no credentials for S3 were found ({kind}). {_CREDENTIALS}")
    if any(isinstance(each, TimeoutError) or "Timeout" in type(each).__name__ for each in chain):
        text = f"no answer from {endpoint} ({kinds[0]}). Check AWS_ENDPOINT_URL and the network"
        return S3Fault(errno.ETIMEDOUT, text, True)
    said = _shown(error)
    if any(map(_is_of_network, chain)):
        text = f"no whole answer from {endpoint} ({kinds[0]}: {said}). Check AWS_ENDPOINT_URL, its name and the network"
        return S3Fault(errno.EREMOTEIO, text, True)
    return S3Fault(errno.EREMOTEIO, f"the request failed ({kinds[0]}: {said})")


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An exception and its causes: s3fs, botocore and aiohttp put theirs around others."""
    for _ in range(_MOST_CAUSES):
        if not isinstance(error, BaseException):
            return
        yield error
        error = error.__cause__ or getattr(error, "kwargs", {}).get("error")


def _answered(response: dict[str, Any], endpoint: str) -> S3Fault:
    """Returns what an answer of the store means."""
    parts = map(response.get, ("Error", "ResponseMetadata"))
    error, metadata = [part if isinstance(part, dict) else {} for part in parts]
    code, status = str(error.get("Code", "")), metadata.get("HTTPStatusCode", 0)
    shown = f"{status} {code}" if code != str(status) else code
    if code in _ABSENT:
        return S3Fault(errno.ENOENT, "there is no such object", is_answer=True)
    if code in _EXISTS:
        is_conflict = code == "ConditionalRequestConflict"
        return S3Fault(errno.EEXIST, "it was written meanwhile, or is there already", is_conflict, True)
    place = _other_address(metadata)
    if place:
        text = f"{endpoint} answered {shown}: it sends to {place}, which is not followed. Set AWS_ENDPOINT_URL to where"
        return S3Fault(errno.EREMOTEIO, f"{text} the store itself is", is_answer=True)
    if code in _ANSWERS:
        number, text = _ANSWERS[code]
        return S3Fault(number, f"{endpoint} answered {shown}: {text}", is_answer=True)
    if code in _AGAIN or (isinstance(status, int) and status in _AGAIN_STATUS):
        text = f"{endpoint} answered {shown}, as a store does that is overloaded or failing"
        return S3Fault(errno.EREMOTEIO, text, True, True)
    said = _shown(error.get("Message", ""))
    return S3Fault(errno.EREMOTEIO, f"{endpoint} answered {shown}: {said}", is_answer=True)


def _other_address(metadata: dict[str, Any]) -> str:
    """Returns where an answer sends to; empty for one that does not."""
    status, headers = metadata.get("HTTPStatusCode"), metadata.get("HTTPHeaders")
    if not isinstance(status, int) or not 300 <= status < 400 or not isinstance(headers, dict):
        return ""
    return _shown(headers.get("location", ""))


def _shown(said: object) -> str:
    """Returns what others said, in one line, without the names and passwords of addresses."""
    return _USER.sub("//", " ".join(str(said).split()))[:_MOST_LETTERS]


def _is_unsound(error: BaseException) -> bool:
    """Returns whether there was an answer, and it is no XML where S3 has XML, no HTTP, or too much."""
    names = {kind.__name__ for kind in type(error).__mro__}
    return bool(names & {"UnsoundAnswerError", "ResponseParserError", "ClientResponseError"})


def _is_of_network(error: BaseException) -> bool:
    """Returns whether a connection could not be made, or broke."""
    names = {kind.__name__ for kind in type(error).__mro__}
    return bool(names & {"HTTPClientError", "ClientError", "IncompleteReadError", "ConnectionError"})
