from __future__ import annotations

import pytest

from tfdist.launch.job_phases import JobLifecycle, JobPhase, check_transition

GOOD = "starting forming running stopping restarting running stopping done"


def test_phases_of_a_job_with_a_restart() -> None:
    heard: list[tuple[JobPhase, int]] = []
    life = JobLifecycle(lambda phase, attempt: heard.append((phase, attempt)))
    first, *others = (JobPhase(name) for name in GOOD.split())
    assert life.phase is first
    for other in others:
        life.enter(other, 1)
    assert life.phase is JobPhase.DONE
    assert heard == [(other, 1) for other in others]


@pytest.mark.parametrize("end", [JobPhase.DONE, JobPhase.FAILED])
@pytest.mark.parametrize("phase", JobPhase)
def test_nothing_comes_after_the_end(end: JobPhase, phase: JobPhase) -> None:
    with pytest.raises(ValueError, match=f"from {end.value} to {phase.value}"):
        check_transition(end, phase)
