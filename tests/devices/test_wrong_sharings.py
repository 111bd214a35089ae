"""Wrong sharings made on purpose: the check of the first step lets none pass."""

from __future__ import annotations

import functools
import logging
from typing import Any

import numpy as np
import pytest

from tests.devices import wrong_outputs, wrong_updates
from tests.devices.shared_models import numbers_of
from tests.devices.wrong_sharings import WRONG, WrongSharing
from tests.helpers.marks import slow
from tests.helpers.mirrored import checking, mirrored
from tfdist.errors import UnsupportedError

pytestmark = pytest.mark.usefixtures("repaired")

BY_DEFAULT = {
    "gradients_averaged_beside_one_of_rounding_alone",
    "rows_that_stand_in_counted",
    "gradients_not_summed_once_they_are_accumulated",
    "predictions_of_the_last_row_lost",
    "variable_left_to_the_first_replica",
}
"""One for each way in which the check finds a fault: by more than rounding does, of a batch that leaves replicas out,
of the last of some steps, of what a step returns, of copies that are not the same.
"""

REGISTERED = (wrong_outputs, wrong_updates)
"""The modules whose faults are in the table."""


@functools.cache
def of_one_device(model: str) -> dict[str, Any]:
    return numbers_of(model)


@pytest.mark.parametrize(
    "wrong", [pytest.param(each, id=each.name) if each.name in BY_DEFAULT else slow(each) for each in WRONG]
)
def test_a_wrong_sharing_is_made_right_or_refused(
    wrong: WrongSharing, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    expected = of_one_device(wrong.model)
    wrong.make(monkeypatch)
    with mirrored(3).scope(), checking(mirrored(3)), caplog.at_level(logging.WARNING, "tfdist"):
        try:
            found = numbers_of(wrong.model)
        except UnsupportedError as error:
            assert "would not give the numbers of one device" in str(error)
            return
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=2e-5, atol=2e-6, err_msg=name)
    assert "runs whole on every replica" in caplog.text, "it changes nothing"
