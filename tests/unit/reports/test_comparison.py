from __future__ import annotations

from pathlib import Path

from tests.unit.reports.status.moments import NOW, snapshot, worker
from tfdist.launch.run_dir.epoch_metrics import EpochMetrics
from tfdist.reports import comparison
from tfdist.reports.comparison import ComparedRun, best_epoch, compare, read_compared, render, to_json
from tfdist.reports.status.run_status import judge
from tfdist.rundir import create_run_dir

NAN = float("nan")


def run(*values: dict[str, float], **settings: str) -> ComparedRun:
    epochs = tuple(EpochMetrics(number, None, one) for number, one in enumerate(values))
    return ComparedRun(judge(snapshot(worker(0)), {}, None, NOW), epochs, None, settings)


def test_metrics_are_compared_by_which_way_is_better() -> None:
    first = run({"loss": 1.0, "accuracy": 0.5, "odd": 1.0}, {"loss": 2.0, "accuracy": 0.75, "odd": 2.0})
    second = run({"loss": 1.5, "accuracy": 0.75, "odd": 3.0})
    rows = {row.label: (row.cells, row.best) for row in compare([first, second]).metrics}
    assert rows == {
        "loss, last": (("2", "1.5"), {1}),
        "loss, best": (("1 (epoch 1)", "1.5 (epoch 1)"), {0}),
        "accuracy, last": (("0.75", "0.75"), frozenset()),
        "accuracy, best": (("0.75 (epoch 2)", "0.75 (epoch 1)"), frozenset()),
        "odd, last": (("2", "3"), frozenset()),
    }


def test_a_value_that_is_no_number_is_never_the_best() -> None:
    epochs = run({"loss": NAN}, {"loss": 3.0}, {"loss": 2.0}, {"loss": NAN}).epochs
    found = best_epoch(epochs, "loss")
    assert found is not None and found.epoch == 2
    assert best_epoch(epochs, "accuracy") is None and best_epoch((), "loss") is None
    rows = compare([run({"loss": NAN}), run({"loss": 1.0}), run()]).metrics
    assert [(row.cells, row.best) for row in rows] == [
        (("nan", "1", "-"), frozenset()),
        (("-", "1 (epoch 1)", "-"), frozenset()),
    ]


def test_settings_are_those_that_differ() -> None:
    compared = compare([run(a="1", b="2"), run(a="1", b="3", c="x")])
    assert [(row.label, row.cells) for row in compared.settings] == [("b", ("2", "3")), ("c", ("-", "x"))]
    facts = {row.label: row.cells for row in compared.facts}
    assert facts["state"] == ("running", "running") and facts["goodput"] == ("-", "-")


def test_a_config_is_read_in_short(tmp_path: Path) -> None:
    made = create_run_dir(tmp_path / "a", name="digits")
    made.config_file.write_text("name: digits\nfit: {epochs: 3, callbacks: []}\ndata: {train: {path: x}}\nseed: null\n")
    assert read_compared(made.path).settings == {
        "fit.epochs": "3",
        "fit.callbacks": "[]",
        "data.train.path": "x",
        "seed": "null",
    }
    for content in ("a: [", "a: &a [*a]", "- 1", "", "a: &a [1, 2]\n" + "b: *a\n" * 2):
        made.config_file.write_text(content)
        assert read_compared(made.path).settings == {}
    made.config_file.write_text("".join(f"key_{number}: 1\n" for number in range(comparison.MOST_SETTINGS + 5)))
    assert len(read_compared(made.path).settings) == comparison.MOST_SETTINGS


def test_the_table_has_a_column_for_each_run_and_a_star_for_the_best() -> None:
    found = compare([run({"loss": 1.0}, lr="0.1", data="x" * 50), run({"loss": 0.5}, lr="0.2", data="y")])
    lines = render(["a", "b"], found).splitlines()
    assert lines[0].split() == ["a", "b"]
    assert [line.split() for line in lines if line.startswith("loss, last")] == [["loss,", "last", "1", "0.5*"]]
    assert [line.split()[1:] for line in lines if line.startswith("data")] == [["x" * 39 + "…", "y"]]
    document = to_json(["a", "b"], found)
    assert document["metrics"]["loss, last"] == {"values": {"a": "1", "b": "0.5"}, "best": ["b"]}
    assert document["configs"]["data"]["values"]["a"] == "x" * 50
    assert "do not differ" in render(["a", "b"], compare([run(), run()]))
