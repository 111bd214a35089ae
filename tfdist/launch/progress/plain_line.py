"""The line that shows the progress of a run where no bar can be drawn. Pure."""

from __future__ import annotations

from tfdist.launch.progress import progress_fields as fields
from tfdist.launch.progress.run_progress import RunProgress


def plain_line(progress: RunProgress) -> str:
    """`epoch  3/10  step 120/469  loss 0.2311  accuracy 0.9342  8,412 samples/s  0:12 left, run 4:05  input 7 %`."""
    parts = [
        fields.epoch(progress),
        f"step {fields.steps(progress)}",
        fields.doing(progress),
        *fields.metrics(progress),
        fields.rate(progress),
        fields.left(progress),
        fields.waiting(progress),
        fields.memory(progress),
    ]
    return "  ".join(filter(None, parts))
