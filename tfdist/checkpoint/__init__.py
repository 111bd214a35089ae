"""Checkpoints of a run: when to make one, which to keep, how they lie on the disk, how they come back."""

from __future__ import annotations

from tfdist.checkpoint.manager import Checkpoints
from tfdist.checkpoint.policy import Policy
from tfdist.checkpoint.summary import Summary

__all__ = ["Checkpoints", "Policy", "Summary"]
