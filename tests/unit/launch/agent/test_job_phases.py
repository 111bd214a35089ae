from __future__ import annotations

import pytest

from tfdist.launch.agent.job_phases import Life, Phase, check_step

GOOD = "starting forming running stopping restarting running stopping done"


def test_the_life_of_a_job_with_a_restart() -> None:
    heard: list[tuple[Phase, int]] = []
    life = Life(lambda phase, attempt: heard.append((phase, attempt)))
    first, *others = (Phase(name) for name in GOOD.split())
    assert life.phase is first
    for other in others:
        life.enter(other, 1)
    assert life.phase is Phase.DONE
    assert heard == [(other, 1) for other in others]


@pytest.mark.parametrize("end", [Phase.DONE, Phase.FAILED])
@pytest.mark.parametrize("phase", Phase)
def test_nothing_comes_after_the_end(end: Phase, phase: Phase) -> None:
    with pytest.raises(ValueError, match=f"from {end.value} to {phase.value}"):
        check_step(end, phase)
