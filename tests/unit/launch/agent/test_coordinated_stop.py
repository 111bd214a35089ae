from __future__ import annotations

import pytest

from tfdist.launch.agent.coordinated_stop import StopPoint


@pytest.mark.parametrize(
    ("answers", "after"),
    [
        ({0: 41, 1: 42}, 42),
        ({0: 0, 1: 0}, 0),
        ({0: None, 1: 3}, 3),  # worker 0 is not in fit yet: it stops when it is
        ({0: None, 1: None}, None),
    ],
)
def test_all_stop_after_the_most_batches_that_any_has_begun(answers: dict[int, int | None], after: int | None) -> None:
    point = StopPoint(answers)
    for index, begun in answers.items():
        assert index in point.silent
        point.answer(index, begun)
    assert point.silent == ()
    assert point.after() == after


def test_a_worker_that_left_after_its_answer_still_counts() -> None:
    point = StopPoint([0])
    point.answer(0, 5)
    point.answer(0, None)
    assert point.after() == 5
