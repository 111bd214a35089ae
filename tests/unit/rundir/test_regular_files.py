from __future__ import annotations

import os
from pathlib import Path

import pytest

from tfdist.rundir.regular_files import open_regular, read_tail, read_text


def test_links_are_followed_where_a_user_has_named_them(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    (tmp_path / "link").symlink_to("file")
    with pytest.raises(OSError, match="it is a symbolic link"):
        open_regular(tmp_path / "link")
    with open_regular(tmp_path / "link", follows_link=True) as file:
        assert file.read() == b"text"
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "to pipe").symlink_to("pipe")
    for name in ("pipe", "to pipe"):
        with pytest.raises(OSError, match="it is not a regular file"):
            open_regular(tmp_path / name, follows_link=True)


def test_a_text_is_no_longer_than_it_may_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"t\xffxt")
    assert read_text(tmp_path / "file", 4) == "t\ufffdxt"
    with pytest.raises(OSError, match="it has more than 3 bytes"):
        read_text(tmp_path / "file", 3)


def test_the_tail_of_a_file_says_what_is_before_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    assert read_tail(tmp_path / "file", 4) == (b"6789", 6)
    assert read_tail(tmp_path / "file", 40) == (b"0123456789", 0)
