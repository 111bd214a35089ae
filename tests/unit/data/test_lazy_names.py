from __future__ import annotations

import subprocess
import sys

import pytest

import tfdist.data


def test_reading_files_does_not_load_tensorflow() -> None:
    modules = "sys, tfdist.data.formats.tfrecord_files, tfdist.data.formats.csv_files"
    code = f"import {modules}; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=30, check=False).returncode == 0


def test_a_name_that_does_not_exist() -> None:
    with pytest.raises(AttributeError, match="no attribute 'parquet'"):
        tfdist.data.parquet  # noqa: B018
