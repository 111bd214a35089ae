"""What becomes of a worker's part of a checkpoint, as the chief hears it: by the launchers, or by a file."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any
from unittest import mock

from hypothesis import strategies as st

from tests.fuzz.hostile_values import changed, changed_json, values
from tests.fuzz.properties import fuzzed
from tfdist.checkpoint.pending_checkpoint import FileDigest
from tfdist.checkpoint.shards import chief_additions
from tfdist.checkpoint.shards.chief_additions import Receipt, collect
from tfdist.errors import RunDirError
from tfdist.launch.worker.launcher_channel import ChiefPost

WRITTEN = Receipt(1, FileDigest(7, 5)).content()
FAULT = Receipt(1, None, "The disk is full").content()
receipts = changed(WRITTEN) | changed(FAULT) | values


@fuzzed(40, content=receipts)
def test_a_receipt_is_one_or_refused(content: Any) -> None:
    with contextlib.suppress(ValueError):
        receipt = Receipt.of(content)
        assert Receipt.of(json.loads(json.dumps(receipt.content()))) == receipt
        assert isinstance(receipt.found, FileDigest | RunDirError)


@fuzzed(25, letters=st.lists(receipts | st.just(WRITTEN), max_size=5), also=st.sampled_from([WRITTEN, FAULT]))
def test_the_chief_hears_whatever_is_posted(letters: list[Any], also: dict[str, Any], tmp_path: Path) -> None:
    """Nothing that comes before keeps it from the receipt of another worker."""
    post = ChiefPost()
    post.deliver({"subject": str(tmp_path), "content": {**also, "worker": 2}})
    for letter in letters:
        post.deliver({"subject": str(tmp_path), "content": letter})
        post.deliver(letter)
    with mock.patch.object(chief_additions, "chief_post", lambda: post), contextlib.suppress(RunDirError):
        found = collect(tmp_path, 3, seconds=0.0)
        assert set(found) == {1, 2}
    assert post.read(str(tmp_path)) == []


@fuzzed(25, content=changed_json(WRITTEN, FAULT) | st.binary(max_size=100))
def test_the_chief_reads_whatever_a_file_says(content: bytes, tmp_path: Path) -> None:
    (tmp_path / ".receipt-1.json").write_bytes(content)
    with contextlib.suppress(RunDirError):
        assert set(collect(tmp_path, 2, seconds=0.0)) == {1}
