"""Tests of the levels of lines."""

from __future__ import annotations

import pytest

from tfdist.launch.logs.log_levels import LineLevels, level_of


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("epoch 1/3  loss 0.5", "info"),
        ("", "info"),
        ("error: worker 1 failed", "error"),
        ("tfdist: WARNING: The state file cannot be written", "warning"),
        ("tfdist: INFO: 2 replicas", "info"),
        ("tfdist: error: no", "error"),
        ("errors fell by 3 %", "info"),
        ("WARNING:absl:At this time", "warning"),
        ("CRITICAL:root:over", "error"),
        ("2026-01-31 12:00:00,123 - my.module - ERROR - no such file", "error"),
        ("[2026-01-31 12:00:00] [DEBUG] cache hit", "debug"),
        ("W0000 00:00:1700000000.000000 123 gpu_device.cc:2344] Cannot dlopen", "warning"),
        ("W1123 12:00:00.000000 123 gpu_device.cc:2344] Cannot dlopen", "warning"),
        ("2026-01-31 12:00:00.123456: E external/local_xla/xla/x.cc:1] no", "error"),
        ("2026-01-31 12:00:00.123456: I tensorflow/core/x.cc:1] AVX2", "info"),
        ("/a/b.py:12: UserWarning: it is old", "warning"),
        ("ValueError: no", "error"),
        ("tfdist.errors.DataError: no", "error"),
        ("KeyboardInterrupt", "error"),
        ("the ERRORS of INFORMATION", "info"),
        (f"{'x' * 200} ERROR ", "info"),  # it says so of something else
    ],
)
def test_level(line: str, level: str) -> None:
    assert level_of(line) == level


def test_a_traceback_is_an_error_to_its_end() -> None:
    lines = [
        "step 1",
        "Traceback (most recent call last):",
        '  File "train.py", line 3, in <module>',
        "    f()",
        "my_module.Oh: no",
        "step 2",
    ]
    levels = LineLevels()
    assert [levels.next(line) for line in lines] == ["info", "error", "error", "error", "error", "info"]
