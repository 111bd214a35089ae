from __future__ import annotations

from tfdist.training.inference.prediction_run import LINE_SECONDS, Throughput


def test_a_line_now_and_then() -> None:
    said: list[str] = []
    now = 0.0
    progress = Throughput(1000, 200, said.append, lambda: now)
    progress.reach(300)
    assert said == []
    now = LINE_SECONDS
    progress.reach(400)
    progress.reach(500)
    assert said == ["400 of 1,000 samples (40%), 20 samples/s, 0:30 left"]
    now = 2 * LINE_SECONDS
    progress.reach(1000)
    assert len(said) == 1  # the end says it
    assert (progress.predicted, progress.rate) == (800, 40.0)
