from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time

import pytest

from tfdist.text import (
    column_widths,
    format_bytes,
    format_clock,
    format_count,
    format_countdown,
    format_duration,
    format_ranges,
    format_time,
    format_zone,
    print_line,
    printable,
    safe_repr,
    safe_str,
    table,
    wrap,
)

ROWS = [("name", "size", ""), ("a", "1", "yes"), ("bcdef", "234567", "")]


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert column_widths(ROWS) == [5, 6, 3]
    assert table(ROWS, "lrl") == ["name     size", "a           1  yes", "bcdef  234567"]
    assert table(ROWS[1:], "rll", indent="| ", gap=1) == ["|     a 1      yes", "| bcdef 234567"]
    assert table([], "lr") == []


def test_every_column_has_an_alignment() -> None:
    with pytest.raises(ValueError):
        table(ROWS, "lr")


def test_long_text_is_wrapped_behind_its_head() -> None:
    lines = wrap("word " * 40 + "\nnext", "head: ").splitlines()
    assert len(lines) == 3 and max(map(len, lines)) <= 120
    assert lines[0].startswith("head: word") and lines[1].startswith(" " * 6 + "word") and lines[2] == " " * 6 + "next"
    assert wrap("word " * 40, "head: ", indent=2).splitlines()[1].startswith("  word")
    assert wrap("x" * 200) == "x" * 200
    assert "--no-break" in wrap("long " * 22 + "--no-break")
    assert wrap("", "head") == ""


def test_a_line_does_nothing_to_the_terminal() -> None:
    assert printable("\x1b[2J a\nb\x07 é") == "?[2J a?b? é"


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (9_994, "9.99 kB"),
        (9_996, "10.0 kB"),
        (99_960, "100 kB"),
        (999_400, "999 kB"),
        (999_600, "1.00 MB"),
        (5.1e8, "510 MB"),
        (12_500_000_000, "12.5 GB"),
        (10**18, "1000 PB"),
    ],
)
def test_bytes(count: float, text: str) -> None:
    assert format_bytes(count) == text


@pytest.mark.parametrize(("count", "text"), [(512, "512 B"), (64 << 20, "64.0 MiB"), (int(15.63 * 2**30), "15.6 GiB")])
def test_bytes_in_powers_of_1024(count: int, text: str) -> None:
    assert format_bytes(count, binary=True) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1.0, "0 ms"),
        (0.0, "0 ms"),
        (0.00021, "0.21 ms"),
        (0.1523, "152 ms"),
        (0.9996, "1 s"),
        (2.512, "2.51 s"),
        (9.996, "10 s"),
        (119.0, "119 s"),
        (121.0, "2 min"),
        (7199.0, "119 min"),
        (7260.0, "2 h 1 min"),
        (200_000.0, "2 d 7 h"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_durations_that_add_up() -> None:
    assert [format_clock(s) for s in (0, 59.96, 61.04, 3599.99, 3723.4, 360_000)] == [
        "0:00.0",
        "1:00.0",
        "1:01.0",
        "1:00:00.0",
        "1:02:03.4",
        "100:00:00.0",
    ]


def test_time_that_is_left() -> None:
    assert [format_countdown(s) for s in (-1, 0.4, 11.6, 59.6, 245, 3723, 172_799, 180_000)] == [
        "0:00",
        "0:00",
        "0:12",
        "1:00",
        "4:05",
        "1:02:03",
        "47:59:59",
        "2 d 2 h",
    ]


def test_times() -> None:
    assert format_time(time.mktime((2026, 1, 31, 12, 0, 0, 0, 0, -1))) == "2026-01-31 12:00:00"


@pytest.mark.parametrize(
    ("zone", "text"),
    [
        ("UTC", "UTC"),
        ("GMT", "UTC"),
        ("Europe/Berlin", "CEST (UTC+02:00)"),
        ("America/Sao_Paulo", "UTC-03:00"),
        ("Asia/Kolkata", "IST (UTC+05:30)"),
    ],
)
def test_zones(zone: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert format_zone(1_785_500_000.0) == text  # in July
    finally:
        monkeypatch.undo()
        time.tzset()


def test_one_and_many() -> None:
    assert (format_count(1, "file"), format_count(2000, "file")) == ("1 file", "2,000 files")


@pytest.mark.parametrize(
    ("numbers", "text"), [((), ""), ((3,), "3"), ((0, 1, 2, 3, 7), "0-3, 7"), ((0, 2, 3), "0, 2-3")]
)
def test_ranges(numbers: tuple[int, ...], text: str) -> None:
    assert format_ranges(numbers) == text


class _Unprintable:
    def __str__(self) -> str:
        raise SystemExit("no text")

    def __repr__(self) -> str:
        return 1  # type: ignore[return-value]


def test_an_object_whose_texts_fail_is_named() -> None:
    assert safe_str(_Unprintable()) == "<_Unprintable without a text: its __str__ raises SystemExit>"
    assert safe_repr(_Unprintable()) == "<_Unprintable without a text: its __repr__ raises TypeError>"
    assert (safe_str("a"), safe_repr("a")) == ("a", "'a'")


GONE = """
import os, sys
from tfdist.text import print_line

reader, writer = os.pipe()
os.close(reader)
stream = getattr(sys, sys.argv[1])
os.dup2(writer, stream.fileno())
for _ in range(2):
    print_line("a line", stream)
"""


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_line_that_nobody_reads_changes_no_exit_code(stream: str) -> None:
    # Unbuffered, Python would keep nothing to fail with.
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-c", GONE, stream]
    done = subprocess.run(command, env=environ, capture_output=True, timeout=150, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr


def test_a_stream_that_is_full_for_a_moment_stays_what_it_is() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with open(reader, "rb") as read, open(writer, "w") as stream:
        filled = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                filled += os.write(writer, bytes(4096))
        print_line("a line", stream)
        assert read.read(filled) == bytes(filled)
        stream.flush()
        assert read.readline() == b"a line\n"
