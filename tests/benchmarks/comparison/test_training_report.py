from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from benchmarks.comparison.contestants import Contestant
from benchmarks.comparison.rounds import Record
from benchmarks.comparison.training_report import Cell, picture, progress, report


def record(*rounds: list[float], parameters: int = 10, failure: str | None = None) -> Record:
    said = [
        [{"steps_per_second": rate, "parameters": parameters, "onednn": True} for rate in rates] for rates in rounds
    ]
    return Record(said, failure)


def cell(workers: int, **records: Record) -> Cell:
    return Cell("mlp", workers, 5, records)


def test_rates_are_those_of_the_slowest_worker_and_ratios_those_of_each_round() -> None:
    found = cell(2, tfdist=record([8.0], [6.0], [9.0]), apart=record([10.0, 4.0], [3.0, 12.0], [9.0, 9.0]))
    assert found.rates("apart") == [4.0, 3.0, 9.0]
    ratio, step = found.ratio("tfdist", "apart"), found.step_ms("apart")
    assert ratio is not None and (ratio.median, ratio.low, ratio.high) == (2.0, 1.0, 2.0)
    assert step is not None and step.median == 250.0
    assert found.figures()["contestants"]["apart"]["steps_per_second"] == [4.0, 3.0, 9.0]


def test_one_that_did_other_work_has_failed() -> None:
    found = cell(1, tfdist=record([8.0]), ddp=record([9.0], parameters=11))
    found.check_same_work()
    assert found.rates("ddp") is None and found.rates("tfdist") == [8.0]
    assert found.records["ddp"].failure == "Its mlp has 11 parameters. Expected those of tfdist: 10."


def test_one_that_computed_by_other_kernels_than_its_name_says_has_failed() -> None:
    names = ["tfdist", "tfdist+onednn", "tfdist+eigen"]
    found = Cell("mlp", 1, 5, {name: record([8.0]) for name in names})
    asked = {each.name: each.onednn for each in map(Contestant, names) if each.onednn is not None}
    assert asked == {"tfdist+onednn": True, "tfdist+eigen": False}
    found.check_kernels(asked)
    assert [name for name in names if found.rates(name) is None] == ["tfdist+eigen"]
    assert str(found.records["tfdist+eigen"].failure).startswith("It computed with oneDNN. Expected the kernels")


@pytest.mark.parametrize(("other", "base"), [("ddp", "ddp"), ("tensorflow", "tensorflow"), ("apart", "tfdist")])
def test_the_page_has_a_table_for_each_number_of_workers(other: str, base: str) -> None:
    others = {other: record([4.0], [4.0])}
    cells = [
        cell(1, tfdist=record([8.0], [8.0]), **others),
        cell(2, tfdist=record([6.0], failure="It broke.\nIts last lines:\n    why"), **others),
    ]
    page = report(["# Heading"], cells)
    lines = page.splitlines()
    assert lines[0] == "# Heading" and f"oneDNN in use: tfdist yes, {other} yes." in lines
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("|")]
    assert ["mlp", "8.00 (8.00 to 8.00)", "4.00 (4.00 to 4.00)"] in rows
    assert ["mlp", "2.00 (2.00 to 2.00)"] in rows
    assert ["mlp", "tfdist", "125 (125 to 125)", "failed"] in rows
    assert page.rstrip().endswith("mlp, 2 workers, tfdist: It broke.\nIts last lines:\n    why\n```")
    texts = [element.text for element in ElementTree.fromstring(picture(cells)).iter()]
    assert f"2 workers: steps a second, {base} = 1" in texts and "mlp: ms of a step, by workers" in texts


def test_one_number_of_workers_has_no_growth_and_one_contestant_no_ratio() -> None:
    page = report([], [cell(2, apart=record([6.0]))])
    assert "grow" not in page and "round by round" not in page and "failed" not in page
    assert "apart = 1" in picture([cell(2, apart=record([6.0]))])


def test_each_run_is_told() -> None:
    assert (
        progress("mlp, 2 workers", 0, 5, "ddp", record([7.0, 6.5])) == "mlp, 2 workers, round 1 of 5: ddp 6.50 steps/s"
    )
    failed = record(failure="It failed.")
    assert progress("mlp", 1, 5, "ddp", failed) == "mlp, round 2 of 5: ddp failed. It failed."
