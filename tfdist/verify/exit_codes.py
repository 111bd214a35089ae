"""Exit codes of verifications, and of the runs within them."""

from __future__ import annotations

DIFFERS = 6
"""Of a verification whose runs differ."""

STOPPED = (129, 130, 143)
"""Of a run whose launcher was ended by a signal."""
