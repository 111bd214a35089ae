from __future__ import annotations

import pytest

from tfdist.launch.phases import Phase, check_step

GOOD = "starting forming running stopping restarting running stopping done"


def test_the_life_of_a_job_with_a_restart() -> None:
    first, *others = (Phase(name) for name in GOOD.split())
    for other in others:
        first = check_step(first, other)
    assert first is Phase.DONE


@pytest.mark.parametrize("end", [Phase.DONE, Phase.FAILED])
@pytest.mark.parametrize("phase", Phase)
def test_nothing_comes_after_the_end(end: Phase, phase: Phase) -> None:
    with pytest.raises(ValueError, match=f"from {end.value} to {phase.value}"):
        check_step(end, phase)
