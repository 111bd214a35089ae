from __future__ import annotations

import configparser
from pathlib import Path

import pytest

from tfdist.runtime.tested_versions import KERAS, TENSORFLOW

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("version", "tested"),
    [
        ("3.15", True),
        ("3.15.0", True),
        ("3.15.9", True),
        ("3.15.0.dev2026", True),
        ("3.12.0", True),
        ("3.11.9", False),
        ("3.16.0", False),
        ("3.16.0rc1", False),
        ("4.0", False),
    ],
)
def test_includes(version: str, tested: bool) -> None:
    assert KERAS.includes(version) is tested


def test_the_package_asks_for_the_tested_versions() -> None:
    metadata = configparser.ConfigParser()
    metadata.read(ROOT / "setup.cfg")
    required = metadata["options"]["install_requires"].split()
    assert str(TENSORFLOW) in required
    assert str(KERAS) in required
