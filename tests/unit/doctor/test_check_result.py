from __future__ import annotations

import pytest

from tfdist.doctor.check_result import Check, CheckStatus, exit_code, fail, ok, worst


@pytest.mark.parametrize(("codes", "expected"), [([], 0), ([2], 2), ([3, 3], 3), ([3, 2], 2)])
def test_the_exit_code_of_several_failures(codes: list[int], expected: int) -> None:
    assert exit_code(codes) == expected


def test_the_worst_counts() -> None:
    assert worst([]) is CheckStatus.OK
    assert worst([CheckStatus.WARN, CheckStatus.OK]) is CheckStatus.WARN
    assert worst([CheckStatus.WARN, CheckStatus.FAIL, CheckStatus.OK]) is CheckStatus.FAIL


def test_a_check_that_is_not_ok_needs_advice() -> None:
    assert ok("memory", "enough").advice == ""
    with pytest.raises(ValueError, match="says what to do"):
        Check("memory", CheckStatus.WARN, "little")
    with pytest.raises(ValueError, match="code=4"):
        fail("memory", "none", "buy some", 4)
