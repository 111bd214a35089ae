from __future__ import annotations

import pytest

from tfdist.plan.wording import counted, size_of


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
        (12_500_000_000, "12.5 GB"),
        (10**18, "1000 PB"),
    ],
)
def test_bytes_in_three_digits(count: int, text: str) -> None:
    assert size_of(count) == text


def test_one_and_many() -> None:
    assert (counted(1, "file"), counted(2000, "file")) == ("1 file", "2,000 files")
