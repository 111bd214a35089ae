"""docs/exactness.md has every case, and the tool that writes it believes nothing but results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.exactness.cases import CASES, SECTIONS, SLOW, cases_of, names_by_default
from tests.exactness.keras_classes.exported import exported
from tests.exactness.keras_classes.table import NOT_RUN, ROWS
from tests.exactness.results import Comparison, Result, read, recorded
from tools.make_exactness import CLASSES_PLACE, PLACE, TEMPLATE, classes, expected, faults, table, tolerance

ROOT = Path(__file__).resolve().parents[2]

ALL = {comparison: Result(comparison, True, "2.21.0", "3.15.1") for comparison in expected()}
SOME = next(iter(ALL))


def test_every_case_is_on_the_page_and_in_one_section() -> None:
    page = (ROOT / "docs" / "exactness.md").read_text()
    assert [case.title for case in CASES.values() if f"| {case.title} |" not in page] == []
    assert sorted(case.name for section in SECTIONS for case in cases_of(section)) == sorted(CASES)
    titles = [case.title for case in CASES.values()]
    assert len(set(titles)) == len(titles)


def test_every_case_is_in_the_default_tests_or_said_to_be_slow() -> None:
    by_default = {*names_by_default("devices"), *names_by_default("workers")}
    assert by_default | SLOW == set(CASES)
    assert not by_default & SLOW
    assert all(by_default & {case.name for case in cases_of(section)} for section in SECTIONS)


def test_the_text_around_the_table_is_that_of_the_page() -> None:
    above, rest = TEMPLATE.read_text().split(PLACE)
    between, below = rest.split(CLASSES_PLACE)
    page = (ROOT / "docs" / "exactness.md").read_text()
    assert page.startswith(above)
    assert between in page
    assert page.endswith(below)


def test_every_class_of_keras_is_on_the_page() -> None:
    page = (ROOT / "docs" / "exactness.md").read_text()
    assert [name for name in exported() if f"| `{name.split('.')[1]}`" not in page] == []


def test_classes_are_exact_or_say_why_not() -> None:
    lines = [line for line in classes(ALL) if line.startswith("| `")]
    assert len(lines) == len(exported())
    assert sum("64, 65 | 64, 65 | 64, 65 | 64, 65 | exact" in line for line in lines) == len(ROWS)
    assert sum("not applicable" in line or "refused" in line for line in lines) == len(NOT_RUN)


def test_a_whole_table() -> None:
    assert list(faults(ALL, partial=False)) == []
    lines = list(table(ALL))
    assert lines[0] == "Run with TensorFlow 2.21.0 and Keras 3.15.1."
    assert sum("64, 65 | 64, 65 | 64, 65 | 64, 65" in line for line in lines) == len(CASES)


def test_what_was_not_run_is_shown_only_when_asked_for() -> None:
    rest = {comparison: result for comparison, result in ALL.items() if comparison != SOME}
    (said,) = faults(rest, partial=False)
    assert said.startswith(f"not run: {SOME.case} on {SOME.count} {SOME.strategy}")
    assert list(faults(rest, partial=True)) == []
    assert any(f"1 of {len(ALL)} comparisons were not made" in line for line in table(rest))


@pytest.mark.parametrize("partial", [False, True])
def test_what_failed_is_never_shown(partial: bool) -> None:
    (said,) = faults(ALL | {SOME: replace(ALL[SOME], passed=False)}, partial=partial)
    assert said.startswith("failed: ")


def test_results_of_two_versions_make_no_table() -> None:
    (said,) = faults(ALL | {SOME: replace(ALL[SOME], keras="3.15.0")}, partial=False)
    assert "3.15.0" in said


def test_no_result_makes_no_table() -> None:
    assert list(faults({}, partial=True)) == ["there is no result"]


def test_comparisons_leave_what_they_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFDIST_MATRIX_RESULTS", str(tmp_path))
    good, bad = Comparison("plain", "devices", 2, 64), Comparison("plain", "workers", 3, 65)
    with recorded(good):
        pass
    with pytest.raises(AssertionError), recorded(bad):
        raise AssertionError
    assert {result.comparison: result.passed for result in read(tmp_path)} == {good: True, bad: False}


def test_tolerances_read_well() -> None:
    assert tolerance(CASES["plain"]) == "1e-9"
    assert tolerance(CASES["mixed_float16"]) == "1e-3; weights 1e-2"
