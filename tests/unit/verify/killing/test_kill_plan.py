from __future__ import annotations

from collections import Counter

import pytest

from tests.unit.verify.killing.traces import WHOLE, trace
from tfdist.errors import UsageError
from tfdist.launch.worker_requests import Kill
from tfdist.training.probes.probe_files import Trace
from tfdist.verify.killing.kill_plan import choose_kills


@pytest.mark.parametrize("seed", range(20))
def test_every_attempt_has_a_later_checkpoint(seed: int) -> None:
    kills = choose_kills(WHOLE.chief, 2, 3, seed)
    latest = [(kill.step - 1) // 3 * 3 for kill in kills]
    assert latest == [3, 6, 9]
    assert all(kill.step < 12 for kill in kills)
    assert sorted(Counter(kill.worker for kill in kills).values()) == [1, 2]


def test_the_seed_decides_the_draw() -> None:
    def draws() -> list[tuple[Kill, ...]]:
        return [choose_kills(WHOLE.chief, 2, 2, seed) for seed in range(9)]

    assert draws() == draws()
    assert len(set(draws())) > 4


@pytest.mark.parametrize(
    ("short", "said"),
    [
        (trace(ended=6), r"Received: 1 \(seen by step 4\), in 6 steps. Give --kills 1, or more epochs"),
        (trace(ended=3), "Received: none, in 3 steps. Give more epochs, or checkpoints more often"),
        (Trace(), "Received: none"),
    ],
)
def test_a_run_that_is_too_short_is_refused(short: Trace, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        choose_kills(short, 2, 2, 1)
