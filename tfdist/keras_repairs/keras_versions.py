"""Checks that Keras is the one that the repairs were written for: its version, and the functions that they replace."""

from __future__ import annotations

import hashlib
import inspect
import logging
from collections.abc import Mapping
from typing import Any

from tfdist.runtime.tested_versions import KERAS

MISSING = "missing"
"""Stands for the fingerprint of a function that is not there."""

UNCHECKED = "unchecked"
"""Stands for the fingerprint of a function that a repair calls as it is, whatever it does."""


def fingerprint(function: Any) -> str:
    """A short digest of a function's source text; `MISSING` of None."""
    if function is None:
        return MISSING
    return hashlib.sha256(inspect.getsource(function).encode()).hexdigest()[:16]


def check(version: str, functions: Mapping[str, Any], known: Mapping[str, str]) -> None:
    """Warns, in one line, of an untested version and of functions that have changed since the repairs were written.

    Args:
        version: Keras's version.
        functions: The functions about to be replaced, by their paths.
        known: Their fingerprints then.
    """
    checked = {path: function for path, function in functions.items() if known[path] != UNCHECKED}
    changed = [path for path, function in checked.items() if fingerprint(function) != known[path]]
    tested = KERAS.includes(version)
    if tested and not changed:
        return
    what = f"This Keras {version} is not as it was released" if tested else KERAS.untested(version)
    consequence = (
        f" and these functions that tfdist repairs have changed: {', '.join(changed)}. Results on several replicas may "
        "differ from those of one"
        if changed
        else ", but the functions that tfdist repairs are the same"
    )
    logging.getLogger("tfdist").warning("%s%s. Install a tested one: pip install '%s'.", what, consequence, KERAS)
