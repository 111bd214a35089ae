from __future__ import annotations

import sys

import pytest

from tfdist.errors import UsageError
from tfdist.storage.conditional_create import conditional_creator
from tfdist.storage.s3_requests import S3Requests


@pytest.mark.parametrize("package", ["s3fs", "fsspec"])
def test_without_the_extra_it_says_what_to_install(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in ("s3fs", "fsspec")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UsageError, match=r"is not installed.*pip install 'tfdist\[s3\]'"):
        S3Requests().call("s3://bucket/a", "head_object", Bucket="bucket", Key="a")
    with pytest.raises(UsageError, match="Expected the extra s3"):
        conditional_creator("s3://bucket/a").create_if_absent("s3://bucket/a", b"")
