from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tfdist.errors import UsageError
from tfdist.launch.rehearsal.rehearsal_request import RehearsalRequest


def test_it_comes_back_from_its_fields(tmp_path: Path) -> None:
    request = RehearsalRequest(str(tmp_path), 6, 30.0)
    assert RehearsalRequest.of(dataclasses.asdict(request)) == request
    assert RehearsalRequest.of(None) is None
    assert (request.plans, RehearsalRequest(str(tmp_path)).plans) == (True, False)


def test_no_steps_are_none() -> None:
    with pytest.raises(UsageError, match="at least one step"):
        RehearsalRequest("folder", 0)
