"""Every case of the table on 2 and 3 devices gives the numbers of one."""

from __future__ import annotations

import contextlib
import os

import pytest

from tests.devices.references import of_one_replica
from tests.devices.shown_repairs import SHOWING
from tests.exactness.cases import CASES, SECTIONS, cases_of, is_evaluated_by_default, names_by_default, outcome
from tests.exactness.cases import SLOW as SLOW_CASES
from tests.exactness.comparison import assert_same_case
from tests.exactness.results import COUNTS, SIZES, Comparison, recorded
from tests.helpers.mirrored import checking, mirrored
from tfdist.keras_repairs.first_step.checked_step import CheckedStep
from tfdist.keras_repairs.first_step.rounding_bounds import Finding

SLOW = bool(os.environ.get("TFDIST_SLOW_TESTS"))
ALL = [(name, count, samples) for name in CASES for count in COUNTS for samples in SIZES]
RUN = ALL if SLOW else [(name, 3 if name in SHOWING else 2, 65) for name in names_by_default("devices")]
"""Cases, devices and samples. By default those that show a repair on 3, among which no batch can be divided, the others
on 2; of the last batch, which is one sample, all devices but one have none.
"""


FOURTH = list(SECTIONS)[::4]
CHECKED = {next(case.name for case in cases_of(section) if case.name not in SLOW_CASES) for section in FOURTH}
CHECKED |= {"hinge_of_other_labels", "clip_loss_run_eagerly", "clip_loss_with_a_temperature"}
"""Rows of which the first steps are checked by default, which takes as long as a training: one of every fourth section,
what a check has got wrong before, and a loss over the batch. The slow tests check all.
"""


@pytest.mark.parametrize(("name", "replicas", "samples"), RUN)
def test_numbers_of_one_replica(name: str, replicas: int, samples: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shared out as found out beforehand; where the first steps are checked, they are found right, without a trace."""
    monkeypatch.setattr(CheckedStep, "_climb", _refused)
    of_training_alone = not SLOW and not is_evaluated_by_default(name)
    with recorded(Comparison(name, "devices", replicas, samples)):
        expected = of_one_replica(name, samples, of_training_alone=of_training_alone)
        checked = checking(mirrored(replicas)) if SLOW or name in CHECKED else contextlib.nullcontext()
        with mirrored(replicas).scope(), checked:
            assert_same_case(name, expected, outcome(name, samples, of_training_alone=of_training_alone))


def _refused(step: CheckedStep, finding: Finding) -> None:
    raise AssertionError(f"the check of the first step found {finding}")
