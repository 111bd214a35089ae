"""Is this the Keras that the repairs were written for: its version, and the functions that they replace?"""

from __future__ import annotations

import hashlib
import inspect
import logging
from collections.abc import Mapping
from typing import Any

TESTED_KERAS = ("3.15", "3.16")
"""The first tested version, and the first that is not."""


def fingerprint(function: Any) -> str:
    """A short digest of a function's source text."""
    return hashlib.sha256(inspect.getsource(function).encode()).hexdigest()[:16]


def is_tested(version: str) -> bool:
    """Whether a Keras version lies in the tested range."""
    low, high = (_release(bound) for bound in TESTED_KERAS)
    return low <= _release(version) < high


def check(version: str, functions: Mapping[str, Any], known: Mapping[str, str]) -> None:
    """Warns, once and by name, of what is not as it was when the repairs were written.

    Args:
        version: Keras's version.
        functions: The functions about to be replaced, by their paths.
        known: Their fingerprints then.
    """
    changed = [path for path, function in functions.items() if fingerprint(function) != known[path]]
    if is_tested(version) and not changed:
        return
    what = f"Keras {version} is not one that tfdist is tested with (from {TESTED_KERAS[0]}, below {TESTED_KERAS[1]})"
    if is_tested(version):
        what = f"This Keras {version} is not as it was released"
    consequence = (
        f" and these functions that tfdist repairs have changed: {', '.join(changed)}. Results on several replicas may "
        "differ from those of one"
        if changed
        else ", but the functions that tfdist repairs are the same"
    )
    logging.getLogger("tfdist").warning(
        "%s%s. Install a tested one: pip install 'keras>=%s,<%s'.", what, consequence, *TESTED_KERAS
    )


def _release(version: str) -> tuple[int, ...]:
    parts = []
    for part in version.split(".")[:2]:
        digits = "".join(character for character in part if character.isdigit())
        parts.append(int(digits or 0))
    return tuple(parts)
