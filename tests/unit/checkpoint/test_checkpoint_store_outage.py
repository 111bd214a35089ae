"""A store that does not answer for a while: an error of its own, which a later start may not meet."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import pytest

from tfdist.checkpoint.checkpoint_files import StoredCheckpoint, stored, summary_of
from tfdist.errors import RunDirError, StoreError, TfdistError
from tfdist.storage.object_path import ObjectPath
from tfdist.storage.object_store import NoAnswerError

URL = "s3://bucket/run"


class FailingStore:
    """A store whose every call fails in the same way."""

    def __init__(self, error: OSError) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def fail(*_: Any) -> Any:
            raise self._error

        return fail


OUTAGE = NoAnswerError(errno.ETIMEDOUT, "no answer from http://store", URL)
REFUSAL = OSError(errno.EACCES, "forbidden", URL)


@pytest.mark.parametrize(("error", "kind", "code"), [(OUTAGE, StoreError, 4), (REFUSAL, RunDirError, 2)])
@pytest.mark.parametrize(
    "act",
    [
        lambda path: stored(path),
        lambda path: StoredCheckpoint(5, 0, path / "step-00000005").is_marked,
        lambda path: StoredCheckpoint(5, 0, path / "step-00000005").fault(),
        lambda path: summary_of(StoredCheckpoint(5, 0, path / "step-00000005")),
    ],
    ids=["list", "marker", "content", "summary"],
)
def test_an_outage_is_no_refusal(
    act: Callable[[ObjectPath], object], error: OSError, kind: type[TfdistError], code: int
) -> None:
    path = ObjectPath(FailingStore(error), URL)  # type: ignore[arg-type]
    with pytest.raises(TfdistError, match=error.strerror) as raised:
        act(path)
    assert type(raised.value) is kind and raised.value.exit_code == code
