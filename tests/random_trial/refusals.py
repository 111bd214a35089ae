"""What tfdist may refuse of the drawn trainings; any other refusal is a finding."""

from __future__ import annotations

import re

EXPECTED = (
    # `docs/exactness.md`, "What is refused".
    re.compile(r"jit_compile=True"),
    re.compile(r"BatchNormalization.* (loop|while)"),
)


def is_expected(line: str) -> bool:
    """Whether a refusal with this first line is one that the documentation announces."""
    return any(pattern.search(line) for pattern in EXPECTED)
