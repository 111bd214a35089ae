from __future__ import annotations

import subprocess
import sys

import pytest

import tfdist.data
from tfdist.config.data_sections import FORMATS


def test_looking_up_sizes_does_not_load_tensorflow() -> None:
    names = [name for name in FORMATS if name != "generator"]  # whose samples only its function knows
    code = f"""import sys
from tfdist.data.format_registry import format_module
for name in {names}:
    format_module(name)
sys.exit('tensorflow' in sys.modules)"""
    assert subprocess.run([sys.executable, "-c", code], timeout=150, check=False).returncode == 0


def test_a_name_that_does_not_exist() -> None:
    with pytest.raises(AttributeError, match="no attribute 'arrow'"):
        tfdist.data.arrow  # noqa: B018
