from __future__ import annotations

from pathlib import Path

import pytest

from tfdist.verify.log_tail import last_line

NOISE = b"W0101 00:00:00.000000     12 x.cc:1] a warning\n"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", ""),
        (b"one\ntwo\n\n", "two"),
        (b"1/3\r2/3\r3/3", "3/3"),
        (b"mine\n" + NOISE, "mine"),
        (b"x" * 100 + b"\nlast\n", "last"),
        (b"first\n" + NOISE * 3, ""),  # its end alone is read
        (b"x" * 100, "x" * 80),
        (b"\xff\n", "\ufffd"),
    ],
)
def test_the_last_line(content: bytes, expected: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(content)
    assert last_line(tmp_path / "log", tail_bytes=80) == expected


def test_no_log(tmp_path: Path) -> None:
    assert last_line(tmp_path / "log") == ""
